"""Figures of distributions: a CDF, or a CCDF, which shows the tail and is what latencies are drawn as by default."""

from __future__ import annotations

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from loch.runner.drawing import Distribution, Drawing, Place

from . import frame, stats, style, words
from .frame import Panel
from .series import Group, Line, by_rest, groups, label_of, look_of, panel_places

MARK_EVERY = 0.18  # distance between two markers of a line, as a share of the panel's diagonal


def draw(drawing: Drawing):
    """Draws a panel for each result field, for each value of the axis `panels:`, and apart for simulated and measured
    series."""
    figure = drawing.figure
    found = [
        Panel(group, y, _lines(drawing, group, place), False, place)
        for place in panel_places(drawing)
        for group in groups(drawing)
        for y in figure.y
    ]
    found = [panel for panel in found if panel.lines]
    columns = frame.arrange(drawing, found)
    handles = [
        Line2D([], [], color=line.look.color, linestyle=line.look.line, marker=line.look.marker, label=line.label)
        for line in {line.label: line for panel in found for line in panel.lines}.values()
    ]
    page = frame.page(drawing, columns, handles)
    exact = True
    for panel in found:
        exact &= _panel(drawing, panel, found)
    frame.align(page, columns)
    frame.foot(
        page,
        drawing,
        (
            "Distributions of all repeats merged."
            if exact
            else "Lines through stored percentiles, one line a repeat (percentiles are never averaged)."
        ),
    )
    return page


def _lines(drawing: Drawing, group: Group, place: Place) -> list[Line]:
    """One line for each system and each combination of axis values that the panel does not fix. Its list `x` has one
    entry, the point."""
    looks = style.looks(drawing.series)
    out = []
    for series in group.series:
        fixed = by_rest(drawing, series, place, "")
        for i, (rest, points) in enumerate(fixed.items()):
            look = look_of(looks[series.name], i, len(fixed))
            out.append(Line(label_of(drawing, series, rest), look, [points[0]], [], [], [], []))
    return out


def _curves(panel: Panel, line: Line) -> tuple[list[list[tuple[float, float]]], bool]:
    """The curves of a line, each as [(value, share at or below)…], and whether complete distributions were stored.

    With complete distributions the repeats are merged to one curve; with percentiles alone each repeat has its own
    curve.
    """
    repeats: list[Distribution] = line.x[0].distributions[panel.y]
    parts = [(each.shares, each.samples) for each in repeats if each.shares]
    whole = all(each.is_whole for each in repeats)
    return [stats.merge_cdfs(parts)] if whole and parts else [shares for shares, _ in parts], whole


def _panel(drawing: Drawing, panel: Panel, found: list[Panel]) -> bool:
    figure = drawing.figure
    is_tail = panel.y.startswith("latency") if figure.tail is None else figure.tail
    exact = True
    largest = max(
        (cdf[-1][0] for each in found if each.y == panel.y for line in each.lines for cdf in _curves(each, line)[0]),
        default=0.0,
    )
    label = words.of(panel.y, largest)
    for i, line in enumerate(panel.lines):
        parts, whole = _curves(panel, line)
        exact &= whole
        for cdf in parts:
            _curve(
                panel.axes,
                [(value * label.factor, share) for value, share in cdf],
                is_tail,
                whole,
                color=line.look.color,
                linestyle=line.look.line,
                marker=line.look.marker,
                markevery=(0.03 * i, MARK_EVERY),
                linewidth=_width(i, len(panel.lines)),
            )
        if line.x[0].failures and not parts:
            panel.axes.plot(
                [0.5],
                [0.04],
                marker="x",
                color=line.look.color,
                linestyle="none",
                gid="failed",
                transform=panel.axes.transAxes,
            )
    if is_tail:
        panel.axes.set_yscale("log")
        panel.axes.set_xscale("linear" if figure.x_log is False else "log")
        if figure.x_log is not False:
            frame.plain_log_ticks(panel.axes.xaxis, *panel.axes.get_xlim())
        frame.plain_log_ticks(panel.axes.yaxis)
        panel.axes.set_ylabel("share above")
    else:
        panel.axes.set_ylim(0, 1.03)
        if figure.x_log:
            panel.axes.set_xscale("log")
            frame.plain_log_ticks(panel.axes.xaxis, *panel.axes.get_xlim())
        else:
            panel.axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        panel.axes.set_ylabel("share at or below")
    panel.axes.set_xlabel(label.label)
    return exact


def _curve(axes, cdf: list[tuple[float, float]], is_tail: bool, whole: bool, **look) -> None:
    if is_tail:
        points = [(value, 1 - share) for value, share in cdf if share < 1 - 1e-12]
    else:
        points = [(cdf[0][0], 0.0), *cdf]
    axes.plot([x for x, _ in points], [y for _, y in points], drawstyle="steps-post" if whole else "default", **look)


def _width(i: int, count: int) -> float:
    """Line width of curve `i` of `count`: earlier curves are wider, so that they stay visible where a later one covers
    them."""
    return 1.0 + 1.4 * (count - 1 - i) / max(1, count - 1) if count > 1 else 1.2
