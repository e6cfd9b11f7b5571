"""Intervals from order statistics: confidence intervals of medians, and prediction intervals of further draws."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

LEVEL = 0.95  # confidence level that an interval of a median is meant to have
BAND = 0.90  # share of further draws that a prediction interval (band) is meant to contain


@dataclass(frozen=True)
class Interval:
    """An interval from the r-th least to the r-th most of n values, with the confidence level that it truly has."""

    low: float
    middle: float  # the median
    high: float
    level: float  # 0 for a single value
    n: int

    @property
    def half_width(self) -> float:
        """The larger distance of an end from the median, as a share of the median; 0 for a median of 0."""
        return max(self.high - self.middle, self.middle - self.low) / abs(self.middle) if self.middle else 0.0


def _coverage(n: int, rank: int) -> float:
    """The probability that the median of a continuous distribution lies between the rank-th least and the rank-th most of n
    values: 1 - 2 P(fewer than `rank` of n fall below it) (David and Nagaraja, Order Statistics, 2003, section 7.1)."""
    return 1 - 2 * sum(math.comb(n, k) for k in range(rank)) / 2**n


def median(values: list[float]) -> Interval:
    """The confidence interval of the median: the narrowest whose level is at least LEVEL; with fewer than 6 values
    there is none, and the interval is from least to most, with its lower level (6 values: 96.9 %; 5: 93.8 %; 3: 75
    %)."""
    ordered = sorted(values)
    n, rank = len(ordered), 1
    while rank + 1 <= n // 2 and _coverage(n, rank + 1) >= LEVEL:
        rank += 1
    level = _coverage(n, rank) if n > 1 else 0.0
    return Interval(ordered[rank - 1], statistics.median(ordered), ordered[n - rank], level, n)


def band(values: list[float]) -> Interval:
    """The prediction interval (band), from the r-th least to the r-th most of n draws. A further draw falls into it
    with probability (n + 1 - 2 r) / (n + 1), its `level`. r is the largest with a level of at least 90 %; with fewer
    than 19 draws no level is that high, and r is 1."""
    ordered = sorted(values)
    n = len(ordered)
    rank = max(1, math.floor((n + 1) * (1 - BAND) / 2 + 1e-9))
    level = (n + 1 - 2 * rank) / (n + 1)
    return Interval(ordered[rank - 1], statistics.median(ordered), ordered[n - rank], level, n)


def band_name(n: int) -> str:
    """What reports call the prediction interval of n draws: "90 % band of 64 draws", or "least to most of 8, 78 %" if n
    is below 19."""
    if n >= 19:
        return f"{BAND:.0%} band of {n} draws".replace("%", " %")
    return f"least to most of {n}, {100 * (n - 1) / (n + 1):.0f} %"


def is_bimodal(values: list[float]) -> bool:
    """Whether values fall into two groups far apart: the largest gap between neighbours exceeds five times the spread within
    the groups on either side of it and a tenth of the larger group's middle, and each value belongs to one of them.

    A single value far from all others counts: with few repeats a rare mode is seen once or not at all."""
    ordered = sorted(values)
    if len(ordered) < 4:
        return False
    at = max(range(1, len(ordered)), key=lambda i: ordered[i] - ordered[i - 1])
    below, above = ordered[:at], ordered[at:]
    gap = above[0] - below[-1]
    within = max(below[-1] - below[0], above[-1] - above[0])
    larger = below if len(below) >= len(above) else above
    return gap > 5 * within and gap > 0.1 * abs(statistics.median(larger))
