"""What a panel shows: lines of one kind (simulated or measured), with medians, intervals, gaps and published values."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner import published
from runner.grid import show
from runner.report import origin
from runner.tables import Results

from . import stats, style


@dataclass
class Line:
    """One line of a panel. Places without a result have None; `failed` are those where a run failed."""

    label: str
    look: style.Look
    x: list[object]
    middle: list[float | None]
    low: list[float | None]
    high: list[float | None]
    failed: list[object]
    published: list[tuple[object, float]] = field(default_factory=list)


@dataclass
class Group:
    """The systems that may share a panel: all simulated, or all measured."""

    is_measured: bool
    systems: list
    origins: list[str]  # "simulated (…)", once each


def groups(results: Results) -> list[Group]:
    """Simulated systems first; never mixed with measured ones."""
    out = []
    for is_measured in (False, True):
        systems = [system for system in results.experiment.systems if system.is_measured == is_measured]
        if systems:
            out.append(Group(is_measured, systems, list(dict.fromkeys(origin(results, system) for system in systems))))
    return out


def lines(results: Results, group: Group, y: str) -> list[Line]:
    """The lines of one result field over the figure's x axis."""
    figure = results.experiment.figure
    looks = style.looks(results.experiment.systems)
    item = published.of(results) if figure.published else None
    out = []
    for system in group.systems:
        rest: dict[tuple, list[dict]] = {}
        for axes in results.axes_of(system.name):
            rest.setdefault(tuple((k, v) for k, v in axes.items() if k != figure.x), []).append(axes)
        for i, (fixed, places) in enumerate(rest.items()):
            look = looks[system.name]
            if len(rest) > 1:
                look = style.Look(look.color, look.marker, style.LINES[i % len(style.LINES)])
            line = _line(results, system, y, figure.x, places, look)
            line.label = " ".join([system.label, *(f"{k}={show(k, v)}" for k, v in fixed)])
            if item is not None and item.axis == figure.x and len(rest) == 1:
                line.published = [(c.cell.at, c.cell.value) for c in published.compare(results)
                                  if c.system == system.name and c.cell.field == y and c.cell.value is not None]
            out.append(line)
    return out


def _line(results: Results, system, y: str, x: str, places: list[dict], look: style.Look) -> Line:
    line = Line("", look, [], [], [], [], [])
    for axes in places:
        values = results.values(system.name, axes, y)
        middle, low, high = stats.median_interval(values) if values else (None, None, None)
        line.x.append(axes[x])
        line.middle.append(middle)
        line.low.append(low)
        line.high.append(high)
        if results.has_failures(system.name, axes):
            line.failed.append(axes[x])
    return line
