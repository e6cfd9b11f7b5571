"""`loch compare A B`: whether two result folders differ, by a permutation test over all points of a series together.

A series is one system of an experiment. For each of its points (one combination of axis values) A and B have repeats.
If A and B did the same, each repeat could as well have come from the other folder. The test therefore exchanges the
labels A and B among the repeats, in every way or in a random sample of the ways, and asks how often the weighted mean
of log(B/A) over the points is at least as far from 0 as the one found (Good, Permutation Tests, 2005, chapter 3). A
repeat keeps one label at all points: the points of a repeat share a seed, hence placement and popular keys, and on
real fabrics the minutes in which they ran, so they are not independent of each other.

A difference that is too small to matter is no finding: the hypothesis tested is that B differs from A by at most a
tolerance, so B's values are first moved by the tolerance towards A's (Murphy and Myors, Journal of Applied Psychology
84, 1999). Holm's method corrects the p values for the number of series and metrics.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable

import numpy as np

from . import outputs, report
from .errors import BadInput, did_you_mean
from .grid import choice_key, show
from .options import SEEDS
from .tables import Results, Row

LEVEL = 0.05
ENUMERATED_MAX = 20_000  # up to this many exchanges of the labels A and B are all tried
SAMPLED = 9_999
SEED = 20170601  # random seed for drawing exchanges of the labels: equal inputs give equal p values
# A value of 0 has no logarithm: it counts as this share of the largest value of its point.
FLOOR = 1e-6
# Metrics of which less is better, by a part of the name; of all others more is better.
LESS_IS_BETTER = ("latency", "power", "watts", "joule", "energy", "cpu.", "retries", "lag", "wire_bytes", "failed")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Test:
    """A permutation test of one series."""

    ratio: float  # exp of the weighted mean of log(B/A) over the points
    p: float  # two-sided p value of a difference of at most the tolerance, not corrected for the number of tests
    least_p: float  # the smallest p value that these numbers of repeats can give
    low: float | None  # 95 % interval of `ratio`, by inversion of the test; None if least_p exceeds LEVEL
    high: float | None
    effect: float | None  # mean log(B/A) divided by the standard deviation within points; None if that is unknown or 0


@dataclass
class Point:
    """One combination of axis values, which both folders have."""

    axes: dict[str, str]
    a: list[float]
    b: list[float]
    a_seeds: list[int]  # the seed of each value of `a`; the values of one seed at all points are one repeat
    b_seeds: list[int]

    @property
    def ratio(self) -> float | None:
        """The ratio of the medians, B over A; None if A's median is 0."""
        below = float(np.median(self.a))
        return float(np.median(self.b)) / below if below else None


@dataclass
class Series:
    """The compared values of one metric of one system, and their test."""

    experiment: str
    system: str
    metric: str
    points: list[Point]
    test: Test
    p_holm: float = 1.0
    verdict: str = ""  # "worse", "better", "within the tolerance" or "no difference beyond the tolerance found"

    @property
    def name(self) -> str:
        return f"{self.experiment}: {self.system}"


@dataclass
class Comparison:
    series: list[Series] = field(default_factory=list)
    newly_failed: list[str] = field(default_factory=list)  # points that have a result in A and only a failure in B
    notes: list[str] = field(default_factory=list)

    @property
    def has_regression(self) -> bool:
        return bool(self.newly_failed) or any(each.verdict == "worse" for each in self.series)


@dataclass
class _Logs:
    """The logarithms of one point's values, those of A first, and the unit (repeat) that each belongs to."""

    values: Array
    units: Array
    is_b: Array  # 1 for the values of B, 0 for those of A


Samples = tuple[list[float], list[float]]  # the values of a point in A and in B
Seeds = tuple[list[int], list[int]]  # their seeds


