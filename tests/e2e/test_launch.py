"""Tests of runs over shared memory in several processes that mpirun starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import support
from support import ROOT, EndToEnd

EXPERIMENT = """\
name: tiny
title: Tiny
fabric: shm
cluster: {nodes: 2}
systems:
  CD: {protocol: nessie, clients: 1}
workload: {key_size: 128, get: 0.5, distribution: uniform, keys: 500}
axes: {value_size: [256]}
measure: {warmup: 50ms, duration: 300ms, repeats: 1}
figure: {kind: bars, x: value_size, y: [latency_us.get.mean]}
"""

HAS_MPIRUN = shutil.which("mpirun") is not None
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
# A small table and many PUTs, with enough spare entries although an old version's entry is reused only after the expiry
# period.
LOAD = [
    "bench",
    "--fabric",
    "shm",
    "--nodes",
    "3",
    "--clients",
    "1",
    "--keys",
    "600",
    "--value-size",
    "1K",
    "--get",
    "0.5",
    "--nessie.expiry",
    "50ms",
    "--nessie.min-spare",
    "20000",
    "--warmup",
    "100ms",
    "--json",
    "out.json",
]


def shared_memory() -> set[str]:
    """The names of Loch's shared memory objects in /dev/shm."""
    return {path.name for path in Path("/dev/shm").glob("loch.*")}


class Started:
    """A run under mpirun in the background, for a test that acts on its processes."""

    def __init__(self, folder: Path, ranks: int, *arguments: str) -> None:
        self.ranks = ranks
        self.mpirun = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-n", str(ranks), support.BINARY, *arguments],
            cwd=folder,
            env={**os.environ, **ROOT_MAY},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self) -> dict[int, list[int]]:
        """By rank: the process numbers of its supervisor and, once started, of the supervisor's child."""
        found: dict[int, list[int]] = {}
        for supervisor in children(self.mpirun.pid):
            try:
                environment = Path(f"/proc/{supervisor}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for entry in environment:
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(entry.split(b"=")[1])] = [supervisor, *children(supervisor)]
        return found

    def wait_for_load(self, test: EndToEnd) -> dict[int, list[int]]:
        """Waits until every rank has written part of its history, so that the load is running; returns the ranks'
        processes."""
        folder = test.folder
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.mpirun.poll() is None:
            written = [path for path in folder.glob("h.jsonl.rank*") if path.stat().st_size > 0]
            found = self.processes()
            if (
                len(written) == self.ranks
                and len(found) == self.ranks
                and all(len(each) == 2 for each in found.values())
            ):
                time.sleep(0.3)
                return found
            time.sleep(0.02)
        test.fail(f"the load did not start: {self.end()}")

    def wait_for_thread(self, test: EndToEnd, rank: int) -> int:
        """Waits until a rank's worker thread runs, for runs without a history; returns the process number."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.mpirun.poll() is None:
            child = (self.processes().get(rank, []) + [0, 0])[1]
            if child and len(list(Path(f"/proc/{child}/task").glob("*"))) > 1:
                return child
            time.sleep(0.02)
        test.fail(f"the load did not start: {self.end()}")

    def end(self) -> tuple[int, str, str]:
        """Waits for mpirun to end; returns its status, standard output and standard error."""
        out, err = self.mpirun.communicate(timeout=120)
        return self.mpirun.returncode, out, err


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def assert_no_shared_memory(test: EndToEnd, before: set[str]) -> None:
    deadline = time.monotonic() + 10  # a killed process may take a moment to end and to release its memory
    while shared_memory() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    test.assertEqual(shared_memory() - before, set())


def kill_client(test: EndToEnd, victim: int) -> None:
    """Kills one node's client process during the load; the other nodes finish, and one of them writes the result."""
    before = shared_memory()
    started = Started(
        test.folder,
        3,
        *support.without(LOAD, "--clients"),
        "--clients",
        "2",
        "--verify",
        "--duration",
        "3s",
        "--history",
        "h.jsonl",
        "--timeline",
        "100ms",
        "--probe-keys",
        "200",
        "--repair-after",
        "200ms",
    )
    os.kill(started.wait_for_load(test)[victim][1], signal.SIGKILL)
    status, out, err = started.end()
    test.assertEqual(status, 0, out + err)
    test.assertIn(f"node {victim} (process ", err)
    got = json.loads((test.folder / "out.json").read_text())
    test.assertEqual(got["lost_nodes"], [victim])
    assert_repaired(test, got, victim)
    test.assertEqual((got["run_end"], got["operations"]["corrupt"]), ("finished", 0))
    for node in got["nodes"]:
        test.assertEqual(node["operations"]["ok"] > 0, node["node"] != victim, node)
    checked = test.loch("check", "h.jsonl")
    test.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
    test.assertEqual(sorted(path.name for path in test.folder.iterdir()), ["h.jsonl", "out.json"])
    assert_no_shared_memory(test, before)


def assert_repaired(test: EndToEnd, got: dict, victim: int) -> None:
    """Asserts that the dead client's entries were repaired during the load, and that no node was declared lost.

    The victim's memory survives its client process, so no data is lost.
    """
    test.assertEqual(got["declared_lost"], [])
    test.assertFalse([note for note in got["notes"] if "repaired" in note or "fenced" in note], got["notes"])
    at = {event["event"]: event["t_s"] for event in got["events"] if event["node"] == victim}
    test.assertEqual(set(at), {"kill", "fence", "scrub", "scrub_end"}, got["events"])
    test.assertGreaterEqual(at["fence"] - at["kill"], 0.2)
    test.assertLessEqual(at["fence"], at["scrub"])
    test.assertLess(at["scrub"], at["scrub_end"])
    # At the end every probed key can be written; and the timeline includes operations of the killed process, which the
    # totals lack.
    test.assertEqual(got["timeline"][-1]["unwritable_keys"], 0, got["timeline"])
    in_bins = sum(round(entry["ops_s"] * 0.1) for entry in got["timeline"])
    test.assertGreater(in_bins, got["operations"]["ok"] + got["operations"]["not_found"])
    # The repair after the client's death (scrub) examined entries, so it did look for unfinished operations of the
    # dead client.
    test.assertGreater(got["scrub"]["entries_examined"] + got["scrub"].get("leaks_suspected", 0), 0, got["scrub"])


