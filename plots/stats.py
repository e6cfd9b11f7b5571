"""Bootstrap intervals of medians, and merging of distributions from several repeats."""

from __future__ import annotations

from typing import Iterable

import numpy as np

RESAMPLES = 2000


def median_interval(values: Iterable[float]) -> tuple[float, float, float]:
    """Median and its 95 % bootstrap interval; the same values always give the same interval."""
    array = np.asarray(sorted(values), dtype=float)
    middle = float(np.median(array))
    if len(array) < 2:
        return middle, middle, middle
    if array[0] == array[-1]:
        return middle, middle, middle
    # imported here because it loads slowly, and only values of several repeats need it
    from scipy.stats import bootstrap

    made = bootstrap(
        (array,), np.median, n_resamples=RESAMPLES, method="percentile", random_state=np.random.default_rng(1)
    )
    return middle, float(made.confidence_interval.low), float(made.confidence_interval.high)


def merge_cdfs(parts: list[tuple[list[tuple[float, float]], float]]) -> list[tuple[float, float]]:
    """Merges several distributions; each part is [(value, share at or below it)…] and its number of samples.

    Shares are weighted by the number of samples, as if one histogram had counted them all.
    """
    total = sum(weight for _, weight in parts)
    mass: dict[float, float] = {}
    for cdf, weight in parts:
        before = 0.0
        for value, share in cdf:
            mass[value] = mass.get(value, 0.0) + (share - before) * weight / total
            before = share
    out, running = [], 0.0
    for value in sorted(mass):
        running += mass[value]
        out.append((value, min(1.0, running)))
    return out
