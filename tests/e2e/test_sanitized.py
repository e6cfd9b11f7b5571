"""Tests of loch-bench built with a sanitizer: no report, the same simulation as the release build, real threads over
shared memory (fabric shm)."""

from __future__ import annotations

import json
import os
import unittest

import support
from support import SIM, EndToEnd

RELEASE = support.BINARY
SANITIZED = os.environ.get("LOCH_SANITIZED", "")
if SANITIZED:
    support.BINARY = SANITIZED  # set before test_launch is imported, which reads it

import test_launch  # noqa: E402

SHM = [
    "bench",
    "--protocol",
    "nessie",
    "--fabric",
    "shm",
    "--nodes",
    "3",
    "--clients",
    "1",
    "--keys",
    "2000",
    "--value-size",
    "256",
    "--get",
    "0.9",
    "--verify",
    "--warmup",
    "100ms",
    "--duration",
    "2s",
]


@unittest.skipUnless(SANITIZED, "LOCH_SANITIZED names no binary of a sanitizer's build")
class Sanitized(EndToEnd):
    def run_it(self, binary: str, *arguments: str) -> dict:
        done = self.call([binary, *arguments], timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Sanitizer", done.stderr)
        return json.loads(done.stdout)

    def test_it_simulates_what_the_release_build_does(self) -> None:
        if not os.access(RELEASE, os.X_OK):
            self.skipTest(f"no release build to compare with ({RELEASE})")
        hashes = [
            self.run_it(binary, *SIM, "--get", "0.5", "--seed", "3")["sim"]["trace_hash"]
            for binary in (SANITIZED, RELEASE)
        ]
        self.assertEqual(hashes[0], hashes[1])

    def test_threads_race_without_a_report(self) -> None:
        got = self.run_it(SANITIZED, *SHM, "--history", "h.jsonl")
        self.assertEqual(got["operations"]["corrupt"], 0)
        checked = self.call([RELEASE if os.access(RELEASE, os.X_OK) else SANITIZED, "check", "h.jsonl"])
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    @unittest.skipUnless(test_launch.HAS_MPIRUN, "mpirun (Debian: openmpi-bin) is not here")
    def test_processes_race_without_a_report_and_outlive_one(self) -> None:
        test_launch.kill_client(self, 1)


if __name__ == "__main__":
    unittest.main()
