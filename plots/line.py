"""Figures of lines over an axis: medians with intervals, published values as hollow marks, their ratio in a panel
below."""

from __future__ import annotations

import math
from typing import Any

from loch.runner.drawing import SYSTEMS, Drawing

from . import frame, style, words
from .frame import Panel
from .series import Line, groups, lines, panel_places, ratio_note, system_bars, together


def panels(drawing: Drawing) -> list[Panel]:
    """One panel for each result field (or for all together), for each value of the axis `panels:`, and apart for
    simulated and measured series; panels that would be empty are left out."""
    figure = drawing.figure
    series = together if figure.together else system_bars if figure.x == SYSTEMS else lines
    found = []
    for place in panel_places(drawing):
        for group in groups(drawing):
            for y in figure.y[:1] if figure.together else figure.y:
                shown = series(drawing, group, y, place)
                if shown:
                    has_values = any(kind != "ratio" for line in shown for kind in line.kinds.values())
                    has_ratio = figure.ratio and not figure.relative_to and has_values
                    levels = tuple(level for level in drawing.levels if level.field == y and not figure.relative_to)
                    found.append(Panel(group, y, shown, has_ratio, place, levels))
    return found


def draw(drawing: Drawing):
    """Draws the experiment's line figure and returns it."""
    found = panels(drawing)
    columns = frame.arrange(drawing, found)
    page = frame.page(drawing, columns, frame.legend_of(found))
    for column in columns:
        for panel in column:
            _panel(drawing, panel, found, is_last=panel is column[-1])
    frame.share_limits(found)
    frame.align(page, columns)
    notes = []
    if any(line.published for panel in found for line in panel.lines):
        kinds = {kind for panel in found for line in panel.lines for kind in line.kinds.values()}
        notes.append(style.explain(kinds))
        notes.append(ratio_note(drawing, [line for panel in found for line in panel.lines]))
    if drawing.band and any(line.bands for panel in found for line in panel.lines):
        notes.append(f"Wide bars: {drawing.band}.")
    if any(line.failed for panel in found for line in panel.lines):
        notes.append("x: failed runs.")
    frame.foot(page, drawing, " ".join(filter(None, notes)))
    return page


def _panel(drawing: Drawing, panel: Panel, found: list[Panel], is_last: bool) -> None:
    places = frame.position(drawing)
    label = words.of(panel.y, frame.largest(panel, found))
    if drawing.figure.together:
        label = words.Words(drawing.figure.together)
    relative = drawing.figure.relative_to
    axes = panel.axes
    if relative:
        what = label.label.split(" (")[0]
        label = words.Words(f"{what} over {drawing.named(relative).label}'s")
        axes.axhline(1.0, color="black", linewidth=0.6)
    y_limits(drawing, panel, label.factor, by_default=panel.y.startswith("latency_us"))
    is_cut = drawing.figure.y_max is not None or axes.get_yscale() == "log"
    for line in panel.lines:
        _one(drawing, axes, line, places, label, is_cut)
    frame.draw_levels(axes, panel, found, label.factor)
    frame.y_label(axes, label.label)
    shown = [x for line in panel.lines for x in line.x]
    frame.x_axis(axes, drawing, shown, with_label=is_last and panel.ratio is None, width_in=panel.width_in)
    frame.mark_failures(axes, panel, places)
    if panel.ratio is not None:
        _ratio(drawing, panel, places, shown, is_last)


def y_limits(drawing: Drawing, panel: Panel, factor: float, by_default: bool) -> None:
    """Sets the panel's y range: logarithmic around the values, or linear from 0; the figure's `y_max:` replaces the
    upper end."""
    figure, axes, numbers = drawing.figure, panel.axes, frame.numbers(panel)
    wants_log = by_default if figure.log is None else figure.log
    if figure.log:
        # a logarithmic axis cannot show a zero, so zeros are not drawn
        numbers = [number for number in numbers if number > 0]
    if wants_log and numbers and min(numbers) > 0:
        axes.set_yscale("log")
        least = min([v for line in panel.lines for v in line.low if v is not None and v > 0] + numbers)
        low, high = least * factor / 1.6, (figure.y_max or max(numbers) * 1.6) * factor
        frame.plain_log_ticks(axes.yaxis, low, high)
        axes.set_ylim(low, high)
        return
    top = figure.y_max or max(numbers, default=1.0) * 1.12
    axes.set_ylim(0, (top or 1.0) * factor)


def _one(drawing: Drawing, axes, line: Line, places: dict[Any, float], label: words.Words, is_cut: bool) -> None:
    factor = label.factor
    x = [places[at] for at in line.x]
    # a logarithmic axis would draw a line to a zero as one that falls off the panel
    least = 0.0 if axes.get_yscale() == "log" else -math.inf
    y = [math.nan if v is None or v <= least else v * factor for v in line.middle]
    errors = [
        [0.0 if m is None or low is None else (m - low) * factor for m, low in zip(line.middle, line.low)],
        [0.0 if m is None or high is None else (high - m) * factor for m, high in zip(line.middle, line.high)],
    ]
    marks, _, _ = axes.errorbar(
        x,
        y,
        yerr=errors,
        color=line.look.color,
        marker=line.look.marker,
        linestyle=line.look.line,
        capsize=1.5,
        elinewidth=0.7,
        label=line.label,
        clip_on=is_cut,  # without clipping, markers at y = 0 are drawn in full over the axis
        gid="hardened" if line.look.hardened else None,
    )
    drawn = (each for each in line.results() if each[1] > least)
    frame.describe(marks, [frame.point_text(drawing, line.label, at, label, values) for at, *values in drawn])
    for at, (low, high) in line.bands.items():
        axes.vlines(
            [places[at]],
            [low * factor],
            [high * factor],
            color=line.look.color,
            alpha=0.3,
            linewidth=4,
            zorder=1,
            gid="band",
        )
    for at, values in line.two_groups.items():
        frame.mark_repeats(axes, places[at], [value * factor for value in values], line.look.color)
    for kind in dict.fromkeys(line.kinds.values()):
        found = [(at, value) for at, value in line.published if line.kinds.get(at) == kind]
        (marks,) = axes.plot(
            [places[at] for at, _ in found],
            [v * factor for _, v in found],
            **style.mark_of(kind, line.look),
            clip_on=is_cut,
            zorder=4,
            gid=kind,
        )
        name = f"{line.label}, {drawing.called}"
        frame.describe(marks, [frame.point_text(drawing, name, at, label, [value]) for at, value in found])


def _ratio(drawing: Drawing, panel: Panel, places: dict[Any, float], shown: list[Any], is_last: bool) -> None:
    axes = panel.ratio
    ratios = []
    for line in panel.lines:
        obtained = {at: middle for at, middle, _, _ in line.results()}
        pairs = [(places[at], obtained[at] / value) for at, value in line.published if at in obtained and value]
        ratios += [ratio for _, ratio in pairs]
        axes.plot(
            [x for x, _ in pairs],
            [r for _, r in pairs],
            color=line.look.color,
            marker=line.look.marker,
            markersize=3,
            linewidth=0.8,
            linestyle=line.look.line,
        )
    axes.axhline(1.0, color="black", linewidth=0.6)
    axes.axhspan(0.9, 1.1, color="#cccccc", alpha=0.5, linewidth=0, zorder=0)
    spread = max([0.25, *(abs(ratio - 1) * 1.15 for ratio in ratios)])
    axes.set_ylim(max(0.0, 1 - spread), 1 + spread)
    axes.set_ylabel("ratio", labelpad=2)
    frame.x_axis(axes, drawing, shown, with_label=is_last, width_in=panel.width_in)
