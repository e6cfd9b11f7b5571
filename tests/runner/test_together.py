"""Tests of points that one process of loch-bench runs together: each stores the same result as in a process of its own,
also if another point fails, hangs, or ends the process."""

import json
import signal
import subprocess
import sys
import time

from support import ROOT, SMALL, Folder

SHARES = SMALL.replace("get: 0.5, ", "").replace("{value_size: [2K, 4K, 8K]}", "{get: [0, 0.2, 0.5, 0.8, 0.95, 1]}")
SHARES = SHARES.replace("figure: {kind: line,", "figure: {kind: line, x: get,")


class Together(Folder):
    def setUp(self):
        super().setUp()
        (self.folder / "small.yaml").write_text(SHARES, encoding="utf-8")
        self.count = self.folder / "count"

    def run_it(self, out, **environment):
        return self.loch("run", "small.yaml", "--jobs", "1", "--out", out, FAKE_COUNT=str(self.count), **environment)

    def stored(self, out):
        """What is stored of each point, without run times and without facts on the process and the machine."""
        found = {}
        for path in (self.folder / out / "points").glob("*.json"):
            document = json.loads(path.read_text())
            for part, key in (("provenance", None), ("sim", "wall_s"), ("runner", "elapsed_s")):
                if key is None:
                    document.pop(part, None)
                elif part in document:
                    del document[part][key]
            found[path.name] = document
        return found

    def files(self, pattern):
        return list(self.folder.glob(pattern))

    def processes(self):
        """By number of the process that ran points: the lines that its points wrote."""
        by = {}
        for line in self.count.read_text().splitlines():
            process, _, rest = line.partition(" ")
            by.setdefault(process, []).append(rest)
        return by

    def test_what_is_stored_is_what_each_stores_by_itself(self):
        self.assertEqual(self.run_it("alone").returncode, 0)
        alone = self.stored("alone")
        self.assertEqual(len(alone), 12)
        self.count.unlink()
        self.assertEqual(self.run_it("together", FAKE_TOGETHER="yes").returncode, 0)
        self.assertEqual(self.stored("together"), alone)
        by = self.processes()
        self.assertEqual(sum(map(len, by.values())), 12)
        by.pop("alone", None)
        self.assertGreaterEqual(max(map(len, by.values()), default=0), 3, by)
        for lines in by.values():  # repeats have other seeds, so they never share a process
            self.assertEqual(len({line.partition("--seed ")[2].split()[0] for line in lines}), 1, lines)
        self.assertEqual(self.files("together/points/.*.tmp"), [])

    def test_points_in_real_time_share_a_process_and_run_one_after_the_other(self):
        measured = SHARES.replace("fabric: sim", "fabric: shm").replace("hardware: connectx3-10gbe\n", "")
        (self.folder / "small.yaml").write_text(measured, encoding="utf-8")
        self.assertEqual(self.run_it("together", FAKE_TOGETHER="yes", FAKE_SLEEP="0.05").returncode, 0)
        stored = self.stored("together")
        self.assertEqual(len(stored), 12)
        by = self.processes()
        self.assertEqual(sorted(map(len, by.values())), [6, 6], by)  # the repeats have other seeds
        for each in stored.values():
            self.assertIsInstance(each["runner"]["others_cpu_share"], float)

    def on(self, fabric, cluster="{nodes: 2}", more=""):
        """Writes the experiment for a fabric of real time."""
        measured = SHARES.replace("fabric: sim", f"fabric: {fabric}").replace("hardware: connectx3-10gbe\n", "")
        measured = measured.replace("{nodes: 15}", cluster).replace(
            "distribution: uniform", f"distribution: uniform{more}"
        )
        (self.folder / "small.yaml").write_text(measured, encoding="utf-8")

    def test_points_on_verbs_and_ofi_follow_each_other_in_a_process(self):
        for fabric in ("verbs", "ofi"):
            with self.subTest(fabric):
                self.on(fabric)
                done = self.run_it(fabric, FAKE_TOGETHER="yes")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(self.stored(fabric)), 12)
                self.assertEqual(sorted(map(len, self.processes().values())), [6, 6])
                self.count.unlink()

    def test_points_that_change_the_set_of_keys_share_no_store(self):
        for share in ("delete", "insert_if_absent"):
            with self.subTest(share):
                self.on("verbs", more=f", {share}: 0.0001")
                (self.folder / "small.yaml").write_text(
                    (self.folder / "small.yaml").read_text().replace("0.95, 1]", "0.95]"), encoding="utf-8"
                )
                done = self.run_it(share, FAKE_TOGETHER="yes")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual((len(self.stored(share)), set(self.processes())), (10, {"alone"}))
                self.count.unlink()

    def test_launched_processes_run_several_points(self):
        self.on("ofi", "{nodes: 2, processes: true}")
        self.assertEqual(self.run_it("alone").returncode, 0)
        self.count.unlink()
        done = self.run_it("out", FAKE_TOGETHER="yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(map(len, self.processes().values())), [6, 6])
        stored = self.stored("out")
        for each in (*stored.values(), *self.stored("alone").values()):
            self.assertEqual(each["runner"]["argv"][0], "mpirun")
            del each["runner"]["others_cpu_share"]
        alone = self.stored("alone")
        for each in alone.values():
            del each["runner"]["others_cpu_share"]
        self.assertEqual(stored, alone)

    def test_points_left_by_a_launch_that_ended_after_a_failure_share_another_one(self):
        self.on("ofi", "{nodes: 2, processes: true}")
        done = self.run_it("out", FAKE_TOGETHER="yes", FAKE_ENDS="yes", FAKE_FAIL="get=0.2")
        self.assertEqual(done.returncode, 1)
        failed = [each["failure"] for each in self.stored("out").values() if "failure" in each]
        self.assertEqual([each["reason"] for each in failed], ["exit status 1", "exit status 1"])
        by = self.processes()
        self.assertEqual(sum(map(len, by.values())), 12)
        self.assertLessEqual(len(by.pop("alone", [])), 2, "a point that is the only one left")
        for lines in by.values():
            self.assertFalse(any("--get 0.2 " in line for line in lines[:-1]), lines)

    def test_points_over_several_processes_on_shm_share_none(self):
        measured = SHARES.replace("fabric: sim", "fabric: shm").replace("hardware: connectx3-10gbe\n", "")
        measured = measured.replace("cluster: {nodes: 15}", "cluster: {nodes: 2, processes: true}")
        (self.folder / "small.yaml").write_text(measured, encoding="utf-8")
        self.run_it("apart", FAKE_TOGETHER="yes")
        self.assertLessEqual(set(self.processes()), {"alone"})

    def test_one_that_fails_is_the_only_one(self):
        done = self.run_it("out", FAKE_TOGETHER="yes", FAKE_FAIL="get=0.2")
        self.assertEqual(done.returncode, 1)
        stored = self.stored("out")
        failed = [each for each in stored.values() if "failure" in each]
        self.assertEqual((len(stored), len(failed)), (12, 2))
        for each in failed:
            self.assertEqual(each["failure"]["reason"], "exit status 1")
            self.assertIn("the store is full", each["failure"]["stderr_tail"])

    def test_one_that_hangs_times_out_and_the_others_run(self):
        (self.folder / "small.yaml").write_text(
            SHARES.replace("repeats: 2", "repeats: 2, timeout: 2s"), encoding="utf-8"
        )
        self.assertEqual(self.run_it("out", FAKE_TOGETHER="yes", FAKE_HANG="get=0.8,seed=1").returncode, 1)
        stored = self.stored("out")
        failed = [each["failure"]["reason"] for each in stored.values() if "failure" in each]
        self.assertEqual((len(stored), failed), (12, ["timed out after 2 s"]))

    def test_points_of_a_process_that_dies_run_by_themselves(self):
        self.assertEqual(self.run_it("alone").returncode, 0)
        done = self.run_it("out", FAKE_TOGETHER="yes", FAKE_DIE="seed=1,get=0.5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.stored("out"), self.stored("alone"))

    def test_an_interrupted_run_keeps_what_has_ended_and_goes_on(self):
        self.assertEqual(self.run_it("alone").returncode, 0)
        self.count.unlink()
        command = [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", "small.yaml", "--jobs", "1"]
        runner = subprocess.Popen(
            [*command, "--out", "out"],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(FAKE_COUNT=str(self.count), FAKE_TOGETHER="yes", FAKE_HANG="get=0.8,seed=2"),
        )
        deadline = time.monotonic() + 60
        while len(self.stored("out")) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        runner.send_signal(signal.SIGINT)
        _, errors = runner.communicate(timeout=30)
        self.assertEqual(runner.returncode, 130, errors)
        kept = self.stored("out")
        self.assertTrue(2 <= len(kept) < 12, kept)
        self.count.unlink()
        self.assertEqual(self.run_it("out", FAKE_TOGETHER="yes").returncode, 0)
        self.assertEqual(sum(map(len, self.processes().values())), 12 - len(kept))
        self.assertEqual(self.files("out/points/.*.tmp"), [])  # the interrupted run may have left some
        self.assertEqual(self.stored("out"), self.stored("alone"))
