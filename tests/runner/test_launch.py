"""Tests of the command lines that start several processes, of hostfiles, and of runs that lose a host."""

import json
import os
import stat
import unittest
from types import SimpleNamespace
from unittest import mock

from support import SMALL, Folder

from loch.runner import launch
from loch.runner.errors import BadInput


def point(fabric="verbs", nodes=3):
    return SimpleNamespace(system="CD", params={"fabric": fabric, "nodes": nodes})


class Hostfiles(Folder):
    def read(self, text):
        return launch.read_hosts(str(self.write(text, "hosts")))

    def test_open_mpi_and_plain_lists(self):
        hosts = self.read("# the rack\nn1 slots=2 max_slots=4\n\nuser@n2.example slots = 3 # spare\nn3\nn3\n")
        self.assertEqual([(h.name, h.slots) for h in hosts], [("n1", 2), ("user@n2.example", 3), ("n3", 2)])

    def test_nonsense_is_named_with_its_line(self):
        for text, named in (
            ("a\n-oProxyCommand=x\n", "hosts:2: -oProxyCommand"),
            ("a slots=0\n", "hosts:1: slots=0"),
            ("a slot=2\n", "hosts:1: slot=2"),
            ("a,b\n", "hosts:1: a,b"),
            ("# none\n", "names no host"),
        ):
            with self.assertRaisesRegex(BadInput, named):
                self.read(text)
        with self.assertRaisesRegex(BadInput, "No such file"):
            launch.read_hosts("nowhere")


