"""Support for the tests of doctor and softroce: calls of ./loch in a folder per test, and a fake machine made of
files."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOCH = str(ROOT / "loch")


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
        self.said: list[str] = []
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

    def device(
        self, name: str, node_type: str = "1: CA", atomic: str = "ATOMIC_HCA (0)", reads: int = 16, **ports: Any
    ) -> None:
        """Adds an RDMA device to the fake machine; `p1=dict(…)` describes its port 1, see port()."""
        number = len(self.said)
        self.file(f"sys/class/infiniband/{name}/node_type", node_type + "\n")
        self.file(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", name + "\n")
        self.file(f"dev/infiniband/uverbs{number}", "")
        said = (
            f"hca_id:\t{name}\n\ttransport:\t\t\tInfiniBand (0)\n"
            f"\tmax_qp_rd_atom:\t\t\t{reads}\n\tatomic_cap:\t\t\t{atomic}\n"
        )
        for key, port in (ports or {"p1": {}}).items():
            said += self.port(name, key[1:], **port)
        self.said.append(said)
        self.file("said/ibv_devinfo", "".join(self.said))

    def port(
        self,
        device: str,
        number: str,
        state: str = "4: ACTIVE",
        link: str = "Ethernet",
        rate: str = "100 Gb/sec (4X EDR)",
        lid: str = "0x0",
        mtu: str = "4096 (5)",
        gids: tuple[tuple[str, str], ...] = (("::ffff:10.0.0.1", "RoCE v2"),),
    ) -> str:
        here = f"sys/class/infiniband/{device}/ports/{number}"
        physical = "5: LinkUp" if "ACTIVE" in state else "3: Disabled"
        for name, text in (
            ("state", state),
            ("phys_state", physical),
            ("link_layer", link),
            ("rate", rate),
            ("lid", lid),
        ):
            self.file(f"{here}/{name}", text + "\n")
        for index in range(8):
            gid, kind = gids[index] if index < len(gids) else ("", "")
            self.file(f"{here}/gids/{index}", (gid or "0000:0000:0000:0000:0000:0000:0000:0000") + "\n")
            self.file(f"{here}/gid_attrs/types/{index}", kind + "\n")
            self.file(f"{here}/gid_attrs/ndevs/{index}", "eth7\n" if gid else "")
        return (
            f"\t\tport:\t{number}\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
            f"\t\t\tactive_mtu:\t\t{mtu}\n\t\t\tGID[  0]:\t\tfe80::1, RoCE v2\n"
        )
