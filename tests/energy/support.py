"""Support for the tests of `loch power`: calls in a folder per test, trace files and results to read."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from collections.abc import Sequence
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOL = [str(ROOT / "tools/loch"), "--no-setup", "power"]
S = 1_000_000_000


class Power(unittest.TestCase):
    """A test case whose tests run `loch power` in a temporary folder of their own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-power-test-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def call(self, *arguments: str, timeout: float = 60, **env: Any) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key not in ("IPMI_PASSWORD", "LOCH_POWERCAP")}
        return subprocess.run(
            ["/usr/bin/python3", *TOOL, *arguments],
            cwd=self.folder,
            env={**environment, **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def report(self, *arguments: str, **env: Any) -> dict:
        """The JSON report of a call of `loch power` that must succeed."""
        done = self.call(*arguments, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def assert_refused(self, done: subprocess.CompletedProcess[str], *names: str, status: int = 2) -> None:
        """Asserts a refusal: nothing on standard output, and one line that contains each of `names`."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for name in names:
            self.assertIn(name, done.stderr)

    def trace(
        self, rows: Sequence[tuple[float, float]], name: str = "watts.csv", host: str = "a", first_ns: int = 0
    ) -> str:
        """Writes a trace file of (seconds, watts) rows; returns its name."""
        lines = ["t_ns,host,source,watts", *(f"{first_ns + round(t * S)},{host},test,{w:g}" for t, w in rows)]
        (self.folder / name).write_text("\n".join(lines) + "\n", encoding="ascii")
        return name

    def result(
        self, window: tuple[float, float] | None, ok: int = 900, not_found: int = 100, fabric: str = "shm"
    ) -> str:
        """Writes a result of `loch bench` with the keys that `loch power` reads."""
        document = {
            "schema": 1,
            "fabric": fabric,
            "operations": {"total": ok + not_found + 5, "ok": ok, "not_found": not_found},
            "power_w": {"mean": 0, "per_node": [0]},
            "window": {"from_unix_ns": round(window[0] * S), "to_unix_ns": round(window[1] * S)} if window else None,
        }
        (self.folder / "result.json").write_text(json.dumps(document), encoding="ascii")
        return "result.json"
