"""Simulated points on other machines: what every engine (slurm.py, dask_engine.py) does alike.

The runner and the nodes share a file system. The engine has a folder there, beside the stored points; for each point it
writes what is to be run, task.py runs it on a node and writes how it went, and the runner alone stores that, as it does
with points that ran here. A point whose node or task died before it ended is tried again, and fails after TRIES_MAX
tries. A lease, a file that the runner renews, ends whatever still runs when the runner is gone.
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
FILES = ("task.json", "began", "result", "output", "ended.json")  # the files of one point in the engine's folder
TRIES_MAX = 3
LOOK_S = 0.1  # between two looks for points that have ended
LEASE_RENEW_S = 10.0
REMOVE_S = 5.0
# After the engine has said that a task is over, its files may be late on a network file system.
VISIBLE_S = 10.0
# Of the runner's environment, what a point may see; the rest is the node's own.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "GLIBC_TUNABLES")


class EngineLost(CommandError):
    """The engine itself is gone while points wait for it: the run ends, what has ended is stored."""

    status = 1


@dataclass
class Ending:
    """How a point ended on a node. `lost`: why it never did."""

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
    keep: Callable[[Ending], Any]  # stores how it ended; what it returns goes to `ended`
    ended: Callable[[Any], None]
    tries: int = 0  # that died


def order(argv: list[str], timeout_s: float, environment: dict[str, str]) -> dict:
    """What task.py is to run."""
    passed = {key: value for key, value in environment.items() if key in ENVIRONMENT or key.startswith("LOCH_")}
    return {"argv": argv, "cwd": os.getcwd(), "environment": passed, "timeout_s": timeout_s}


class Engine:
    """Runs points elsewhere. A subclass gives them to its scheduler and says which of its tasks are over."""

    name = ""
    width = 1  # points side by side, for the estimate of the time

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._tasks: dict[int, _Task] = {}
        self._waiting: deque[int] = deque()
        self._over: dict[int, tuple[float, tuple[int, ...], str]] = {}  # by task: since when, which points it had, why
        self._numbers, self._over_numbers, self._renewals = itertools.count(), itertools.count(), itertools.count()
        self._looked = self._renewed = -1e9

    # ---- What a subclass does ----
    def check(self, binary: str) -> None:
        """Refuses, before anything is run or written, an engine that is not there or a cluster that cannot run `binary`."""
        raise NotImplementedError

    def _opened(self) -> None:
        """The folder is there."""

    def _submit(self, waiting: deque[int]) -> None:
        """Takes points from the left of `waiting` and gives them to the scheduler, as many as it may have."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Calls _task_is_over for each task that the scheduler has no more. Called many times a second."""
        raise NotImplementedError

    def _cancel(self) -> None:
        """Ends all that it was given."""
        raise NotImplementedError

    @property
    def folder(self) -> Path:
        """The engine's own, between open() and stop()."""
        if self._folder is None:
            raise RuntimeError("the engine is not open")
        return self._folder

    # ---- What the pool calls ----
    @property
    def running(self) -> int:
        """Points that have not ended."""
        return len(self._tasks)

    def open(self, folder: Path) -> None:
        """Makes the engine's own folder in one that the caller has locked, and that is cleared of *.tmp when it is opened."""
        self._folder = folder.resolve() / f".engine.{os.getpid()}.tmp"
        self.folder.mkdir()
        self._renew(time.monotonic())
        self._opened()

    def add(self, what: dict, keep: Callable[[Ending], Any], ended: Callable[[Any], None]) -> None:
        """Runs an order(). `keep` stores how it ended, also when everything stops; `ended` hears of it otherwise."""
        number = next(self._numbers)
        self._tasks[number] = _Task(what, keep, ended)
        (self.folder / f"{number}.task.json").write_text(json.dumps(what), encoding="utf-8")
        self._waiting.append(number)

    def look(self) -> None:
        """Takes note of points that ended, and gives the waiting ones to the scheduler; called many times a second."""
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
        """Stores what has ended, cancels the rest and removes the folder. Once stopped, does nothing."""
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
        """Removes the engine's folder once no task writes into it. Opening the stored points again removes leftovers."""
        until = time.monotonic() + REMOVE_S
        while self._folder is not None and self._folder.exists() and time.monotonic() < until:
            shutil.rmtree(self._folder, ignore_errors=True)
            if self._folder.exists():
                time.sleep(LOOK_S)
        self._folder = None

    # ---- Of what ended ----
    def _renew(self, now: float) -> None:
        self._renewed = now
        write_atomically(self.folder / LEASE, f"{next(self._renewals)}\n")

    def _collect(self) -> list[tuple[_Task, Any]]:
        """Stores every point that has ended; with what storing it returned."""
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
        """What task.py left of a point; a file that is not as it writes it is a lost point."""
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

    # ---- Of what died ----
    def _task_is_over(self, numbers: tuple[int, ...], why: str) -> None:
        """The scheduler has no longer the task that had these points. Those that have not ended by now are lost."""
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
        """Tries them again. The point that was running counts it as one of its tries; those behind it do not."""
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
