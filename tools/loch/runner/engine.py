"""Simulated points (runs of loch-bench) on other machines: the common part of the engines for Slurm (slurm.py) and Dask
(dask_engine.py).

The runner and the nodes share a file system. The engine has a folder beside the stored points. For each point it writes
a task file there; task.py runs the point on a node and writes how the point ended; the runner stores the result, as it
does with points that ran on its own machine. A point whose node or task died is tried again, and fails after TRIES_MAX
tries. The runner renews a lease file; when the runner is gone, the lease expires and the tasks on the nodes end.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from loch.ending import CommandError
from loch.written import write_atomically

from .errors import BadInput
from .stored_json import read_json
from .task import LEASE

TASK = Path(__file__).resolve().parent / "task.py"
# names of the files of one point in the engine's folder, after the point's number
FILES = ("task.json", "began", "result", "output", "ended.json")
TRIES_MAX = 3
LOOK_S = 0.1  # seconds between two checks for ended points
LEASE_RENEW_S = 10.0
REMOVE_S = 5.0
# Seconds that the files of an ended task may take to become visible on a network file system.
VISIBLE_S = 10.0
# The runner's environment variables that a point gets; all others are those of the node.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "GLIBC_TUNABLES")


class EngineLost(CommandError):
    """The scheduler is unreachable while points wait for it: the run ends, and ended points stay stored."""

    status = 1


@dataclass
class Ending:
    """How a point ended on a node. `lost`: the reason if the point did not end there."""

    elapsed_s: float = 0.0
    exit_status: int | None = None
    timed_out: bool = False
    cannot_start: str = ""
    host: dict | None = None
    result: Path | None = None
    output: Path | None = None
    lost: str = ""


@dataclass
class _Task:
    order: dict
    keep: Callable[[Ending], Any]  # stores how the point ended; its return value is passed to `ended`
    ended: Callable[[Any], None]
    tries: int = 0  # number of tries in which the node or the task died


def order(argv: list[str], timeout_s: float, environment: dict[str, str]) -> dict:
    """The description of a point for task.py: command, folder, environment, time limit in seconds."""
    passed = {key: value for key, value in environment.items() if key in ENVIRONMENT or key.startswith("LOCH_")}
    return {"argv": argv, "cwd": os.getcwd(), "environment": passed, "timeout_s": timeout_s}


class Engine:
    """Runs points (runs of loch-bench) on other machines. A subclass submits points to its scheduler and reports tasks
    that have ended."""

    name = ""
    width = 1  # number of points that run at the same time, for estimates of the run's time

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._tasks: dict[int, _Task] = {}
        self._waiting: deque[int] = deque()
        # ended tasks whose results are still awaited: time at which the end was seen, numbers of the task's points,
        # reason
        self._over: dict[int, tuple[float, tuple[int, ...], str]] = {}
        self._numbers, self._over_numbers, self._renewals = itertools.count(), itertools.count(), itertools.count()
        self._looked = self._renewed = -1e9

    # ---- Implemented by a subclass ----
    def check(self, binary: str) -> None:
        """Refuses, before anything runs or is written, a missing scheduler or a cluster that cannot run `binary`."""
        raise NotImplementedError

    def _opened(self) -> None:
        """Called once the engine's folder has been created."""

    def _submit(self, waiting: deque[int]) -> None:
        """Submits points from the left end of `waiting`, as many as the scheduler may have at once."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Calls _task_is_over for each task that the scheduler no longer has. Called many times a second."""
        raise NotImplementedError

    def _cancel(self) -> None:
        """Cancels all submitted tasks."""
        raise NotImplementedError

    @property
    def folder(self) -> Path:
        """The engine's folder, which exists between open() and stop()."""
        if self._folder is None:
            raise RuntimeError("the engine is not open")
        return self._folder

    # ---- Called by the pool ----
    @property
    def running(self) -> int:
        """The number of points that have been added and have not ended."""
        return len(self._tasks)

    def open(self, folder: Path) -> None:
        """Creates the engine's folder inside `folder`, which the caller has locked.

        Its name ends in .tmp, so that opening the store of points again removes a leftover.
        """
        self._folder = folder.resolve() / f".engine.{os.getpid()}.tmp"
        self.folder.mkdir()
        self._renew(time.monotonic())
        self._opened()

    def add(self, what: dict, keep: Callable[[Ending], Any], ended: Callable[[Any], None]) -> None:
        """Adds a point, described by order(). When it has ended, `keep` stores the result, then `ended` is called.

        If the engine is stopped, only `keep` is called.
        """
        number = next(self._numbers)
        self._tasks[number] = _Task(what, keep, ended)
        (self.folder / f"{number}.task.json").write_text(json.dumps(what), encoding="utf-8")
        self._waiting.append(number)

    def look(self) -> None:
        """Stores points that have ended and submits waiting ones; called many times a second."""
        now = time.monotonic()
        if not self._tasks or now - self._looked < LOOK_S:
            return
        self._looked = now
        if now - self._renewed > LEASE_RENEW_S:
            self._renew(now)
        for task, kept in self._collect():
            task.ended(kept)
        self._watch()
        self._look_at_over(now)
        if self._waiting:
            self._submit(self._waiting)

    def stop(self) -> None:
        """Stores points that have ended, cancels the others and removes the engine's folder. A second call has no
        effect."""
        try:
            if self._folder is not None and self._folder.is_dir():
                self._collect()
                (self.folder / LEASE).unlink(missing_ok=True)
        finally:
            self._cancel()
            self._remove_folder()
            self._tasks.clear()
            self._waiting.clear()

    def _remove_folder(self) -> None:
        """Removes the engine's folder; tasks that still write into it are waited for. Opening the store removes
        leftovers."""
        until = time.monotonic() + REMOVE_S
        while self._folder is not None and self._folder.exists() and time.monotonic() < until:
            shutil.rmtree(self._folder, ignore_errors=True)
            if self._folder.exists():
                time.sleep(LOOK_S)
        self._folder = None

    # ---- Points that have ended ----
    def _renew(self, now: float) -> None:
        self._renewed = now
        write_atomically(self.folder / LEASE, f"{next(self._renewals)}\n")

    def _collect(self) -> list[tuple[_Task, Any]]:
        """Stores every point that has ended; returns each task with the return value of its `keep`."""
        found = []
        for entry in os.scandir(self.folder):
            number, _, rest = entry.name.partition(".")
            if rest == "ended.json" and number.isdigit() and int(number) in self._tasks:
                found.append(int(number))
        return [self._store(number, self._read(number)) for number in sorted(found)]

    def _store(self, number: int, ending: Ending) -> tuple[_Task, Any]:
        task = self._tasks[number]
        kept = task.keep(ending)
        del self._tasks[number]
        for path in (
            self.folder.glob(f"{number}.*") if ending.lost else (self.folder / f"{number}.{rest}" for rest in FILES)
        ):
            path.unlink(missing_ok=True)
        return task, kept

    def _read(self, number: int) -> Ending:
        """Reads how a point ended from the file that task.py wrote; a malformed file means that the point is lost."""
        path = self.folder / f"{number}.ended.json"
        try:
            document = read_json(path)
            record = {key: document[key] for key in ("elapsed_s", "exit_status", "timed_out", "cannot_start", "host")}
            fits = (
                isinstance(record["elapsed_s"], (int, float))
                and isinstance(record["exit_status"], (int, type(None)))
                and isinstance(record["cannot_start"], str)
                and isinstance(record["host"], dict)
            )
        except (BadInput, LookupError, TypeError) as error:
            return Ending(lost=f"{path.name} cannot be read: {str(error).removeprefix(f'{path}: ')}")
        if not fits:
            return Ending(lost=f"{path.name} is not as task.py writes it")
        return Ending(**record, result=self.folder / f"{number}.result", output=self.folder / f"{number}.output")

    # ---- Points whose node or task died ----
    def _task_is_over(self, numbers: tuple[int, ...], why: str) -> None:
        """Notes that the scheduler no longer has the task of the points `numbers`. Points without an end file after
        VISIBLE_S are lost."""
        left = tuple(number for number in numbers if number in self._tasks)
        if left:
            self._over[next(self._over_numbers)] = (time.monotonic(), left, why)

    def _look_at_over(self, now: float) -> None:
        for key, (since, numbers, why) in list(self._over.items()):
            left = [number for number in numbers if number in self._tasks]
            if not left:
                del self._over[key]
            elif now - since > VISIBLE_S:
                del self._over[key]
                self._lose(left, why)

    def _lose(self, numbers: list[int], why: str) -> None:
        """Submits the points of a dead task again. Only for the point that was running does this count as one of its
        tries."""
        began = [number for number in numbers if (self.folder / f"{number}.began").exists()]
        for number in numbers:
            task = self._tasks[number]
            task.tries += number in (began or numbers)
            if task.tries < TRIES_MAX:
                (self.folder / f"{number}.began").unlink(missing_ok=True)
                self._waiting.append(number)
                continue
            outputs = sorted(self.folder.glob(f"{number}.*.output"), key=lambda path: path.stat().st_mtime)
            ending = Ending(lost=f"{why} (tried {task.tries} times)", output=outputs[-1] if outputs else None)
            lost, kept = self._store(number, ending)
            lost.ended(kept)
        again = sum(number in self._tasks for number in numbers)
        if again:
            warn(f"{self.name}: {why}; {again} of its points {'are' if again > 1 else 'is'} tried again")


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)
