"""The data of a figure: series of points with values, failures and published numbers, title and caption.

This is the only module of the runner that the package `plots` imports.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from . import band_report, bands, contradicted, published, report, roles
from .grid import show
from .intervals import is_bimodal, median as median_interval
from .model import PUTS, SYSTEMS, Figure, System
from .options import BENCH
from .report import number
from .result import Bin, Event, Result, is_number
from .tables import Results, Row

__all__ = [
    "PUTS",
    "SYSTEMS",
    "Bin",
    "Distribution",
    "Drawing",
    "Event",
    "Figure",
    "Level",
    "Place",
    "Point",
    "Published",
    "Run",
    "Series",
    "is_bimodal",
    "is_size",
    "median_interval",
    "number",
    "of",
    "show",
]

Place = tuple[tuple[str, Any], ...]  # (axis, value) pairs: every axis of a point, or those that a panel fixes
_PERCENTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


@dataclass(frozen=True)
class Distribution:
    """The distribution of a result field in one repeat; `shares` is empty if the result has none."""

    shares: list[tuple[float, float]]  # (value, share of samples at or below it), ascending
    samples: float  # number of samples of the distribution; the weight when repeats are merged
    is_whole: bool  # whether all samples are known, as opposed to a few percentiles


@dataclass(frozen=True)
class Run:
    """One repeat of a run as a time series, with the events during the run."""

    duration_s: float
    bins: list[Bin]
    events: list[Event]
    probed_keys: float  # number of keys that a client worker PUTs as probes; 0: no probes


@dataclass(frozen=True)
class Point:
    """The results of one system at one combination of axis values, over all repeats."""

    at: dict[str, Any]
    values: dict[str, list[float]]  # by result field of the figure, the values of the repeats that have the field
    failures: list[str]  # for each repeat without a result, the reason
    # for cdf figures: by field, one distribution for each repeat with a result
    distributions: dict[str, list[Distribution]] = field(default_factory=dict)
    bands: dict[str, tuple[float, float]] = field(
        default_factory=dict
    )  # with --samples: by field, the ends of the interval of the sampled results, or of their ratios (`relative_to:`)
    runs: list[Run] = field(default_factory=list)  # for timeline figures: one run for each repeat with a time series

    @property
    def place(self) -> Place:
        return tuple(self.at.items())

    def median(self, name: str) -> float | None:
        """The median over the repeats that have the field; None if no repeat has it."""
        found = self.values.get(name)
        return statistics.median(found) if found else None


@dataclass(frozen=True)
class Series:
    """One system of the experiment, with its points in the order of the file."""

    name: str
    label: str
    protocol: str
    is_measured: bool  # whether the system runs in real time, not simulated; a panel shows only one of the two
    is_drawn: bool
    hardened_of: str  # name of the series of the published design, if this is its hardened variant
    points: list[Point]
    # text that says how the series' values were obtained, by the axis values of a panel; with the key () it holds for
    # all points
    origins: dict[Place, str]

    def point(self, at: dict[str, Any]) -> Point | None:
        """The point at a combination of axis values; None if the system does not run there."""
        return next((each for each in self.points if each.at == at), None)


@dataclass(frozen=True)
class Published:
    """One published number that belongs to a point of a series."""

    series: str
    field: str
    place: Place
    value: float | None  # the published value; None if the paper withholds it
    error: float | None  # obtained / published - 1, if both values exist
    over: str = ""  # if the number is a ratio of two series: name of the series that is divided by
    kind: str = (
        "published"  # "published", "derived" (from other numbers), "bound" or "calibrated" (the model was fitted to it)
    )


@dataclass(frozen=True)
class Level:
    """One published value that belongs to no series: a line across the panels of its field."""

    field: str
    value: float
    label: str


@dataclass(frozen=True)
class Drawing:
    """All data of one figure."""

    figure: Figure
    title: str
    caption: str  # says what the marks mean, and the number of repeats
    axes: dict[str, list[Any]]
    zips: list[list[str]]  # groups of axes whose values advance together instead of being combined
    series: list[Series]
    published: list[Published]  # published numbers to draw; empty if the figure does not show them
    called: str  # word for the numbers with which results are compared, such as "published"
    source: str = ""  # paper, verdict and commit; empty where the figure does not show them
    # conclusions of the paper that the results contradict, in words; none where the figure does not show its source
    contradicted: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()  # published values that belong to no series; none if the figure does not show them
    band: str = ""  # what the bands of its points are called; empty without bands

    def named(self, name: str) -> Series:
        """The series of the given name, which must exist."""
        return next(each for each in self.series if each.name == name)


def is_size(axis: str) -> bool:
    """Whether the values of an axis are sizes in bytes."""
    return axis in BENCH and BENCH[axis].kind == "size"


def of(results: Results) -> Drawing:
    """Collects the data of an experiment's figure from its results."""
    experiment = results.experiment
    figure = experiment.figure
    return Drawing(
        figure=figure,
        title=experiment.title,
        caption=report.caption(results),
        axes=experiment.axes,
        zips=experiment.zips,
        series=[_series(results, system) for system in experiment.systems],
        published=_published(results) if figure.published else [],
        levels=_levels(results) if figure.published else (),
        called=published.called(experiment),
        source=report.source_line(results) if figure.source else "",
        contradicted=tuple(contradicted.conclusions(results)) if figure.source else (),
        band=band_report.title(results.bands, bands.other_window(results)) if results.bands is not None else "",
    )


