"""Figures of grouped bars: a group for each value of the x axis with a bar for each system, or a group for each system.

Published values are hollow bars.
"""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.artist import Artist
from matplotlib.patches import Patch
from matplotlib.patheffects import AbstractPathEffect, Normal, Stroke

from loch.runner.drawing import SYSTEMS, Drawing

from . import frame, words
from .frame import Panel
from .line import panels
from .series import Line, ratio_note
from .style import GREY, Look

EDGES: dict[str, Any] = {"calibrated": ":", "ratio": (0, (3, 1.5))}  # of hollow bars, by kind of published number
BAND = "#8a8a8a"  # of the bands of sampled results
# Opacity of the first, second, third and fourth bar of each system, in figures in which a system has several bars.
FADES = (1.0, 0.65, 0.4, 0.25)


def draw(drawing: Drawing):
    """Draws the experiment's figure of bars and returns it."""
    found = panels(drawing)
    for panel in found:
        panel.has_ratio = False
    columns = frame.arrange(drawing, found)
    page = frame.page(drawing, columns, _legend(drawing, found))
    for column in columns:
        for panel in column:
            _panel(drawing, panel, found, is_last=panel is column[-1])
    frame.share_limits(found)
    frame.align(page, columns)
    kinds = {kind for panel in found for line in panel.lines for kind in line.kinds.values()}
    notes = ["Hollow bars: published values."] if kinds - {"ratio"} else []
    if "ratio" in kinds:
        notes.append(ratio_note(drawing, [line for panel in found for line in panel.lines]))
    if "calibrated" in kinds:
        notes.append("Dotted: calibrated on, no prediction.")
    if drawing.band and any(line.bands for panel in found for line in panel.lines):
        notes.append(f"Wide grey bars: {drawing.band}.")
    if any(line.failed for panel in found for line in panel.lines):
        notes.append("x: failed runs.")
    frame.foot(page, drawing, " ".join(notes))
    return page


def _fill(look: Look, alpha: float = 1.0) -> dict[str, Any]:
    """A bar's fill: hatched for the hardened variant of a design, because a bar cannot be dashed as its line would
    be."""
    if look.hardened:
        return {"facecolor": look.color, "edgecolor": "white", "hatch": "/////", "linewidth": 0, "alpha": alpha}
    return {"color": look.color, "linewidth": 0, "alpha": alpha}


def _legend(drawing: Drawing, found: list[Panel]) -> list[Artist]:
    """An entry for each system; several hardened variants have one in common, as they are hatched like nothing else."""
    handles: dict[str, Patch] = {}
    is_grouped = drawing.figure.x == SYSTEMS
    variants = {line.label for panel in found for line in panel.lines if line.look.hardened}
    has_one_entry = len(variants) > 1 and not is_grouped
    for line in (line for panel in frame.fullest_first(found) for line in panel.lines):
        if line.label and is_grouped:
            handles.setdefault(
                line.label, Patch(color="black", alpha=FADES[line.slot % len(FADES)], linewidth=0, label=line.label)
            )
        elif line.label and not (has_one_entry and line.look.hardened):
            handles.setdefault(line.label, Patch(**_fill(line.look), label=line.label))
    if has_one_entry:
        handles["hardened"] = Patch(**_fill(Look(GREY, "", "", hardened=True)), label="hardened")
    kinds = {kind for panel in found for line in panel.lines for kind in line.kinds.values()}
    if kinds:
        edge = EDGES["ratio"] if kinds == {"ratio"} else "-"
        handles["published"] = Patch(fill=False, edgecolor="black", linewidth=0.8, linestyle=edge, label="published")
    return [*handles.values(), *frame.levels_of(found)]


