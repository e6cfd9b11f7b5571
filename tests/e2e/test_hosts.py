"""Tests of the control plane over several hosts, emulated by network namespaces: mpirun, and a host that disconnects.

The ranks are started with the runner's mpirun command line.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from namespaces import NamespaceHosts, missing
from support import BINARY

from loch.runner import launch
from loch.runner.grid import Point

RANK = str(Path(BINARY).resolve().parents[1] / "common/cluster/control_rank")

WHY_NOT = missing(RANK)


@unittest.skipIf(WHY_NOT, str(WHY_NOT))
class Hosts(NamespaceHosts):
    def start(self, seconds: int) -> subprocess.Popen:
        """Starts three ranks; returns once all of them have connected."""
        hostfile = self.folder / self.write("hosts", "".join(f"{name}\n" for name in self.hosts))
        where = launch.from_flags(str(hostfile), "10.77.0.0/24", {})
        assert where is not None
        point = Point("", {}, 0, {"fabric": "verbs", "nodes": 3})
        line = where.command(point, [RANK, "wait", str(seconds)], self.environment)
        self.output = self.folder / "output"
        with self.output.open("wb") as stream:
            process = subprocess.Popen(
                self.on_head(line),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(self.end_all)
        self.until(lambda: "\nrank 2 pid" in "\n" + self.text(), 40)
        return process

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def until(self, condition, seconds: float) -> float:
        """Waits until the condition holds; returns the seconds that this took."""
        began = time.monotonic()
        while not condition():
            self.assertLess(time.monotonic() - began, seconds, self.text())
            time.sleep(0.02)
        return time.monotonic() - began

    def ranks(self) -> list[int]:
        """The ranks of this test that still live, both worker processes and launchers."""
        named = [int(pid) for pair in re.findall(r"^rank \d pid (\d+) of (\d+)", self.text(), re.M) for pid in pair]
        return [pid for pid in named if self.is_rank(pid)]

    def is_rank(self, pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/exe").resolve() == Path(RANK).resolve()
        except OSError:
            return False

    def end_all(self) -> None:
        """Kills the ranks and mpirun's daemons on all hosts; those of a disconnected host would otherwise stay for
        long."""
        for name in self.hosts:
            done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for pid in done.stdout.split():
                os.kill(int(pid), signal.SIGKILL)

    def test_a_vanished_host_is_named_and_the_others_finish(self) -> None:
        self.start(6)
        time.sleep(0.5)
        self.ip("-n", self.head, "link", "set", "v1", "down")
        noticed = self.until(lambda: len(re.findall("notices the loss of 1", self.text())) == 2, 20)
        self.assertGreater(noticed, 1.0)
        self.until(lambda: "end: [0,,2]" in self.text(), 30)
        self.assertIn(f"node 1 ({self.hosts[1]}) is lost: nothing was heard of it for 2s", self.text())
        self.until(lambda: not self.ranks(), 20)  # the ranks end, including the one on the disconnected host

    def test_no_rank_outlives_mpirun(self) -> None:
        process = self.start(100)
        self.assertEqual(len(self.ranks()), 6)
        process.kill()
        self.until(lambda: not self.ranks(), 30)


if __name__ == "__main__":
    unittest.main()
