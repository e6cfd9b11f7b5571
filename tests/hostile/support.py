"""Support for the tests of hostile input and environments: calls with a time limit, and the assertion of a one-line
refusal."""

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
BOUND_S = 30.0  # time limit in seconds for a call that refuses its input, on a busy machine
# Flags of a simulated run that ends within a second or so.
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
# A fake ssh that parses its words as the real one: options, a host, then words that are joined with blanks and read by
# a shell. A command that an option would have run is noted in ./ran-by-ssh.
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
    """A test case whose tests run in a temporary folder of their own."""

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
        """Runs a command, which must end within the time limit."""
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
        """Runs `loch run`, `plot`, `score` or `reference`."""
        return self.call([PYTHON, str(ROOT / "tools/loch"), "--no-setup", *arguments], **more)

    def power(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.call([PYTHON, str(ROOT / "tools/loch"), "--no-setup", "power", *arguments], **more)

    def in_shell(self, text: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs a line of bash, in which "$@" are the arguments: for redirections and limits."""
        return self.call(["bash", "-c", text, "bash", *arguments], **more)

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def fake_ssh(self) -> dict[str, Any]:
        """Makes the fake ssh; returns an environment in which it is first in PATH."""
        self.write("bin/ssh", SSH)
        (self.folder / "bin/ssh").chmod(0o755)
        return {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "SSH_NOTES": str(self.folder)}

    def left(self) -> list[str]:
        """The files in the test's folder, except for Python's compiled modules."""
        return sorted(
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if not path.is_dir() and not path.is_relative_to(self.folder / "build")
        )

    def assert_refused(self, done: subprocess.CompletedProcess[str], *names: str, status: int = 2) -> None:
        """Asserts a refusal: nothing on standard output, and one line that contains each of `names`."""
        shown = f"{done.args}: status {done.returncode}\n{(done.stdout or '')[:500]}{(done.stderr or '')[:3000]}"
        self.assertEqual(done.returncode, status, shown)
        self.assertFalse(done.stdout, shown)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, shown)
        for name in names:
            self.assertIn(name, done.stderr, shown)


def is_root() -> bool:
    return os.geteuid() == 0


def may_mount() -> bool:
    """Whether this process may create a mount namespace, which tests with full or read-only file systems need."""
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0 if is_root() else False
