"""Distributions: latency as a CCDF (the tail is the point), counts and bytes per operation as a CDF."""

from __future__ import annotations

from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from loch.runner.tables import Results

from . import frame, stats, style, words
from .frame import Panel
from .series import Line, by_rest, groups, label_of, panel_places

MARK_EVERY = 0.18  # of the panel's diagonal
_PERCENTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def _node(document: dict, field: str) -> Any:
    node: Any = document
    for part in field.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def distribution(document: dict, field: str) -> tuple[list[tuple[float, float]], float] | None:
    """[(value, share at or below)…] and the samples behind it, from a result.

    The field is a list of [value, share] (verbs.per_get.cdf.read), or a latency (latency_us.get): its histogram of
    [upper bound, count], or else its percentiles.
    """
    node = _node(document, field)
    if isinstance(node, list):
        return ([(float(value), float(share)) for value, share in node], _samples(document, field)) if node else None
    if not isinstance(node, dict):
        return None
    count = float(node.get("count") or 0)
    buckets = node.get("histogram")
    if isinstance(buckets, list) and buckets:
        total, running, out = sum(n for _, n in buckets), 0, []
        for value, n in buckets:
            running += n
            out.append((float(value), running / total))
        return out, float(total)
    known = [(float(node[key]), share) for key, share in _PERCENTILES.items() if key in node]
    return (known, count) if len(known) > 1 and count else None


def _samples(document: dict, field: str) -> float:
    """The number of operations behind a distribution of verbs.per_KIND: its weight when repeats are merged."""
    kind = next((part[4:] for part in field.split(".") if part.startswith("per_")), "total")
    return float(document.get("operations", {}).get(kind) or 1)


def is_exact(document: dict, field: str) -> bool:
    """Whether the result holds the whole distribution rather than percentiles."""
    node = _node(document, field)
    return isinstance(node, list) or (isinstance(node, dict) and isinstance(node.get("histogram"), list))


def draw(results: Results):
    """The figure: one panel a place of the small multiples, field and kind of series."""
    figure = results.experiment.figure
    found = [
        Panel(group, y, _lines(results, group, place), False, place)
        for place in panel_places(results)
        for group in groups(results)
        for y in figure.y
    ]
    found = [panel for panel in found if panel.lines]
    columns = frame.arrange(results, found)
    handles = [
        Line2D([], [], color=line.look.color, linestyle=line.look.line, marker=line.look.marker, label=line.label)
        for line in {line.label: line for panel in found for line in panel.lines}.values()
    ]
    page = frame.page(results, columns, handles)
    exact = True
    for panel in found:
        exact &= _panel(results, panel, found)
    frame.align(page, columns)
    frame.foot(
        page,
        results,
        (
            "Distributions of all repeats merged."
            if exact
            else "Lines through stored percentiles, one line a repeat (percentiles are never averaged)."
        ),
    )
    return page


def _lines(results: Results, group, place: tuple) -> list[Line]:
    """One for each system and combination of axis values; `x` holds that combination."""
    looks = style.looks(results.experiment.systems)
    out = []
    for system in group.systems:
        fixed = by_rest(results, system, place, "")
        for i, (rest, places) in enumerate(fixed.items()):
            look = looks[system.name]
            if len(fixed) > 1:
                look = style.Look(look.color, look.marker, style.LINES[i % len(style.LINES)], look.hardened)
            out.append(Line(label_of(results, system, rest), look, [(system.name, places[0])], [], [], [], []))
    return out


def _curves(results: Results, panel: Panel, line: Line) -> tuple[list[list[tuple[float, float]]], bool]:
    """A line's distribution, all repeats merged, or one a repeat if percentiles are all that is known; whether it is whole."""
    name, axes = line.x[0]
    documents = [row.result.document for row in results.at(name, axes) if row.ok]
    parts = [part for document in documents if (part := distribution(document, panel.y))]
    whole = all(is_exact(document, panel.y) for document in documents)
    return [stats.merge_cdfs(parts)] if whole and parts else [cdf for cdf, _ in parts], whole


def _panel(results: Results, panel: Panel, found: list[Panel]) -> bool:
    is_tail = panel.y.startswith("latency")
    exact = True
    largest = max(
        (
            cdf[-1][0]
            for each in found
            if each.y == panel.y
            for line in each.lines
            for cdf in _curves(results, each, line)[0]
        ),
        default=0.0,
    )
    label = words.of(panel.y, largest)
    for i, line in enumerate(panel.lines):
        name, axes = line.x[0]
        parts, whole = _curves(results, panel, line)
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
        if results.has_failures(name, axes) and not parts:
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
        panel.axes.set_xscale("linear" if results.experiment.figure.x_log is False else "log")
        if results.experiment.figure.x_log is not False:
            frame.plain_log_ticks(panel.axes.xaxis, *panel.axes.get_xlim())
        frame.plain_log_ticks(panel.axes.yaxis)
        panel.axes.set_ylabel("share above")
    else:
        panel.axes.set_ylim(0, 1.03)
        if results.experiment.figure.x_log:
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
    """Distributions often run along each other: the first lines are wide, so that they show on both sides of later ones."""
    return 1.0 + 1.4 * (count - 1 - i) / max(1, count - 1) if count > 1 else 1.2
