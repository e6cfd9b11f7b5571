"""Runs the points (runs of loch-bench) of one experiment, each in its own process group and with a time limit. pool.py
decides the order."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from typing import Callable

from loch import places

from . import options, power, provenance, together
from .child import kill_group, tie
from .engine import Ending, Engine, order
from .errors import BadInput
from .grid import Point
from .launch import LAUNCHERS, Launch, end_launcher, of_this_machine
from .model import Experiment
from .points import Store, point_hash, stamp
from .result import Failure, Result, of_program
from .stored_json import read_json

SIMULATED_TIMEOUT_S = 1800.0
MEASURED_SLACK_S = 180.0
# Seconds to wait for a launcher after the result is complete: mpirun waits forever after the loss of a host.
RESULT_GRACE_S = 5.0
TAIL_BYTES = 2000
OTHERS_LIMIT = 0.05
SOURCE = Path(places.SOURCE)


@dataclass
class Outcome:
    """How one point ended: its result or its failure."""

    point: Point
    hash: str
    elapsed_s: float
    failure: Failure | None = None
    result: Result | None = None
    others: float | None = None  # for a measured point: the share of CPU time that other processes used


@dataclass
class _Running:
    point: Point
    hash: str
    process: subprocess.Popen
    argv: list[str]
    result: Path
    output: Path
    began: float
    deadline: float
    meter: provenance.OthersMeter
    timed_out: bool = False
    cpu_s: float = 0.0
    result_seen: float | None = None  # time at which the result file of a point with several processes was first seen
    outlived_result: bool = False  # the result was complete, but the launcher did not exit and was killed


class Executor:
    """Starts points (runs of loch-bench) and stores how each ended. Stopping it kills the running points; ended points
    stay stored."""

    def __init__(self, experiment: Experiment, store: Store, launch: Launch | None) -> None:
        self.experiment, self.store, self.launch = experiment, store, launch
        self.host = provenance.host()
        self._running: list[_Running] = []
        # processes that run several points, each with the function to which the points are passed that it did not run
        self._together: list[tuple[together.Together, Callable[[list[Point], bool], None]]] = []

    @property
    def running(self) -> int:
        """The number of points that are running."""
        return len(self._running) + len(self._together)

    @property
    def is_measuring(self) -> bool:
        """Whether a measured point is running, next to which no other point may run."""
        return any(each.point.is_measured for each in self._running) or any(
            process.is_measured for process, _ in self._together
        )

    def launch_of(self, point: Point) -> Launch | None:
        """What starts the processes of a point, one for each node; None for a point in one process."""
        for launched in (self.launch, of_this_machine(point)):
            if launched is not None and launched.is_for(point):
                return launched
        return None

    def start(self, point: Point, ended: Callable[[Outcome], None]) -> None:
        """Starts a point. If it cannot be started, `ended` is called at once with the failure."""
        self._start(point, ended)

    def pids(self) -> list[int]:
        """The processes that run points here and whose end has not been seen yet."""
        return [each.process.pid for each in self._running] + [process.pid for process, _ in self._together]

    def start_together(self, points: list[Point], leave: Callable[[list[Point], bool], None]) -> None:
        """Starts points that begin with the same preloaded cluster, in one process or in one set of launched processes.
        `leave` is called with those that this process did not run, and whether these may share another one; else each
        has to run by itself."""
        environment = {"LOCH_HOME": str(SOURCE), **os.environ}
        members = []
        for point in points:
            name = point_hash(point)
            result, output = self._temporary(name)
            arguments = options.arguments(point.params)
            members.append(together.Member(point, name, self._launched(point, environment), arguments, result, output))
        try:
            process = together.Together(
                members,
                self.store.binary,
                lambda arguments: self._started(points[0], [self.store.binary, *arguments], environment),
                environment,
                time.monotonic(),
            )
        except OSError:
            leave(points, False)
            return
        self._together.append((process, leave))

    def hand_over(self, point: Point, engine: Engine, ended: Callable[[Outcome], None]) -> None:
        """Has an engine run a simulated point on another machine; its end is judged and stored as if it had run
        here."""
        argv = self.command(point)
        environment = {"LOCH_HOME": str(SOURCE), **os.environ}
        engine.add(
            order(argv, self._timeout(point), environment), lambda ending: self._keep_ending(point, argv, ending), ended
        )

    def look(self, ended: Callable[[Outcome], None]) -> None:
        """Stores the points that have ended, and calls `ended` for each; called many times a second."""
        for each in list(self._running):
            self._look_at(each, ended)
        for process, leave in list(self._together):
            for one in process.look(time.monotonic(), self._timeout):
                ended(self._keep_member(one))
            if process.is_over:
                self._together.remove((process, leave))
                leave([each.point for each in process.left.values()], process.has_made_way and process.is_kept)

    def stop(self) -> None:
        """Kills the process groups that still run, and removes their unfinished files."""
        for each in self._running:
            _end(each)
        for each in self._running:
            each.process.wait()
            each.result.unlink(missing_ok=True)
            each.output.unlink(missing_ok=True)
        self._running.clear()
        for process, _ in self._together:
            process.stop()
        self._together.clear()

    def command(self, point: Point) -> list[str]:
        """The `loch bench` command of a point, without --json."""
        return [self.store.binary, "bench", *options.arguments(point.params)]

    def _temporary(self, name: str) -> tuple[Path, Path]:
        """The files for a running point's result and for what it prints."""
        own = self.store.folder / f".{name}.{os.getpid()}"
        return own.with_name(f"{own.name}.result.tmp"), own.with_name(f"{own.name}.output.tmp")

    def _launched(self, point: Point, environment: dict[str, str]) -> list[str]:
        return self._started(point, self.command(point), environment)

    def _started(self, point: Point, command: list[str], environment: dict[str, str]) -> list[str]:
        """The command line that runs `command` in as many processes as the point has."""
        launched = self.launch_of(point)
        return command if launched is None else launched.command(point, command, environment)

    def _timeout(self, point: Point) -> float:
        if self.experiment.measure.timeout_s is not None:
            return self.experiment.measure.timeout_s + power.extra_seconds(point)
        if not point.is_measured:
            return SIMULATED_TIMEOUT_S
        spans = (int(point.params.get(key, 0)) for key in ("warmup", "duration"))
        return MEASURED_SLACK_S + 3 * sum(spans) / 1e9 + power.extra_seconds(point)

    def _start(self, point: Point, ended: Callable[[Outcome], None]) -> None:
        name = point_hash(point)
        result, output = self._temporary(name)
        environment = {"LOCH_HOME": str(SOURCE), **os.environ}
        argv = self._launched(point, environment)
        command = power.wrapped(point, self.launch, argv, result, self.store.folder / f"{name}.watts.csv")
        tied = tie(command, self.store.binary, options.dies_with(), environment)
        now = time.monotonic()
        meter = provenance.OthersMeter(now)
        with open(output, "wb") as stream:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    env=environment,
                    start_new_session=True,
                    **tied,
                )
            except OSError as error:
                output.unlink(missing_ok=True)
                reason = f"cannot start {argv[0]}: {error.strerror}"
                ended(self._store(point, argv, 0.0, reason, None, "", None, self.host))
                return
        self._running.append(
            _Running(point, name, process, argv, result, output, now, now + self._timeout(point), meter)
        )

    def _look_at(self, each: _Running, ended: Callable[[Outcome], None]) -> None:
        now = time.monotonic()
        if each.process.returncode is None:
            pid, status, usage = os.wait4(each.process.pid, os.WNOHANG)
            if pid:
                each.process.returncode = os.waitstatus_to_exitcode(status)
                each.cpu_s = usage.ru_utime + usage.ru_stime
        if each.process.returncode is None:
            if _outlives_result(each, now):
                each.outlived_result = True
                _end(each)
            elif now > each.deadline and not each.timed_out:
                each.timed_out = True
                _end(each)
            return
        kill_group(each.process.pid)  # ends processes of the point's group that are still running
        self._running.remove(each)
        elapsed = now - each.began
        others = each.meter.share(now, each.cpu_s) if each.point.is_measured else None
        found = self._judge(each)
        tail = _tail(each.output)
        each.result.unlink(missing_ok=True)
        each.output.unlink(missing_ok=True)
        ended(self._store(each.point, each.argv, elapsed, found, each.process.returncode, tail, others, self.host))

    def _keep_member(self, one: together.Ended) -> Outcome:
        """Judges and stores how a point ended that ran in one process with other points."""
        member = one.member
        reason = self._bad_end(member.point, one.exit_status, one.timed_out)
        found = reason if reason is not None else _result_of(member.result, member.argv)
        tail = _tail(member.output)
        member.result.unlink(missing_ok=True)
        member.output.unlink(missing_ok=True)
        return self._store(
            member.point, member.argv, one.elapsed_s, found, one.exit_status, tail, one.others, self.host
        )

    def _keep_ending(self, point: Point, argv: list[str], ending: Ending) -> Outcome:
        """Judges and stores how a point ended on another machine."""
        found: Result | str | None = ending.lost or ending.cannot_start or None
        if found is None:
            found = self._bad_end(point, ending.exit_status, ending.timed_out)
        if found is None:
            found = _result_of(ending.result, argv) if ending.result else "it left no result"
        tail = _tail(ending.output) if ending.output else ""
        return self._store(
            point, argv, ending.elapsed_s, found, ending.exit_status, tail, None, ending.host or self.host
        )

    def _judge(self, each: _Running) -> Result | str:
        """The result of a point, or the reason why it failed."""
        code = 0 if each.outlived_result else each.process.returncode
        reason = self._bad_end(each.point, code, each.timed_out)
        return reason if reason is not None else _result_of(each.result, each.argv)

    def _bad_end(self, point: Point, code: int | None, timed_out: bool) -> str | None:
        """The reason if a process ended in a way that leaves no result, else None."""
        if timed_out:
            return f"timed out after {self._timeout(point):g} s"
        if code is None or code == 0:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def _store(
        self,
        point: Point,
        argv: list[str],
        elapsed: float,
        found: Result | str,
        code: int | None,
        tail: str,
        others: float | None,
        host: dict,
    ) -> Outcome:
        name = point_hash(point)
        runner = self._runner(point, argv, elapsed, others, host)
        if isinstance(found, str):
            failure = Failure(reason=found, exit_status=code, stderr_tail=tail, command=rerun(point))
            self.store.keep_failure(name, failure, runner)
            return Outcome(point, name, elapsed, failure=failure, others=others)
        self.store.keep(name, found, runner)
        return Outcome(point, name, elapsed, result=found, others=others)

    def _runner(self, point: Point, argv: list[str], elapsed: float, others: float | None, host: dict) -> dict:
        return {
            "experiment": self.experiment.name,
            "system": point.system,
            "axes": point.axes,
            "repeat": point.repeat,
            "tuning": point.tuning,
            "chosen": point.chosen,
            "params": point.params,
            **({"power": asdict(point.power)} if point.power is not None else {}),
            "argv": argv,
            "stamp": stamp(point, self.store.binary),
            "elapsed_s": round(elapsed, 3),
            "others_cpu_share": None if others is None else round(others, 4),
            "host": host,
        }