def _logarithms(points: list[Samples], seeds: list[Seeds]) -> tuple[list[_Logs], int, int]:
    """The logarithms of each point's values, and the numbers of units of A and of B; points of which every value is 0
    are left out."""
    used = [(pair, own) for pair, own in zip(points, seeds) if max(*pair[0], *pair[1]) > 0]
    # Equal seeds in A and in B are different units: each unit is a repeat of one folder.
    units: dict[tuple[int, int], int] = {}
    for side in 0, 1:
        for _, own in used:
            for seed in own[side]:
                units.setdefault((side, seed), len(units))
    of_a = sum(side == 0 for side, _ in units)
    out = []
    for (a, b), own in used:
        most = max(*a, *b)
        values = np.log(np.maximum([*a, *b], most * FLOOR))
        index = np.array([units[side, seed] for side in (0, 1) for seed in own[side]])
        out.append(_Logs(values, index, np.repeat([0.0, 1.0], [len(a), len(b)])))
    return out, of_a, len(units) - of_a


@functools.lru_cache(maxsize=8)
def _exchanges(of_a: int, of_b: int) -> Array:
    """The exchanges of labels that a test tries, a row each: 1 for each repeat that gets the label A. The first row has
    the labels as they are."""
    if math.comb(of_a + of_b, of_a) <= ENUMERATED_MAX:
        chosen = np.array(list(itertools.combinations(range(of_a + of_b), of_a)), dtype=int)
    else:
        rng = np.random.default_rng(SEED)
        drawn = rng.random((SAMPLED, of_a + of_b)).argsort(axis=1)[:, :of_a]
        chosen = np.vstack([np.arange(of_a)[None, :], drawn])
    return _mask(chosen, of_a + of_b)


class Exchanges:
    """The exchanges of labels that a test tries: which of the repeats get the label A, at all points alike."""

    def __init__(self, points: list[_Logs], of_a: int, of_b: int) -> None:
        """`of_a`, `of_b`: the numbers of repeats in A and in B."""
        masks = _exchanges(of_a, of_b)
        all_tried = len(masks) == math.comb(of_a + of_b, of_a)
        self.least_p = (2 if all_tried and of_a == of_b and len(masks) > 1 else 1) / len(masks)
        self._points = points
        # For each point and exchange: whether both labels are there, and the difference of the means of log B and log A,
        # of the values as they are, and for each unit of a shift.
        self._terms = [_differences(point, masks[:, point.units]) for point in points]

    def p_value(self, shift: float = 0.0) -> tuple[float, float]:
        """The weighted mean of log(B/A) minus `shift`, and the two-sided p value of its being 0."""
        total = weight_sum = np.zeros(1)
        for point, (both, difference, by_shift) in zip(self._points, self._terms):
            # Exchanging labels does not change the variance of all values of a point, so this weight favours no
            # exchange.
            weight = 1 / float((point.values - shift * point.is_b).var() + 1e-12)
            total = total + weight * (difference - shift * by_shift)
            weight_sum = weight_sum + weight * both
        means = total / np.maximum(weight_sum, 1e-300)
        found = float(means[0])
        return found, float((np.abs(means) >= abs(found) * (1 - 1e-9) - 1e-12).mean())


def _differences(point: _Logs, mask: Array) -> tuple[Array, Array, Array]:
    in_a = mask.sum(axis=1)
    in_b = len(point.values) - in_a
    # A point that not every repeat has can be left with values of one label only: it then says nothing.
    both = (in_a > 0) & (in_b > 0)

    def difference(values: Array) -> Array:
        sums = mask @ values
        return both * ((values.sum() - sums) / np.maximum(in_b, 1) - sums / np.maximum(in_a, 1))

    return both, difference(point.values), difference(point.is_b)


def _mask(chosen: Array, size: int) -> Array:
    mask = np.zeros((len(chosen), size))
    np.put_along_axis(mask, chosen, 1.0, axis=1)
    return mask


