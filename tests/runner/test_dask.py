"""Tests of `loch run --on dask`: a cluster that the run starts, an existing cluster, workers that die, bad input."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine_cases import FEW, POINTS, EngineCases, ran_elsewhere
from support import Folder

from loch.runner.dask_engine import Dask
from loch.runner.errors import BadInput

WHY_NOT = "" if importlib.util.find_spec("distributed") else "no python3-distributed here"


class DaskCases(EngineCases):
    told_again = "tried again"
    told_lost = r"Dask's task ended before its point: its process ended with status -9 \(tried 3 times\)"

    def assert_nothing_queued(self):
        """Nothing to check for Dask: a leftover client or cluster would be found among the processes."""


@unittest.skipIf(WHY_NOT, WHY_NOT)
class OwnCluster(DaskCases, unittest.TestCase):
    """A cluster of two processes on this machine, which `--jobs 2` starts."""

    flags = ("--on", "dask", "--jobs", "2")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class GivenCluster(DaskCases, unittest.TestCase):
    """An existing cluster: a scheduler and two workers that the test starts before the run."""

    # left out, because test_a_worker_killed_in_the_middle compares the tables as well
    test_the_tables_are_those_of_this_machine = None
    test_points_that_fail_die_and_hang = None

    def setUp(self):
        super().setUp()
        self.scratch = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.scheduler = self.start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.address = self.said_by("scheduler", r"Scheduler at:\s+(tcp://[0-9.:]+)")
        self.workers = [
            self.start(
                "distributed.cli.dask_worker",
                self.address,
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--local-directory",
                str(self.scratch),
                "--memory-limit",
                "0",
            )
            for _ in range(2)
        ]
        self.said_by("worker", r"(Registered to:[^$]*Registered to:)")
        self.flags = ("--on", "dask", "--dask-scheduler", self.address)

    def start(self, module, *argv):
        with open(self.scratch / f"{module.rpartition('_')[2]}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *argv],
                cwd=self.scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def end():
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def said_by(self, name, pattern):
        """Waits until the log of process `name` matches the pattern; returns the pattern's group."""
        log = self.scratch / f"{name}.log"
        self.wait_for(
            lambda: log.exists() and re.search(pattern, log.read_text(encoding="utf-8")), f"{name} is not ready"
        )
        return re.search(pattern, log.read_text(encoding="utf-8"))[1]

    def test_a_worker_killed_in_the_middle(self):
        runner = self.start_on(FAKE_SLEEP="0.3")
        self.workers[0].kill()
        said = runner.communicate(timeout=120)[1]
        self.assertEqual(runner.returncode, 0, said)
        self.assert_same()
        self.assert_clean()

    def test_a_scheduler_that_dies_ends_the_run_and_keeps_what_has_ended(self):
        runner = self.start_on(FAKE_SLEEP="0.3")
        self.scheduler.kill()
        said = runner.communicate(timeout=120)[1]
        self.assertEqual(runner.returncode, 1, said)
        self.assertIn("finished points are kept", said)
        self.assertGreaterEqual(len(self.stored()), POINTS // 10)
        self.assert_clean()

    def test_the_environment_may_name_the_scheduler(self):
        self.flags, self.cluster_environment = ("--on", "dask"), {"DASK_SCHEDULER_ADDRESS": self.address}
        self.assertEqual(self.run_on(FEW).returncode, 0)
        self.assertTrue(all(ran_elsewhere(path) for path in self.stored()))

    def test_workers_that_do_not_see_the_project_are_refused(self):
        engine = Dask(self.address, "--dask-scheduler", 1)
        self.addCleanup(engine.stop)
        with self.assertRaisesRegex(
            BadInput, r"--on dask: tcp://.* cannot read /nowhere/bench or .*; all workers must have"
        ):
            engine.check("/nowhere/bench")


class BadFlags(Folder):
    @unittest.skipIf(WHY_NOT, WHY_NOT)
    def test_a_scheduler_that_does_not_answer_is_one_line(self):
        self.write(FEW)
        done = self.loch("run", "x.yaml", "--on", "dask", "--dask-scheduler", "tcp://127.0.0.1:9")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertIn("--dask-scheduler tcp://127.0.0.1:9: no scheduler of Dask answers: ", done.stderr)
        self.assertFalse((self.folder / "results").exists())

    def test_a_text_that_is_no_address_is_refused(self):
        for address in ("here", "tcp://a b:1", "-x:1", "tcp://a:1; touch x", ""):
            with self.assertRaisesRegex(BadInput, "expected the address of a scheduler"):
                Dask(address, "--dask-scheduler", 1)

    def test_without_the_package_one_line_names_it(self):
        with mock.patch.object(importlib.util, "find_spec", return_value=None):
            with self.assertRaisesRegex(
                BadInput, r"--on dask needs the package python3-distributed \(as root: apt-get install"
            ):
                Dask(None, "", 1).check("/bin/true")
