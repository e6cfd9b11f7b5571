"""Tests of `loch run --on slurm` with a Slurm of one node: equal tables, interruption, tasks and daemons that die, bad
input."""

import os
import shutil
import signal
import time
import unittest
from collections import deque
from pathlib import Path

import slurm_node
from engine_cases import FEW, EngineCases
from support import Folder

from loch.runner import slurm
from loch.runner.errors import BadInput
from loch.runner.slurm import Slurm

WHY_NOT = slurm_node.missing()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class OneNode(EngineCases, unittest.TestCase):
    flags = ("--on", "slurm", "--slurm-tasks", "2", "--slurm-points", "5")
    told_again = (
        r"warning: slurm: Slurm's task \d+_\d+ ended before its points: \w+.*; \d+ of its points (is|are) tried again"
    )
    told_lost = r"Slurm's task \d+_\d+ ended before its points: \w+.* \(tried 3 times\)"

    @classmethod
    def setUpClass(cls):
        cls.node = slurm_node.SlurmNode()
        cls.enterClassContext(cls.node)
        cls.cluster_environment = cls.node.environment
        super().setUpClass()

    def assert_nothing_queued(self):
        self.wait_for(lambda: not self.node.said("squeue", "-h", "-r").strip(), "jobs are left", 30)

    def tearDown(self):
        self.node.said("scancel", "--me")
        self.wait_for(lambda: not self.node.said("squeue", "-h", "-r").strip(), "jobs are left", 60)

    def test_a_node_that_is_lost_comes_back_and_options_are_passed_on(self):
        # By default Slurm requeues the tasks of a lost node, but starts them two minutes later.
        self.flags = (*self.flags, "--slurm-options", "--comment='of this run' --time=5 --no-requeue")
        runner = self.start_on(FAKE_SLEEP="0.3")
        told = self.node.said("scontrol", "-o", "show", "job")
        self.assertIn("Comment=of this run", told)
        self.assertIn("ArrayTaskThrottle=2", told)
        slurmd = self.node.processes["slurmd"]
        try:
            slurmd.kill()
            slurmd.wait()
            self.assertGreater(self.kill_steps(), 0)
            self.node.said("scontrol", "update", "NodeName=only", "State=DOWN", "Reason=test")
        finally:
            self.node.start_node()
            time.sleep(1)
            self.node.said("scontrol", "update", "NodeName=only", "State=RESUME")
        said = runner.communicate(timeout=200)[1]
        self.assertEqual(runner.returncode, 0, said)
        self.assertIn("NODE_FAIL", said)
        self.assert_same()
        self.assert_clean()

    def kill_steps(self):
        """Kills the slurmstepd processes of this test's tasks, and so the tasks, as a power failure would; returns how
        many."""
        killed = 0
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
                if b"task.py" in line and str(self.folder).encode() in line:
                    status = (path.parent / "status").read_text(encoding="utf-8")
                    os.kill(int(status.split("PPid:")[1].split()[0]), signal.SIGKILL)
                    killed += 1
            except (OSError, ProcessLookupError):
                continue
        return killed

    def test_what_sbatch_refuses_is_refused_before_anything_runs(self):
        for options, told in (
            ("--partition=none", "invalid partition specified: none"),
            ("script", "expected options of sbatch"),
            ("script --partition=main", "expected options of sbatch"),
            ("--wait", "expected options of sbatch"),
            ("-p main script", "script"),
            ("'", "No closing quotation"),
            ("--no-such-option", "sbatch refuses such jobs: unrecognized option"),
        ):
            done = self.run_on(FEW, ("--slurm-options", options))
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(told, done.stderr)
            self.assertFalse((self.folder / "there").exists())

    def test_a_controller_that_is_away_is_told(self):
        conf = self.folder / "slurm.conf"
        text = (self.node.folder / "slurm.conf").read_text(encoding="utf-8")
        conf.write_text(
            "".join(line for line in text.splitlines(True) if not line.startswith("SlurmctldPort"))
            + "SlurmctldPort=1\nMessageTimeout=2\n",
            encoding="utf-8",
        )
        self.cluster_environment = {**self.cluster_environment, "SLURM_CONF": str(conf)}
        done = self.run_on(FEW)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertIn("--on slurm: sbatch refuses such jobs: ", done.stderr)