def _result_of(path: Path, argv: list[str]) -> Result | str:
    """The result in a file, or the reason why the file holds no result."""
    try:
        document = read_json(path)
    except BadInput as error:
        return f"no readable result: {str(error).removeprefix(f'{path}: ')}"
    lost = _unplanned(document) if argv[0] in LAUNCHERS and isinstance(document, dict) else []
    if lost:
        return f"lost during the run: node {', '.join(map(str, lost))}"
    try:
        return of_program(document)
    except BadInput as error:
        return str(error)


def _unplanned(document: dict) -> list:
    """The nodes that were lost during the run although no faults file planned it."""

    def listed(key: str) -> list[Any]:
        nodes = document.get(key)
        return nodes if isinstance(nodes, list) else []

    lost, planned = listed("lost_nodes"), listed("planned_losses")
    return [node for node in lost if node not in planned]


def rerun(point: Point) -> str:
    """The command line with which a user can run one point again."""
    before = f"mpirun -n {point.params['nodes']} " if point.params.get("processes") else ""
    return before + "./loch bench " + shlex.join(options.arguments(point.params))


def _tail(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return stream.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _outlives_result(each: _Running, now: float) -> bool:
    """Whether the result of several processes is complete, but their launcher has not exited within RESULT_GRACE_S."""
    if each.argv[0] not in LAUNCHERS or each.timed_out or each.outlived_result:
        return False
    if each.result_seen is None and each.result.exists():
        each.result_seen = now
    return each.result_seen is not None and now - each.result_seen > RESULT_GRACE_S + power.extra_seconds(each.point)


def _end(each: _Running) -> None:
    if each.argv[0] in LAUNCHERS:
        end_launcher(each.process)
    if each.process.returncode is None:
        kill_group(each.process.pid)
