"""Shared by the tests of hostile environments: every call ends within a bound, and bad ground is one line and exit status 2."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from collections.abc import Sequence
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LOCH_BIN", str(ROOT / "build/release/bin/loch-bench"))
PYTHON = "/usr/bin/python3"
BOUND_S = 30.0  # of a call that refuses something; the machine may be busy
# Runs in a moment; `loch run` and `plot` take it through all their stages.
SIM = [
    "bench",
    "--protocol",
    "nessie",
    "--fabric",
    "sim",
    "--nodes",
    "2",
    "--clients",
    "1",
    "--keys",
    "200",
    "--value-size",
    "64",
    "--warmup",
    "50us",
    "--duration",
    "300us",
]
EXPERIMENT = """\
name: tiny
title: Tiny
fabric: sim
cluster: {nodes: 2}
systems:
  CD: {protocol: nessie, clients: 1}
workload: {key_size: 16, get: 0.5, distribution: uniform, keys: 200}
axes: {value_size: [64, 128]}
measure: {warmup: 50us, duration: 300us, repeats: 1}
figure: {kind: line, x: value_size, y: [latency_us.get.mean]}
"""
# As real ssh: options, then a host, then words that are joined with blanks and read by a shell there. What an option would
# have run is noted in ./ran-by-ssh.
SSH = """\
#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --) shift; break ;;
    -oProxyCommand=*) echo "$1" >>"$SSH_NOTES/ran-by-ssh"; shift ;;
    -o) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
echo "$1" >>"$SSH_NOTES/asked-by-ssh"
shift
exec sh -c "$*"
"""


class Hostile(unittest.TestCase):
    """Each test has a folder of its own and is in it."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-hostile-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def call(
        self,
        command: Sequence[str | bytes],
        timeout: float = BOUND_S,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        **env: Any,
    ) -> subprocess.CompletedProcess[str]:
        """A call that must end within the bound."""
        environment = {**os.environ, "LOCH_BIN": BINARY, "LOCH_BUILD": str(self.folder / "build"), **env}
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdout=stdout,
            stderr=stderr,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
            errors="replace",
        )

    def bench(self, *arguments: str | bytes, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.call([BINARY, *SIM, *arguments], **more)

    def loch(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """run, plot, score or reference."""
        return self.call([PYTHON, str(ROOT / "tools/loch"), "--no-setup", *arguments], **more)

    def power(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.call([PYTHON, str(ROOT / "tools/loch"), "--no-setup", "power", *arguments], **more)

    def in_shell(self, text: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """A line of bash, in which "$@" are the arguments: for redirections and limits."""
        return self.call(["bash", "-c", text, "bash", *arguments], **more)

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def fake_ssh(self) -> dict[str, Any]:
        """The environment in which ssh is the one above."""
        self.write("bin/ssh", SSH)
        (self.folder / "bin/ssh").chmod(0o755)
        return {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "SSH_NOTES": str(self.folder)}

    def left(self) -> list[str]:
        """The files of the test's folder, but for what Python keeps of itself."""
        return sorted(
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if not path.is_dir() and not path.is_relative_to(self.folder / "build")
        )

    def assert_refused(self, done: subprocess.CompletedProcess[str], *names: str, status: int = 2) -> None:
        """One line that holds each of `names`, nothing on standard output."""
        shown = f"{done.args}: status {done.returncode}\n{(done.stdout or '')[:500]}{(done.stderr or '')[:3000]}"
        self.assertEqual(done.returncode, status, shown)
        self.assertFalse(done.stdout, shown)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, shown)
        for name in names:
            self.assertIn(name, done.stderr, shown)


def is_root() -> bool:
    return os.geteuid() == 0


def may_mount() -> bool:
    """Whether a mount namespace can be had, for file systems that are full or read-only."""
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0 if is_root() else False
