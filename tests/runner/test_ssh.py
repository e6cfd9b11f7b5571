"""Tests of ranks that are started by ssh without mpirun and without a shared folder. A stand-in for ssh runs what it is
given in another folder of this machine, with the library of emulated NICs, and logs its command line."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from support import ROOT, Folder, load_number, two_nodes_over_tcp

from loch import ssh_launch, ssh_rank
from loch.doctor import pings
from loch.runner import grid, launch

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


class StandIn(Folder):
    def setUp(self):
        super().setUp()
        for name in ("bin", "there", "here"):
            (self.folder / name).mkdir()
        stand_in = self.folder / "bin/ssh"
        stand_in.write_text(STAND_IN.format(folder=self.folder), encoding="utf-8")
        stand_in.chmod(0o755)

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


class OverSsh(StandIn):
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


class Sweep(StandIn):
    """`loch run` where there is ssh and no mpirun: points that differ in their load alone."""

    # What the runner and the stand-in call; mpirun is not among it.
    PROGRAMS = {"python3": sys.executable, "sh": shutil.which("sh"), "env": shutil.which("env")}

    def setUp(self):
        super().setUp()
        for name, path in self.PROGRAMS.items():
            (self.folder / "bin" / name).symlink_to(path)

    def sweep(self, axis, values):
        """Starts a sweep over values of an axis, which run in this order."""
        listed = list(values)
        order = grid.shuffled([SimpleNamespace(repeat=0, place=place) for place in range(len(values))], 1)
        for point, value in zip(order, values):
            listed[point.place] = value
        (self.folder / "here/x.yaml").write_text(two_nodes_over_tcp(axis, listed), encoding="utf-8")
        (self.folder / "here/hosts").write_text("n1\nn2\n", encoding="utf-8")
        started = subprocess.Popen(
            [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", "x.yaml", "--hostfile", "hosts"]
            + ["--out", "out"],
            cwd=self.folder / "here",
            env={
                **os.environ,
                "PATH": f"{self.folder}/bin",
                "ZOO_LIBRARY": "",
                "LOCH_BIN": str(PROGRAM),
                "LOCH_LOST_AFTER": "20s",
            },
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(started.kill)
        return started

    def stored(self, axis):
        """What is stored of the points, by their value on the axis."""
        found = {}
        for path in (self.folder / "here/out/points").glob("*.json"):
            document = json.loads(path.read_text(encoding="utf-8"))
            found[document["runner"]["axes"][axis]] = document
        return found

    def hosts_called(self):
        return sorted(line.split()[0] for line in (self.folder / "ssh.log").read_text(encoding="utf-8").splitlines())

    def assert_whole(self, document):
        self.assertEqual(len(document["nodes"]), 2)
        self.assertEqual([document["operations"][name] for name in ("total", "corrupt", "error")], [200, 0, 0])
        self.assertEqual(document["lost_nodes"], [])

    def assert_no_temporary_files(self):
        self.assertEqual([path.name for path in (self.folder / "here/out/points").iterdir() if ".tmp" in path.name], [])
        self.assert_nothing_left()

    def test_the_points_share_a_store_and_a_launch(self):
        started = self.sweep("get", [0.5, 0.9])
        said, told = started.communicate(timeout=2 * LIMIT_S)
        self.assertEqual(started.returncode, 0, told + said)
        stored = self.stored("get")
        for each in stored.values():
            self.assert_whole(each)
            self.assertEqual(each["runner"]["argv"][0], ssh_launch.__file__)
        self.assertEqual(sorted(load_number(each) for each in stored.values()), [1, 2], told)
        self.assertEqual(self.hosts_called(), ["n1", "n2"], "one launch for both points")
        self.assertNotRegex((self.folder / "ssh.log").read_text(encoding="utf-8"), "points|get|json|tmp")
        self.assert_no_temporary_files()

    def test_a_failed_point_does_not_take_the_next_one_with_it(self):
        """The first of three points, which takes 20 s, loses a node; the others begin with a store of their own."""
        started = self.sweep("rate", [10, 50000, 60000])
        _, worker = self.rank_under_load(1)
        os.kill(worker, signal.SIGKILL)
        said, told = started.communicate(timeout=4 * LIMIT_S)
        self.assertEqual(started.returncode, 1, told + said)
        stored = self.stored("rate")
        self.assertEqual(stored[10]["failure"]["reason"], "lost during the run: node 1", told)
        self.assertIn("nessie on ofi", stored[10]["failure"]["stderr_tail"])
        for rate in (50000, 60000):
            self.assert_whole(stored[rate])
        self.assertEqual([load_number(stored[rate]) for rate in (50000, 60000)], [1, 2])
        self.assertEqual(
            self.hosts_called(), ["n1", "n1", "n2", "n2"], "a launch for the failed point, one for the others"
        )
        self.assert_no_temporary_files()

    def test_an_interrupted_sweep_keeps_what_has_ended_and_goes_on(self):
        started = self.sweep("rate", [50000, 2])
        points = self.folder / "here/out/points"
        deadline = time.monotonic() + LIMIT_S
        while not list(points.glob("[!.]*.json")):
            self.assertIsNone(started.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.rank_under_load(1)
        started.send_signal(signal.SIGINT)
        _, told = started.communicate(timeout=LIMIT_S)
        self.assertEqual(started.returncode, 130, told)
        self.assert_no_temporary_files()
        self.assertEqual(list(self.stored("rate")), [50000])
        first = (self.folder / "ssh.log").stat().st_size
        again = self.sweep("rate", [50000, 60000])
        said, told = again.communicate(timeout=2 * LIMIT_S)
        self.assertEqual(again.returncode, 0, told + said)
        self.assertEqual(sorted(self.stored("rate")), [50000, 60000])
        self.assertGreater((self.folder / "ssh.log").stat().st_size, first)
        self.assertEqual(self.hosts_called(), ["n1", "n1", "n2", "n2"], "the first point is not run again")
        self.assert_no_temporary_files()


class WithoutMpirun(StandIn):
    """Commands that start a process on each host."""

    def setUp(self):
        super().setUp()
        for name, path in Sweep.PROGRAMS.items():
            (self.folder / "bin" / name).symlink_to(path)
        self.env = {**os.environ, "PATH": f"{self.folder}/bin", "ZOO_LIBRARY": "", "LOCH_BIN": str(PROGRAM)}

    def litmus(self, hosts, *flags):
        (self.folder / "here/hosts").write_text(hosts, encoding="utf-8")
        return subprocess.run(
            [
                sys.executable,
                str(ROOT / "tools/loch"),
                "--no-setup",
                "litmus",
                "--hostfile",
                "hosts",
                "--fabric",
                "ofi",
                *flags,
            ],
            cwd=self.folder / "here",
            env=self.env,
            text=True,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )

    def test_the_races_of_two_hosts_are_started(self):
        done = self.litmus("n1\nn2\n", "--json", "--race", "write-read", "--tries", "100")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"write-read"', done.stdout)
        calls = (self.folder / "ssh.log").read_text(encoding="utf-8").splitlines()
        self.assertEqual(sorted(line.split()[0] for line in calls), ["n1", "n2"])
        self.assert_nothing_left()

    def test_a_host_that_is_not_reached_is_named(self):
        done = self.litmus("n1\naway\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Aloch litmus: ssh: .*away.*\n\Z")
        self.assert_nothing_left()

    def test_the_hosts_of_doctor_ping_each_other(self):
        with mock.patch.dict(os.environ, self.env, clear=True):
            result, why = pings.launch([("n1", 1), ("n2", 1)], str(PROGRAM), "ofi")
        self.assertIsNotNone(result, why)
        self.assertEqual(len(result["nodes"]), 2)
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


class Points(Folder):
    """The files of a list of points, between a rank and the launch."""

    def listed(self):
        """The points of a list as the launch reads it: both have a result, the second one also prints."""
        path = self.write(
            json.dumps(
                [
                    {"arguments": ["--get", "1", "--json", f"{self.folder}/first.json"]},
                    {"arguments": [f"--json={self.folder}/second.json"], "output": f"{self.folder}/second.txt"},
                ]
            ),
            "list.json",
        )
        return ssh_launch.points_of(str(path))

    def rank(self, number, sent):
        """A rank of such a launch; what it says goes to `sent`."""
        launch_ = ssh_launch.Launch([], "program", ["points", "/dev/stdin"], self.listed())
        start = launch_.start_of(SimpleNamespace(rank=number, rank_here=0, ranks_here=1), "j")
        rank = ssh_rank.Rank(self.folder, start, io.BytesIO(), sent)
        self.addCleanup(lambda: [os.close(each.descriptor) for each in rank.printed])
        return rank

    def frames(self, sent):
        sent.seek(0)
        return list(iter(lambda: ssh_rank.get(sent), None))

    def test_the_list_names_no_file_of_the_launch_and_is_for_rank_0_alone(self):
        launch_ = ssh_launch.Launch([], "program", ["points", "/dev/stdin"], self.listed())
        starts = [launch_.start_of(SimpleNamespace(rank=i, rank_here=0, ranks_here=1), "j") for i in range(2)]
        self.assertEqual(["list" in each for each in starts], [True, False])
        self.assertNotIn(str(self.folder), json.dumps(starts[0]))
        self.assertEqual(
            json.loads(starts[0]["list"]),
            [
                {"arguments": ["--get", "1", "--json", "0-json-first.json"]},
                {"arguments": ["--json=1-json-second.json"], "output": "/dev/fd/100"},
            ],
        )

    def test_a_list_that_is_none_is_refused_with_one_line(self):
        for text in ("[{", "{}", '[{"output": "x"}]', '[{"arguments": [1]}]', None):
            with self.subTest(text):
                path = self.folder / "nowhere" if text is None else self.write(text, "list.json")
                done = subprocess.run(
                    [ssh_launch.__file__, "--host", "n1:1", "--", "program", "points", str(path)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, rf"\Assh: {path}: [^\n]+\n\Z")

    def test_what_a_point_has_left_goes_before_the_line_that_tells_its_end(self):
        sent = io.BytesIO()
        rank = self.rank(0, sent)
        result = self.write("{}", "1-json-second.json")
        os.write(rank.printed[0].descriptor, b"said")
        begun, ended = b'{"point":1,"pid":7}\n', b'{"point":1,"status":0}\n'
        with mock.patch.object(ssh_rank, "PIECE", 3):
            for line in (begun, ended, b"[]\n", b'{"point":9,"status":0}\n'):
                rank.pass_on(line, self.folder)
        self.assertEqual(
            self.frames(sent),
            [
                (ssh_rank.OUTPUT, 0, "", begun),
                (ssh_rank.FILE, 1, "printed-1", b"sai"),
                (ssh_rank.FILE, 1, "printed-1", b"d"),
                (ssh_rank.FILE, 0, "1-json-second.json", b"{}"),
                (ssh_rank.POINT, 1, "", ended),
                (ssh_rank.OUTPUT, 0, "", b"[]\n"),
                (ssh_rank.OUTPUT, 0, "", b'{"point":9,"status":0}\n'),
            ],
        )
        self.assertFalse(result.exists())

    def test_what_a_rank_has_printed_goes_before_what_it_says_to_others(self):
        sent = io.BytesIO()
        rank = self.rank(1, sent)
        rank.printed_looked = time.monotonic() + 3600  # the time alone has it not looked at
        (rank.board / "0").mkdir(parents=True)
        (rank.board / "0/agreed").write_bytes(b"fit")
        os.write(rank.printed[0].descriptor, b"said")
        rank.carry()
        self.assertEqual(
            self.frames(sent), [(ssh_rank.FILE, 1, "printed-1", b"said"), (ssh_rank.ITEM, 0, "agreed", b"fit")]
        )

    def test_what_a_point_prints_comes_back_while_it_runs(self):
        sent = io.BytesIO()
        rank = self.rank(1, sent)
        os.write(rank.printed[0].descriptor, b"said")
        rank.board.mkdir()
        rank.carry()
        self.assertEqual(self.frames(sent), [(ssh_rank.FILE, 1, "printed-1", b"said")])

    def test_the_files_of_a_point_that_has_ended_are_written_no_more(self):
        launch_ = ssh_launch.Launch([], "program", ["points", "/dev/stdin"], self.listed())
        seat = SimpleNamespace(rank=0, has_written=False)
        launch_.take(seat, ssh_rank.FILE, 1, "printed-1", b"said")
        self.assertFalse(seat.has_written, "what a rank prints is no result")
        launch_.take(seat, ssh_rank.FILE, 0, "1-json-second.json", b"{}")
        self.assertTrue(seat.has_written)
        self.assertEqual((self.folder / "second.txt").read_text(encoding="utf-8"), "said")
        with mock.patch.object(ssh_launch.sys, "stdout", SimpleNamespace(buffer=io.BytesIO())) as told:
            launch_.take(seat, ssh_rank.POINT, 1, "", b"ended\n")
        self.assertEqual(told.buffer.getvalue(), b"ended\n")
        for name in ("second.txt", "second.json"):  # as the runner does, which has read them
            (self.folder / name).unlink()
        launch_.take(seat, ssh_rank.FILE, 1, "printed-1", b"late")
        launch_.take(seat, ssh_rank.FILE, 0, "1-json-second.json", b"late")
        launch_.take(seat, ssh_rank.FILE, 0, "0-json-first.json", b"of another point")
        self.assertEqual(
            sorted(path.name for path in self.folder.iterdir()), ["first.json", "list.json"], "a file is left"
        )

    def test_a_result_that_cannot_be_written_here_is_named_and_the_launch_goes_on(self):
        launch_ = ssh_launch.Launch([], "program", ["--json", "/dev/full"])
        seat = SimpleNamespace(rank=0, has_written=False)
        with mock.patch.object(ssh_launch.sys, "stderr", io.StringIO()) as told:
            for _ in range(2):
                launch_.take(seat, ssh_rank.FILE, 0, "json-full", b"{}")
        self.assertEqual(told.getvalue(), "ssh: /dev/full: No space left on device\n")
        self.assertTrue(launch_.is_unwritten)


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
