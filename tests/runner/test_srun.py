"""Tests of loch-bench under srun, on a Slurm of one node: ranks over shared memory and over emulated NICs, whose
launchers meet in a folder; a rank that is killed, a job that is cancelled, and what is left behind. And of the runner in
an allocation of two nodes, whose processes run a sweep on one store."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import slurm_node
from support import ROOT, Folder, load_number, two_nodes_over_tcp

WHY_NOT = slurm_node.missing()
PROGRAM = Path(os.environ["LOCH_BIN"])
ZOO = PROGRAM.parent.parent / "lib/libloch_zoo.so"
RANKS = 3
LIMIT_S = 120


def arguments_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Srun(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.node = slurm_node.SlurmNode()
        cls.enterClassContext(cls.node)

    def command(self, mpi, fabric, duration="300ms"):
        return [
            *("srun", f"--ntasks={RANKS}", "--overcommit", f"--mpi={mpi}", "--no-kill", "--kill-on-bad-exit=0"),
            *(str(PROGRAM), "bench", "--protocol", "nessie", "--fabric", fabric, "--nodes", str(RANKS)),
            *("--clients", "1", "--keys", "300", "--warmup", "20ms", "--duration", duration, "--verify"),
            *("--json", str(self.folder / "result.json")),
        ]

    def environment(self, fabric, number):
        environment = {**os.environ, **self.node.environment, "LOCH_LOST_AFTER": "20s"}
        if fabric == "verbs":
            environment["LD_PRELOAD"] = str(ZOO)
            environment["LOCH_ZOO"] = f"mlx5-ib,net={self.folder}/network-{number}"
        return environment

    def start(self, mpi, fabric, number=0, duration="300ms"):
        return subprocess.Popen(
            self.command(mpi, fabric, duration),
            env=self.environment(fabric, number),
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def assert_nothing_left(self):
        self.assertEqual(list(self.folder.glob(".loch-srun-*")), [])
        self.wait_until(lambda: not self.ranks(), "ranks are left")

    def ranks(self):
        """The launchers and workers of this test's ranks: processes of the program that write its result."""
        result = str(self.folder / "result.json").encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            words = arguments_of(path.name)
            if words[:1] == [str(PROGRAM).encode()] and result in words:
                found.append(int(path.name))
        return found

    def wait_until(self, holds, what):
        deadline = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def test_ranks_meet_with_and_without_pmi_2(self):
        for number, (mpi, fabric) in enumerate((("none", "shm"), ("none", "verbs"), ("pmi2", "verbs"))):
            with self.subTest(mpi=mpi, fabric=fabric):
                said = self.start(mpi, fabric, number)
                _, told = said.communicate(timeout=LIMIT_S)
                self.assertEqual(said.returncode, 0, told)
                result = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
                (self.folder / "result.json").unlink()
                self.assertEqual(len(result["nodes"]), RANKS)
                self.assertGreater(result["operations"]["verified"], 0)
                self.assertEqual((result["operations"]["corrupt"], result["operations"]["error"]), (0, 0))
                self.assertEqual(result["lost_nodes"], [])
                self.assert_nothing_left()

    def test_the_exit_status_of_the_ranks_is_sruns(self):
        # The first is refused before the ranks meet, the second by ranks that have met.
        for number, flags in enumerate((("--no-such-flag",), ("--device", "nowhere"))):
            with self.subTest(flags=flags):
                said = subprocess.run(
                    [*self.command("none", "verbs"), *flags],
                    env=self.environment("verbs", 20 + number),
                    cwd=self.folder,
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                )
                self.assertEqual(said.returncode, 2, said.stderr)
                self.assertIn(flags[-1], said.stderr)
                self.assert_nothing_left()

    def test_a_killed_worker_is_named_and_the_others_go_on(self):
        started = self.start("none", "shm", duration="4s")
        self.wait_until(lambda: len(self.ranks()) == 2 * RANKS, "the ranks have not begun")
        time.sleep(1.5)
        os.kill(self.worker_of(2), signal.SIGKILL)
        _, told = started.communicate(timeout=LIMIT_S)
        self.assertEqual(started.returncode, 0, told)
        result = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        self.assertEqual(result["lost_nodes"], [2])
        self.assert_nothing_left()

    def worker_of(self, rank):
        """The worker of a rank: the child of another process of the same rank."""
        ranks = self.ranks()
        for pid in ranks:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            parent = int(re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)[1])
            of = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if parent in ranks and f"SLURM_PROCID={rank}".encode() in of:
                return pid
        self.fail(f"rank {rank} has no worker")

    def test_a_cancelled_job_leaves_no_process(self):
        started = self.start("none", "verbs", 8, duration="60s")
        self.wait_until(lambda: len(self.ranks()) == 2 * RANKS, "the ranks have not begun")
        time.sleep(1)
        self.node.said("scancel", "--me")
        _, told = started.communicate(timeout=LIMIT_S)
        self.assertNotEqual(started.returncode, 0, told)
        self.wait_until(lambda: not self.ranks(), "ranks are left")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Sweep(Folder):
    def allocation(self, node, command):
        """Runs a command in an allocation of both nodes."""
        return subprocess.run(
            ["salloc", "--nodes=2", *command],
            env={**os.environ, **node.environment, "LOCH_BIN": str(PROGRAM), "LOCH_LOST_AFTER": "20s"},
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=4 * LIMIT_S,
            check=False,
        )

    def test_the_points_of_a_sweep_share_a_store_on_two_nodes(self):
        self.write(two_nodes_over_tcp("get", [0.5, 0.9]))
        with slurm_node.SlurmNode(names=("n0", "n1")) as node:
            loch = [sys.executable, str(ROOT / "tools/loch"), "--no-setup"]
            done = self.allocation(node, [*loch, "run", "x.yaml", "--out", "there"])
            begun = [
                (node.folder / f"slurmd-{name}.log").read_text(encoding="utf-8").count("launch task StepId=")
                for name in node.names
            ]
        self.assertEqual(done.returncode, 0, done.stderr)
        stored = [
            json.loads(path.read_text(encoding="utf-8")) for path in (self.folder / "there/points").glob("*.json")
        ]
        for each in stored:
            self.assertEqual(len(each["nodes"]), 2)
            self.assertEqual([each["operations"][name] for name in ("total", "corrupt", "error")], [200, 0, 0])
        loads = sorted(load_number(each) for each in stored)
        self.assertEqual((loads, begun), ([1, 2], [1, 1]), "one step of the job for both points")
        self.assertEqual(list(self.folder.glob(".loch-srun-*")), [])


if __name__ == "__main__":
    unittest.main()
