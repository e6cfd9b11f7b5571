"""Lines over an axis: medians with intervals, published values as hollow marks, their ratio in a panel below."""

from __future__ import annotations

import math

from matplotlib.lines import Line2D

from runner.tables import Results

from . import frame, words
from .frame import Panel
from .series import groups, lines


def panels(results: Results) -> list[list[Panel]]:
    """The columns of the page: one below the other, or, two columns wide, by kind of series or by field."""
    figure = results.experiment.figure
    found = []
    for group in groups(results):
        for y in figure.y:
            shown = lines(results, group, y)
            found.append(Panel(group, y, shown, figure.ratio and any(line.published for line in shown)))
    if figure.width == "one" or len(found) == 1:
        return [found]
    if len({panel.group.is_measured for panel in found}) == 2:
        return [[p for p in found if p.group.is_measured == kind] for kind in (False, True)]
    return [[panel] for panel in found]


def draw(results: Results):
    """The figure."""
    columns = panels(results)
    page = frame.page(results, columns)
    for column in columns:
        for panel in column:
            _panel(results, panel, is_last=panel is column[-1])
    frame.align(page, columns)
    all_panels = [panel for column in columns for panel in column]
    notes = []
    if any(line.published for panel in all_panels for line in panel.lines):
        notes.append("Hollow marks: published values.")
    if any(line.failed for panel in all_panels for line in panel.lines):
        notes.append("x: failed runs.")
    frame.foot(page, results, " ".join(notes))
    return page


def _panel(results: Results, panel: Panel, is_last: bool) -> None:
    places = frame.position(results)
    numbers = [v for line in panel.lines for v in line.high if v is not None]
    numbers += [v for line in panel.lines for _, v in line.published]
    label = words.of(panel.y, max(numbers, default=0.0))
    axes = panel.axes
    for line in panel.lines:
        _one(axes, line, places, label.factor)
    wants_log = results.experiment.figure.log
    if wants_log is None:
        wants_log = panel.y.startswith("latency_us")
    if wants_log and numbers and min(numbers) > 0:
        axes.set_yscale("log")
        least = min([v for line in panel.lines for v in line.low if v is not None and v > 0] + numbers)
        low, high = least * label.factor / 1.6, max(numbers) * label.factor * 1.6
        frame.plain_log_ticks(axes.yaxis, low, high)
        axes.set_ylim(low, high)
    else:
        top = max(numbers, default=1.0) * label.factor
        axes.set_ylim(0, (top or 1.0) * 1.12)
    axes.set_ylabel(label.label)
    shown = [x for line in panel.lines for x in line.x]
    frame.x_axis(axes, results, shown, with_label=is_last and panel.ratio is None)
    frame.mark_failures(axes, panel, places)
    _legend(axes, panel)
    if panel.ratio is not None:
        _ratio(results, panel, places, shown, is_last)


def _one(axes, line, places: dict[object, float], factor: float) -> None:
    x = [places[at] for at in line.x]
    y = [math.nan if v is None else v * factor for v in line.middle]
    errors = [[0.0 if m is None else (m - low) * factor for m, low in zip(line.middle, line.low)],
              [0.0 if m is None else (high - m) * factor for m, high in zip(line.middle, line.high)]]
    axes.errorbar(x, y, yerr=errors, color=line.look.color, marker=line.look.marker, linestyle=line.look.line,
                  capsize=1.5, elinewidth=0.7, label=line.label)
    if line.published:
        axes.plot([places[at] for at, _ in line.published], [v * factor for _, v in line.published], linestyle="none",
                  marker=line.look.marker, markerfacecolor="none", markeredgecolor=line.look.color, markersize=7.5,
                  markeredgewidth=0.9, gid="published")


def _legend(axes, panel: Panel) -> None:
    handles = [Line2D([], [], color=line.look.color, marker=line.look.marker, linestyle=line.look.line, label=line.label)
               for line in panel.lines]
    if any(line.published for line in panel.lines):
        look = next(line.look for line in panel.lines if line.published)
        handles.append(Line2D([], [], color=look.color, marker=look.marker, linestyle="none", markerfacecolor="none",
                              markersize=7.5, markeredgewidth=0.9, label="published"))
    axes.legend(handles=handles, loc="best", ncols=1 if len(handles) < 5 else 2)


def _ratio(results: Results, panel: Panel, places: dict[object, float], shown: list[object], is_last: bool) -> None:
    axes = panel.ratio
    ratios = []
    for line in panel.lines:
        obtained = dict(zip(line.x, line.middle))
        pairs = [(places[at], obtained[at] / value) for at, value in line.published if obtained.get(at) is not None]
        ratios += [ratio for _, ratio in pairs]
        axes.plot([x for x, _ in pairs], [r for _, r in pairs], color=line.look.color, marker=line.look.marker,
                  markersize=3, linewidth=0.8, linestyle=line.look.line)
    axes.axhline(1.0, color="black", linewidth=0.6)
    axes.axhspan(0.9, 1.1, color="#cccccc", alpha=0.5, linewidth=0, zorder=0)
    spread = max([0.25, *(abs(ratio - 1) * 1.15 for ratio in ratios)])
    axes.set_ylim(max(0.0, 1 - spread), 1 + spread)
    axes.set_ylabel("ratio", labelpad=2)
    frame.x_axis(axes, results, shown, with_label=is_last)
