"""Chooses what the papers tuned: every candidate runs shortly, the best by the system's goal is kept."""

from __future__ import annotations

from . import grid
from .model import Experiment
from .points import Store, point_hash
from .tables import flatten


def choose(experiment: Experiment, store: Store) -> list[dict]:
    """One choice for each tuned system and combination of axis values; ties go to the first in the file.

    A place where every candidate failed keeps the first candidate, with value None.
    """
    out: list[dict] = []
    for system in experiment.systems:
        if not system.tune:
            continue
        mine = [point for point in grid.tuning_points(experiment) if point.system == system.name]
        for axes in grid.combinations(experiment, system):
            tried = [(point, _goal(store, point, system.goal)) for point in mine if point.axes == axes]
            scored = [(value, point) for point, value in tried if value is not None]
            best = None
            for value, point in scored:
                if best is None or (value > best[0] if system.maximize else value < best[0]):
                    best = (value, point)
            value, point = best if best else (None, tried[0][0])
            out.append({"system": system.name, "axes": axes, "chosen": point.chosen, "goal": system.goal,
                        "value": value, "tried": len(tried),
                        "candidates": [{**candidate.chosen, system.goal: found} for candidate, found in tried]})
    return out


def _goal(store: Store, point: grid.Point, goal: str) -> float | None:
    stored = store.find(point_hash(point))
    if stored is None or stored.failed:
        return None
    value = flatten(stored.document).get(goal)
    return float(value) if isinstance(value, (int, float)) else None
