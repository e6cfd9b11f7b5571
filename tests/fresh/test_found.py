"""What fuzzing has found stays fixed: each scenario in found/ showed something on the commit that it names, and shows
nothing any more. A scenario is run again event by event only as long as nothing changes its random draws; one that no
longer meets the interleaving passes as well, so that a unit test, where there is one, says more."""

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
