#!/usr/bin/python3
"""Prints what a machine has for RDMA, as JSON on standard output: facts only, no judgement.

The probe is a single file that needs only Python's standard library, because it is also sent to other hosts over ssh
(`python3 -`). probe.py [ROOT [BINARY]] reads /sys, /proc and /dev below ROOT. BINARY is the path of loch-bench, which is
asked for the fabric's view of the devices. With a ROOT other than / no program is run: the file ROOT/said/PROGRAM has its
output, and ROOT/said/devices that of loch-bench.
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

GIDS_MAX = 256  # entries of a port's GID table that are read; a table has up to 1024, the used ones first
CAP_IPC_LOCK = 14
STA_UNSYNC = 0x40
PROGRAM_LIMIT_S = 20
DEVICES_LIMIT_S = 60  # seconds for the trial of all devices, in which a port that does not answer takes 5 s
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def text(path: Path) -> str:
    """The first line of a file; empty if the file cannot be read (sysfs answers EINVAL for unused GID entries)."""
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
    """The output of a program; None if the program is missing or fails."""
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


# ---- Facts on RDMA devices -----------------------------------------------------------------------
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
    """The name in a state that sysfs prints as `4: ACTIVE`: ACTIVE."""
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


def fabric(root: Path, binary: str, device: str = "") -> dict:
    """The answer of `loch-bench devices --json`: the devices as the verbs fabric judges them, and its choice. The only
    key is "fault", a text, if the program does not answer. `device`: the value of --device."""
    if root != Path("/"):
        said = whole(root / "said/devices")
        return json.loads(said) if said else {"fault": "loch-bench is missing"}
    if not os.access(binary, os.X_OK):
        return {"fault": f"{binary or 'loch-bench'} is missing"}
    try:
        done = subprocess.run(
            [binary, "devices", "--json", *(("--device", device) if device else ())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEVICES_LIMIT_S,
            check=False,
        )
        return json.loads(done.stdout)
    except ValueError:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        return {"fault": f"{binary} devices: {said}"}
    except subprocess.TimeoutExpired:
        return {"fault": f"{binary} devices: no answer within {DEVICES_LIMIT_S} s"}
    except OSError as error:
        return {"fault": f"{binary}: {error.strerror}"}


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


# ---- Facts on the machine ------------------------------------------------------------------------
def memory_lock(root: Path) -> dict:
    """The limits of this process on locked memory in bytes (None: unlimited); `exempt` if it may exceed them
    (CAP_IPC_LOCK)."""
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
    """Struct timex of adjtimex(2): the fields that the probe reads, with padding for the others."""

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
    """Whether the kernel's clock is synchronized, by adjtimex, which every time service sets; and which services
    run."""
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
    """Which of mpirun and srun are installed, with the first line of their --version."""
    said = {name: program(root, name, "--version") for name in ("mpirun", "srun")}
    return {name: each.strip().split("\n")[0] for name, each in said.items() if each}


def facts(root: Path = Path("/"), binary: str = "", device: str = "") -> dict:
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "devices": devices(root),
        "fabric": fabric(root, binary, device),
        "memory_lock": memory_lock(root),
        "huge_pages": huge_pages(root),
        "governors": governors(root),
        "clock": clock(root),
        "ipmi": ipmi(root),
        "launchers": launchers(root),
        "time": time.time(),
    }


if __name__ == "__main__":
    json.dump(facts(Path((sys.argv[1:2] or ["/"])[0]), *sys.argv[2:4]), sys.stdout)
    print()
