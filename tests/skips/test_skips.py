"""Tests of the skip report: skips of GoogleTest and pytest are read and counted, and an unexpected skip fails in CI."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="0" disabled="0" errors="0" time="0." name="AllTests">
  <testsuite name="Disk" tests="2" failures="0" disabled="0" skipped="1" errors="0">
    <testcase name="Holds" status="run" result="completed" time="0." classname="Disk" />
    <testcase name="Full/0" status="run" result="skipped" time="0." classname="Disk">
      <skipped message="/x/disk_test.cc:12&#x0A;no small tmpfs here&#x0A;"><![CDATA[…]]></skipped>
    </testcase>
  </testsuite>
</testsuites>
"""
SUITE = """import unittest
class Case(unittest.TestCase):
    def test_runs(self): pass
    @unittest.skip("no such program")
    def test_skipped(self): pass
    def test_broken(self): self.assertEqual(1, {value})
"""


class Skips(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-skips-")
        self.addCleanup(holder.cleanup)
        self.build = Path(holder.name)
        self.ran = self.build / "release/Testing/ran"
        self.ran.mkdir(parents=True)

    def report(self, *arguments: str, ci: bool) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name != "CI"} | ({"CI": "true"} if ci else {})
        return subprocess.run(
            [sys.executable, str(HERE / "report.py"), *arguments, str(self.build)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def suite(self, value: int) -> subprocess.CompletedProcess[str]:
        (self.build / "test_made.py").write_text(SUITE.format(value=value))
        return subprocess.run(
            [sys.executable, str(HERE / "suite.py"), "test_made"],
            cwd=self.build,
            check=False,
            env={**os.environ, "LOCH_RAN": str(self.ran / "made.xml")},
            capture_output=True,
            text=True,
        )

    def test_googletest_and_unittest_are_read(self) -> None:
        (self.ran / "disk_test.xml").write_text(GTEST)
        self.assertEqual(self.suite(1).returncode, 0)
        self.assertEqual(
            report.read_skips(self.build),
            [
                report.Skip("disk_test:Disk.Full/0", "no small tmpfs here"),
                report.Skip("made:test_made.Case.test_skipped", "no such program"),
            ],
        )

    def test_an_unlisted_skip_is_shown_everywhere_and_fails_in_ci_alone(self) -> None:
        (self.ran / "disk_test.xml").write_text(GTEST)
        for ci, status in ((False, 0), (True, 1)):
            done = self.report("--strict", ci=ci)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertIn("not listed: disk_test:Disk.Full/0: no small tmpfs here", done.stdout)
        self.assertEqual(self.report(ci=True).returncode, 0)  # without --strict the report never fails

    def test_a_listed_skip_needs_its_own_test_and_its_own_reason(self) -> None:
        skip = report.Skip("disk_test:Disk.Full/0", "no small tmpfs here")
        for known, allowed in (
            (("disk_test:*", "no small tmpfs*"), True),
            (("disk_test:*", "*mpirun*"), False),
            (("tape_test:*", "no small tmpfs*"), False),
        ):
            self.assertEqual(report.describe([skip], [report.Known(*known)])[1], [] if allowed else [skip], known)

    def test_a_run_without_skips_passes_in_ci(self) -> None:
        done = self.report("--strict", ci=True)
        self.assertEqual((done.returncode, done.stdout), (0, "skipped: no test\n"))

    def test_a_failing_suite_fails_and_so_does_one_without_tests(self) -> None:
        self.assertEqual(self.suite(2).returncode, 1)
        (self.build / "test_made.py").write_text("")
        done = subprocess.run(
            [sys.executable, str(HERE / "suite.py"), "test_made"],
            cwd=self.build,
            check=False,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("no test was found", done.stderr)

    def test_every_line_of_the_list_says_which_which_reason_and_why(self) -> None:
        self.assertTrue(report.read_known(report.KNOWN))
        bad = self.build / "known.txt"
        bad.write_text("disk_test:* | no small tmpfs*\n")
        with self.assertRaisesRegex(SystemExit, "known.txt:1: expected TEST | REASON | WHY"):
            report.read_known(bad)


if __name__ == "__main__":
    unittest.main()
