"""The data of a panel: lines of one kind (simulated or measured), with medians, intervals, gaps and published values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Iterator

from loch.runner.drawing import Drawing, Place, Point, Published, Series, show

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
    """The series that may share a panel: all simulated, or all measured."""

    is_measured: bool
    series: list[Series]
    origins: list[str]  # "simulated (…)", once each, of the whole figure


def groups(drawing: Drawing) -> list[Group]:
    """Simulated series first; never mixed with measured ones."""
    out = []
    for is_measured in (False, True):
        series = [each for each in drawing.series if each.is_measured == is_measured and each.is_drawn]
        if series:
            out.append(Group(is_measured, series, _origins([each.origins[()] for each in series])))
    return out


def origins(group: Group, place: Place) -> list[str]:
    """The origins of a panel's values at a place, which may be of one hardware profile only."""
    return _origins([series.origins[place] for series in group.series])


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


def panel_places(drawing: Drawing) -> list[Place]:
    """What each panel of small multiples is fixed at; one place that fixes nothing without them."""
    axis = drawing.figure.panels
    return [((axis, value),) for value in drawing.axes[axis]] if axis else [()]


def panel_title(drawing: Drawing, place: Place) -> str:
    """ "get 0.5", or what the experiment calls it."""
    labels = drawing.figure.panel_labels
    return ", ".join(labels.get(value, f"{words.axis(key)}: {show(key, value)}") for key, value in place)


def by_rest(drawing: Drawing, series: Series, place: Place, along: str) -> dict[Place, list[Point]]:
    """A system's points in one panel, by what neither the panel fixes nor the x axis shows: one line each.

    Axes that advance together with the x axis, or with the panels, are shown by it.
    """
    out: dict[Place, list[Point]] = {}
    shown = {along, *(key for key, _ in place)}
    shown |= {axis for group in drawing.zips if shown & set(group) for axis in group}
    for point in series.points:
        if set(place) <= set(point.place):
            out.setdefault(tuple((k, v) for k, v in point.place if k not in shown), []).append(point)
    return out


def varying(drawing: Drawing) -> set[str]:
    """The axes that have more than one value among the points that run."""
    every = [point.at for series in drawing.series for point in series.points]
    return {axis for axis in drawing.axes if len({at[axis] for at in every}) > 1}


def label_of(drawing: Drawing, series: Series, fixed: Place) -> str:
    """The system's label, and the axis values that tell its lines apart."""
    axes = varying(drawing)
    several = [(k, v) for k, v in fixed if k in axes]
    return " ".join([series.label, *(f"{k}={show(k, v)}" for k, v in several)])


def _marks(drawing: Drawing, series: Series, y: str, over: str, within: Place) -> list[Published]:
    """The published numbers of one line: of a field, at the places that `within` allows."""
    return [
        each
        for each in drawing.published
        if (each.series, each.over, each.field) == (series.name, over, y)
        and each.value is not None
        and set(within) <= set(each.place)
    ]


def look_of(look: style.Look, i: int, count: int) -> style.Look:
    """That of the i-th line of a system, which differs where it has several."""
    return style.Look(look.color, look.marker, style.LINES[i % len(style.LINES)], look.hardened) if count > 1 else look


def lines(drawing: Drawing, group: Group, y: str, place: Place = ()) -> list[Line]:
    """The lines of one result field over the figure's x axis, in the panel at a place."""
    figure, looks = drawing.figure, style.looks(drawing.series)
    out = []
    for series in group.series:
        if series.name == figure.relative_to:
            continue
        rest = by_rest(drawing, series, place, figure.x)
        for i, (fixed, points) in enumerate(rest.items()):
            line = _line(drawing, series, y, figure.x, points, look_of(looks[series.name], i, len(rest)))
            if figure.relative_to and not line.failed and all(each is None for each in line.middle):
                continue  # that system does not run there
            line.label = label_of(drawing, series, fixed)
            marks = [
                (dict(each.place)[figure.x], each.value)
                for each in _marks(drawing, series, y, figure.relative_to, (*fixed, *place))
                if each.value is not None
            ]
            line.published = sorted(marks, key=lambda mark: drawing.axes[figure.x].index(mark[0]))
            out.append(line)
    return out


def system_bars(drawing: Drawing, group: Group, y: str, place: Place = ()) -> list[Line]:
    """The same with the systems as x axis: each line is one bar, and `slot` counts those of a system."""
    looks, several = style.looks(drawing.series), varying(drawing)
    out = []
    for series in group.series:
        for slot, (fixed, points) in enumerate(by_rest(drawing, series, place, "").items()):
            line = _line(drawing, series, y, "", points, looks[series.name])
            line.slot, line.label = slot, ", ".join(f"{k} {show(k, v)}" for k, v in fixed if k in several)
            line.published = [
                (series.label, each.value)
                for each in _marks(drawing, series, y, "", (*fixed, *place))
                if each.value is not None
            ]
            out.append(line)
    return out


def over(drawing: Drawing, values: list[float], at: dict[str, Any], y: str) -> list[float]:
    """The values over what the figure is relative to at the same place; none where that has no result."""
    name = drawing.figure.relative_to
    if not name:
        return values
    point = drawing.named(name).point(at)
    base = point.median(y) if point is not None else None
    return [value / base for value in values] if base else []


def _line(drawing: Drawing, series: Series, y: str, x: str, points: list[Point], look: style.Look) -> Line:
    line = Line("", look, [], [], [], [], [])
    for point in points:
        values = over(drawing, point.values[y], point.at, y)
        middle, low, high = stats.median_interval(values) if values else (None, None, None)
        at = point.at[x] if x else series.label
        line.x.append(at)
        line.middle.append(middle)
        line.low.append(low)
        line.high.append(high)
        if point.failures:
            line.failed.append(at)
    return line
