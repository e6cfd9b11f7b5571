"""Tests of ranks that are started by ssh without mpirun and without a shared folder. A stand-in for ssh runs what it is
given in another folder of this machine, with the library of emulated NICs, and logs its command line."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

from support import Folder

from loch import ssh_launch
from loch.runner import launch

PROGRAM = Path(os.environ["LOCH_BIN"])
ZOO = PROGRAM.parent.parent / "lib/libloch_zoo.so"
LIMIT_S = 150
# A run with a lost rank ends by itself. Repairing what a lost node held reads every spare entry of the others: few here.
ENDS_WITHIN_S = 90
FEW_ENTRIES = ("--nessie.spare-memory", "64K")
STAND_IN = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
echo "$host $*" >>'{folder}/ssh.log'
case $host in away) echo 'ssh: connect to host away port 22: Connection refused' >&2; exit 255;; esac
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
        self.assert_nothing_left()

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
        started = self.start("n1:1,n2:1,n3:1", duration="4s", fabric=fabric, more=FEW_ENTRIES)
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