class BadFlags(Folder):
    def test_without_slurm_one_line_and_nothing_is_written(self):
        self.write(FEW)
        empty = self.folder / "bin"
        empty.mkdir()
        for tool in ("env", "python3"):
            (empty / tool).symlink_to(shutil.which(tool))
        done = self.loch("run", "x.yaml", "--on", "slurm", PATH=str(empty))
        self.assertEqual(
            (done.returncode, done.stderr.splitlines()),
            (2, ["--on slurm: there is no sbatch here; run this where jobs of your Slurm cluster are submitted"]),
        )
        self.assertFalse((self.folder / "results").exists())

    def test_flags_are_named(self):
        self.write(FEW)
        for flags, told in (
            (("--on", "slrum"), "--on slrum: expected local, slurm or dask; did you mean slurm?"),
            (("--slurm-points", "2"), "--slurm-points goes with --on slurm"),
            (("--on", "dask", "--slurm-tasks", "2"), "--slurm-tasks goes with --on slurm"),
            (("--on", "slurm", "--slurm-tasks", "0"), "--slurm-tasks 0: expected at least 1"),
            (("--on", "slurm", "--dask-scheduler", "a:1"), "--dask-scheduler goes with --on dask"),
        ):
            done = self.loch("run", "x.yaml", *flags)
            self.assertEqual((done.returncode, done.stderr.splitlines()), (2, [told]))


class Arrays(Folder):
    """Tests how points become job arrays, with a fake sbatch that only records its arguments."""

    def engine(self, points, at_once, array_max=1001):
        asked = self.folder / "asked"
        sbatch = self.folder / "sbatch"
        sbatch.write_text(f'#!/bin/sh\necho "$@" >>{asked}\nwc -l <{asked}\n', encoding="utf-8")
        sbatch.chmod(0o755)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{self.folder}:{before}"
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        engine = Slurm("", points, at_once)
        engine._array_max = array_max
        engine.open(self.folder)
        self.asked = asked
        return engine

    def submit(self, engine, waiting):
        engine._submit(waiting)
        return self.asked.read_text(encoding="utf-8").count("--array=")

    def test_tasks_at_once_are_bounded_over_all_arrays(self):
        engine = self.engine(points=10, at_once=4)
        waiting = deque(range(45))
        self.assertEqual(self.submit(engine, waiting), 1)
        self.assertIn("--array=0-4%4", self.asked.read_text(encoding="utf-8"))
        self.assertFalse(waiting)
        waiting.extend(range(45, 55))
        # four of the array's five tasks may run at a time, which is the limit, so nothing more is submitted
        self.assertEqual(self.submit(engine, waiting), 1)
        self.assertEqual(len(waiting), 10)
        (array,) = engine._arrays.values()
        array.tasks = {4: array.tasks[4]}
        self.assertEqual(self.submit(engine, waiting), 2)
        self.assertIn("--array=0-0%3", self.asked.read_text(encoding="utf-8"))

    def test_an_array_is_no_longer_than_the_cluster_allows(self):
        engine = self.engine(points=1, at_once=100, array_max=7)
        waiting = deque(range(10))
        self.submit(engine, waiting)
        self.assertEqual(list(waiting), [7, 8, 9])

    def test_by_default_each_simultaneous_task_gets_four_turns(self):
        engine = self.engine(points=None, at_once=10)
        self.submit(engine, deque(range(200)))
        self.assertIn("--array=0-39%10", self.asked.read_text(encoding="utf-8"))

    def test_states_are_read(self):
        states = slurm._states(
            "7|0|FAILED|18944|NonZeroExitCode|\n7|1|OUT_OF_MEMORY|9|OutOfMemory|\n7|2|PENDING|0|Resources|\n"
            "7|3|PENDING|0|launch failed requeued held|\n7|N/A|PENDING|0|None|\n7|4|TIMEOUT|3:0|None|\nnonsense\n"
        )
        self.assertEqual([states["7", i].is_alive for i in range(5)], [False, False, True, False, False])
        self.assertEqual(
            [states["7", i].text() for i in (0, 1, 4)],
            [
                "its node does not see the result folder or this project; both must be where all nodes have them",
                "OUT_OF_MEMORY (OutOfMemory, exit status -9)",
                "TIMEOUT (exit status 3)",
            ],
        )

    def test_options_that_are_no_words_are_refused(self):
        for options in ("'", "--comment=\0"):
            with self.assertRaisesRegex(BadInput, "--slurm-options"):
                Slurm(options, None, 1)
