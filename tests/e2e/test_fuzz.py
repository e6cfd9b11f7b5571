"""Tests of `loch fuzz`: no finding for a correct protocol, and the printed command line reproduces a finding."""

from __future__ import annotations

import re
import shlex
import unittest

from support import BINARY, EndToEnd


class Fuzz(EndToEnd):
    def test_the_hardened_variant_holds(self) -> None:
        done = self.loch("fuzz", "--protocol", "nessie", "--seeds", "40", timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("nothing found", done.stdout)

    def test_a_mutant_is_found_and_its_line_finds_it_again(self) -> None:
        done = self.loch("fuzz", "--protocol", "nessie", "--mutant", "destructive-put", "--seeds", "2000", timeout=500)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        rerun = re.search(r"^\s*rerun\s+(.*)$", done.stdout, re.MULTILINE)
        found = re.search(r"^seed (\d+):", done.stdout, re.MULTILINE)
        assert rerun and found, done.stdout
        words = shlex.split(rerun.group(1))
        again = self.call([BINARY, *words[1:]], timeout=300)
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
        self.assertIn(f"seed {found.group(1)}:", again.stdout)
        hashes = [re.search(r"trace hash ([0-9a-f]+)", text) for text in (done.stdout, again.stdout)]
        assert hashes[0] and hashes[1]
        self.assertEqual(hashes[0].group(1), hashes[1].group(1))

    def test_a_finding_of_the_published_variant_names_its_hole(self) -> None:
        done = self.loch("fuzz", "--set", "nessie.variant=published", "--seeds", "200", timeout=500)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  cause    H\d+.*: .*0 of \d+ timings show it")
        fixed = re.search(r"^\s*mended\s+(.*)$", done.stdout, re.MULTILINE)
        assert fixed, done.stdout
        again = self.call([BINARY, *shlex.split(fixed.group(1))[1:]], timeout=300)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)

    def test_bad_flags(self) -> None:
        self.assert_refused(self.loch("fuzz", "--seeds", "none"), "--seeds")
        self.assert_refused(self.loch("fuzz", "--sedes", "3"), "--seeds")
        self.assert_refused(self.loch("fuzz", "--mutant", "destructive-putt"), "destructive-put")
        self.assert_refused(self.loch("fuzz", "--set", "nessie.varaint=published"), "nessie.variant")

    def test_options_that_no_cluster_can_have_are_bad_input_and_no_finding(self) -> None:
        for options, named in (
            (("nessie.allocation=chunks",), "nessie.placement remote"),
            (("nessie.placement=remote", "nessie.variant=published"), "nessie.variant hardened"),
            (("nessie.layout=2015",), "nessie.variant published"),
            (("nessie.filter-bits=15",), "nessie.filter-bits"),
            (("nessie.backoff-cap=1ns",), "nessie.backoff-start"),
            (("race.begin-smaller=3",), "race.growth"),
            (("race.variant=published", "race.begin-smaller=1"), "cannot split"),
            (("race.variant=published", "race.growth=2"), "race.growth: the published variant cannot split"),
            (("race.growth=0", "race.split-share=0.5"), "race.split-share: the table cannot split"),
            (("race.alloc-cpu=5us",), "race.allocation chunks"),
            (("nessie.alloc-cpu=5us",), "nessie.allocation chunks"),
            (("race.reuse=true",), "race.variant published"),
            (("race.allocation=chunks", "race.chunk-blocks=1048576"), "bytes of each of"),
        ):
            protocol = options[0].split(".")[0]
            flags = [word for option in options for word in ("--set", option)]
            self.assert_refused(self.loch("fuzz", "--protocol", protocol, "--seeds", "20", *flags), named)
            self.assert_refused(self.loch("explore", protocol, "PUT K | GET K", *flags), named)


if __name__ == "__main__":
    unittest.main()
