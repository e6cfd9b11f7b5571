"""Tests of coverage.py: totals by folder without tests, from llvm-cov's export; a build without counters is reported as
one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import coverage

SOURCE = Path("/loch")


def file(name: str, lines: tuple[int, int], branches: tuple[int, int]) -> dict:
    counts = {"lines": lines, "branches": branches}
    return {
        "filename": name,
        "summary": {what: {"covered": covered, "count": count} for what, (covered, count) in counts.items()},
    }


class Coverage(unittest.TestCase):
    def test_folders_are_summed_and_tests_left_out(self) -> None:
        files = [
            file("/loch/nessie/get.cc", (8, 10), (3, 6)),
            file("/loch/nessie/put.cc", (1, 10), (0, 4)),
            file("/loch/common/rpc/frame.h", (5, 5), (0, 0)),
            file("/loch/nessie/parts_test.cc", (99, 99), (9, 9)),
            file("/loch/tests/support/store_run.cc", (7, 7), (1, 1)),
            file("/usr/include/fmt/format.h", (1, 9), (1, 9)),
        ]
        modules = coverage.by_module({"data": [{"files": files}]}, SOURCE)
        self.assertEqual(
            modules,
            {
                "nessie": {"lines": [9, 20], "branches": [3, 10]},
                "common/rpc": {"lines": [5, 5], "branches": [0, 0]},
                "total": {"lines": [14, 25], "branches": [3, 10]},
            },
        )
        lines = coverage.table(modules)
        self.assertEqual([line.split()[0] for line in lines], ["folder", "common/rpc", "nessie", "total"])
        self.assertRegex(lines[-1], r"14 of +25 +56\.0% +3 of +10 +30\.0%$")

    def test_a_build_without_counts_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, coverage.__file__, folder, folder], capture_output=True, text=True, check=False
            )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"no test left its counts in {Path(folder).resolve()}/profiles", done.stderr)


if __name__ == "__main__":
    unittest.main()
