"""Chooses tuned parameters: every candidate runs briefly, and the best by the system's goal is kept."""

from __future__ import annotations

import statistics

from . import grid
from .model import Experiment
from .points import Store, point_hash
from .tables import flatten


def choose(experiment: Experiment, store: Store) -> list[dict]:
    """One choice for each tuned system and combination of axis values; of equal candidates the first in the file wins.

    If every candidate failed, the first candidate is kept, with value None.
    """
    out: list[dict] = []
    for system in experiment.systems:
        if not system.tune:
            continue
        mine = [point for point in grid.tuning_points(experiment) if point.system == system.name]
        for axes in grid.combinations(experiment, system):
            tried = [(point, _goal(store, point, system.goal)) for point in mine if point.axes == axes]
            scored = [(value, point) for point, value in tried if value is not None]
            best: tuple[float, grid.Point] | None = None
            for value, point in scored:
                if best is None or (value > best[0] if system.maximize else value < best[0]):
                    best = (value, point)
            at_best, point = best if best else (None, tried[0][0])
            out.append(
                {
                    "system": system.name,
                    "axes": axes,
                    "chosen": point.chosen,
                    "goal": system.goal,
                    "value": at_best,
                    "tried": len(tried),
                    "candidates": [{**candidate.chosen, system.goal: found} for candidate, found in tried],
                }
            )
    return out


def with_rates(experiment: Experiment, store: Store, choices: list[dict]) -> list[dict]:
    """The tuned parameters, and for each share_of_max below 1 the rate: that share of the system's closed-loop
    throughput.

    That throughput is the median of the repeats that ran. If none ran there is no rate: the point then uses a closed
    loop and is stored as failed.
    """
    if "share_of_max" not in experiment.axes:
        return choices
    known = {grid.choice_key(choice["system"], choice["axes"]): choice for choice in choices}
    found: dict[tuple, list[float]] = {}
    at_most = grid.maximum_points(experiment, {key: choice["chosen"] for key, choice in known.items()})
    for point in at_most:
        value = _goal(store, point, "throughput_ops_s")
        if value is not None:
            found.setdefault(grid.choice_key(point.system, point.axes), []).append(value)
    out = []
    for point in at_most[: len(at_most) // experiment.measure.repeats]:
        key = grid.choice_key(point.system, point.axes)
        choice = known.get(key) or {
            "system": point.system,
            "axes": point.axes,
            "chosen": {},
            "goal": "throughput_ops_s",
            "value": None,
            "tried": 0,
            "candidates": [],
        }
        share = point.axes["share_of_max"]
        if key in found:
            most = statistics.median(found[key])
            rate = {"rate": float(round(share * most))} if share < 1 else {}
            choice = {**choice, "chosen": {**choice["chosen"], **rate}, "value": most}
        out.append(choice)
    return out


def _goal(store: Store, point: grid.Point, goal: str) -> float | None:
    stored = store.find(point_hash(point))
    if stored is None or stored.result is None:
        return None
    value = flatten(stored.result.document).get(goal)
    return float(value) if isinstance(value, (int, float)) else None
