"""verbs_bench.py --old: two builds of verbs_micro, here programs that say what a test makes them say."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
BENCH = TREE / "common/fabric/verbs/verbs_bench.py"

# Says a latency of about 100 us and a rate of about 1 M/s, both `slower` times as bad, with 2 % of noise.
PROGRAM = """#!/usr/bin/python3
import json, random, sys
noise = random.uniform(0.98, 1.02)
if sys.argv[1] == "read-rate":
    print(json.dumps({{"mops": noise / {slower}}}))
else:
    print(json.dumps({{"median_us": 100 * noise * {slower}}}))
"""


class Old(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="loch-verbs-bench-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name: str, slower: float) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM.format(slower=slower))
        path.chmod(0o755)
        return path

    def bench(self, new: float, *arguments: str) -> "subprocess.CompletedProcess[str]":
        self.program("build/release/common/fabric/verbs/verbs_micro", new)
        env = dict(os.environ, LOCH_BUILD=str(self.folder / "build"))
        return subprocess.run([sys.executable, BENCH, *arguments], env=env, capture_output=True, text=True, check=False)

    def test_a_slower_build_is_worse_in_every_test(self) -> None:
        done = self.bench(1.2, "--rounds", "6", "--old", str(self.program("old", 1.0)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count("WORSE"), 5, done.stdout)

    def test_a_faster_build_is_better_in_every_test(self) -> None:
        done = self.bench(1.0, "--rounds", "6", "--old", str(self.program("old", 1.2)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("| better |"), 5, done.stdout)

    def test_what_cannot_be_compared_is_refused(self) -> None:
        few = self.bench(1.0, "--rounds", "5", "--old", str(self.program("old", 1.0)))
        self.assertEqual((few.returncode, "needs 6 rounds" in few.stderr), (2, True), few.stderr)
        absent = self.bench(1.0, "--old", str(self.folder / "nowhere"))
        self.assertEqual((absent.returncode, "is no program" in absent.stderr), (2, True), absent.stderr)


if __name__ == "__main__":
    unittest.main()
