"""The data of a panel: lines of one kind (simulated or measured), with medians, intervals, gaps and published values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Iterator

from loch.runner.drawing import Drawing, Place, Point, Published, Series, is_bimodal, show

from . import stats, style, words


@dataclass
class Line:
    """One line of a panel.

    `x`, `middle`, `low` and `high` run in parallel: the x values, the medians and the ends of their intervals (None
    where no run has a result). `failed` has the x values where a run failed, `published` pairs of x and published
    value. `slot` numbers a system's bars.
    """

    label: str
    look: style.Look
    x: list[Any]
    middle: list[float | None]
    low: list[float | None]
    high: list[float | None]
    failed: list[Any]
    published: list[tuple[Any, float]] = field(default_factory=list)
    kinds: dict[Any, str] = field(default_factory=dict)  # x value -> kind of the published number there
    # x value -> ends of the interval of sampled results (`loch run --samples`)
    bands: dict[Any, tuple[float, float]] = field(default_factory=dict)
    # x value -> values of its repeats, where they fall into two groups far apart and are drawn one by one
    two_groups: dict[Any, list[float]] = field(default_factory=dict)
    slot: int = 0

    def results(self) -> Iterator[tuple[Any, float, float, float]]:
        """(x, median, low end, high end of the interval) for each x value with a result."""
        for at, middle, low, high in zip(self.x, self.middle, self.low, self.high):
            if middle is not None and low is not None and high is not None:
                yield at, middle, low, high


@dataclass
class Group:
    """The series that may share a panel: all simulated, or all measured."""

    is_measured: bool
    series: list[Series]
    origins: list[str]  # the distinct "simulated (…)" or "measured (…)" texts of the series, for the whole figure


def groups(drawing: Drawing) -> list[Group]:
    """The drawn series as at most two groups: the simulated ones, then the measured ones."""
    out = []
    for is_measured in (False, True):
        series = [each for each in drawing.series if each.is_measured == is_measured and each.is_drawn]
        if series:
            out.append(Group(is_measured, series, _origins([each.origins[()] for each in series])))
    return out


def origins(group: Group, place: Place) -> list[str]:
    """The texts, such as "simulated (…)", on where the results of a panel come from; `place`: the axis values that it
    fixes."""
    return _origins([series.origins[place] for series in group.series])


_SIMULATED = re.compile(r"simulated \((?:(?P<model>[^,]+), )?(?P<rest>[^,]+, seeds? [^,]+)\)")


_SEEDS = re.compile(r"(simulated \(.+, seeds \d+ to )(\d+)\)")


def _seeds_joined(all_of_them: list[str]) -> list[str]:
    """The texts with one range of seeds where simulations differ in their last seed alone, as those of `repeats: auto`
    do: "simulated (connectx3-10gbe, seeds 1 to 6 or up to 13)"."""
    lasts: dict[str, set[int]] = {}
    for each in filter(None, map(_SEEDS.fullmatch, all_of_them)):
        lasts.setdefault(each[1], set()).add(int(each[2]))
    out = []
    for text in all_of_them:
        found = _SEEDS.fullmatch(text)
        several = lasts[found[1]] if found else set()
        out.append(f"{found[1]}{min(several)} or up to {max(several)})" if found and len(several) > 1 else text)
    return out


def _origins(all_of_them: list[str]) -> list[str]:
    """The distinct texts on where results come from; those of simulations that differ only in the hardware profile, or
    in the number of repeats, are joined."""
    models: dict[str, list[str]] = {}
    for text in dict.fromkeys(_seeds_joined(all_of_them)):
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
    """The (axis, value) pairs that each panel fixes: one panel for each value of `panels:`, or one that fixes
    nothing."""
    axis = drawing.figure.panels
    return [((axis, value),) for value in drawing.axes[axis]] if axis else [()]


def panel_title(drawing: Drawing, place: Place) -> str:
    """A panel's title, such as "get 0.5", or the experiment's `panel_labels:` for that value."""
    labels = drawing.figure.panel_labels
    return ", ".join(labels.get(value, f"{words.axis(key)}: {show(key, value)}") for key, value in place)


def by_rest(drawing: Drawing, series: Series, place: Place, along: str) -> dict[Place, list[Point]]:
    """A system's points in one panel, one list for each line, by the line's axis values.

    The key holds the axis values that neither the panel fixes nor the axis `along` shows. Axes zipped with `along`, or
    with the panel's axis, advance together with it and are left out of the key as well.
    """
    out: dict[Place, list[Point]] = {}
    shown = {along, *(key for key, _ in place)}
    shown |= {axis for group in drawing.zips if shown & set(group) for axis in group}
    for point in series.points:
        if set(place) <= set(point.place):
            out.setdefault(tuple((k, v) for k, v in point.place if k not in shown), []).append(point)
    return out


def varying(drawing: Drawing) -> set[str]:
    """The axes that have more than one value among the points of all series."""
    every = [point.at for series in drawing.series for point in series.points]
    return {axis for axis in drawing.axes if len({at[axis] for at in every}) > 1}


def label_of(drawing: Drawing, series: Series, fixed: Place) -> str:
    """The label of a line: the system's label, and the values of axes that differ between the system's lines."""
    axes = varying(drawing)
    several = [(k, v) for k, v in fixed if k in axes]
    return " ".join([series.label, *(f"{k}={show(k, v)}" for k, v in several)])


def _marks(drawing: Drawing, series: Series, y: str, over: str, within: Place) -> list[Published]:
    """The published values of one line for result field `y`, at the places that agree with `within`.

    In a figure of absolute values a published ratio of two systems becomes a value too: the ratio times what the other
    system has here; it is of kind "ratio" unless the model was calibrated on it, and a published value at the same place
    stands instead of it.
    """
    here = [
        each
        for each in drawing.published
        if (each.series, each.field) == (series.name, y) and each.value is not None and set(within) <= set(each.place)
    ]
    found = {each.place: _from_ratio(drawing, each) for each in here if each.over and not over}
    found |= {each.place: each for each in here if each.over == over}
    return [each for each in found.values() if each is not None]


def _from_ratio(drawing: Drawing, ratio: Published) -> Published | None:
    """A published ratio times the result of the system that it divides by; None without that result."""
    point = drawing.named(ratio.over).point(dict(ratio.place))
    base = point.median(ratio.field) if point is not None else None
    kind = ratio.kind if ratio.kind == "calibrated" else "ratio"
    return replace(ratio, value=ratio.value * base, over="", kind=kind) if ratio.value and base else None


def ratio_note(drawing: Drawing, shown: list[Line]) -> str:
    """The caption's sentence on published ratios that are drawn as values; empty if there are none."""
    if not any(kind == "ratio" for line in shown for kind in line.kinds.values()):
        return ""
    absolute = {(each.series, each.field, each.place) for each in drawing.published if not each.over}
    others = dict.fromkeys(
        drawing.named(each.over).label
        for each in drawing.published
        if each.over
        and each.value is not None
        and each.kind != "calibrated"
        and (each.series, each.field, each.place) not in absolute
    )
    return f"Dashes: published ratio times the result of {', '.join(others)}."


