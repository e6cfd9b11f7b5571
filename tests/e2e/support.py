"""Support for the end-to-end tests: calls of loch-bench in a folder per test, and assertions on results and
refusals."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LOCH_BIN", str(ROOT / "build/release/bin/loch-bench"))
# Flags of a run that takes a second and covers every path of a GET and a PUT.
SIM = [
    "bench",
    "--protocol",
    "nessie",
    "--fabric",
    "sim",
    "--hardware",
    "connectx3-10gbe",
    "--nodes",
    "3",
    "--clients",
    "2",
    "--keys",
    "2000",
    "--value-size",
    "256",
    "--warmup",
    "200us",
    "--duration",
    "2ms",
]
SHM = [
    "bench",
    "--protocol",
    "nessie",
    "--fabric",
    "shm",
    "--nodes",
    "2",
    "--clients",
    "1",
    "--keys",
    "500",
    "--value-size",
    "256",
    "--warmup",
    "50ms",
    "--duration",
    "300ms",
]


class EndToEnd(unittest.TestCase):
    """A test case whose tests run in a temporary folder of their own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-e2e-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def call(self, command: list[str], timeout: float = 120, **env: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def loch(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return self.call([BINARY, *arguments], timeout)

    def result(self, *arguments: str, timeout: float = 120) -> dict:
        """The JSON result of a loch-bench run that must succeed."""
        done = self.loch(*arguments, timeout=timeout)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def assert_refused(self, done: subprocess.CompletedProcess[str], *names: str) -> None:
        """Asserts a refusal of bad input: status 2, nothing on standard output, one line that contains each of
        `names`."""
        shown = f"{done.args}: status {done.returncode}\n{done.stdout[:500]}{done.stderr[:2000]}"
        self.assertEqual(done.returncode, 2, shown)
        self.assertEqual(done.stdout, "", shown)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, shown)
        for name in names:
            self.assertIn(name, done.stderr, shown)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


def without(arguments: list[str], flag: str) -> list[str]:
    """The arguments without one flag and its value."""
    if flag not in arguments:
        return arguments
    at = arguments.index(flag)
    return arguments[:at] + arguments[at + 2 :]
