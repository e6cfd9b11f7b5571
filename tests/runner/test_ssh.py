"""Tests of ranks that are started by ssh without mpirun and without a shared folder. A stand-in for ssh runs what it is
given in another folder of this machine, with the library of emulated NICs, and logs its command line."""

import io
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from support import Folder

from loch import ssh_launch, ssh_rank
from loch.runner import launch

PROGRAM = Path(os.environ["LOCH_BIN"])
ZOO = PROGRAM.parent.parent / "lib/libloch_zoo.so"
LIMIT_S = 150
# A run with a lost rank ends by itself, when it has repaired what the lost node held, for which it reads all spare entries.
ENDS_WITHIN_S = 90
STAND_IN = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
echo "$host $*" >>'{folder}/ssh.log'
case $host in away) echo 'ssh: connect to host away port 22: Connection refused' >&2; exit 255;; esac
unset LOCH_ZOO LOCH_LOST_AFTER  # which a host has only if the launch sends them
export STANDS_FOR=$host OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=9 SLURM_PROCID=5 SLURM_NTASKS=9  # of another launch
cd '{folder}/there' && LD_PRELOAD="$ZOO_LIBRARY" TMPDIR='{folder}/there' exec sh -c "$*"
"""


class OverSsh(Folder):
    def setUp(self):
        super().setUp()
        for name in ("bin", "there", "here"):
            (self.folder / name).mkdir()
        stand_in = self.folder / "bin/ssh"
        stand_in.write_text(STAND_IN.format(folder=self.folder), encoding="utf-8")
        stand_in.chmod(0o755)

    def start(self, hosts, duration="300ms", program=PROGRAM, fabric="verbs", more=()):
        ranks = sum(int(host.rpartition(":")[2]) for host in hosts.split(","))
        return subprocess.Popen(
            [
                *(ssh_launch.__file__, "--host", hosts, "--", str(program), "bench", "--protocol", "nessie"),
                *("--fabric", fabric, "--nodes", str(ranks), "--clients", "1", "--keys", "100", "--warmup", "20ms"),
                *("--duration", duration, "--verify", "--json", "result.json", *more),
            ],
            cwd=self.folder / "here",
            env={
                **os.environ,
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "ZOO_LIBRARY": str(ZOO) if fabric == "verbs" else "",
                "LOCH_ZOO": f"mlx5-ib,net={self.folder}/network",
                "LOCH_LOST_AFTER": "4s",
            },
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def processes(self):
        """What runs on the other side of the stand-in: the ends of connections, and the ranks."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"TMPDIR={self.folder}/there".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def rank_under_load(self, rank):
        """The launcher and the worker of a rank, once the worker's client runs."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for pid in self.processes():
                try:
                    names = [(each / "comm").read_text().strip() for each in Path(f"/proc/{pid}/task").iterdir()]
                    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                except OSError:
                    continue
                if f"{rank}:client 0" in names:
                    return int(re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)[1]), pid
            time.sleep(0.05)
        self.fail(f"rank {rank} has no client")

    def assert_nothing_left(self):
        deadline = time.monotonic() + 20
        while self.processes() or list((self.folder / "there").iterdir()):
            self.assertLess(time.monotonic(), deadline, (self.processes(), list((self.folder / "there").iterdir())))
            time.sleep(0.1)

    def test_the_result_comes_back_and_the_command_lines_say_nothing_of_the_run(self):
        started = self.start("n1:1,n2:2")
        said, told = started.communicate(timeout=LIMIT_S)
        self.assertEqual(started.returncode, 0, told)
        self.assertIn("nessie on verbs:", said)
        result = json.loads((self.folder / "here/result.json").read_text(encoding="utf-8"))
        self.assertEqual((len(result["nodes"]), result["lost_nodes"]), (3, []))
        self.assertGreater(result["operations"]["verified"], 0)
        lines = (self.folder / "ssh.log").read_text(encoding="utf-8").splitlines()
        self.assertEqual(sorted(line.split()[0] for line in lines), ["n1", "n2", "n2"])
        self.assertEqual(len({line.split(" ", 1)[1] for line in lines}), 1, "a command line differs")
        self.assertNotRegex(lines[0], "bench|result.json")
        self.assert_nothing_left()

    def test_ranks_are_numbered_in_the_order_of_the_hosts(self):
        started = self.start("n1:1,n2:2", duration="60s")
        self.addCleanup(started.terminate)
        _, worker = self.rank_under_load(2)
        names = ("PMI_RANK", "PMI_SIZE", "STANDS_FOR", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
        seen = set()
        for pid in self.processes():
            words = (Path(f"/proc/{pid}/environ").read_bytes()).decode().split("\0")
            of = dict(word.split("=", 1) for word in words if "=" in word)
            if "PMI_RANK" in of:
                seen.add(tuple(of[name] for name in names))
        self.assertEqual(
            seen, {("0", "3", "n1", "0", "1"), ("1", "3", "n2", "0", "2"), ("2", "3", "n2", "1", "2")}, worker
        )

    def test_the_exit_status_of_the_ranks_is_the_launchs(self):
        # The first is refused before the ranks meet, the second by ranks that have met.
        for flags in (("--no-such-flag",), ("--device", "nowhere")):
            with self.subTest(flags=flags):
                started = self.start("n1:1,n2:1", more=flags)
                _, told = started.communicate(timeout=LIMIT_S)
                self.assertEqual(started.returncode, 2, told)
                self.assertIn(flags[-1], told)
                self.assert_nothing_left()

    def test_a_connection_that_breaks_is_named_and_takes_its_rank_with_it(self):
        started = self.start("n1:1,n2:1,n3:1", duration="4s")
        self.addCleanup(started.terminate)
        launcher, worker = self.rank_under_load(1)
        status = Path(f"/proc/{launcher}/status").read_text(encoding="utf-8")
        os.kill(int(re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)[1]), signal.SIGKILL)
        deadline = time.monotonic() + 3  # by itself the rank would notice after 4 s that it hears nobody
        while {launcher, worker} & set(self.processes()):
            self.assertLess(time.monotonic(), deadline, "the rank outlives its connection")
            time.sleep(0.05)
        _, told = started.communicate(timeout=ENDS_WITHIN_S)
        self.assertIn("ssh: rank 1 on n2: the connection ended with status -9\n", told)
        result = json.loads((self.folder / "here/result.json").read_text(encoding="utf-8"))
        self.assertEqual(result["lost_nodes"], [1], told)

    def test_a_host_that_is_not_reached_ends_the_launch_with_one_line(self):
        began = time.monotonic()
        started = self.start("n1:1,away:1,n2:1")
        _, told = started.communicate(timeout=LIMIT_S)
        self.assertEqual(
            (started.returncode, told.splitlines()),
            (1, ["ssh: rank 1 on away: ssh: connect to host away port 22: Connection refused"]),
        )
        self.assertLess(time.monotonic() - began, 30)
        self.assert_nothing_left()

    def test_a_program_that_is_missing_there_ends_the_launch_with_one_line(self):
        started = self.start("n1:1,n2:1", program="/nowhere/loch-bench")
        _, told = started.communicate(timeout=LIMIT_S)
        self.assertEqual(started.returncode, 1)
        self.assertRegex(
            told, r"\Assh: rank [01] on n[12]: /nowhere/loch-bench is not there: Loch has to be built [^\n]*\n\Z"
        )
        self.assert_nothing_left()

    def lose(self, fabric, to_whom, number):
        """Loses rank 1 of three under load, by a signal to its worker or to its launcher and worker; returns what the
        launch said."""
        (self.folder / "network").unlink(missing_ok=True)
        started = self.start("n1:1,n2:1,n3:1", duration="4s", fabric=fabric)
        self.addCleanup(started.terminate)
        launcher, worker = self.rank_under_load(1)
        time.sleep(0.5)
        for pid in {"worker": [worker], "both": [launcher, worker]}[to_whom]:
            os.kill(pid, number)
        _, told = started.communicate(timeout=ENDS_WITHIN_S)
        self.assertEqual(started.returncode, 0, told)
        result = json.loads((self.folder / "here/result.json").read_text(encoding="utf-8"))
        self.assertEqual(result["lost_nodes"], [1], told)
        self.assertEqual(result["operations"]["corrupt"], 0)
        self.assert_nothing_left()
        return told

    def test_a_killed_worker_is_named_and_the_run_ends(self):
        for fabric in ("shm", "ofi", "verbs"):
            with self.subTest(fabric=fabric):
                told = self.lose(fabric, "worker", signal.SIGKILL)
                self.assertRegex(told, r"(?m)^node 1 \(process \d+\) was killed by signal 9$")

    def test_a_machine_that_stands_still_is_named_and_the_run_ends(self):
        """Its processes are stopped, its connections stay: no request to it ends by itself."""
        for fabric in ("ofi", "verbs"):
            with self.subTest(fabric=fabric):
                told = self.lose(fabric, "both", signal.SIGSTOP)
                self.assertRegex(told, r"(?m)^node 1 \(.*\) is lost: nothing was heard of it for 4s$")
                self.assertRegex(told, r"(?m)^ssh: not ended 30 s after the run: rank 1 on n2$")

    def test_a_launcher_that_is_ended_leaves_nothing(self):
        started = self.start("n1:1,n2:1", duration="60s")
        deadline = time.monotonic() + 60
        while len(self.processes()) < 6:  # of each rank: the connection's end, the launcher, the worker
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=LIMIT_S)
        self.assertEqual(started.returncode, 128 + signal.SIGTERM)
        self.assert_nothing_left()


class Files(Folder):
    def test_a_file_of_several_pieces_comes_back_whole(self):
        sent = io.BytesIO()
        rank = ssh_rank.Rank(self.folder, {"rank": 1, "job": "j"}, io.BytesIO(), sent)
        there, here = self.write("0123456789abc", "there"), self.write("of an earlier run", "here")
        with mock.patch.object(ssh_rank, "PIECE", 4):
            rank.send_file(there, "history-h")
        launch_ = ssh_launch.Launch([], "program", ["--history", str(here)])
        seat = SimpleNamespace(rank=1, has_written=False)
        sent.seek(0)
        while frame := ssh_rank.get(sent):
            launch_.take(seat, frame[0], frame[1], "history-here", frame[3])
        self.assertEqual(here.read_text(encoding="utf-8"), "0123456789abc")
        self.assertTrue(seat.has_written)

    def test_a_name_that_leads_out_of_a_ranks_folder_is_dropped(self):
        came, lock = io.BytesIO(), threading.Lock()
        for name in ("../outside", "inside"):
            ssh_rank.put(came, lock, ssh_rank.ITEM, 0, name, b"data")
        came.seek(0)
        rank = ssh_rank.Rank(self.folder, {"rank": 1, "job": "j"}, came, io.BytesIO())
        rank.take(SimpleNamespace(kill=lambda: None))
        written = [path.relative_to(rank.board) for path in rank.board.rglob("*") if path.is_file()]
        self.assertEqual(written, [Path("1/inside")])

    def test_nothing_is_put_into_the_folder_of_a_rank_that_has_ended(self):
        came, lock = io.BytesIO(), threading.Lock()
        ssh_rank.put(came, lock, ssh_rank.ITEM, 0, "late", b"data")
        came.seek(0)
        there = self.folder / "rank"
        there.mkdir()
        rank = ssh_rank.Rank(there, {"rank": 1, "job": "j"}, came, io.BytesIO())
        rank.end()
        rank.take(SimpleNamespace(kill=lambda: None))
        self.assertEqual(list(there.iterdir()), [])

    def test_a_folder_is_removed_though_something_still_writes_into_it(self):
        there = self.folder / "rank"
        there.mkdir()
        rank = ssh_rank.Rank(there, {"rank": 1, "job": "j"}, io.BytesIO(), io.BytesIO())
        (there / "of-the-rank").touch()
        remove = ssh_rank.shutil.rmtree

        def remove_beside_a_writer(folder, **how):
            rmtree.side_effect = remove
            remove(folder, **how)
            folder.mkdir()
            (folder / "of-the-worker").touch()

        with mock.patch.object(ssh_rank.shutil, "rmtree", side_effect=remove_beside_a_writer) as rmtree:
            rank.remove_folder()
        self.assertEqual(rmtree.call_count, 2)
        self.assertFalse(there.exists())


class Chosen(Folder):
    def test_ssh_where_there_is_no_mpirun(self):
        hosts = str(self.write("n1\nn2 slots=2\n", "hosts"))
        chosen = launch.from_flags(hosts, None, {"PATH": str(self.folder)})
        point = SimpleNamespace(system="S", params={"fabric": "verbs", "nodes": 3})
        self.assertEqual(
            chosen.command(point, ["loch-bench", "bench"], {}),
            [ssh_launch.__file__, "--host", "n1:1,n2:2", "--", "loch-bench", "bench"],
        )
        (self.folder / "mpirun").write_text("#!/bin/sh\n", encoding="utf-8")
        (self.folder / "mpirun").chmod(0o755)
        self.assertEqual(launch.from_flags(hosts, None, {"PATH": str(self.folder)}).launcher, "mpirun")