def _panel(drawing: Drawing, panel: Panel, found: list[Panel], is_last: bool) -> None:
    name, axes = drawing.figure.x, panel.axes
    is_grouped = name == SYSTEMS
    values = (
        list(dict.fromkeys(line.x[0] for line in panel.lines))
        if is_grouped
        else [v for v in drawing.axes[name] if any(v in line.x for line in panel.lines)]
    )
    rank = {value: i for i, value in enumerate(values)}
    label = words.of(panel.y, frame.largest(panel, found))
    slots = 1 + max(line.slot for line in panel.lines) if is_grouped else len(panel.lines)
    width = 0.8 / slots
    for i, line in enumerate(panel.lines):
        fill = _fill(line.look, FADES[line.slot % len(FADES)])
        for at, middle, low, high in line.results():
            place = rank[at] + _shift(panel, i, at, is_grouped, slots) * width
            spread = (
                {
                    "yerr": [[(middle - low) * label.factor], [(high - middle) * label.factor]],
                    "error_kw": {"elinewidth": 0.7, "capsize": 1.5},
                }
                if high > low
                else {}
            )
            bar = axes.bar([place], [middle * label.factor], width * 0.92, **fill, **spread)
            _edge_errors(bar)
            name = _name(line, at, is_grouped)
            frame.describe(bar[0], [frame.point_text(drawing, name, at, label, (middle, low, high))])
            if at in line.two_groups:
                frame.mark_repeats(axes, place, [value * label.factor for value in line.two_groups[at]], "black")
        for at in line.failed:
            place = rank[at] + _shift(panel, i, at, is_grouped, slots) * width
            axes.plot(
                [place],
                [0.04],
                marker="x",
                color="black",
                linestyle="none",
                markersize=5,
                zorder=5,
                markeredgewidth=1.4,
                transform=axes.get_xaxis_transform(),
                gid="failed",
            )
        for at, value in line.published:
            place = rank[at] + _shift(panel, i, at, is_grouped, slots) * width
            hollow = axes.bar(
                [place],
                [value * label.factor],
                width * 0.92,
                fill=False,
                edgecolor="black",
                linewidth=0.8,
                linestyle=EDGES.get(line.kinds.get(at, ""), "-"),
                gid="ratio" if line.kinds.get(at) == "ratio" else "published",
            )
            name = f"{_name(line, at, is_grouped)}, {drawing.called}"
            frame.describe(hollow[0], [frame.point_text(drawing, name, at, label, [value])])
        for at, (low, high) in line.bands.items():
            place = rank[at] + _shift(panel, i, at, is_grouped, slots) * width
            axes.vlines(
                [place],
                [low * label.factor],
                [high * label.factor],
                color=BAND,
                linewidth=2.8,
                path_effects=_edged(2.8),
                gid="band",
            )
    frame.draw_levels(axes, panel, found, label.factor)
    _axes(drawing, panel, values, label, is_last)


def _edged(linewidth: float) -> list[AbstractPathEffect]:
    """A white edge around a line, which shows it on bars of any colour, black too."""
    return [Stroke(linewidth=linewidth + 1.2, foreground="white"), Normal()]


def _edge_errors(container: Any) -> None:
    """Gives the error bar of a bar, if it has one, a white edge."""
    if container.errorbar is None:
        return
    _, caps, lines = container.errorbar.lines
    for each in (*caps, *lines):
        each.set_path_effects(_edged(0.7))


def _name(line: Line, at: Any, is_grouped: bool) -> str:
    """What a bar is called under the pointer."""
    return ", ".join(filter(None, (str(at), line.label))) if is_grouped else line.label


def _shift(panel: Panel, i: int, at: Any, is_grouped: bool, slots: int) -> float:
    """Offset of the bar of line `i` from the middle of its group, in bar widths. A system without a run at x value `at`
    leaves no gap in the group."""
    if is_grouped:
        return panel.lines[i].slot - (slots - 1) / 2
    there = [j for j, line in enumerate(panel.lines) if at in line.x]
    return there.index(i) - (len(there) - 1) / 2


def _axes(drawing: Drawing, panel: Panel, values: list[Any], label: words.Words, is_last: bool) -> None:
    figure, axes, numbers = drawing.figure, panel.axes, frame.numbers(panel)
    if figure.log and numbers and min(numbers) > 0:
        axes.set_yscale("log")
        if figure.y_max:
            axes.set_ylim(top=figure.y_max * label.factor)
        frame.plain_log_ticks(axes.yaxis)
    else:
        axes.set_ylim(0, (figure.y_max or max(numbers, default=1.0) * 1.15 or 1.0) * label.factor)
    axes.set_xlim(-0.6, len(values) - 0.4)
    names = values if figure.x == SYSTEMS else [frame.tick_text(drawing, value) for value in values]
    room = 62 // max(1, len(names)) if figure.width == "one" else 130 // max(1, len(names))
    axes.set_xticks(range(len(values)), [textwrap.fill(str(each), max(6, room)) for each in names])
    axes.grid(False, axis="x")
    frame.y_label(axes, label.label)
    if is_last and figure.x != SYSTEMS:
        axes.set_xlabel(words.axis(figure.x, figure.x_as))
