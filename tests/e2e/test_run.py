"""Tests of `loch run` with the real loch-bench: output files, resuming, interruption, bad experiments."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from support import BINARY, ROOT, EndToEnd

EXPERIMENT = """\
name: tiny
title: Tiny
fabric: sim
hardware: connectx3-10gbe
cluster: {nodes: 3}
systems:
  CD: {protocol: nessie, clients: 2}
workload: {key_size: 128, get: 0.5, distribution: uniform, keys: 2000}
axes: {value_size: [256, 1K, 4K]}
measure: {warmup: 100us, duration: 2ms, repeats: 2}
figure: {kind: line, x: value_size, y: [latency_us.get.mean]}
claims:
  - "CD.latency_us.get.mean < CD.latency_us.put.mean"
"""


class Run(EndToEnd):
    command = [sys.executable, str(ROOT / "tools/loch"), "--no-setup"]

    def run_it(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return self.call([*self.command, "run", *arguments], timeout, LOCH_BIN=BINARY)

    def points(self) -> dict[str, int]:
        folder = self.folder / "results/tiny/points"
        return {p.name: p.stat().st_mtime_ns for p in folder.glob("*.json")} if folder.exists() else {}

    def test_a_run_leaves_points_table_figure_and_report(self) -> None:
        self.write("tiny.yaml", EXPERIMENT)
        done = self.run_it("tiny.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = self.folder / "results/tiny"
        for name in ("table.csv", "figure.pdf", "figure.png", "figure.svg", "report.md", "manifest.json"):
            self.assertGreater((results / name).stat().st_size, 0, name)
        points = self.points()
        self.assertEqual(len(points), 6)
        for name in points:
            self.assertEqual(json.loads((results / "points" / name).read_text())["fabric"], "sim")
        with (results / "table.csv").open(newline="") as opened:
            self.assertEqual(len(list(csv.DictReader(opened))), 6)
        again = self.run_it("tiny.yaml")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.points(), points, "a second run runs nothing")

    def test_an_interrupted_run_goes_on_where_it_stopped(self) -> None:
        self.write("tiny.yaml", EXPERIMENT)
        # The script held-bench stands in for loch-bench: once two points are stored, it measures no further point until
        # the file `go` exists.
        points, go, held = (self.folder / name for name in ("results/tiny/points", "go", "held-bench"))
        held.write_text(
            "#!/bin/sh\n"
            f'while [ "$1" = bench ] && [ ! -e "{go}" ] && [ "$(ls "{points}" | grep -c json)" -ge 2 ]; do sleep 0.1; done\n'
            f'exec "{BINARY}" "$@"\n'
        )
        held.chmod(0o755)
        started = subprocess.Popen(
            [*self.command, "run", "tiny.yaml", "--jobs", "1"],
            cwd=self.folder,
            env={**os.environ, "LOCH_BIN": str(held)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + 200
        while len(self.points()) < 2 and started.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(started.pid, signal.SIGINT)
        output, _ = started.communicate(timeout=60)
        kept = self.points()
        self.assertEqual(len(kept), 2, output)
        go.touch()
        self.assertEqual(started.returncode, 130, output)
        for name in kept:
            json.loads((self.folder / "results/tiny/points" / name).read_text())
        done = self.call([*self.command, "run", "tiny.yaml"], 300, LOCH_BIN=str(held))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        after = self.points()
        self.assertEqual(len(after), 6)
        self.assertEqual({name: after[name] for name in kept}, kept, "finished points are not run again")

    def test_bad_experiments_are_refused_and_nothing_is_written(self) -> None:
        for name, old, new, where in (
            ("key", "measure:", "meassure:", ":10: meassure"),
            ("type", "[256, 1K, 4K]", "[256, big]", ":9: axes.value_size"),
            ("protocol", "protocol: nessie", "protocol: nesie", ":7: systems.CD.protocol"),
            ("hardware", "connectx3-10gbe", "connectx3-10gb", ":4: hardware: no profile"),
            (
                "option",
                "clients: 2",
                "clients: 2, nessie.filter-bits: 99",
                ':7: systems.CD.nessie.filter-bits: "99" is not a whole number from 0 to 15',
            ),
            (
                "axis",
                "[256, 1K, 4K]",
                "[256, 1K, 3G]",
                ":9: axes.value_size: expected bytes such as 512 or 16K, at most 1G, found '3G'",
            ),
            ("option of an axis", "axes: {", "axes: {nessie.expiry: [1s, 5], ", ":9: axes.nessie.expiry"),
            (
                "combination",
                "clients: 2",
                "clients: 2, nessie.filter-bits: 12",
                ":7: systems.CD.nessie.filter-bits: 12 do not fit",
            ),
            ("mutant", "clients: 2", "clients: 2, mutant: no-reverse-pas", "no-reverse-pass"),
            ("claim", "CD.latency_us.get.mean <", "CD.latency_us.get.mean <>", ":13: "),
            (
                "system of a claim",
                "CD.latency_us.get.mean <",
                "CDD.latency_us.get.mean <",
                ":13: claims: CDD is no system of this experiment, which has CD; did you mean CD?",
            ),
        ):
            with self.subTest(name):
                self.write("bad.yaml", EXPERIMENT.replace(old, new, 1))
                self.assert_refused(self.run_it("bad.yaml"), "bad.yaml:", where)
                self.assertFalse((self.folder / "results").exists())

    def test_a_dry_run_writes_nothing(self) -> None:
        self.write("tiny.yaml", EXPERIMENT)
        done = self.run_it("tiny.yaml", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6", done.stdout)
        self.assertFalse((self.folder / "results").exists())

    def test_experiments_of_the_tree_pass_their_own_checks(self) -> None:
        files = sorted(Path(ROOT / "experiments").glob("*.yaml")) + sorted(
            Path(ROOT / "experiments").glob("[pt]*/*.yaml")  # paper, text
        )
        self.assertTrue(files)
        for file in files:
            with self.subTest(file.name):
                done = self.run_it(str(file), "--dry-run")
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
