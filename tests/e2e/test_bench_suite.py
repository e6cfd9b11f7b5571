"""Tests of `./loch bench-suite`: what it measures, the ratios of its table, other simulators (peers) that are not
installed, and bad input."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from support import BINARY, ROOT, EndToEnd

sys.path.insert(0, str(ROOT / "tools"))
from loch.bench_suite import main, peers, rows  # noqa: E402


def row_of(name: str, events_s: list[float]) -> rows.Row:
    return rows.Row(name, lambda: {}, values={"events_s": events_s} if events_s else {})


class Table(unittest.TestCase):
    def test_a_ratio_is_of_the_same_turn(self) -> None:
        queue, run = row_of(rows.BARE_QUEUE, [10.0, 20.0, 40.0]), row_of("run", [5.0, 4.0, 4.0])
        self.assertEqual(main.ratios([queue, run]), {rows.BARE_QUEUE: 1.0, "run": 0.2})  # not 4 / 20 of the medians
        self.assertEqual(main.ratios([run]), {})
        found = main.document([queue, run])
        self.assertEqual((found[1]["median"], found[1]["to_queue"]), ({"events_s": 4.0}, 0.2))

    def test_a_row_without_a_turn_says_why(self) -> None:
        failed = rows.Row("run", lambda: {}, failure="it ended with status 3")
        lines = main.table([row_of(rows.BARE_QUEUE, [61e6]), failed]).splitlines()
        self.assertEqual(lines[2].split(" | ")[1], "61.00")
        self.assertIn("| run | it ended with status 3 |", lines[3])
        self.assertEqual(len({line.count("|") for line in lines}), 1)

    def test_a_load_that_is_lost_in_the_noise_is_no_rate(self) -> None:
        none, short, long = (rows.Ended("", 2 * user, user, 1) for user in (1.0, 1.01, 3.0))
        with self.assertRaisesRegex(rows.Failed, "too short"):
            rows._load_s(rows.Suite("none"), none, short)
        self.assertEqual(rows._load_s(rows.Suite("none"), none, long), 2.0)

    def test_a_failed_turn_ends_the_row(self) -> None:
        turns = iter([{"events_s": 1.0}])

        def turn() -> dict[str, float]:
            found = next(turns, None)
            if found is None:
                raise rows.Failed("no more")
            return found

        row = rows.Row("run", turn)
        row.measure()
        row.measure()
        self.assertEqual((row.failure, row.values), ("no more", {}))


class Peers(unittest.TestCase):
    def test_what_is_not_installed_is_named_with_its_package(self) -> None:
        with mock.patch.object(peers, "INCLUDED", "/nonexistent"), peers.built() as found:
            absences = {peer.name: peer.absence for peer in found}
        for library in peers.LIBRARIES:
            self.assertEqual(absences[library.name], f"absent: apt-get install {library.package}")
        made = rows.make(["peers"], rows.Suite("none"), [peers.Peer("gone", 1, absence="absent: apt-get install gone")])
        self.assertTrue(made[0].is_optional and made[0].failure)

    def test_each_source_makes_as_many_events_as_it_is_told(self) -> None:
        with peers.built() as found:
            here = [peer for peer in found if not peer.absence]
            if not here:
                self.skipTest("needs ns-3, SimGrid or simpy")
            for peer in here:
                measured = rows._peer_turn(rows.Suite("none", 20), peer)
                self.assertGreater(measured["events_s"], 1e4, peer.name)


class Command(EndToEnd):
    def suite(self, *words: str, program: str = BINARY) -> subprocess.CompletedProcess[str]:
        package = str(ROOT / "tools/loch/__main__.py")
        return self.call([sys.executable, package, "--no-setup", "bench-suite", *words], LOCH_BIN=program)

    def test_measures_runs(self) -> None:
        done = self.suite("--only", "run", "--brief", "--repeats", "2", "--json", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = {row["row"]: row for row in json.loads(done.stdout)}
        self.assertEqual(list(found), [rows.FULL_RUN[0], rows.ONE_SIDED[0]])
        for row in found.values():
            self.assertEqual((row["failure"], len(row["turns"]["events_s"])), ("", 2))
            self.assertGreater(row["median"]["events_an_operation"], 5)
            self.assertGreater(row["median"]["setup_s"], 0)
            # the simulation is the same each time; only the time that it takes differs
            self.assertEqual(len(set(row["turns"]["events_an_operation"])), 1)

    def test_a_program_that_fails_is_told(self) -> None:
        program = Path(self.folder) / "fails"
        program.write_text("#!/bin/sh\necho first >&2\necho it is broken >&2\nexit 3\n", encoding="utf-8")
        program.chmod(0o755)
        done = self.suite("--only", "run", "--repeats", "1", program=str(program))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("it is broken"), 2)

    def test_bad_input_is_one_line(self) -> None:
        for words, said in (
            (["--repeats", "0"], "--repeats 0: expected 1 to 100"),
            (["--repeats", "many"], "--repeats"),
            (["--only", "run,rum"], "--only rum: expected one or more of queue, run, nodes, peers"),
            (["--json", "/nonexistent/a.json"], "--json /nonexistent/a.json"),
            (["--threads", "0"], "--threads"),
        ):
            with self.subTest(words=words):
                done = self.suite(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
