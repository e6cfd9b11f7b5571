"""Support for the tests of doctor and softroce: calls of ./loch in a folder per test, and a fake machine made of
files."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOCH = str(ROOT / "loch")


# The capabilities of the fake machine's devices, which are those of a ConnectX NIC.
CAN = {
    **{"rc": True, "uc": True, "ud": True, "receives_connected": True, "atomic_scope": "nic", "untorn_bytes": 8},
    **{"in_order_placement": True, "max_rd_atomic": 16, "max_inline_bytes": 220},
}


class InAFolder(unittest.TestCase):
    """A test case whose tests run in a temporary folder of their own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-cluster-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def loch(
        self, *arguments: str, timeout: float = 900, stdin: bytes = b"", **env: Any
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [LOCH, *arguments],
            cwd=self.folder,
            env={**os.environ, **env},
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def assert_refused(self, done: subprocess.CompletedProcess[bytes], *names: str) -> None:
        """Asserts a refusal of bad input: status 2, nothing on standard output, one line that contains each of
        `names`."""
        said = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (2, b""), said)
        self.assertEqual(len(said.strip().splitlines()), 1, said)
        for name in names:
            self.assertIn(name, said)


class FakeMachine:
    """A fake machine for probe.py: a folder with files below sys, proc and dev, and with the output of programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports: dict[tuple[str, int], dict[str, Any]] = {}
        self.says(None)
        self.file("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n")
        self.file("proc/self/status", "CapEff:\t0000000000000000\n")
        self.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n")
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60\n")
        self.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
        self.file("said/mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs\n")

    def file(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def device(self, name: str, can: dict[str, Any] | None = None, **ports: Any) -> None:
        """Adds an RDMA device to the fake machine; `p1=dict(…)` describes its port 1, see port(), and `can` replaces
        capabilities."""
        number = len(list(self.root.glob("dev/infiniband/uverbs*")))
        self.file(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", name + "\n")
        self.file(f"dev/infiniband/uverbs{number}", "")
        for key, port in (ports or {"p1": {}}).items():
            self.port(name, int(key[1:]), can=can, **port)

    def port(
        self,
        device: str,
        number: int,
        state: str = "ACTIVE",
        link: str = "Ethernet",
        rate: float = 100,
        lid: int = 0,
        mtu: int = 4096,
        gid: tuple[int, str, str] | None = (0, "10.0.0.1", "RoCE v2"),
        gids: int = 1,
        refusal: str = "",
        can: dict[str, Any] | None = None,
    ) -> None:
        """Adds or replaces a port: the kernel's files, and what `loch-bench devices --json` would say. The fabric's
        choice is the last port that is not refused."""
        here = f"sys/class/infiniband/{device}/ports/{number}"
        self.file(f"{here}/state", f"4: {state}\n")
        self.file(f"{here}/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n")
        self.file(f"{here}/gid_attrs/ndevs/0", "eth7\n")
        index, address, kind = gid or (None, None, None)
        taken = {"device": device, "port": number, "link_layer": link, "gid_index": index, "gid": address}
        taken |= {"gid_type": kind, "network": "RoCE v2, 10.0.0.0/24", "gigabits_s": rate, "pkey": "0xffff"}
        self.ports[device, number] = {
            **{"device": device, "port": number, "link_layer": link, "state": state, "gigabits_s": rate},
            **{"mtu_bytes": mtu, "lid": lid, "firmware": None, "driver": None, "numa_node": None, "pkeys": []},
            "gids": [{"index": i, "gid": "fe80::1", "type": "RoCE v1"} for i in range(gids)],
            "taken": None if refusal else taken,
            "can": None if refusal else {**CAN, **(can or {})},
            "refusal": refusal or None,
        }
        usable = [port["taken"] for port in self.ports.values() if port["taken"]]
        self.says(usable[-1] if usable else None)

    def says(self, choice: dict[str, Any] | None, refusal: str = "no port can be used") -> None:
        """Writes what `loch-bench devices --json` prints on this machine."""
        said = {"ports": list(self.ports.values()), "choice": choice, "refusal": None if choice else refusal}
        self.file("said/devices", json.dumps(said))