def look_of(look: style.Look, i: int, count: int) -> style.Look:
    """The look of a system's i-th line: the line style differs between its lines if it has several."""
    return style.Look(look.color, look.marker, style.LINES[i % len(style.LINES)], look.hardened) if count > 1 else look


def lines(drawing: Drawing, group: Group, y: str, place: Place = ()) -> list[Line]:
    """The lines of one result field over the figure's x axis, in the panel that shows the axis values `place`."""
    figure, looks = drawing.figure, style.looks(drawing.series)
    out = []
    for series in group.series:
        if series.name == figure.relative_to:
            continue
        rest = by_rest(drawing, series, place, figure.x)
        for i, (fixed, points) in enumerate(rest.items()):
            line = _line(drawing, series, y, figure.x, points, look_of(looks[series.name], i, len(rest)))
            if figure.relative_to and not line.failed and all(each is None for each in line.middle):
                continue  # no result at any x value: the system does not run in this panel
            line.label = label_of(drawing, series, fixed)
            marks = [
                (dict(each.place)[figure.x], each.value)
                for each in _marks(drawing, series, y, figure.relative_to, (*fixed, *place))
                if each.value is not None
            ]
            line.kinds = {
                dict(each.place)[figure.x]: each.kind
                for each in _marks(drawing, series, y, figure.relative_to, (*fixed, *place))
            }
            line.published = sorted(marks, key=lambda mark: drawing.axes[figure.x].index(mark[0]))
            out.append(line)
    return out


def together(drawing: Drawing, group: Group, _: str, place: Place = ()) -> list[Line]:
    """The lines of all result fields of a figure, for one panel: a look for each field if there is one system, else a
    line style."""
    fields = {y: lines(drawing, group, y, place) for y in drawing.figure.y}
    is_one = all(len(found) == 1 for found in fields.values())
    for i, (y, found) in enumerate(fields.items()):
        name = words.of(y).label.split(" (")[0]
        for line in found:
            spare = [line.look, *(each for each in style.SPARE if each.color != line.look.color)]
            line.look = spare[i % len(spare)] if is_one else look_of(line.look, i, len(fields))
            line.label = name if is_one else f"{line.label}, {name}"
    return [line for found in fields.values() for line in found]


def system_bars(drawing: Drawing, group: Group, y: str, place: Place = ()) -> list[Line]:
    """The bars of one result field where the x axis lists the systems: each Line is one bar, `slot` its number in the
    system."""
    looks, several = style.looks(drawing.series), varying(drawing)
    out = []
    for series in group.series:
        for slot, (fixed, points) in enumerate(by_rest(drawing, series, place, "").items()):
            line = _line(drawing, series, y, "", points, looks[series.name])
            line.slot, line.label = slot, ", ".join(f"{k} {show(k, v)}" for k, v in fixed if k in several)
            line.kinds = {series.label: each.kind for each in _marks(drawing, series, y, "", (*fixed, *place))}
            line.published = [
                (series.label, each.value)
                for each in _marks(drawing, series, y, "", (*fixed, *place))
                if each.value is not None
            ]
            out.append(line)
    return out


def over(drawing: Drawing, values: list[float], at: dict[str, Any], y: str) -> list[float]:
    """The values divided by the median of the figure's `relative_to:` system at the same point; none without that
    median."""
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
        if y in point.bands:
            line.bands[at] = point.bands[y]
        if is_bimodal(values):
            line.two_groups[at] = values
        if point.failures:
            line.failed.append(at)
    return line
