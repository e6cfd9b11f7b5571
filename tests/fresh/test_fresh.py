"""Tests of fresh.py: each protocol has its share of time, a finding fails and is named, each drawn base (first seed) is
different."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

FRESH = Path(__file__).with_name("fresh.py")
# A fake loch-bench that lists five protocols: fuzzing the one named $LEAKS fails, and fresh.py has to leave out the two
# that it cannot fuzz (echo, redis).
BENCH = r"""#!/bin/sh
echo "$*" >> calls
if [ "$1" = list ]; then
  echo '[{"name": "sound", "consistency": "linearizable"}, {"name": "leaky", "consistency": "linearizable"},
         {"name": "cache", "consistency": "lossy-cache"}, {"name": "echo", "consistency": "none"},
         {"name": "redis", "consistency": "linearizable"}]'
elif [ "$3" = "$LEAKS" ]; then
  echo "  rerun    loch fuzz --protocol $3 --first-seed 7 --seeds 1"
  exit 1
fi
"""


class Fresh(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-fresh-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.bench = self.folder / "bench"
        self.bench.write_text(BENCH)
        self.bench.chmod(self.bench.stat().st_mode | stat.S_IXUSR)

    def fresh(self, **given: Any) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("LOCH_")}
        return subprocess.run(
            [sys.executable, str(FRESH)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={**env, "LOCH_BIN": str(self.bench), "LEAKS": "none", **given},
        )

    def test_the_protocols_that_store_share_the_time(self) -> None:
        done = self.fresh(LOCH_FRESH_BASE="5", LOCH_FRESH_SECONDS="60")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = (self.folder / "calls").read_text().splitlines()[1:]
        self.assertEqual([call.split()[2] for call in calls], ["sound", "leaky", "cache"])
        for call in calls:
            self.assertIn("--first-seed 5 ", call)
            self.assertIn("--time 20000ms", call)

    def test_a_finding_fails_shows_its_line_and_stops_no_other(self) -> None:
        done = self.fresh(LOCH_FRESH_BASE="5", LEAKS="leaky")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rerun    loch fuzz --protocol leaky", done.stdout)
        self.assertIn("findings: leaky (status 1)", done.stdout)
        self.assertIn("--protocol cache", done.stdout)

    def test_the_base_is_said_and_differs(self) -> None:
        bases = {self.fresh().stdout.split("LOCH_FRESH_BASE=")[1].split()[0] for _ in range(2)}
        self.assertEqual(len(bases), 2)


if __name__ == "__main__":
    unittest.main()
