"""Tests of tools/compare_rates, which judges `./loch compare` on real runs, in a short form."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Short(unittest.TestCase):
    def run_it(self, *words):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools/compare_rates"), *words],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ,
        )
        return done.returncode, done.stdout + done.stderr

    def test_equal_runs_and_slower_ones(self):
        status, said = self.run_it("--equal", "3", "--slower", "2")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"one point, 36 seeds: standard deviation 0\.[4-9]\d %; 6 repeats in each folder\n")
        self.assertRegex(said, r"equal: differ by more than the tolerance 0 of 3 .*; called worse: 0\n")
        self.assertRegex(said, r"slower, [23]\.\d % by all seeds: .* tolerance 2 of 2 .*; called worse: 2\n")
        self.assertRegex(said, r"slower: differ at all \(--tolerance 0\) 2 of 2 ")

    def test_a_pace_that_is_not_slower_is_not_found(self):
        status, said = self.run_it("--equal", "1", "--slower", "1", "--think", "1ns")
        self.assertEqual(status, 1, said)

    def test_usage(self):
        self.assertEqual(self.run_it("--repeats", "1")[0], 2)
        self.assertEqual(self.run_it("--equal", "0")[0], 2)


if __name__ == "__main__":
    unittest.main()