def permutation_test(
    points: list[Samples],
    with_interval: bool = True,
    tolerance: float = 0.0,
    seeds: list[Seeds] | None = None,
) -> Test:
    """Tests whether A and B differ by more than the share `tolerance`; `points` has the values of each point in A and
    in B, none of which is negative, and `seeds` their seeds. Without `seeds` values of one place in their lists are
    one repeat.

    Computing the confidence interval takes some 50 times as long as computing the p value.
    """
    if seeds is None:
        seeds = [(list(range(len(a))), list(range(len(b)))) for a, b in points]
    logs, of_a, of_b = _logarithms(points, seeds)
    if not logs:
        return Test(1.0, 1.0, 1.0, None, None, None)
    exchanges = Exchanges(logs, of_a, of_b)
    mean, p = exchanges.p_value()
    least = math.log1p(tolerance)
    if least > 0:
        p = exchanges.p_value(math.copysign(least, mean))[1] if abs(mean) > least else 1.0
    low = high = None
    if with_interval and exchanges.least_p <= LEVEL:
        low, high = (math.exp(_bound(exchanges, mean, side)) for side in (-1, 1))
    within = [x for each in logs for x in (each.values[each.is_b == 0], each.values[each.is_b == 1])]
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in within)
    freedom = sum(len(x) - 1 for x in within)
    deviation = math.sqrt(squares / freedom) if freedom else 0.0
    return Test(math.exp(mean), p, exchanges.least_p, low, high, mean / deviation if deviation > 1e-12 else None)


def _bound(exchanges: Exchanges, mean: float, side: int) -> float:
    """One end of the confidence interval: the difference farthest from `mean` on side `side` (+1 above, -1 below) that
    the test does not reject."""
    step = max(abs(mean), 1e-3)
    inside = mean
    while exchanges.p_value(mean + side * step)[1] > LEVEL:
        inside = mean + side * step
        step *= 2
    outside = mean + side * step
    for _ in range(40):
        middle = (inside + outside) / 2
        if exchanges.p_value(middle)[1] > LEVEL:
            inside = middle
        else:
            outside = middle
        if abs(outside - inside) < 1e-6:
            break
    return outside


def holm(p_values: list[float]) -> list[float]:
    """Holm's corrected p values (Scandinavian Journal of Statistics 6, 1979), in the given order."""
    out = [0.0] * len(p_values)
    largest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        out[at] = largest
    return out


def is_less_better(metric: str) -> bool:
    return any(part in metric for part in LESS_IS_BETTER)


def judge(series: list[Series], tolerance: float) -> None:
    """Sets the corrected p values and the verdicts of all series together."""
    least = 1 + tolerance
    for each, p in zip(series, holm([each.test.p for each in series])):
        each.p_holm = p
        test = each.test
        if p <= LEVEL:
            gain = 1 / test.ratio if is_less_better(each.metric) else test.ratio
            each.verdict = "better" if gain > 1 else "worse"
        elif test.low is not None and test.high is not None and 1 / least <= test.low and test.high <= least:
            each.verdict = "within the tolerance"
        else:
            each.verdict = "no difference beyond the tolerance found"


def of_folders(a: Path, b: Path, metrics: list[str], tolerance: float) -> Comparison:
    """Compares the result folders at or below `a` and `b`; BadInput if they have nothing in common."""
    out = Comparison()
    pairs = _pairs(a, b, out.notes)
    for one, other in pairs:
        _add(out, one, other, metrics, tolerance)
    if not out.series and not out.newly_failed:
        raise BadInput(f"{a} and {b}: no point has results in both with {' or '.join(metrics)}")
    judge(out.series, tolerance)
    out.notes += _too_few(out.series)
    if any(report.TAIL.search(each.metric) for each in out.series) and any(
        row.point.params.get("fabric") == "sim" for pair in pairs for results in pair for row in results.rows
    ):
        out.notes.append(report.TAIL_WARNING)
    return out


