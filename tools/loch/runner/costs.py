"""Estimates how long an experiment's points (runs of loch-bench) take, from earlier runs in the result folder or from
the reference results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from loch.places import SOURCE

from . import grid
from .errors import BadInput
from .model import Experiment
from .points import point_hash, read_point
from .stored_json import read_json

REFERENCE = Path(SOURCE) / "reference"


class Costs:
    """Estimated wall-clock seconds for the points of one experiment."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        self._points: dict[str, float] = {}
        self._systems: dict[str, list[float]] = {}
        self._tuning_s: float | None = None
        self._from_reference(REFERENCE / experiment.name / "manifest.json")
        for path in (folder / "points").glob("*.json"):
            try:
                stored = read_point(path)
            except BadInput:
                continue  # a stored result that is damaged does not tell how long its point took
            if stored is not None:
                self._note(stored.hash, str(stored.runner.system), stored.runner.elapsed_s)

    def _from_reference(self, path: Path) -> None:
        try:
            document = read_json(path)
            for each in document["points"]:
                self._note(str(each["point"]), str(each["system"]), each.get("elapsed_s"))
            self._tuning_s = document.get("tuning_mean_s")
        except (BadInput, KeyError, TypeError):
            return  # the experiment has no reference results, or they cannot be read

    def _note(self, name: str, system: str, seconds: Any) -> None:
        if isinstance(seconds, (int, float)):
            self._points[name] = float(seconds)
            self._systems.setdefault(system, []).append(float(seconds))

    def of(self, point: grid.Point) -> float:
        """The estimated wall-clock seconds of one point."""
        known = self._points.get(point_hash(point))
        if known is not None:
            return known
        if point.tuning and self._tuning_s is not None:
            return self._tuning_s
        alike = self._systems.get(point.system)
        return sum(alike) / len(alike) if alike else guess_seconds(point)


def guess_seconds(point: grid.Point) -> float:
    """The estimate in wall-clock seconds if no run is known: set-up and run length, or the simulator's usual speed."""
    span = sum(int(point.params.get(key, 0)) for key in ("warmup", "duration")) / 1e9
    if point.is_measured:
        return 1.0 + span
    workers = int(point.params["nodes"]) * int(point.params.get("clients", 1))
    operations = float(point.params.get("operations", span * workers * 20e3))
    return 0.5 + operations * 12e-6 + float(point.params.get("keys", 0)) * 0.5e-6


def slots(jobs: int) -> int:
    """The number of `jobs` points that can run at the same time on this machine: at most its number of CPUs."""
    return min(jobs, os.cpu_count() or 1)


def of_points(points: list[grid.Point], costs: Costs, side_by_side: int) -> float:
    """The total seconds of points: `side_by_side` simulated points run at the same time, measured points one by one."""
    simulated = sum(costs.of(point) for point in points if not point.is_measured)
    alone = sum(costs.of(point) for point in points if point.is_measured)
    return alone + simulated / side_by_side
