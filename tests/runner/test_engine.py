"""Tests the part that the engines for Slurm and Dask share (files of points, lost tasks, lease) with a fake scheduler
that only records its calls."""

import json
import os
import subprocess
import sys
import time
import unittest
from unittest import mock

from support import FAKE, Folder

from loch.runner import engine, task


class Noting(engine.Engine):
    """An engine that records the tasks that it is given."""

    name = "noting"

    def __init__(self):
        super().__init__()
        self.given = []

    def _submit(self, waiting):
        while waiting:
            self.given.append(waiting.popleft())

    def _watch(self):
        pass

    def _cancel(self):
        pass


class Engines(Folder):
    def setUp(self):
        super().setUp()
        self.engine = Noting()
        self.engine.open(self.folder)
        self.addCleanup(self.engine.stop)
        self.endings = []

    def add(self, *argv, timeout_s=10.0):
        self.engine.add(
            engine.order([str(FAKE), *argv], timeout_s, {"PATH": os.environ["PATH"]}),
            lambda ending: self.endings.append(ending),
            lambda _: None,
        )

    def look(self):
        self.engine._looked = -1e9
        self.engine.look()

    def run_task(self, *words):
        return subprocess.run(
            [sys.executable, "-B", str(engine.TASK), str(self.engine.folder), *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_only_what_is_named_of_the_environment_is_written_down(self):
        with mock.patch.dict(os.environ, IPMI_PASSWORD="secret"):
            what = engine.order(
                ["x"], 1.0, {"LOCH_HOME": "/l", "IPMI_PASSWORD": "secret", "PATH": "/bin", "AWS_KEY": "secret"}
            )
        self.assertEqual(what["environment"], {"LOCH_HOME": "/l", "PATH": "/bin"})

    def test_a_damaged_record_is_a_lost_point(self):
        for text in (
            "",
            "{",
            "[]",
            '{"elapsed_s": 1}',
            json.dumps({"elapsed_s": "long", "exit_status": 0, "timed_out": False, "cannot_start": "", "host": {}}),
        ):
            self.add("bench")
            self.look()
            (self.engine.folder / f"{self.engine.given[-1]}.ended.json").write_text(text, encoding="utf-8")
            self.look()
            self.assertRegex(self.endings.pop().lost, r"ended\.json (cannot be read|is not as task\.py writes it)")
        self.assertEqual(self.engine.running, 0)

    def test_of_a_task_that_died_only_the_point_that_ran_counts_it(self):
        for _ in range(3):
            self.add("bench")
        self.look()
        for died in range(engine.TRIES_MAX):
            (self.engine.folder / "1.began").touch()
            with mock.patch.object(engine, "VISIBLE_S", -1.0):
                self.engine._task_is_over((1, 2), f"death {died}")
                self.look()
        self.assertEqual([ending.lost for ending in self.endings], ["death 2 (tried 3 times)"])
        self.assertEqual(self.engine.running, 2)
        self.assertEqual(self.engine.given, [0, 1, 2, 1, 2, 1, 2, 2])
        self.assertEqual(self.engine._tasks[2].tries, 0)

    def test_a_task_runs_what_has_not_ended_and_says_how_it_went(self):
        for word in ("bench", "bench", "bench"):
            self.add(word, "--protocol", "nessie", "--fabric", "sim", "--seed", "1")
        self.add("bench", "--fabric")
        self.look()
        (self.engine.folder / "1.ended.json").write_text("{", encoding="utf-8")
        (self.engine.folder / "batch.0.json").write_text("[[9], [0, 1, 2, 3]]", encoding="utf-8")
        done = self.run_task("--of", 0, 1)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse((self.engine.folder / "1.began").exists())
        with mock.patch.object(Noting, "_store", lambda _, number, ending: (None, (number, ending))):
            endings = dict(kept for _, kept in self.engine._collect())
        self.assertEqual(json.loads(endings[0].result.read_text(encoding="utf-8"))["protocol"], "nessie")
        self.assertEqual(
            (endings[0].exit_status, endings[0].timed_out, endings[0].host["name"]), (0, False, os.uname().nodename)
        )
        self.assertEqual(endings[3].exit_status, 1)
        self.assertIn("KeyError", endings[3].output.read_text(encoding="utf-8"))

    def test_a_folder_that_is_not_there_is_told(self):
        done = self.run_task(7)
        self.assertEqual(done.returncode, task.NOT_VISIBLE)
        self.assertIn("7.task.json: No such file or directory on ", done.stderr)

    def test_whatever_is_left_of_it_goes_with_the_next_run(self):
        from loch.runner.points import Store

        left = self.folder / ".engine.1.tmp"
        (left / "deep").mkdir(parents=True)
        store = Store(self.folder, str(FAKE))
        store.open()
        store.close()
        self.assertFalse(left.exists())


class Leases(Folder):
    def test_held_while_it_is_renewed_and_for_three_minutes_more(self):
        path = self.folder / "lease"
        path.write_text("0\n", encoding="utf-8")
        now = time.monotonic()
        with mock.patch.object(time, "monotonic", lambda: now):
            lease = task.Lease(path)
            for passed, text, is_held in (
                (170, "0\n", True),
                (340, "1\n", True),
                (510, "1\n", True),
                (530, "1\n", False),
            ):
                with mock.patch.object(time, "monotonic", lambda: now + passed):
                    path.write_text(text, encoding="utf-8")
                    self.assertEqual(lease.is_held(), is_held, passed)

    def test_not_held_without_its_file(self):
        path = self.folder / "lease"
        path.write_text("0\n", encoding="utf-8")
        lease = task.Lease(path)
        path.unlink()
        self.assertTrue(lease.is_held())  # the lease's file is checked once per second
        lease._looked -= 2
        self.assertFalse(lease.is_held())


if __name__ == "__main__":
    unittest.main()
