"""`measure: {repeats: auto}`: each point (run of an experiment) is repeated until the confidence interval of its median
is narrow, within limits: at most MOST times, and no further where MOST repeats would not make it narrow either.

Further repeats are decided by the results that came before, so the number of a point's repeats follows from its stored
results alone: an interrupted run goes on with the same numbers. Because the rule looks after each batch and stops when
an interval happens to be narrow, it stops a little too early: the interval's confidence level is then below that of the
same number of repeats fixed beforehand.
"""

from __future__ import annotations

import math
from typing import Any

from . import grid, intervals
from .model import AUTO_LEAST as LEAST, AUTO_MOST as MOST, Experiment, System
from .points import PointSource
from .tables import Results, Row

NARROW = 0.02  # a confidence interval at most this wide, as a share of the median, needs no further repeats
# From how many repeats on a point may be given up: an interval of 6 is as wide as one outlier makes it, of 9 it is not.
HOPELESS_FROM = 9
# How many times NARROW the interval of MOST repeats is expected to be where a point is given up. The estimate is rough: of the
# points that MOST repeats make narrow as often as not, half would be given up in vain at 1, and one in ten at 1.5.
HOPELESS = 1.5


def following(n: int) -> int:
    """How many repeats a point gets in all if n have given too wide an interval: half as many again, up to MOST."""
    return min(MOST, n + max(1, n // 2))


def is_narrow(values: list[float]) -> bool:
    """Whether the median's 95 % confidence interval is at most NARROW of the median wide."""
    if len(values) < LEAST:
        return False
    found = intervals.median(values)
    return found.high - found.low <= NARROW * abs(found.middle)


def is_hopeless(values: list[float]) -> bool:
    """Whether even MOST repeats would leave the interval far wider than NARROW, by the inverse of the square root of their
    number, as which intervals of a median shrink."""
    if len(values) < HOPELESS_FROM:
        return False
    found = intervals.median(values)
    expected = (found.high - found.low) * math.sqrt(len(values) / MOST)
    return expected > HOPELESS * NARROW * abs(found.middle)


def is_over(fields: list[list[float]]) -> bool:
    """Whether a point with these values of each of its fields gets no further repeats: all intervals are narrow, or one can
    not become so."""
    return all(is_narrow(values) for values in fields) or any(is_hopeless(values) for values in fields)


def counts(experiment: Experiment, store: PointSource, choices: dict[tuple, dict[str, Any]]) -> dict[tuple, int]:
    """The number of repeats that each point needs by the results stored so far; its key is grid.choice_key() (system
    and axis values). A point keeps its number until all these repeats are stored, and for good if one of them failed.
    Empty unless the experiment asks for `repeats: auto`."""
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
        if wanted == MOST or is_over([found for found in values if found]):
            return wanted
        wanted = following(wanted)
