"""The data of a panel: lines of one kind (simulated or measured), with medians, intervals, gaps and published values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Iterator

from loch.runner import published
from loch.runner.grid import show
from loch.runner.report import origin
from loch.runner.tables import Results

from . import stats, style, words


@dataclass
class Line:
    """One line of a panel. Places without a result have None; `failed` are those where a run failed."""

    label: str
    look: style.Look
    x: list[Any]
    middle: list[float | None]
    low: list[float | None]
    high: list[float | None]
    failed: list[Any]
    published: list[tuple[Any, float]] = field(default_factory=list)
    slot: int = 0

    def results(self) -> Iterator[tuple[Any, float, float, float]]:
        """x, middle, low and high of the places that have a result."""
        for at, middle, low, high in zip(self.x, self.middle, self.low, self.high):
            if middle is not None and low is not None and high is not None:
                yield at, middle, low, high


@dataclass
class Group:
    """The systems that may share a panel: all simulated, or all measured."""

    is_measured: bool
    systems: list
    origins: list[str]  # "simulated (…)", once each, of the whole figure


def groups(results: Results) -> list[Group]:
    """Simulated systems first; never mixed with measured ones."""
    out = []
    for is_measured in (False, True):
        systems = [
            system for system in results.experiment.systems if system.is_measured == is_measured and system.is_drawn
        ]
        if systems:
            out.append(Group(is_measured, systems, _origins([origin(results, system) for system in systems])))
    return out


def origins(results: Results, group: Group, place: tuple[tuple[str, Any], ...]) -> list[str]:
    """The origins of a panel's values at a place, which may be of one hardware profile only."""
    return _origins([origin(results, system, place) for system in group.systems])


_SIMULATED = re.compile(r"simulated \((?:(?P<model>[^,]+), )?(?P<rest>[^,]+, seeds? [^,]+)\)")


def _origins(all_of_them: list[str]) -> list[str]:
    """The distinct origins; simulations that differ only in the modelled hardware count as one."""
    models: dict[str, list[str]] = {}
    for text in dict.fromkeys(all_of_them):
        parts = _SIMULATED.fullmatch(text)
        rest, model = (f"simulated ({parts['rest']})", parts["model"] or "verbs") if parts else (text, "")
        models.setdefault(rest, []).append(model)
    return [
        rest
        if several in ([""], ["verbs"])
        else f"{rest}: {', '.join(several)}"
        if len(several) > 1
        else rest.replace("(", f"({several[0]}, ", 1)
        for rest, several in models.items()
    ]


def panel_places(results: Results) -> list[tuple[tuple[str, Any], ...]]:
    """What each panel of small multiples is fixed at; one place that fixes nothing without them."""
    axis = results.experiment.figure.panels
    return [((axis, value),) for value in results.experiment.axes[axis]] if axis else [()]


def panel_title(results: Results, place: tuple[tuple[str, Any], ...]) -> str:
    """ "get 0.5", or what the experiment calls it."""
    labels = results.experiment.figure.panel_labels
    return ", ".join(labels.get(value, f"{words.axis(key)}: {show(key, value)}") for key, value in place)


def by_rest(results: Results, system, place: tuple[tuple[str, Any], ...], along: str) -> dict[tuple, list[dict]]:
    """A system's places in one panel, by what neither the panel fixes nor the x axis shows: one line each.

    Axes that advance together with the x axis, or with the panels, are shown by it.
    """
    out: dict[tuple, list[dict]] = {}
    shown = {along, *(key for key, _ in place)}
    shown |= {axis for group in results.experiment.zips if shown & set(group) for axis in group}
    for axes in results.axes_of(system.name):
        if set(place) <= set(axes.items()):
            out.setdefault(tuple((k, v) for k, v in axes.items() if k not in shown), []).append(axes)
    return out


def varying(results: Results) -> set[str]:
    """The axes that have more than one value among the points that run."""
    every = [axes for system in results.experiment.systems for axes in results.axes_of(system.name)]
    return {axis for axis in results.experiment.axes if len({axes[axis] for axes in every}) > 1}


def label_of(results: Results, system, fixed: tuple[tuple[str, Any], ...]) -> str:
    """The system's label, and the axis values that tell its lines apart."""
    axes = varying(results)
    several = [(k, v) for k, v in fixed if k in axes]
    return " ".join([system.label, *(f"{k}={show(k, v)}" for k, v in several)])


def lines(results: Results, group: Group, y: str, place: tuple[tuple[str, Any], ...] = ()) -> list[Line]:
    """The lines of one result field over the figure's x axis, in the panel at a place."""
    figure = results.experiment.figure
    looks = style.looks(results.experiment.systems)
    compared = published.compare(results) if figure.published else []
    out = []
    for system in group.systems:
        if system.name == figure.relative_to:
            continue
        rest = by_rest(results, system, place, figure.x)
        for i, (fixed, places) in enumerate(rest.items()):
            look = looks[system.name]
            if len(rest) > 1:
                look = style.Look(look.color, look.marker, style.LINES[i % len(style.LINES)], look.hardened)
            line = _line(results, system, y, figure.x, places, look)
            if figure.relative_to and not line.failed and all(each is None for each in line.middle):
                continue  # that system does not run there
            line.label = label_of(results, system, fixed)
            marks = [
                (dict(at)[figure.x], c.cell.value)
                for c in compared
                for name, base, field, at in [c.ratio or (c.system, "", c.field, c.axes)]
                if (name, base, field) == (system.name, figure.relative_to, y)
                and c.cell.value is not None
                and set((*fixed, *place)) <= set(at)
            ]
            line.published = sorted(marks, key=lambda mark: results.experiment.axes[figure.x].index(mark[0]))
            out.append(line)
    return out


def system_bars(results: Results, group: Group, y: str, place: tuple[tuple[str, Any], ...] = ()) -> list[Line]:
    """The same with the systems as x axis: each line is one bar, and `slot` counts those of a system."""
    looks, several = style.looks(results.experiment.systems), varying(results)
    compared = published.compare(results) if results.experiment.figure.published else []
    out = []
    for system in group.systems:
        for slot, (fixed, places) in enumerate(by_rest(results, system, place, "").items()):
            line = _line(results, system, y, "", places, looks[system.name])
            line.slot, line.label = slot, ", ".join(f"{k} {show(k, v)}" for k, v in fixed if k in several)
            line.published = [
                (system.label, c.cell.value)
                for c in compared
                if c.system == system.name
                and c.field == y
                and c.cell.value is not None
                and set((*fixed, *place)) <= set(c.axes)
            ]
            out.append(line)
    return out


def over(results: Results, values: list[float], axes: dict[str, Any], y: str) -> list[float]:
    """The values over what the figure is relative to at the same place; none where that has no result."""
    system = results.experiment.figure.relative_to
    if not system:
        return values
    base = results.median(system, axes, y)
    return [value / base for value in values] if base else []


def _line(results: Results, system, y: str, x: str, places: list[dict], look: style.Look) -> Line:
    line = Line("", look, [], [], [], [], [])
    for axes in places:
        values = over(results, results.values(system.name, axes, y), axes, y)
        middle, low, high = stats.median_interval(values) if values else (None, None, None)
        at = axes[x] if x else system.label
        line.x.append(at)
        line.middle.append(middle)
        line.low.append(low)
        line.high.append(high)
        if results.has_failures(system.name, axes):
            line.failed.append(at)
    return line
