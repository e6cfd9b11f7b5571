"""Medians with their intervals, and merging of distributions from several repeats."""

from __future__ import annotations

from typing import Iterable

from loch.runner.drawing import median_interval as _interval


def median_interval(values: Iterable[float]) -> tuple[float, float, float]:
    """Median, and the ends of its confidence interval from order statistics (intervals.median)."""
    found = _interval(list(values))
    return found.middle, found.low, found.high


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