def _too_few(series: list[Series]) -> list[str]:
    """Which series have too few repeats for a difference to be found, each by itself or all together."""
    notes = [
        f"{each.name}: no difference can be found with so few repeats: the least p value is "
        f"{each.test.least_p:.2g}; six repeats of each point are enough"
        for each in series
        if each.test.least_p > LEVEL
    ]
    number = len(series)
    if not notes and any(number * each.test.least_p > LEVEL for each in series):
        notes.append(
            f"with {number} series and so few repeats no difference of a single one can be found: more repeats, or fewer "
            "folders at a time"
        )
    return notes


def _pairs(a: Path, b: Path, notes: list[str]) -> list[tuple[Results, Results]]:
    found = []
    for root in a, b:
        if not root.is_dir():
            raise BadInput(f"{root}: no such folder")
        folders = outputs.folders(root)
        if not folders:
            raise BadInput(f"{root}: no results in or below it; expected a folder that `loch run` wrote")
        loaded = [outputs.load(folder) for folder in folders]
        notes += [f"{each}; left out" for _, _, store in loaded for each in store.damaged.values()]
        found.append([results for results, _, _ in loaded])
    if len(found[0]) == len(found[1]) == 1:
        return [(found[0][0], found[1][0])]
    by_name = {results.experiment.name: results for results in found[1]}
    for root, mine, others in (a, found[0], found[1]), (b, found[1], found[0]):
        names = {results.experiment.name for results in others}
        notes += [f"{each.experiment.name}: only in {root}" for each in mine if each.experiment.name not in names]
    return [(each, by_name[each.experiment.name]) for each in found[0] if each.experiment.name in by_name]


def _add(out: Comparison, a: Results, b: Results, metrics: list[str], tolerance: float) -> None:
    """Adds the series of one experiment to the comparison."""
    name = a.experiment.name
    there = {choice_key(row.point.system, row.point.axes) for row in b.rows}
    here = {choice_key(row.point.system, row.point.axes) for row in a.rows}
    for label, only in ("A", here - there), ("B", there - here):
        if only:
            out.notes.append(f"{name}: {len(only)} points are only in {label}")
    out.notes += [f"{name}: {each}" for each in _unlike(a, b)]
    for system in dict.fromkeys(row.point.system for row in a.rows):
        places = [axes for axes in a.axes_of(system) if choice_key(system, axes) in there]
        for axes in places:
            if not a.has_failures(system, axes) and b.has_failures(system, axes):
                out.newly_failed.append(f"{name}: {_title(system, axes)}: {_why(b.at(system, axes))}")
        for metric in metrics:
            points = [
                Point({key: show(key, value) for key, value in axes.items()}, mine, theirs, seeds, other_seeds)
                for axes in places
                for mine, seeds in [a.values_by_seed(system, axes, metric)]
                for theirs, other_seeds in [b.values_by_seed(system, axes, metric)]
                if mine and theirs
            ]
            if wrong := next((x for point in points for x in (*point.a, *point.b) if x < 0), None):
                raise BadInput(f"--metric {metric}: expected values of at least 0, found {wrong:g}")
            if points:
                values = [(point.a, point.b) for point in points]
                seeds_of = [(point.a_seeds, point.b_seeds) for point in points]
                test = permutation_test(values, tolerance=tolerance, seeds=seeds_of)
                out.series.append(Series(name, system, metric, points, test))
            elif places and not a.has_field(system, metric):
                known = {key for row in a.rows for key in row.fields}
                out.notes.append(f"{name}: {system}: no result has {metric}{did_you_mean(metric, known)}")


