"""Regression tests: each scenario in found/, which showed a violation on the commit that it names, shows none any more.

A scenario repeats the original events only while nothing changes its random draws. One that no longer reaches its
interleaving passes as well, so a unit test, where one exists, is the stronger check.
"""

from __future__ import annotations

import json
import os
import subprocess
import unittest
from pathlib import Path

FOUND = sorted(Path(__file__).with_name("found").glob("*.replay.json"))
BENCH = os.environ.get("LOCH_BIN", "loch-bench")


class Found(unittest.TestCase):
    def test_there_are_some(self) -> None:
        self.assertGreaterEqual(len(FOUND), 5)

    def test_nothing_shows_any_more(self) -> None:
        for path in FOUND:
            with self.subTest(path.name):
                before = json.loads(path.read_text())["shows"]
                self.assertNotEqual(before["verdict"], "holds")
                ran = subprocess.run(
                    [BENCH, "fuzz", "--replay", str(path)], capture_output=True, text=True, check=False
                )
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                self.assertIn("nothing shows", ran.stdout)


if __name__ == "__main__":
    unittest.main()