def _series(results: Results, system: System) -> Series:
    axis = results.experiment.figure.panels
    places: list[Place] = [(), *(((axis, value),) for value in (results.experiment.axes[axis] if axis else ()))]
    return Series(
        name=system.name,
        label=report.label(results, system),
        protocol=str(system.params["protocol"]),
        is_measured=system.is_measured,
        is_drawn=system.is_drawn,
        hardened_of=system.hardened_of,
        points=[_point(results, system, axes) for axes in results.axes_of(system.name)],
        origins={place: report.origin(results, system, place) for place in places},
    )


def _point(results: Results, system: System, axes: dict[str, Any]) -> Point:
    figure, rows = results.experiment.figure, results.at(system.name, axes)
    fields = dict.fromkeys((figure.x, *figure.y, *figure.rows))
    found = [row.result for row in rows if row.ok]
    is_cdf, is_timeline = figure.kind == "cdf", figure.kind == "timeline"
    found_bands = {}
    if results.bands is not None:
        of_point = results.bands.of_ratio if figure.relative_to else results.bands.of_point
        found_bands = {name: band for name in fields if (band := of_point(system.name, axes, name)) is not None}
    return Point(
        at=axes,
        values={name: results.values(system.name, axes, name) for name in fields},
        failures=[said for row in rows if (said := _failure(row, is_timeline))],
        distributions={y: [distribution(each, y) for each in found] for y in figure.y} if is_cdf else {},
        bands={name: (band.low, band.high) for name, band in found_bands.items()},
        runs=[_run(each, each.known.timeline) for each in found if each.known.timeline] if is_timeline else [],
    )


def _failure(row: Row, needs_timeline: bool) -> str:
    """The reason why a repeat cannot be drawn; empty if it can."""
    if row.failure is not None:
        return row.failure.reason
    if not row.ok:
        return "has not run"
    return "has no time series" if needs_timeline and not row.result.known.timeline else ""


def _run(result: Result, bins: list[Bin]) -> Run:
    known = result.known
    end = known.duration_s if known.duration_s is not None else bins[-1].t_s
    return Run(float(end), bins, list(known.events or []), float(known.probed_keys or 0))


def distribution(result: Result, name: str) -> Distribution:
    """The distribution of a result field: a stored list of [value, share] (verbs.per_get.cdf.read), or a latency
    (latency_us.get) with its histogram of [upper bound, count], or else a latency's percentiles."""
    node = result.node(name)
    if isinstance(node, list):
        return Distribution(_pairs(node), _samples(result, name), True)
    if not isinstance(node, dict):
        return Distribution([], 0.0, False)
    buckets = node.get("histogram")
    is_whole = isinstance(buckets, list)
    counts = _pairs(buckets) if isinstance(buckets, list) else []
    total, running, out = sum(n for _, n in counts), 0.0, []
    for value, n in counts if total > 0 else []:
        running += n
        out.append((value, running / total))
    if out:
        return Distribution(out, total, True)
    known = [(float(node[key]), share) for key, share in _PERCENTILES.items() if is_number(node.get(key))]
    count = float(node["count"]) if is_number(node.get("count")) else 0.0
    return Distribution(known if len(known) > 1 and count else [], count, is_whole)


def _pairs(node: list[Any]) -> list[tuple[float, float]]:
    """`node` as pairs of numbers; empty if it is something else, since a figure may name any field."""
    is_one = all(isinstance(each, list) and len(each) == 2 and all(map(is_number, each)) for each in node)
    return [(float(value), float(share)) for value, share in node] if is_one else []


def _samples(result: Result, name: str) -> float:
    """The number of operations behind a distribution of verbs.per_KIND; the weight when repeats are merged."""
    kind = next((part[4:] for part in name.split(".") if part.startswith("per_")), "total")
    return float(result.known.operations.get(kind) or 1)


def _shown(results: Results) -> tuple[published.Shown, ...]:
    item = published.of(results)
    return item.shown if item else ()


def _levels(results: Results) -> tuple[Level, ...]:
    return tuple(Level(each.field, each.value, each.what) for each in _shown(results) if not each.series)


def _published(results: Results) -> list[Published]:
    systems = {system.name for system in results.experiment.systems}
    out = [
        Published(each.series, each.field, each.at, each.value, None)
        for each in _shown(results)
        if each.series in systems and dict(each.at) in results.axes_of(each.series)
    ]
    as_lines = {each.id for each in _shown(results) if each.id and not each.series}
    for each in published.compare(results):
        if each.cell.id in as_lines:
            continue
        if each.ratio is not None:
            series, over, name, place = each.ratio
            out.append(Published(series, name, place, each.cell.value, each.error, over, _kind(each)))
        elif each.system:
            out.append(Published(each.system, each.field, each.axes, each.cell.value, each.error, kind=_kind(each)))
    return out


def _kind(comparison: published.Comparison) -> str:
    """The kind of a published number, by which its mark in the figure is chosen."""
    cell = comparison.cell
    if cell.calibration:
        return "calibrated"
    if roles.load(published.FOLDER).role(cell.id).name == "bound":
        return "bound"
    return "derived" if cell.kind == "D" else "published"
