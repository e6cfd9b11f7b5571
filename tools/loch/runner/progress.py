"""Progress of a run on standard error: a bar on a terminal; else a line for each point, or every 15 s for several
experiments."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from .execute import Outcome
from .units import about

if TYPE_CHECKING:  # at run time rich, which loads slowly, is imported only if standard error is a terminal
    from rich.progress import Progress as Bar

REFRESH_S = 0.25
LINE_EVERY_S = 15.0
SETTLED_S = 5.0  # seconds of a run after which its pace is used to estimate the remaining time


def rate(value: float) -> str:
    """Operations per second as text with a unit, such as 1.2 Mops/s."""
    for factor, unit in ((1e6, "Mops/s"), (1e3, "kops/s")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} ops/s"


class Progress:
    """Counts ended points, and estimates the remaining time from each point's expected time and the pace so far."""

    def __init__(self, title: str, total: int, expected_s: float, jobs: int, experiments: int = 1) -> None:
        self.title, self.total, self.jobs, self.experiments = title, total, jobs, experiments
        self.done = self.failed = self.finished = 0
        self._left_s = expected_s  # sum of the expected seconds of all remaining points
        self._done_s = 0.0
        self._began = self._shown = time.monotonic()
        self._bar: Bar | None = None
        if sys.stderr.isatty():
            self._open_bar()

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )  # the bar has no thread that refreshes it, because the runner forks
        self._task = self._bar.add_task(self.title, total=self.total, left="")
        self._bar.start()

    def left_s(self) -> float | None:
        """The estimated seconds until all points have ended; None while nothing is known."""
        spent = time.monotonic() - self._began
        if self.done == 0:
            return self._left_s / self.jobs if self._left_s else None
        if spent < SETTLED_S or not self._done_s:
            return self._left_s / self.jobs
        return self._left_s * spent / self._done_s

    def changed(self, points: int, expected_s: float) -> None:
        """Adds `points`, which may be negative, to the number of expected points, and `expected_s` to their expected
        time."""
        self.total += points
        self._left_s = max(0.0, self._left_s + expected_s)
        if self._bar:
            self._bar.update(self._task, total=self.total)

    def ended(self, outcome: Outcome, expected_s: float) -> None:
        """Counts a point that has ended, and shows its result or failure."""
        self.done += 1
        self.failed += outcome.failure is not None
        self._left_s = max(0.0, self._left_s - expected_s)
        self._done_s += expected_s
        if self._bar:
            if outcome.failure:
                self._bar.console.print(f"failed: {outcome.point.title()}: {outcome.failure.reason}", markup=False)
            self._bar.update(self._task, completed=self.done, left=self._remaining())
            return
        if self.experiments > 1:
            return
        got = outcome.result.known.throughput_ops_s if outcome.result else None
        what = outcome.failure.reason if outcome.failure else rate(got or 0.0)
        state = "FAILED: " if outcome.failure else ""
        line = f"[{self.done}/{self.total}] {outcome.point.title()}: {state}{what}, {outcome.elapsed_s:.1f} s"
        remaining = self._remaining()
        print(line + (f", {remaining}" if remaining else ""), file=sys.stderr, flush=True)

    def experiment_done(self, text: str) -> None:
        """Prints the line of a finished experiment, if several run."""
        self.finished += 1
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False)
            self._bar.update(self._task, description=f"{self.title} ({self.finished} done)")
        else:
            print(text, file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Refreshes the bar; without a bar and with several experiments, prints a line every LINE_EVERY_S seconds."""
        now = time.monotonic()
        if self._bar and now - self._shown >= REFRESH_S:
            self._shown = now
            self._bar.refresh()
        elif not self._bar and self.experiments > 1 and now - self._shown >= LINE_EVERY_S:
            self._shown = now
            parts = [
                f"[{self.done}/{self.total}] {self.finished} of {self.experiments} experiments done",
                f"{self.failed} failed" if self.failed else "",
                self._remaining(),
            ]
            print(", ".join(filter(None, parts)), file=sys.stderr, flush=True)

    def _remaining(self) -> str:
        left = self.left_s()
        return f"{about(left)} left" if left and self.done < self.total else ""

    def close(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None
