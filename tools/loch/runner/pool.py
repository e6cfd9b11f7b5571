"""Schedules a run's work: simulated points (runs of loch-bench) of all experiments and drawing in parallel, each
measured point alone."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Callable

from loch.ending import status_of

from . import together
from .child import die_with_parent
from .engine import Engine
from .execute import Executor, Outcome
from .grid import Point

TICK_S = 0.02


@dataclass
class _Chore:
    """A task of the runner itself, such as drawing a figure, in a child process that occupies a core."""

    process: multiprocessing.process.BaseProcess
    ended: Callable[[bool], None]


@dataclass(eq=False)
class _Waiting:
    """A point that has not been started; points with the same `key` (together.key()) can run in one process."""

    executor: Executor
    point: Point
    ended: Callable[[Outcome], None]
    key: str | None = None


class Pool:
    """Runs at most `jobs` points and chores (such as drawing) at once; `ended` callbacks may add more while the pool
    runs.

    With an engine, simulated points run on other machines and do not count towards `jobs`.
    """

    def __init__(self, jobs: int, engine: Engine | None = None) -> None:
        self.jobs, self._engine = jobs, engine
        self._simulated: deque[_Waiting] = deque()
        self._measured: deque[_Waiting] = deque()
        self._chores: deque[tuple[Callable[[], None], Callable[[bool], None]]] = deque()
        self._running_chores: list[_Chore] = []
        self._heard: dict[int, tuple[Executor, Callable]] = {}

    def add(
        self, executor: Executor, points: list[Point], ended: Callable[[Outcome], None], first: bool = False
    ) -> None:
        """Adds points of one experiment in their order; with `first`, before all waiting points."""
        self._heard[id(executor)] = (executor, ended)
        for queue, kind in ((self._simulated, False), (self._measured, True)):
            mine = [
                _Waiting(executor, point, ended, together.key(point, executor.launch_of(point)))
                for point in points
                if point.is_measured == kind
            ]
            if first:
                queue.extendleft(reversed(mine))
            else:
                queue.extend(mine)

    def chore(self, call: Callable[[], None], ended: Callable[[bool], None]) -> None:
        """Runs `call` in a child process; `ended` is called with whether it succeeded."""
        self._chores.append((call, ended))

    def run(self, tick: Callable[[], None]) -> None:
        """Runs until all points and all tasks of the runner (chores) have ended; `tick` is called many times a
        second."""
        try:
            while self._simulated or self._measured or self._chores or self._busy() or self._elsewhere():
                self._fill()
                if self._engine is not None:
                    self._engine.look()
                for executor, ended in list(self._heard.values()):
                    executor.look(ended)
                self._look_at_chores()
                tick()
                self._rest()
        finally:
            self.stop()

    def _rest(self) -> None:
        """Waits until a process that occupies a core has ended, TICK_S at most, so that the next one starts at once."""
        ends: list[int] = []
        try:
            ends += [os.pidfd_open(pid) for executor, _ in self._heard.values() for pid in executor.pids()]
            select.select([*ends, *(chore.process.sentinel for chore in self._running_chores)], [], [], TICK_S)
        except (OSError, ValueError):  # no such calls here, or more descriptors than select() takes
            time.sleep(TICK_S)
        finally:
            for end in ends:
                os.close(end)

    def stop(self) -> None:
        """Ends all running points and all running tasks of the runner itself."""
        try:
            self._stop_here()
        finally:
            if self._engine is not None:
                self._engine.stop()

    def _stop_here(self) -> None:
        for chore in self._running_chores:
            chore.process.kill()
            chore.process.join()
        self._running_chores.clear()
        for executor, _ in self._heard.values():
            executor.stop()

    def _busy(self) -> int:
        return len(self._running_chores) + sum(executor.running for executor, _ in self._heard.values())

    def _elsewhere(self) -> int:
        return self._engine.running if self._engine is not None else 0

    def _fill(self) -> None:
        while self._engine is not None and self._simulated:
            next_one = self._simulated.popleft()
            next_one.executor.hand_over(next_one.point, self._engine, next_one.ended)
        measuring = any(executor.is_measuring for executor, _ in self._heard.values())
        while not measuring and self._busy() < self.jobs and (self._chores or self._simulated):
            if self._chores:
                self._start_chore(*self._chores.popleft())
            else:
                self._start_next(self._simulated)
        if self._measured and not self._busy() and not self._elsewhere() and not self._simulated and not self._chores:
            self._start_next(self._measured)

    def _start_next(self, queue: deque[_Waiting]) -> None:
        """Starts the next point of a queue, together with those that begin with the same preloaded cluster."""
        first = queue.popleft()
        mates = self._take_mates(first, queue)
        if not mates:
            first.executor.start(first.point, first.ended)
            return
        points = [first.point, *(each.point for each in mates)]
        first.executor.start_together(points, lambda left, again: self._return(first, left, again, queue))

    def _take_mates(self, first: _Waiting, queue: deque[_Waiting]) -> list[_Waiting]:
        """Takes points that can run together with `first` out of its queue; fewer simulated ones towards the queue's end, so
        that all jobs have work until the end."""
        most = together.MOST if queue is self._measured else min(together.MOST, len(queue) // (2 * self.jobs))
        if first.key is None or most == 0:
            return []
        alike = [each for each in queue if each.key == first.key and each.executor is first.executor][:most]
        for each in alike:
            queue.remove(each)
        return alike

    def _return(self, first: _Waiting, left: list[Point], again: bool, queue: deque[_Waiting]) -> None:
        """Puts points that the process shared with `first` did not run back to the front of their queue, to run by
        themselves; with `again`, in another process that they share."""
        key = first.key if again else None
        queue.extendleft(reversed([_Waiting(first.executor, point, first.ended, key) for point in left]))

    def _start_chore(self, call: Callable[[], None], ended: Callable[[bool], None]) -> None:
        process = multiprocessing.get_context("fork").Process(target=_in_child, args=(call,))
        process.start()
        self._running_chores.append(_Chore(process, ended))

    def _look_at_chores(self) -> None:
        for chore in list(self._running_chores):
            if chore.process.exitcode is not None:
                self._running_chores.remove(chore)
                chore.process.join()
                chore.ended(chore.process.exitcode == 0)


def _in_child(call: Callable[[], None]) -> None:
    quiet_child()
    gc.freeze()  # else a full collection writes to the head of every object, and the kernel copies the pages of all

    def called() -> int:
        call()
        return 0

    sys.exit(status_of(called))


def quiet_child() -> None:
    """To be called first in a child of the runner: ignores Ctrl-C, which the runner handles, and dies with the
    runner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()
    os.nice(1)
