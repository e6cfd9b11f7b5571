"""`measure: {repeats: auto}`: each point is repeated until the interval of its median is narrow, within limits.

Further repeats are decided by the results that came before, so the number of a point's repeats follows from its stored
results alone: an interrupted run goes on with the same numbers. The rule looks at the values after each batch, and a rule
that stops when an interval is narrow stops a little too early: the level of an interval at which it stopped is below the
one that the same number of repeats has when it was fixed beforehand.
"""

from __future__ import annotations

from typing import Any

from . import grid, intervals
from .model import AUTO_LEAST as LEAST, AUTO_MOST as MOST, Experiment, System
from .points import PointSource
from .tables import Results, Row

NARROW = 0.02  # width of an interval, as a share of the median, that needs no further repeat


def following(n: int) -> int:
    """The number of repeats to have after n, when the interval of n repeats is too wide: half as many again."""
    return min(MOST, n + max(1, n // 2))


def is_narrow(values: list[float]) -> bool:
    """Whether the interval of the median has a level of 95 % and a width of at most NARROW of the median."""
    if len(values) < LEAST:
        return False
    found = intervals.median(values)
    return found.high - found.low <= NARROW * abs(found.middle)


def counts(experiment: Experiment, store: PointSource, choices: dict[tuple, dict[str, Any]]) -> dict[tuple, int]:
    """The number of repeats of each point, by grid.choice_key(), as far as the stored results tell: a point whose repeats
    are not all stored has those that it needs before anything can be decided, and one of which a repeat failed gets no
    further ones. Empty unless the experiment asks for `repeats: auto`."""
    if not experiment.measure.is_auto:
        return {}
    out: dict[tuple, int] = {}
    for system in experiment.systems:
        for axes in grid.combinations(experiment, system):
            key = grid.choice_key(system.name, axes)
            out[key] = _count(experiment, store, system, axes, choices.get(key, {}))
    return out


def _count(
    experiment: Experiment, store: PointSource, system: System, axes: dict[str, Any], chosen: dict[str, Any]
) -> int:
    rows: list[Row] = []
    wanted = LEAST
    while True:
        for repeat in range(len(rows), wanted):
            point = grid.point_of(experiment, system, axes, repeat, chosen)
            stored = store.of(point)
            if stored is None or stored.failed:
                return wanted
            rows.append(Row(point, stored.hash, stored))
        results = Results(experiment, rows)
        fields = dict.fromkeys((*experiment.figure.y, *experiment.figure.rows))
        values = (results.values(system.name, axes, name) for name in fields)
        if wanted == MOST or all(is_narrow(found) for found in values if found):
            return wanted
        wanted = following(wanted)
