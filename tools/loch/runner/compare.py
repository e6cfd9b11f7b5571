"""`loch compare A B`: whether two result folders differ, by a permutation test over all points of a series together.

A series is one system of an experiment. For each of its points (one combination of axis values) A and B have repeats.
If A and B did the same, each repeat of a point could as well have come from the other folder. The test therefore
exchanges the labels A and B among the repeats of each point, in every way or in a random sample of the ways, and asks
how often the weighted mean of log(B/A) over the points is at least as far from 0 as the one found (Good, Permutation
Tests, 2005, chapter 3). Holm's method corrects the p values for the number of series and metrics.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable

import numpy as np

from . import outputs
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
    p: float  # two-sided p value, not corrected for the number of tests
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
    verdict: str = ""  # "worse", "better", "changed by less than the tolerance" or "no difference found"

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


def logarithms(points: list[tuple[list[float], list[float]]]) -> list[tuple[Array, Array]]:
    """The logarithms of each point's values in A and in B; points of which every value is 0 are left out."""
    out = []
    for a, b in points:
        most = max(*a, *b)
        if most > 0:
            out.append((np.log(np.maximum(a, most * FLOOR)), np.log(np.maximum(b, most * FLOOR))))
    return out


class Exchanges:
    """The exchanges of labels that a test tries: for each point, which of its values get the label A."""

    def __init__(self, sizes: list[tuple[int, int]]) -> None:
        """`sizes`: the numbers of repeats in A and in B of each point."""
        self.number = math.prod(math.comb(na + nb, na) for na, nb in sizes)
        if self.number <= ENUMERATED_MAX:
            every = [list(itertools.combinations(range(na + nb), na)) for na, nb in sizes]
            chosen = list(itertools.product(*every))
            self._masks = [
                _mask(np.array([each[i] for each in chosen], dtype=int), na + nb) for i, (na, nb) in enumerate(sizes)
            ]
            self.least_p = (2 if all(na == nb for na, nb in sizes) and self.number > 1 else 1) / self.number
        else:
            rng = np.random.default_rng(SEED)
            self._masks = []
            for na, nb in sizes:
                drawn = rng.random((SAMPLED, na + nb)).argsort(axis=1)[:, :na]
                found = np.arange(na)[None, :]  # the original labels are one of the exchanges
                self._masks.append(_mask(np.vstack([found, drawn]), na + nb))
            self.least_p = 1 / (SAMPLED + 1)

    def p_value(self, points: list[tuple[Array, Array]], shift: float = 0.0) -> tuple[float, float]:
        """The weighted mean of log(B/A) minus `shift`, and the two-sided p value of its being 0."""
        found = weight_sum = 0.0
        total = np.zeros(len(self._masks[0]))
        for (a, b), mask in zip(points, self._masks):
            values = np.concatenate([a, b - shift])
            # Exchanging labels does not change the variance of all values of a point, so this weight favours no
            # exchange.
            weight = 1 / (values.var() + 1e-12)
            sums = mask @ values
            total += weight * ((values.sum() - sums) / len(b) - sums / len(a))
            found += weight * ((b - shift).mean() - a.mean())
            weight_sum += weight
        far = np.abs(total) >= abs(found) * (1 - 1e-9) - 1e-12 * weight_sum
        return found / weight_sum, float(far.mean())


def _mask(chosen: Array, size: int) -> Array:
    mask = np.zeros((len(chosen), size))
    np.put_along_axis(mask, chosen, 1.0, axis=1)
    return mask


def permutation_test(points: list[tuple[list[float], list[float]]], with_interval: bool = True) -> Test:
    """Tests whether A and B differ; `points` has the values of each point in A and in B, none of which is negative.

    Computing the confidence interval takes some 50 times as long as computing the p value.
    """
    logs = logarithms(points)
    if not logs:
        return Test(1.0, 1.0, 1.0, None, None, None)
    exchanges = Exchanges([(len(a), len(b)) for a, b in logs])
    mean, p = exchanges.p_value(logs)
    low = high = None
    if with_interval and exchanges.least_p <= LEVEL:
        low, high = (math.exp(_bound(exchanges, logs, mean, side)) for side in (-1, 1))
    squares = sum(float(((x - x.mean()) ** 2).sum()) for pair in logs for x in pair)
    freedom = sum(len(a) + len(b) - 2 for a, b in logs)
    deviation = math.sqrt(squares / freedom) if freedom else 0.0
    return Test(math.exp(mean), p, exchanges.least_p, low, high, mean / deviation if deviation > 1e-12 else None)


def _bound(exchanges: Exchanges, logs: list[tuple[Array, Array]], mean: float, side: int) -> float:
    """One end of the confidence interval: the difference farthest from `mean` on side `side` (+1 above, -1 below) that
    the test does not reject."""
    step = max(abs(mean), 1e-3)
    inside = mean
    while exchanges.p_value(logs, mean + side * step)[1] > LEVEL:
        inside = mean + side * step
        step *= 2
    outside = mean + side * step
    for _ in range(40):
        middle = (inside + outside) / 2
        if exchanges.p_value(logs, middle)[1] > LEVEL:
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
    for each, p in zip(series, holm([each.test.p for each in series])):
        each.p_holm = p
        gain = 1 / each.test.ratio if is_less_better(each.metric) else each.test.ratio
        if p > LEVEL:
            each.verdict = "no difference found"
        elif abs(each.test.ratio - 1) <= tolerance:
            each.verdict = "changed by less than the tolerance"
        else:
            each.verdict = "better" if gain > 1 else "worse"


def of_folders(a: Path, b: Path, metrics: list[str], tolerance: float) -> Comparison:
    """Compares the result folders at or below `a` and `b`; BadInput if they have nothing in common."""
    out = Comparison()
    for one, other in _pairs(a, b, out.notes):
        _add(out, one, other, metrics)
    if not out.series and not out.newly_failed:
        raise BadInput(f"{a} and {b}: no point has results in both with {' or '.join(metrics)}")
    judge(out.series, tolerance)
    for each in out.series:
        if each.test.least_p > LEVEL:
            out.notes.append(
                f"{each.name}: no difference can be found with so few repeats: the least p value is "
                f"{each.test.least_p:.2g}; six repeats of each point are enough"
            )
    return out


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


def _add(out: Comparison, a: Results, b: Results, metrics: list[str]) -> None:
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
                Point({key: show(key, value) for key, value in axes.items()}, mine, theirs)
                for axes in places
                if (mine := a.values(system, axes, metric)) and (theirs := b.values(system, axes, metric))
            ]
            if wrong := next((x for point in points for x in (*point.a, *point.b) if x < 0), None):
                raise BadInput(f"--metric {metric}: expected values of at least 0, found {wrong:g}")
            if points:
                test = permutation_test([(point.a, point.b) for point in points])
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
