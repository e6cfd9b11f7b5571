#!/usr/bin/python3
"""What a machine has, as JSON on standard output: facts only, no judgement.

One file with the standard library alone, because it is also sent to other hosts over ssh (`python3 -`).
probe.py [ROOT] reads /sys, /proc and /dev below ROOT, and there what a program prints is the file ROOT/said/PROGRAM.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

GIDS_MAX = 256  # a port's table has up to 1024 places, the used ones come first
CAP_IPC_LOCK = 14
STA_UNSYNC = 0x40
PROGRAM_LIMIT_S = 20
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def text(path: Path) -> str:
    """A file's first line; nothing where it cannot be read (sysfs answers EINVAL for unused places)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip().split("\n")[0]
    except OSError:
        return ""


def number(path: Path) -> int | None:
    said = text(path)
    return int(said) if said.isdigit() else None


def entries(path: Path) -> list[Path]:
    try:
        return sorted(
            path.iterdir(),
            key=lambda each: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", each.name)],
        )
    except OSError:
        return []


SEARCHED = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def whole(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def program(root: Path, name: str, *arguments: str) -> str | None:
    """The output of a program; None if it is missing or fails."""
    if root != Path("/"):
        return whole(root / "said" / name) or None
    if not shutil.which(name, path=SEARCHED):
        return None
    try:
        done = subprocess.run(
            [name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROGRAM_LIMIT_S,
            check=False,
            env={**os.environ, "PATH": SEARCHED},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


# ---- RDMA devices ----------------------------------------------------------------------------
def gids(port: Path) -> list[dict]:
    found = []
    for index in range(GIDS_MAX):
        gid = text(port / f"gids/{index}")
        if not gid:
            break
        if gid != NO_GID:
            found.append(
                {
                    "index": index,
                    "gid": gid,
                    "type": text(port / f"gid_attrs/types/{index}"),
                    "netdev": text(port / f"gid_attrs/ndevs/{index}"),
                }
            )
    return found


def word(said: str) -> str:
    """The name of a state: ACTIVE, of `4: ACTIVE`."""
    return said.partition(":")[2].strip() or said


def ports(device: Path) -> list[dict]:
    return [
        {
            "number": int(port.name),
            "state": word(text(port / "state")),
            "physical": word(text(port / "phys_state")),
            "link_layer": text(port / "link_layer"),
            "rate": text(port / "rate"),
            "lid": text(port / "lid"),
            "gids": gids(port),
        }
        for port in entries(device / "ports")
        if port.name.isdigit()
    ]


def devinfo(printed: str) -> dict[str, dict]:
    """`ibv_devinfo -v`: by device, `key: value` of the device and, under "ports", of each port."""
    found: dict[str, dict] = {}
    here: dict = {}
    device: dict = {}
    for line in printed.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if key == "hca_id":
            device = here = found.setdefault(value, {"ports": {}})
        elif key == "port" and device:
            here = device["ports"].setdefault(value, {})
        elif key and value and not key.startswith("GID"):
            here.setdefault(key, value)
    return found


def devices(root: Path) -> list[dict]:
    character = {
        text(each / "ibdev"): root / "dev/infiniband" / each.name
        for each in entries(root / "sys/class/infiniband_verbs")
        if each.name.startswith("uverbs")
    }
    found = []
    for device in entries(root / "sys/class/infiniband"):
        node = character.get(device.name)
        driver = device / "device/driver"
        found.append(
            {
                "name": device.name,
                "node_type": text(device / "node_type"),
                "firmware": text(device / "fw_ver"),
                "board": text(device / "board_id"),
                "model": text(device / "hca_type"),
                "parent": text(device / "parent"),
                "driver": driver.resolve().name if driver.exists() else "",
                "verbs_file": "/" + str(node.relative_to(root)) if node else "",
                "verbs_file_usable": bool(node and os.access(node, os.R_OK | os.W_OK)),
                "ports": ports(device),
            }
        )
    return found


# ---- The machine -----------------------------------------------------------------------------
def memory_lock(root: Path) -> dict:
    """This process's limits in bytes, None without one; `exempt` if it may exceed them."""
    limits = re.search(r"^Max locked memory\s+(\w+)\s+(\w+)", whole(root / "proc/self/limits"), re.MULTILINE)
    soft, hard = (int(each) if each.isdigit() else None for each in limits.groups()) if limits else (0, 0)
    capable = re.search(r"^CapEff:\s*([0-9a-f]+)", whole(root / "proc/self/status"), re.MULTILINE)
    return {"soft": soft, "hard": hard, "exempt": bool(capable and int(capable.group(1), 16) >> CAP_IPC_LOCK & 1)}


def huge_pages(root: Path) -> dict:
    pools = [
        {
            "size_kb": int(each.name.split("-")[1].removesuffix("kB")),
            "total": number(each / "nr_hugepages") or 0,
            "free": number(each / "free_hugepages") or 0,
        }
        for each in entries(root / "sys/kernel/mm/hugepages")
    ]
    chosen = re.search(r"\[(\w+)\]", text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return {"pools": pools, "transparent": chosen.group(1) if chosen else ""}


def governors(root: Path) -> dict[str, int]:
    said = (
        text(cpu / "cpufreq/scaling_governor")
        for cpu in entries(root / "sys/devices/system/cpu")
        if re.fullmatch(r"cpu\d+", cpu.name)
    )
    return dict(Counter(each for each in said if each))


class _Timex(ctypes.Structure):
    """The fields of adjtimex(2)'s struct timex that are read here; the others are padding."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    ]


def clock(root: Path) -> dict:
    """The kernel's own word, which every time service leaves there; and which services run."""
    timex = _Timex()
    known = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) >= 0
    services = [
        name for name in ("chronyd", "ntpd", "ntpsec", "systemd-timesyncd", "ptp4l", "phc2sys") if _runs(root, name)
    ]
    return {
        "synchronised": known and not timex.status & STA_UNSYNC,
        "error_us": timex.maxerror if known else None,
        "services": services,
    }


def _runs(root: Path, name: str) -> bool:
    return any(text(process / "comm") == name[:15] for process in entries(root / "proc") if process.name.isdigit())


def ipmi(root: Path) -> dict:
    files = [path for path in (root / "dev/ipmi0", root / "dev/ipmi/0", root / "dev/ipmidev/0") if path.exists()]
    return {
        "file": "/" + str(files[0].relative_to(root)) if files else "",
        "usable": any(os.access(path, os.R_OK | os.W_OK) for path in files),
        "tools": [tool for tool in ("ipmitool", "ipmi-dcmi", "ipmi-sensors") if shutil.which(tool, path=SEARCHED)],
    }


def launchers(root: Path) -> dict[str, str]:
    """mpirun and srun, with the first line of what they say of their version."""
    said = {name: program(root, name, "--version") for name in ("mpirun", "srun")}
    return {name: each.strip().split("\n")[0] for name, each in said.items() if each}


def facts(root: Path = Path("/")) -> dict:
    printed = program(root, "ibv_devinfo", "-v")  # fails where there is no device
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "devices": devices(root),
        "verbs": devinfo(printed or ""),
        "ibv_devinfo": printed is not None or bool(shutil.which("ibv_devinfo", path=SEARCHED)),
        "memory_lock": memory_lock(root),
        "huge_pages": huge_pages(root),
        "governors": governors(root),
        "clock": clock(root),
        "ipmi": ipmi(root),
        "launchers": launchers(root),
        "time": time.time(),
    }


if __name__ == "__main__":
    json.dump(facts(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")), sys.stdout)
    print()
