"""Grouped bars: one group a value of the x axis, one bar a system; published values as hollow bars."""

from __future__ import annotations

from matplotlib.patches import Patch

from runner.grid import show
from runner.tables import Results

from . import frame, words
from .frame import Panel
from .line import panels


def draw(results: Results):
    """The figure."""
    columns = panels(results)
    for column in columns:
        for panel in column:
            panel.has_ratio = False
    page = frame.page(results, columns)
    for column in columns:
        for panel in column:
            _panel(results, panel, is_last=panel is column[-1])
    frame.align(page, columns)
    frame.foot(page, results, "Hollow bars: published values. x: failed runs." if _has_published(columns) else "")
    return page


def _has_published(columns: list[list[Panel]]) -> bool:
    return any(line.published for column in columns for panel in column for line in panel.lines)


def _panel(results: Results, panel: Panel, is_last: bool) -> None:
    name = results.experiment.figure.x
    values = [v for v in results.experiment.axes[name] if any(v in line.x for line in panel.lines)]
    rank = {value: i for i, value in enumerate(values)}
    numbers = [v for line in panel.lines for v in line.high if v is not None]
    numbers += [v for line in panel.lines for _, v in line.published]
    label = words.of(panel.y, max(numbers, default=0.0))
    width = 0.8 / max(1, len(panel.lines))
    for i, line in enumerate(panel.lines):
        shift = (i - (len(panel.lines) - 1) / 2) * width
        for at, middle, low, high in zip(line.x, line.middle, line.low, line.high):
            place = rank[at] + shift
            if middle is not None:
                panel.axes.bar([place], [middle * label.factor], width * 0.92, color=line.look.color, linewidth=0,
                               yerr=[[(middle - low) * label.factor], [(high - middle) * label.factor]],
                               error_kw={"elinewidth": 0.7, "capsize": 1.5})
            if at in line.failed:
                panel.axes.plot([place], [0.04], marker="x", color="black", linestyle="none", markersize=5, zorder=5,
                                markeredgewidth=1.4, transform=panel.axes.get_xaxis_transform(), gid="failed")
        for at, value in line.published:
            panel.axes.bar([rank[at] + shift], [value * label.factor], width * 0.92, fill=False, edgecolor="black",
                           linewidth=0.8, gid="published")
    if results.experiment.figure.log and numbers and min(numbers) > 0:
        panel.axes.set_yscale("log")
        frame.plain_log_ticks(panel.axes.yaxis)
    else:
        panel.axes.set_ylim(0, (max(numbers, default=1.0) or 1.0) * label.factor * 1.15)
    panel.axes.set_xlim(-0.6, len(values) - 0.4)
    panel.axes.set_xticks(range(len(values)), [show(name, value) for value in values])
    panel.axes.grid(False, axis="x")
    panel.axes.set_ylabel(label.label)
    if is_last:
        panel.axes.set_xlabel(words.axis(name))
    handles = [Patch(color=line.look.color, label=line.label) for line in panel.lines]
    if any(line.published for line in panel.lines):
        handles.append(Patch(fill=False, edgecolor="black", linewidth=0.8, label="published"))
    panel.axes.legend(handles=handles, loc="best", ncols=1 if len(handles) < 5 else 2)