@unittest.skipUnless(HAS_MPIRUN, "mpirun (Debian: openmpi-bin) is not here")
class Launch(EndToEnd):
    def mpirun(self, ranks: int, *arguments: str):
        return self.call(
            ["mpirun", "--oversubscribe", "-n", str(ranks), support.BINARY, *arguments], timeout=200, **ROOT_MAY
        )

    def test_three_ranks_are_one_cluster(self) -> None:
        done = self.mpirun(
            3,
            "bench",
            "--fabric",
            "shm",
            "--nodes",
            "3",
            "--clients",
            "1",
            "--keys",
            "600",
            "--value-size",
            "256",
            "--get",
            "0.7",
            "--verify",
            "--warmup",
            "100ms",
            "--duration",
            "500ms",
            "--history",
            "h.jsonl",
            "--json",
            "out.json",
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        got = json.loads((self.folder / "out.json").read_text())
        self.assertEqual([node["node"] for node in got["nodes"]], [0, 1, 2])
        self.assertTrue(all(node["operations"]["total"] > 0 for node in got["nodes"]))
        self.assertEqual(got["lost_nodes"], [])
        self.assertEqual(got["operations"]["corrupt"], 0)
        checked = self.loch("check", "h.jsonl")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_a_killed_client_is_reported_and_the_others_go_on(self) -> None:
        kill_client(self, 1)

    def test_rank_0_is_no_more_needed_than_the_others(self) -> None:
        kill_client(self, 0)

    def test_repeats_end_with_the_node_that_is_lost(self) -> None:
        started = Started(self.folder, 3, *LOAD, "--duration", "1500ms", "--repeats", "3")
        victim = started.wait_for_thread(self, 2)
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        status, out, err = started.end()
        self.assertEqual(status, 0, out + err)
        self.assertLess(time.monotonic() - began, 20, "the others waited for it")
        got = json.loads((self.folder / "out.json").read_text())
        last = got[-1] if isinstance(got, list) else got
        self.assertEqual(last["lost_nodes"], [2])
        self.assertIn("were not run: node 2 was lost", err)

    def test_an_end_by_signal_leaves_no_shared_memory(self) -> None:
        for name, number in (("mpirun", signal.SIGINT), ("supervisor", signal.SIGKILL)):
            with self.subTest(name):
                before = shared_memory()
                started = Started(self.folder, 3, *LOAD, "--duration", "60s", "--history", "h.jsonl")
                found = started.wait_for_load(self)
                os.kill(started.mpirun.pid if name == "mpirun" else found[1][0], number)
                status, out, err = started.end()
                self.assertNotEqual(status, 0, out + err)
                self.assertFalse((self.folder / "out.json").exists())
                assert_no_shared_memory(self, before)
                for path in self.folder.iterdir():
                    path.unlink()

    def test_a_faults_file_kills_a_process_and_the_timeline_shows_it(self) -> None:
        self.write("kill.yaml", "schedule:\n  - {kind: kill_process, node: 1, at: 1100ms}\n")
        done = self.mpirun(3, *LOAD, "--duration", "2s", "--timeline", "100ms", "--faults", "kill.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        got = json.loads((self.folder / "out.json").read_text())
        self.assertEqual((got["lost_nodes"], got["planned_losses"]), ([1], [1]))
        self.assertEqual(len(got["timeline"]), 20)
        self.assertTrue(all((entry["p50_us"] is None) == (entry["ops_s"] == 0) for entry in got["timeline"]))
        alone = self.loch("bench", "--fabric", "shm", "--nodes", "3", "--faults", "kill.yaml", "--duration", "100ms")
        self.assert_refused(alone, "kill.yaml", "mpirun")
        self.write("kill.yaml", "schedule:\n  - {kind: crash, node: 1, at: 1100ms}\n")
        self.assert_refused(
            self.loch("bench", "--fabric", "shm", "--faults", "kill.yaml", "--dry-run"), "kill.yaml:2", "kill_process"
        )

    def test_bad_input_is_status_2_from_every_rank(self) -> None:
        done = self.mpirun(2, "bench", "--fabric", "shm", "--nodes", "2", "--value-sise", "1K", "--json", "out.json")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("--value-size", done.stderr)
        self.assertFalse((self.folder / "out.json").exists())

    def test_the_runner_brings_up_the_ranks_of_a_hostfile(self) -> None:
        self.write("tiny.yaml", EXPERIMENT)
        self.write("hosts", "localhost slots=2\n")
        done = self.call(
            [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", "tiny.yaml", "--hostfile", "hosts"],
            timeout=200,
            LOCH_BIN=support.BINARY,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kept = [json.loads(path.read_text()) for path in (self.folder / "results/tiny/points").glob("*.json")]
        self.assertEqual(len(kept), 1)
        self.assertEqual(kept[0]["runner"]["argv"][0], "mpirun")
        self.assertEqual([node["node"] for node in kept[0]["nodes"]], [0, 1])
        self.assertTrue(all(node["operations"]["total"] > 0 for node in kept[0]["nodes"]))
        self.assertEqual(kept[0]["operations"]["corrupt"], 0)


if __name__ == "__main__":
    unittest.main()