class CommandLines(Folder):
    def setUp(self):
        super().setUp()
        # as where mpirun is installed
        self.enterContext(mock.patch("shutil.which", return_value="/usr/bin/mpirun"))

    def make(self, text, interface=None, **environment):
        return launch.from_flags(str(self.write(text, "hosts")), interface, environment)

    def test_mpirun_puts_one_rank_on_each_host_and_survives_a_loss(self):
        argv = self.make("a\nb\nc slots=4\nd\n").command(
            point(), ["loch-bench", "bench"], {"LOCH_HOME": "/x", "LOCH_BIN": "/y"}
        )
        self.assertEqual(argv[0], "mpirun")
        self.assertEqual(argv[-2:], ["loch-bench", "bench"])
        text = " ".join(argv)
        for wanted in (
            "--enable-recovery",
            "--host a:1,b:1,c:1 -n 3",
            "--bind-to none",
            f"--wdir {os.getcwd()}",
            "-x LOCH_HOME",
            "--mca routed direct",
            "--mca plm_rsh_no_tree_spawn 1",
            "--mca plm_rsh_agent ssh -o BatchMode=yes",
        ):
            self.assertIn(wanted, text)
        self.assertNotIn("LOCH_BIN", text)
        self.assertNotIn("if_include", text)
        self.assertEqual("--allow-run-as-root" in argv, os.geteuid() == 0)

    def test_second_slots_come_after_every_host_has_a_rank(self):
        argv = self.make("a slots=2\nb slots=9\n").command(point(nodes=4), [], {})
        self.assertEqual(argv[argv.index("--host") + 1], "a:2,b:2")
        argv = self.make("a slots=1\nb slots=9\n").command(point(nodes=4), [], {})
        self.assertEqual(argv[argv.index("--host") + 1], "a:1,b:3")

    def test_the_interface_is_given_to_both_layers_and_loopback_where_all_is_here(self):
        text = " ".join(self.make("a\nb\nc\n", interface="10.1.0.0/16").command(point(), [], {}))
        self.assertIn("--mca oob_tcp_if_include 10.1.0.0/16", text)
        self.assertIn(
            "--mca oob_tcp_if_include lo", " ".join(self.make("localhost slots=3\n").command(point("shm"), [], {}))
        )
        with self.assertRaisesRegex(BadInput, "--interface -x"):
            self.make("a\n", interface="-x")
        with self.assertRaisesRegex(BadInput, "goes with --hostfile"):
            launch.from_flags(None, "eth0", {})

    def test_the_users_own_remote_shell_stays(self):
        argv = self.make("a\n").command(point(nodes=1), [], {"OMPI_MCA_plm_rsh_agent": "rsh"})
        self.assertNotIn("plm_rsh_agent", argv)

    def test_srun_inside_an_allocation(self):
        argv = self.make("a\nb\nc\nd\n", SLURM_JOB_ID="7").command(point(), ["loch-bench"], {})
        self.assertEqual(argv[0], "srun")
        for wanted in (
            "--ntasks=3",
            "--ntasks-per-node=1",
            "--mpi=none",
            "--no-kill",
            "--kill-on-bad-exit=0",
            "--nodelist=a,b,c",
        ):
            self.assertIn(wanted, argv)
        self.assertNotIn("env", argv)
        over = self.make("a\nb\nc\nd\n", interface="eth0", SLURM_JOB_ID="7").command(point(), ["loch-bench"], {})
        self.assertEqual(over[-2:], ["--nodelist=a,b,c", "loch-bench"])
        shm = self.make("a slots=2\nb\n", SLURM_JOB_ID="7").command(point("shm", nodes=2), [], {})
        for wanted in ("--nodes=1", "--ntasks=2", "--ntasks-per-node=2", "--nodelist=a"):
            self.assertIn(wanted, shm)
        allocation = launch.from_flags(None, None, {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3"})
        self.assertEqual(allocation.node_count, 3)
        self.assertFalse(any("nodelist" in word for word in allocation.command(point(), [], {})))
        self.assertTrue(allocation.is_for(point("verbs")))
        self.assertFalse(allocation.is_for(point("shm")))

    def test_nothing_asked_is_one_process(self):
        self.assertIsNone(launch.from_flags(None, None, {}))
        self.assertFalse(self.make("a\n").is_for(point("sim")))

    def test_too_few_hosts_are_refused(self):
        experiment = SimpleNamespace(file="x.yaml")
        self.make("a\nb\nc\n").check(experiment, [point()])
        with self.assertRaisesRegex(BadInput, "system CD needs 3 nodes.*has 2 hosts with 2 slots.*--set nodes=2"):
            self.make("a\nb\n").check(experiment, [point()])
        with self.assertRaisesRegex(BadInput, "1 slot on a, its first host"):
            self.make("a\nb\nc\n").check(experiment, [point("shm")])
        with self.assertRaisesRegex(BadInput, "the Slurm job 7 has 2 hosts"):
            launch.from_flags(None, None, {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}).check(
                experiment, [point()]
            )


FAKE_MPIRUN = """#!/bin/sh
# Runs one rank, and then waits for ever, as mpirun does for the daemon of a lost host.
while [ $# -gt 0 ] && [ "${1##*/}" != fake_bench.py ]; do shift; done
"$@"
[ -z "$LOSE" ] || sed -i 's/"schema": 1,/"schema": 1, "lost_nodes": [1],/' "$(for last; do :; done; echo "$last")"
exec sleep 600
"""


class LostHosts(Folder):
    def setUp(self):
        super().setUp()
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        fake = self.tools / "mpirun"
        fake.write_text(FAKE_MPIRUN, encoding="utf-8")
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        self.path = self.write(SMALL.replace("axes: {value_size: [2K, 4K, 8K]}", "axes: {value_size: [2K]}"))
        self.hosts = self.write("localhost slots=2\n", "hosts")

    def run_it(self, status, **environment):
        done = self.loch(
            "run",
            self.path,
            "--fabric",
            "shm",
            "--set",
            "nodes=2",
            "--set",
            "repeats=1",
            "--hostfile",
            self.hosts,
            PATH=f"{self.tools}:{os.environ['PATH']}",
            **environment,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return [json.loads(path.read_text()) for path in (self.folder / "results" / "small" / "points").glob("*.json")]

    def test_a_launcher_that_does_not_end_loses_no_result(self):
        self.assertNotIn("failure", self.run_it(0)[0])

    def test_a_lost_host_fails_the_point_and_not_the_run(self):
        self.assertEqual(self.run_it(1, LOSE="1")[0]["failure"]["reason"], "lost during the run: node 1")

    def test_too_few_slots_are_refused_before_anything_is_written(self):
        self.hosts = self.write("localhost\n", "hosts")
        done = self.loch("run", self.path, "--fabric", "shm", "--set", "nodes=2", "--hostfile", self.hosts)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("needs 2 nodes", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertFalse((self.folder / "results").exists())


if __name__ == "__main__":
    unittest.main()
