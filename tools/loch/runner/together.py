"""Points that begin with the same preloaded cluster, which one process of loch-bench can set up for all (`loch-bench
points`). Simulated points, where copies of pages are cheap, and points on shm run each in a copy of that process; points
on verbs and ofi run in it one after the other, on the store as the point before has left it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from . import options
from .child import kill_group, tie
from .grid import Point
from .launch import LAUNCHERS, Launch, end_launcher
from .provenance import OthersMeter

# Most points that one process runs: if it ends early, few have to be run again, and near the end of a run several
# processes share the remaining points.
MOST = 12


def key(point: Point, launched: Launch | None) -> str | None:
    """A key equal for points that differ only in options of the load (options.OF_LOAD), which the preloaded cluster
    does not depend on; None for a point that runs by itself. `launched`: what starts the point's processes, if they
    are several."""
    if point.power is not None or not options.runs_together():
        return None
    if point.params.get("fabric") in ("sim", "shm"):
        if launched is not None:
            return None
    elif not _keeps_keys(point):
        return None
    return json.dumps(
        {name: each for name, each in point.params.items() if name not in options.OF_LOAD}, sort_keys=True
    )


def _keeps_keys(point: Point) -> bool:
    """Whether a point leaves the set of keys as it was, so that another one may follow on the same store. What a
    workload file says, loch-bench looks at."""
    return not any(point.params.get(name) for name in ("delete", "insert_if_absent"))


@dataclass
class Member:
    """One of the points that share a process; `argv` is the command that would run it by itself, and `arguments` those
    of loch bench."""

    point: Point
    name: str
    argv: list[str]
    arguments: list[str]
    result: Path
    output: Path


@dataclass
class Ended:
    """How a member (one of the points that share a process) ended; `exit_status` is negative for a signal."""

    member: Member
    elapsed_s: float
    exit_status: int | None
    timed_out: bool = False
    others: float | None = None  # share of the CPU time that other programs used; None for a simulated point


class Together:
    """Runs the members (points that share a process) one after the other. look() tells which have ended. Once
    `is_over`, `left` has the members that never began or ended with the process; they have to run without it."""

    def __init__(
        self,
        members: list[Member],
        binary: str,
        command: Callable[[list[str]], list[str]],
        environment: dict[str, str],
        now: float,
    ) -> None:
        """Starts the process; OSError if it cannot be started. `command` is given the arguments of `binary`, loch-bench,
        and returns the command line, that of a launcher for several processes."""
        self.left = dict(enumerate(members))
        self.is_over = False
        self.has_made_way = False  # whether a member has ended by itself, so that those left may share a process again
        # whether the members run one after the other on one store, as long as it is fit for the next
        self.is_kept = members[0].point.params.get("fabric") not in ("sim", "shm")
        self.is_measured = any(each.point.is_measured for each in members)
        self._meter = OthersMeter(now)  # of the member that began last
        first = members[0]
        self._list = first.output.with_name(f"{first.output.name}.list.tmp")
        self._said = first.output.with_name(f"{first.output.name}.said.tmp")
        self._read = 0
        self._since, self._began = now, 0  # time at which the last member ended; number of the member that began last
        entries = [
            {"arguments": [*each.arguments, "--json", str(each.result)], "output": str(each.output)} for each in members
        ]
        self._list.write_text(json.dumps(entries), encoding="utf-8")
        self._command = command(["points", str(self._list)])
        tied = tie(self._command, binary, options.dies_with(), environment)
        try:
            with open(self._said, "wb") as stream:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    env=environment,
                    start_new_session=True,
                    **tied,
                )
        except OSError:
            self._remove_files()
            raise

    def look(self, now: float, timeout_s: Callable[[Point], float]) -> list[Ended]:
        """The members (points that share the process) that have ended since the last call; `timeout_s` says how long
        one may take."""
        # asked before its output is read, which is complete once the process is gone
        is_over = self._process.poll() is not None
        ended = [self._end(said, now) for said in self._news() if "status" in said or "signal" in said]
        at_work = self._began if self._began in self.left else min(self.left, default=0)
        if not is_over and self.left and now - self._since > timeout_s(self.left[at_work].point):
            self._kill()
            ended.append(Ended(self.left.pop(at_work), now - self._since, None, timed_out=True))
            is_over = True
        if is_over:
            self.stop()
        return ended

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Ends the process and the member that is running; result files of members whose end was not reported are
        removed."""
        self._kill()
        self._remove_files()
        for each in self.left.values():
            each.result.unlink(missing_ok=True)
            each.output.unlink(missing_ok=True)
        self.is_over = True

    def _news(self) -> list[dict[str, Any]]:
        """The lines of JSON that the process has written since the last call."""
        with open(self._said, "rb") as stream:
            stream.seek(self._read)
            whole = stream.read()
        whole = whole[: whole.rfind(b"\n") + 1]
        self._read += len(whole)
        news = []
        for line in whole.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue  # a message of the process itself; members that it does not run will run by themselves
            if isinstance(said, dict) and isinstance(said.get("point"), int) and said["point"] in self.left:
                news.append(said)
                self._began = said["point"]
                if "pid" in said:
                    self._meter = OthersMeter(time.monotonic())
        return news

    def _end(self, said: dict[str, Any], now: float) -> Ended:
        member = self.left.pop(int(said["point"]))
        self.has_made_way = True
        status = int(said["status"]) if "status" in said else -int(said["signal"])
        elapsed, self._since = now - self._since, now
        others = self._meter.share(now, float(said.get("cpu_s", 0))) if self.is_measured else None
        return Ended(member, elapsed, status, others=others)

    def _kill(self) -> None:
        if self._command[0] in LAUNCHERS:
            end_launcher(self._process)
        kill_group(self._process.pid)
        self._process.wait()

    def _remove_files(self) -> None:
        self._list.unlink(missing_ok=True)
        self._said.unlink(missing_ok=True)


def refusals(binary: str, arguments: list[list[str]], timeout_s: float) -> list[str | None] | None:
    """loch-bench's refusal of the arguments of each point, None for those that it accepts; None instead of a list if it
    cannot check several points in one call."""
    if not options.runs_together():
        return None
    listed = json.dumps([{"arguments": each} for each in arguments])
    try:
        done = subprocess.run(
            [binary, "points", "/dev/stdin", "--dry-run"],
            input=listed,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
            env=os.environ,
        )
        said = [json.loads(line) for line in done.stdout.splitlines()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if [each.get("point") for each in said] != list(range(len(arguments))):
        return None
    return [str(each["refusal"]) if each["status"] == 2 else None for each in said]
