"""Tests of runs with a fake loch-bench: resuming, killing, failing, stale results, and outputs that are equal byte for
byte."""

import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

from support import FAKE, ROOT, SMALL, Folder

OUTPUTS = ("table.csv", "report.md", "manifest.json", "figure.pdf", "figure.png", "figure.svg")


class Run(Folder):
    def setUp(self):
        super().setUp()
        self.path = self.write(SMALL)
        self.count = self.folder / "count"
        self.out = self.folder / "results" / "small"

    def run_it(self, *argv, status=0, **environment):
        done = self.loch("run", self.path, *argv, FAKE_COUNT=str(self.count), **environment)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done

    def ran(self):
        """The number of points that have been run in all."""
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def outputs(self):
        return {name: (self.out / name).read_bytes() for name in OUTPUTS}

    def rows(self):
        with open(self.out / "table.csv", encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    def test_everything_is_written_and_a_rerun_does_nothing(self):
        done = self.run_it()
        self.assertIn("published", done.stdout)
        self.assertIn("[6/6]", done.stderr)
        self.assertEqual(self.ran(), 6)
        first = self.outputs()
        drawn = (self.out / "figure.png").stat().st_mtime_ns
        self.run_it()
        self.assertEqual(self.ran(), 6)
        self.assertEqual(self.outputs(), first)
        self.assertEqual((self.out / "figure.png").stat().st_mtime_ns, drawn)
        (self.out / "figure.pdf").unlink()
        self.run_it()
        self.assertEqual(self.outputs(), first)

    def test_the_table_is_tidy(self):
        self.run_it()
        rows = self.rows()
        self.assertEqual(list(rows[0])[:6], ["system", "value_size", "repeat", "seed", "status", "point"])
        self.assertEqual(
            [(r["system"], r["value_size"], r["repeat"]) for r in rows[:3]],
            [("CD", "2048", "1"), ("CD", "2048", "2"), ("CD", "4096", "1")],
        )
        self.assertGreater(float(rows[0]["latency_us.get.p99_9"]), 0)
        self.assertNotIn("sim.wall_s", rows[0])

    def test_tables_and_figures_of_a_fresh_run_are_the_same_bytes(self):
        self.run_it()
        first = self.outputs()
        self.run_it("--fresh", "--jobs", "1")
        self.assertEqual(self.ran(), 12)
        second = self.outputs()
        for name in ("table.csv", "figure.pdf", "figure.png", "figure.svg"):
            self.assertEqual(second[name], first[name], name)

    def test_kill_9_keeps_what_is_finished_and_the_next_run_goes_on(self):
        self.run_it("--out", str(self.folder / "whole"))
        whole = {name: (self.folder / "whole" / name).read_bytes() for name in ("table.csv", "figure.svg")}
        self.count.unlink()
        runner = subprocess.Popen(
            [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", str(self.path), "--jobs", "1"],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environment(FAKE_COUNT=str(self.count), FAKE_HANG="value-size=8192,seed=2"),
        )
        points = self.out / "points"
        deadline = time.monotonic() + 60
        while not any(map(self.hangs, self.fakes())) and time.monotonic() < deadline:
            time.sleep(0.02)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        finished = len(list(points.glob("*.json")))
        self.assertGreaterEqual(finished, 2)
        self.assertLess(finished, 6)
        for path in points.glob("*.json"):
            json.loads(path.read_text())
        self.assert_no_fake_runs()
        before = self.ran()
        self.run_it()
        self.assertEqual(self.ran() - before, 6 - finished)
        for name, data in whole.items():
            self.assertEqual((self.out / name).read_bytes(), data, name)
        self.assertEqual(list(points.glob(".*.tmp")), [])

    def assert_no_fake_runs(self):
        """Asserts that the children of a killed runner have died with it."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if not self.fakes():
                return
            time.sleep(0.05)
        self.fail(f"still running: {self.fakes()}")

    def fakes(self):
        """The command lines of the fake programs that run in the test's folder."""
        return [line for pid in os.listdir("/proc") if pid.isdigit() and (line := self.line_of(pid))]

    def line_of(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as stream:
                line = stream.read().split("\0")
            where = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            return []
        return line if str(FAKE) in line and where == os.path.realpath(self.folder) else []

    @staticmethod
    def hangs(line):
        """Whether the fake program of this command line hangs by the tests' FAKE_HANG."""
        given = dict(zip(line, line[1:]))
        return (given.get("--value-size"), given.get("--seed")) == ("8192", "2")

    def test_interrupting_ends_with_130_and_says_how_to_go_on(self):
        runner = subprocess.Popen(
            [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", str(self.path)],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(FAKE_COUNT=str(self.count), FAKE_HANG="value-size=4096"),
        )
        deadline = time.monotonic() + 60
        while self.ran() < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        runner.send_signal(signal.SIGINT)
        _, errors = runner.communicate(timeout=30)
        self.assertEqual(runner.returncode, 130, errors)
        self.assertIn("the same command goes on", errors)
        self.assert_no_fake_runs()

    def test_failures_are_recorded_listed_and_drawn_as_gaps(self):
        done = self.run_it(status=1, FAKE_FAIL="value-size=4096")
        self.assertIn("enlarge the table", done.stderr)
        self.assertIn("./loch bench --protocol nessie", done.stderr)
        failures = list((self.out / "points").glob("*.failed.json"))
        self.assertEqual(len(failures), 2)
        failure = json.loads(failures[0].read_text())["failure"]
        self.assertEqual((failure["reason"], failure["exit_status"]), ("exit status 1", 1))
        self.assertIn("the store is full", failure["stderr_tail"])
        self.assertEqual([row["status"] for row in self.rows()], ["ok", "ok", "failed", "failed", "ok", "ok"])
        self.assertIn('id="failed"', (self.out / "figure.svg").read_text())
        self.assertIn("## Failed points: 2 of 6", (self.out / "report.md").read_text())
        self.run_it()  # a second run tries the failed points again
        self.assertEqual(self.ran(), 8)
        self.assertEqual(list((self.out / "points").glob("*.failed.json")), [])
        self.assertNotIn('id="failed"', (self.out / "figure.svg").read_text())

    def test_a_point_that_hangs_is_timed_out(self):
        self.run_it("--set", "measure.timeout=1s", status=1, FAKE_HANG="value-size=4096,seed=1")
        failure = json.loads(next((self.out / "points").glob("*.failed.json")).read_text())["failure"]
        self.assertIn("timed out after 1 s", failure["reason"])
        self.assert_no_fake_runs()

    def test_results_that_are_none_are_failures(self):
        liar = self.folder / "liar"
        for body, reason in (
            ('echo \'{"schema": 2}\' > "$json"', "expected 1, found 2"),
            ("echo '{' > \"$json\"", "no readable"),
            ("true", "no readable"),
            ("kill -9 $$", "SIGKILL"),
        ):
            liar.write_text(
                '#!/bin/bash\nfor json; do :; done\n[ "$1" = list ] && exit 1\n'
                f'[ "$1" = describe ] && exec {FAKE} describe\n{body}\n'
            )
            liar.chmod(0o755)
            self.run_it("--fresh", "--set", "value_size=2K", "--set", "repeats=1", status=1, LOCH_BIN=str(liar))
            failure = json.loads(next((self.out / "points").glob("*.failed.json")).read_text())["failure"]
            self.assertIn(reason, failure["reason"])

    def test_operations_that_give_up_are_said(self):
        self.assertNotIn("gave up", self.run_it(FAKE_ERRORS="0.005").stderr)
        done = self.run_it("--fresh", FAKE_ERRORS="0.2")
        self.assertIn("over 1% of the operations gave up in 6 points (most: 20%", done.stderr)
        self.assertIn("gave up in 6 points", (self.out / "report.md").read_text())

    def test_rates_that_are_not_the_designs_own_are_said_first(self):
        clean = self.run_it()
        self.assertNotIn("own in a steady state", clean.stderr + (self.out / "report.md").read_text())
        done = self.run_it("--fresh", FAKE_CAVEAT="value-size=4096")
        report, figure = (self.out / "report.md").read_text(), (self.out / "figure.svg").read_text()
        self.assertIn("2 of 6 points", report.split("##")[0])
        self.assertIn(r"not steady: \<half>", report)
        self.assertIn("2 of 6 points", done.stderr)
        self.assertIn("2 of 6 runs waited for room or were not steady", " ".join(figure.split()))

    def test_a_transport_that_is_not_the_published_one_is_part_of_the_label(self):
        self.run_it()
        self.assertNotIn("over RC", (self.out / "report.md").read_text() + (self.out / "figure.svg").read_text())
        self.run_it("--fresh", FAKE_DEPARTURE="value-size=4096")
        for name in ("report.md", "figure.svg"):
            self.assertIn("over RC", (self.out / name).read_text())

    def test_another_binary_makes_points_stale(self):
        self.run_it()
        other = self.folder / "bench"
        other.write_text(FAKE.read_text() + "# another build\n")
        other.chmod(0o755)
        kept = self.run_it("--keep-stale", LOCH_BIN=str(other))
        self.assertIn("another binary", kept.stderr)
        self.assertEqual(self.ran(), 6)
        self.assertIn("6 points come from another binary", (self.out / "report.md").read_text())
        again = self.run_it(LOCH_BIN=str(other))
        self.assertIn("run again", again.stderr)
        self.assertEqual(self.ran(), 12)
        self.assertNotIn("another binary", (self.out / "report.md").read_text())

    def test_tuning_keeps_the_best_and_records_it(self):
        self.path = self.write(SMALL.replace("clients: 12", "tune: {clients: [6, 9, 12]}, maximize: throughput_ops_s"))
        self.run_it()
        self.assertEqual(self.ran(), 9 + 6)
        # the number of clients at which the fake loch-bench is fastest
        self.assertEqual({row["config.clients"] for row in self.rows()}, {"9"})
        tuned = json.loads((self.out / "manifest.json").read_text())["tuned"]
        self.assertEqual([choice["chosen"] for choice in tuned], [{"clients": 9}] * 3)
        self.assertIn("## Tuned", (self.out / "report.md").read_text())

    def test_shares_of_the_own_maximum_become_rates(self):
        self.path = self.write(
            SMALL.replace(
                "axes: {value_size: [2K, 4K, 8K]}", "axes: {value_size: [2K, 4K], share_of_max: [0.2, 0.5, 1]}"
            )
        )
        self.run_it()
        # the closed-loop runs that find the maximum throughput are also the points with share_of_max 1
        self.assertEqual(self.ran(), 2 * 3 * 2)
        rates = {}
        for path in (self.out / "points").glob("*.json"):
            document = json.loads(path.read_text())
            argv = document["runner"]["argv"]
            rate = float(argv[argv.index("--rate") + 1]) if "--rate" in argv else 0
            rates.setdefault(document["config"]["value_size"], {}).setdefault(rate, []).append(
                document["throughput_ops_s"]
            )
        for by_rate in rates.values():
            most = statistics.median(by_rate[0])
            for found, wanted in zip(sorted(by_rate), [0, 0.2 * most, 0.5 * most], strict=True):
                self.assertAlmostEqual(found, wanted, delta=1)
        again = self.loch("plot", self.out)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.run_it("--set", "share_of_max=0.2")
        self.assertEqual(self.ran(), 12)  # no point runs again, because the maximum is stored

    def test_a_share_of_a_maximum_that_failed_fails(self):
        self.path = self.write(SMALL.replace("axes: {value_size: [2K, 4K, 8K]}", "axes: {share_of_max: [0.2, 1]}"))
        done = self.loch("run", self.path, FAKE_FAIL="nodes=15", FAKE_COUNT=str(self.count))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("the store is full"), 4)

    def test_two_runs_do_not_share_a_folder(self):
        slow = subprocess.Popen(
            [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", str(self.path)],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environment(FAKE_COUNT=str(self.count), FAKE_SLEEP="2"),
        )
        try:
            deadline = time.monotonic() + 60
            while self.ran() < 1 and time.monotonic() < deadline:
                time.sleep(0.02)
            done = self.loch("run", self.path)
            self.assertEqual(done.returncode, 2)
            self.assertIn("another run is writing", done.stderr)
        finally:
            slow.kill()
            slow.wait()

    def test_measured_points_run_alone_and_name_the_machine(self):
        self.path = self.write(SMALL.replace("paper: {source: nessie-2017, item: Table 1}\n", ""))
        self.run_it("--fabric", "shm", "--set", "nodes=2")
        point = json.loads(next((self.out / "points").glob("*.json")).read_text())
        self.assertNotIn("--hardware", point["runner"]["argv"])
        self.assertGreaterEqual(point["runner"]["others_cpu_share"], 0)
        self.assertIn("measured (shm on ", (self.out / "report.md").read_text())

    def test_a_hostfile_brings_mpirun_and_a_hanging_rank_is_ended(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        hosts = self.write("localhost slots=4\n", "hosts")
        self.run_it(
            "--fabric",
            "shm",
            "--set",
            "nodes=2",
            "--set",
            "value_size=2K",
            "--set",
            "repeats=2",
            "--hostfile",
            hosts,
            "--set",
            "measure.timeout=12s",
            status=1,
            FAKE_HANG="seed=2",
        )
        kept = [json.loads(path.read_text()) for path in sorted((self.out / "points").glob("*.json"))]
        argv = next(each["runner"]["argv"] for each in kept if "failure" not in each)
        self.assertEqual((argv[0], argv[argv.index("-n") + 1]), ("mpirun", "2"))
        self.assertIn("timed out", next(each["failure"]["reason"] for each in kept if "failure" in each))
        self.assertEqual(self.ran(), 4)  # each of the two points has two ranks
        self.assert_no_fake_runs()

    def test_several_files_get_a_folder_each(self):
        self.write(SMALL.replace("name: small", "name: other"), "y.yaml")
        done = self.loch("run", self.folder, "--out", "all", "--set", "repeats=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "all" / "small" / "table.csv").is_file())
        self.assertTrue((self.folder / "all" / "other" / "figure.pdf").is_file())


if __name__ == "__main__":
    unittest.main()
