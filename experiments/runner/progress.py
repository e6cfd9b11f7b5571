"""What people see while points run: a bar on a terminal, one line a point elsewhere."""

from __future__ import annotations

import sys
import time

from .execute import Outcome
from .units import about


def rate(value: float) -> str:
    """Operations a second, readable."""
    for factor, unit in ((1e6, "Mops/s"), (1e3, "kops/s")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} ops/s"


class Progress:
    """Counts ended points and estimates the rest from those that this run finished."""

    def __init__(self, total: int, jobs: int, title: str) -> None:
        self.total, self.jobs, self.title = total, jobs, title
        self.done = self.failed = 0
        self._began = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            self._open_bar()

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn
        self._bar = Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                        TextColumn("{task.fields[left]}"), console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self.title, total=self.total, left="")
        self._bar.start()

    def left_s(self) -> float | None:
        """Seconds that the remaining points should take, or None before the first one ended."""
        if self.done == 0:
            return None
        return (time.monotonic() - self._began) / self.done * (self.total - self.done)

    def ended(self, outcome: Outcome) -> None:
        """One more point is done."""
        self.done += 1
        self.failed += outcome.failure is not None
        left = self.left_s()
        remaining = f"{about(left)} left" if left and self.done < self.total else ""
        if self._bar:
            if outcome.failure:
                self._bar.console.print(f"failed: {outcome.point.title()}: {outcome.failure['reason']}", markup=False)
            self._bar.update(self._task, completed=self.done, left=remaining)
            return
        what = outcome.failure["reason"] if outcome.failure else rate(outcome.result["throughput_ops_s"])
        state = "FAILED: " if outcome.failure else ""
        line = f"[{self.done}/{self.total}] {outcome.point.title()}: {state}{what}, {outcome.elapsed_s:.1f} s"
        print(line + (f", {remaining}" if remaining else ""), file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Keeps the clock of the bar going."""
        if self._bar:
            self._bar.refresh()

    def close(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None
