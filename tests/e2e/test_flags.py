"""Tests of bad input to loch-bench: one line with flag or file and what was expected, status 2, no output file left."""

from __future__ import annotations

import unittest

from support import SIM, EndToEnd, without


class Help(EndToEnd):
    def test_every_command_says_its_exit_statuses_and_has_an_example(self) -> None:
        for command in ("bench", "check", "fuzz", "explore", "list", "devices", "ping", "litmus", "hog", "calibrate"):
            with self.subTest(command):
                done = self.loch(command, "--help")
                self.assertEqual(done.returncode, 0)
                text = " ".join(done.stdout.split())
                self.assertIn("Exit status", text)
                self.assertIn(f"Example: loch {'bench' if command == 'check' else command} ", text)


class BadFlags(EndToEnd):
    def refuse(self, arguments: list[str], *names: str) -> None:
        with self.subTest(" ".join(arguments)):
            self.assert_refused(self.loch(*SIM, *arguments, "--json", "out.json"), *names)
            self.assertFalse((self.folder / "out.json").exists())

    def test_unknown_names_come_with_the_nearest(self) -> None:
        self.refuse(["--value-sise", "16K"], "--value-size")
        self.refuse(["--nessie.filter-bit", "7"], "nessie.filter-bits")
        self.refuse(["--set", "nessie.varaint=published"], "nessie.variant")
        for arguments, near in (
            (["--protocol", "nesie"], "nessie"),
            (["--fabric", "shn"], "shm"),
            (["--distribution", "zipfain"], "zipfian"),
            (["--hardware", "connectx3-10gb"], "connectx3-10gbe"),
            (["--mutant", "no-reverse-pas"], "no-reverse-pass"),
        ):
            replaced = [a for a in SIM if a != arguments[0]] if arguments[0] not in SIM else without(SIM, arguments[0])
            with self.subTest(arguments):
                self.assert_refused(self.loch(*replaced, *arguments), near)

    def test_values_out_of_range(self) -> None:
        for flag, value in (
            ("--get", "1.5"),
            ("--get", "many"),
            ("--rate", "-1"),
            ("--zipf-theta", "0"),
            ("--repeats", "0"),
            ("--seed", "x"),
            ("--nessie.filter-bits", "99"),
            ("--nessie.variant", "other"),
            ("--nessie.expiry", "5"),
            ("--nessie.cache", "maybe"),
            ("--hog-pin", "somewhere"),
            ("--search", "p99"),
        ):
            self.refuse([flag, value], flag.lstrip("-"))
        for flag, value in (
            ("--nodes", "0"),
            ("--nodes", "1000000"),
            ("--clients", "-2"),
            ("--value-size", "0"),
            ("--value-size", "16Q"),
            ("--value-size", "2G"),
            ("--duration", "50"),
            ("--warmup", "-1ms"),
            ("--keys", "-5"),
            ("--key-size", "0"),
        ):
            with self.subTest(f"{flag} {value}"):
                self.assert_refused(self.loch(*without(SIM, flag), flag, value), flag.lstrip("-"))

    def test_impossible_combinations(self) -> None:
        self.refuse(["--get", "0.8", "--delete", "0.5"], "get", "delete")
        self.refuse(["--nessie.layout", "2015"], "layout", "variant")
        self.refuse(["--nessie.filter-bits", "13"], "filter-bits")
        self.refuse(["--operations", "10"], "duration", "operations")
        self.refuse(["--memory", "1K"], "memory")

    def test_stray_words_and_missing_values(self) -> None:
        self.refuse(["stray"], "bench", "belongs to no flag", "--help")
        self.refuse(["--seed", "1", "stray"], "belongs to no flag")
        for flag in ("--seed", "--hogs", "--nessie.filter-bits"):
            with self.subTest(flag):
                self.assert_refused(self.loch(*SIM, flag), flag, "expected a value")

    def test_files_that_are_missing_or_wrong(self) -> None:
        self.refuse(["--workload", "none.yaml"], "none.yaml")
        self.write("faults.yaml", "torn_read: 0.1\ntorn_raed: 0.1\n")
        self.refuse(["--faults", "faults.yaml"], "faults.yaml:2", "torn_raed")
        self.write("scans", "workload=site.ycsb.workloads.CoreWorkload\nscanproportion=0.95\ninsertproportion=0.05\n")
        self.refuse(["--workload", "scans"], "scan")
        self.write("hardware.yaml", "name: x\nnic:\n  request_read: 38\n")
        self.assert_refused(self.loch(*without(SIM, "--hardware"), "--hardware", "hardware.yaml"), "hardware.yaml")

    def test_outputs_that_cannot_be_written_are_found_before_the_run(self) -> None:
        for flag in ("--json", "--history", "--trace"):
            with self.subTest(flag):
                self.assert_refused(self.loch(*SIM, flag, "no/such/folder/x"), "no/such/folder/x")

    def test_unknown_subcommands_and_lists(self) -> None:
        self.assert_refused(self.loch("bnch"), "bench")
        self.assert_refused(self.loch("list", "protocol"), "protocols")


if __name__ == "__main__":
    unittest.main()
