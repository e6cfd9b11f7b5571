"""Tests of `loch explore`: it completes if the protocol is correct, prints a trace of a violation, and refuses bad
input."""

from __future__ import annotations

import json
import re
import shlex
import unittest

from support import BINARY, EndToEnd


class Explore(EndToEnd):
    def test_a_small_scenario_is_complete(self) -> None:
        done = self.loch("explore", "nessie", "PUT K | GET K", "--set", "nessie.hash-functions=2", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assertEqual(result["verdict"], "complete")
        self.assertGreater(result["states"], 40)
        self.assertGreater(result["outcomes"], 1)

    def test_a_hole_of_the_published_variant_has_a_trace_and_its_line_finds_it_again(self) -> None:
        done = self.loch(
            "explore",
            "nessie",
            "DELETE K | DELETE K",
            "--set",
            "nessie.hash-functions=2",
            "--mutant",
            "unlock-by-write",
            "--json",
            "out.json",
            timeout=300,
        )
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ +1\. client [AB]: begins DELETE K$")
        self.assertIn("operations that contradict each other:", done.stdout)
        rerun = re.search(r"^rerun: (.*)$", done.stdout, re.MULTILINE)
        assert rerun, done.stdout
        again = self.call([BINARY, *shlex.split(rerun.group(1))[1:]], timeout=300)
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
        trace = [line for line in done.stdout.splitlines() if re.match(r" +\d+\. ", line)]
        self.assertEqual(trace, [line for line in again.stdout.splitlines() if re.match(r" +\d+\. ", line)])
        result = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assertEqual((result["verdict"], result["trace"]), ("found", trace))

    def test_reduction_changes_no_state(self) -> None:
        scenario = ["explore", "nessie", "DELETE K | PUT K", "--set", "nessie.hash-functions=2"]
        states = []
        none: list[str] = []
        for more in (none, ["--no-reduction"]):
            done = self.loch(*scenario, *more, "--json", "out.json", timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            result = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
            states.append((result["states"], result["ends"], result["outcomes"]))
        self.assertEqual(states[0], states[1])

    def test_a_bound_is_said(self) -> None:
        done = self.loch("explore", "nessie", "PUT K | DELETE K | GET K", "--states", "500")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("bound", done.stdout)

    def test_a_suite_is_a_table_and_its_status_says_whether_it_is_as_expected(self) -> None:
        suite = self.folder / "suite.txt"
        good = 'quick complete nessie "GET K | PUT K" --set nessie.hash-functions=2\n'
        suite.write_text(
            good + 'long found nessie "DELETE K | DELETE K" --set nessie.hash-functions=2 --mutant unlock-by-write\n',
            encoding="utf-8",
        )
        done = self.loch("explore", "--suite", str(suite))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^complete +\d+ +\d+ +\d+ +[\d.]+  nessie \"GET K \| PUT K\"")
        self.assertRegex(done.stdout, r"(?m)^found .*unlock-by-write$")
        quick = self.loch("explore", "--suite", str(suite), "--quick")
        self.assertNotIn("unlock-by-write", quick.stdout)
        suite.write_text(good.replace("complete", "found"), encoding="utf-8")
        wrong = self.loch("explore", "--suite", str(suite))
        self.assertEqual(wrong.returncode, 1, wrong.stdout + wrong.stderr)
        self.assertIn("NOT AS EXPECTED: found", wrong.stdout)
        suite.write_text(good, encoding="utf-8")
        mutants = self.loch("explore", "--mutants", "nessie", "--suite", str(suite), "--mutant", "remove-before-commit")
        self.assertEqual(mutants.returncode, 0, mutants.stdout + mutants.stderr)
        self.assertIn('quick found nessie "GET K | PUT K"', mutants.stdout)

    def test_bad_input(self) -> None:
        self.assert_refused(self.loch("explore", "--suite", "no-such-file"), "no-such-file")
        self.assert_refused(self.loch("explore", "--mutants", "nesie"), "nessie")
        self.assert_refused(self.loch("explore", "--mutants", "nessie", "--mutant", "no-such"), "no-such")
        self.assert_refused(self.loch("explore", "--suite", "--quack"), "--quick")
        self.assert_refused(self.loch("explore", "nessie", "GET K", "--before", "FROB K"), "FROB")
        self.assert_refused(self.loch("explore", "nessie", "GET K", "--cut", "9"), "--cut")
        self.assert_refused(self.loch("explore"), "protocol")
        self.assert_refused(self.loch("explore", "nesie"), "nessie")
        self.assert_refused(self.loch("explore", "nessie", "FROB K"), "FROB", "GET")
        self.assert_refused(self.loch("explore", "nessie", "GET K", "GET L"), "GET L")
        self.assert_refused(self.loch("explore", "nessie", "GET K", "--fail", "many"), "--fail", "many")
        self.assert_refused(self.loch("explore", "nessie", "GET K", "--fial", "1"), "--fail")
        self.assert_refused(self.loch("explore", "nessie", "GET K", "--time", "5"), "--time")
        self.assert_refused(
            self.loch("explore", "nessie", "GET K", "--set", "nessie.varaint=published"), "nessie.variant"
        )
        self.assert_refused(self.loch("explore", "nessie", "GET K", "--mutant", "no-such"), "no-such")
        self.assert_refused(self.loch("explore", "farm-em", "GET K"), "stores")


if __name__ == "__main__":
    unittest.main()