def _unlike(a: Results, b: Results) -> list[str]:
    """What else differs between points that are compared: parameters other than the seed, each with its value in A and
    in B."""
    theirs = {choice_key(row.point.system, row.point.axes): row.point.params for row in b.rows}
    differing: dict[str, tuple[Any, Any]] = {}
    for row in a.rows:
        other = theirs.get(choice_key(row.point.system, row.point.axes))
        for key in (row.point.params.keys() | other.keys()) - set(SEEDS) if other else ():
            one, two = row.point.params.get(key), (other or {}).get(key)
            if one != two:
                differing.setdefault(key, (one, two))
    return [f"{key} is {one} in A and {two} in B" for key, (one, two) in sorted(differing.items())]


def _why(rows: list[Row]) -> str:
    """Why the first failed repeat of a point failed: the last line that its process printed on standard error, or the
    reason."""
    for row in rows:
        if row.failure:
            return (row.failure.stderr_tail.strip().splitlines() or [str(row.failure.reason)])[-1]
    return "it has not run"


def _title(system: str, axes: dict[str, Any]) -> str:
    return ", ".join([system, *(f"{key}={show(key, value)}" for key, value in axes.items())])


def as_text(found: Comparison, points_shown: int = 5) -> str:
    """The comparison for a terminal: the verdict first, then a row for each series, then the points that changed
    most."""
    lines = [_verdict(found), ""]
    lines += [f"failed in B alone: {each}" for each in found.newly_failed]
    head = ["series", "metric", "points", "repeats", "B/A", "95 % interval", "p (Holm)", "effect", ""]
    rows = [_row(each) for each in found.series]
    if rows:
        lines += _aligned([head, *rows])
    for each in found.series:
        if each.verdict in ("worse", "better"):
            lines += ["", f"{each.name}, {each.metric}: points that changed most"]
            ordered = sorted(each.points, key=lambda point: -abs(math.log(max(point.ratio or FLOOR, FLOOR))))
            shown = [_point(point) for point in ordered[:points_shown]]
            lines += _aligned(shown)
    lines += [f"note: {each}" for each in dict.fromkeys(found.notes)]
    return "\n".join(lines) + "\n"


def _verdict(found: Comparison) -> str:
    number = len(found.series)
    count: Callable[[str], int] = lambda verdict: sum(each.verdict == verdict for each in found.series)
    said = f"{number} series: {count('worse')} worse, {count('better')} better"
    failed = f"; {len(found.newly_failed)} points fail in B alone" if found.newly_failed else ""
    return f"{'REGRESSION' if found.has_regression else 'no regression'}: {said}{failed}"


def _row(series: Series) -> list[str]:
    test = series.test
    sizes = sorted({(len(point.a), len(point.b)) for point in series.points})
    repeats = f"{sizes[0][0]} and {sizes[0][1]}" if len(sizes) == 1 else "differ"
    interval = f"{test.low:.3f} to {test.high:.3f}" if test.low is not None else "unknown"
    effect = f"{test.effect:+.1f} sd" if test.effect is not None else "-"
    return [
        series.name,
        series.metric,
        str(len(series.points)),
        repeats,
        f"{test.ratio:.3f}",
        interval,
        f"{series.p_holm:.3g}",
        effect,
        series.verdict,
    ]


def _point(point: Point) -> list[str]:
    where = ", ".join(f"{key}={value}" for key, value in point.axes.items()) or "the only point"
    ratio = "-" if point.ratio is None else f"{point.ratio:.3f}"
    return [f"  {where}", f"{np.median(point.a):.6g}", "->", f"{np.median(point.b):.6g}", ratio]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def as_json(found: Comparison, tolerance: float) -> str:
    """The comparison as JSON (docs/formats.md)."""
    series = []
    for each in found.series:
        record: dict[str, Any] = asdict(each)
        for point, made in zip(each.points, record["points"]):
            made["ratio"] = point.ratio
        series.append(record)
    document = {
        "regression": found.has_regression,
        "level": LEVEL,
        "tolerance": tolerance,
        "series": series,
        "newly_failed": found.newly_failed,
        "notes": found.notes,
    }
    return json.dumps(document, indent=1) + "\n"
