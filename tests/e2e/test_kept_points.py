"""Points on ofi that share one store (`loch-bench points`), in one process and in processes that mpirun starts: what a
failure leaves, which points may follow, and that the second one begins at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import Any

from support import BINARY, EndToEnd

# A number of operations, not a time: on a busy machine TCP between two threads does few of them a second.
OWN = [
    "--fabric",
    "ofi",
    "--ofi-provider",
    "tcp",
    "--nodes",
    "2",
    "--clients",
    "1",
    "--keys",
    "300",
    "--value-size",
    "256",
]
OWN += ["--warmup", "0ms", "--operations", "200", "--verify"]
# After an operation that ended in a time-out no load follows. On a busy machine one of Nessie may last longer than
# entries do, and a request of HERD longer than clients wait for its reply.
NESSIE = ["--protocol", "nessie", "--nessie.expiry", "30s", *OWN]
STORES = {
    "nessie": NESSIE,
    "herd": ["--protocol", "herd", "--servers", "1", "--herd.give-up", "30s", *OWN],
    **{name: ["--protocol", name, "--servers", "1", *OWN] for name in ("nessie-sd", "pilaf")},
}
NOTE = re.compile(r"this is load (\d) on it, which was ready to begin after ([\d.]+) s")
HAS_MPIRUN = shutil.which("mpirun") is not None


class KeptPoints(EndToEnd):
    def listed(self, entries: list[list[str]]) -> str:
        """Writes a list of points; point i has its result in i.json, and what it printed in i.txt."""
        listed = [
            {
                "arguments": [*each, "--json", str(self.folder / f"{i}.json")],
                "output": str(self.folder / f"{i}.txt"),
            }
            for i, each in enumerate(entries)
        ]
        (self.folder / "list.json").write_text(json.dumps(listed))
        return str(self.folder / "list.json")

    def ended(self, done: subprocess.CompletedProcess[str]) -> list[tuple[int, int]]:
        """The numbers of the points that have ended, with their exit statuses."""
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [(each["point"], each["status"]) for each in said if "pid" not in each]

    def points(self, entries: list[list[str]]) -> list[tuple[int, int]]:
        return self.ended(self.call([BINARY, "points", self.listed(entries)], 300))

    def stored(self, number: int) -> Any:
        return json.loads((self.folder / f"{number}.json").read_text())

    def load_number(self, number: int) -> int:
        """Which load on its store a point was; 0 if it began with a store of its own."""
        found = [each for note in self.stored(number)["notes"] if (each := NOTE.search(note))]
        return int(found[0][1]) if found else 0

    def judge(self, number: int) -> None:
        operations = self.stored(number)["operations"]
        self.assertEqual((operations["total"], operations["corrupt"], operations["error"]), (200, 0, 0))
        self.assertGreater(operations["verified"], 0)

    def test_loads_follow_each_other(self) -> None:
        loads = [["--get", "0.5"], ["--get", "0.9"], ["--get", "1"]]
        for store, flags in STORES.items():
            with self.subTest(store):
                entries = [[*flags, *each] for each in loads]
                self.assertEqual(self.points(entries), [(0, 0), (1, 0), (2, 0)])
                for i in range(3):
                    self.judge(i)
                    self.assertEqual(self.load_number(i), i + 1)

    def test_what_must_not_follow_begins_with_a_store_of_its_own(self) -> None:
        first = NESSIE
        for other in (
            ["--delete", "0.1"],
            ["--insert-if-absent", "0.1"],
            ["--throttle", "4"],
            ["--history", str(self.folder / "h.bin")],
            ["--seed", "2"],
            ["--value-size", "128"],
        ):
            with self.subTest(other[0]):
                entries = [[*first, "--get", "0.5"], [*self.without(first, other[0]), *other, "--get", "0.5"]]
                self.assertEqual(self.points(entries), [(0, 0), (1, 0)])
                self.assertEqual([self.load_number(0), self.load_number(1)], [0, 0])

    @staticmethod
    def without(flags: list[str], name: str) -> list[str]:
        """The flags without this one and its value."""
        at = flags.index(name) if name in flags else len(flags)
        return [*flags[:at], *flags[at + 2 :]]

    def list_failing(self) -> None:
        """Lists four points, of which the second one cannot write its result."""
        self.listed([[*NESSIE, "--get", get] for get in ("0.5", "0.6", "0.7", "0.8")])
        listed = json.loads((self.folder / "list.json").read_text())
        listed[1]["arguments"][-1] = "/dev/full"
        (self.folder / "list.json").write_text(json.dumps(listed))

    def test_after_a_failure_the_others_begin_with_another_store(self) -> None:
        self.list_failing()
        ended = self.ended(self.call([BINARY, "points", str(self.folder / "list.json")], 300))
        self.assertEqual([point for point, _ in ended], [0, 1, 2, 3])
        self.assertEqual([status != 0 for _, status in ended], [False, True, False, False])
        self.assertIn("No space left", (self.folder / "1.txt").read_text())
        self.assertEqual([self.load_number(i) for i in (0, 2, 3)], [1, 1, 2])

    def launched(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", BINARY, "points", "list.json"],
            cwd=self.folder,
            env={**os.environ, "OMPI_MCA_rmaps_base_oversubscribe": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @unittest.skipUnless(HAS_MPIRUN, "no mpirun")
    def test_launched_processes_run_one_load_after_another(self) -> None:
        for store, flags in STORES.items():
            with self.subTest(store):
                self.listed([[*flags, "--get", get] for get in ("0.5", "0.9", "1")])
                self.assertEqual(self.ended(self.launched()), [(0, 0), (1, 0), (2, 0)])
                for i in range(3):
                    self.judge(i)
                    self.assertEqual(self.load_number(i), i + 1)
                    self.assertEqual(len(self.stored(i)["nodes"]), 2)

    @unittest.skipUnless(HAS_MPIRUN, "no mpirun")
    def test_launched_processes_end_together_after_a_failure(self) -> None:
        self.list_failing()
        ended = self.ended(self.launched())
        self.assertEqual([point for point, _ in ended], [0, 1])
        self.assertNotEqual(ended[1][1], 0)
        self.assertIn("No space left", (self.folder / "1.txt").read_text())
        self.assertFalse(Path(self.folder / "2.json").exists())


if __name__ == "__main__":
    unittest.main()
