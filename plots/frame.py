"""The page of a figure: columns of panels, their labels, the x axis, the caption; and saving it byte for byte alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from runner.grid import show
from runner.options import BENCH
from runner.report import caption
from runner.tables import Results

from . import style, words
from .series import Group, Line

PANEL_IN, RATIO_IN, MARGIN_IN = 1.65, 0.62, 0.75


@dataclass
class Panel:
    """One set of axes and, below it, the ratio to the published values if there are any."""

    group: Group
    y: str
    lines: list[Line]
    has_ratio: bool
    axes: object = None
    ratio: object = None


def page(results: Results, columns: list[list[Panel]]):
    """A figure with its axes made, one column of panels beside the other."""
    width = style.COLUMN_IN if results.experiment.figure.width == "one" else style.PAGE_IN
    def height(column: list[Panel]) -> float:
        return sum(PANEL_IN + 0.2 + RATIO_IN * panel.has_ratio for panel in column)
    figure = plt.figure(figsize=(width, max(map(height, columns)) + MARGIN_IN), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, hspace=0.02, wspace=0.04)
    outer = figure.add_gridspec(1, len(columns))
    for at, column in enumerate(columns):
        heights = [h for panel in column for h in ([PANEL_IN, RATIO_IN] if panel.has_ratio else [PANEL_IN])]
        inner = outer[at].subgridspec(len(heights), 1, height_ratios=heights)
        row = 0
        for panel in column:
            panel.axes = figure.add_subplot(inner[row])
            row += 1
            if panel.has_ratio:
                panel.ratio = figure.add_subplot(inner[row], sharex=panel.axes)
                panel.axes.tick_params(labelbottom=False)
                row += 1
            for axes in filter(None, (panel.axes, panel.ratio)):
                axes.set_facecolor(style.MEASURED_GROUND if panel.group.is_measured else "white")
            panel.axes.set_title("\n".join(panel.group.origins), loc="left", fontsize=6.5, style="italic", pad=3)
    figure.suptitle(results.experiment.title, fontsize=8, wrap=True)
    return figure


def align(figure, columns: list[list[Panel]]) -> None:
    """The y labels of a column stand in one line."""
    for column in columns:
        figure.align_ylabels([axes for panel in column for axes in (panel.axes, panel.ratio) if axes is not None])


def foot(figure, results: Results, more: str = "") -> None:
    """The caption with n under the panels."""
    text = caption(results) + (" " + more if more else "")
    figure.supxlabel(_wrapped(text, 78 if results.experiment.figure.width == "one" else 165), fontsize=6)


def _wrapped(text: str, width: int) -> str:
    import textwrap
    return "\n".join(textwrap.wrap(text, width))


def is_numeric(values: list[object]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def position(results: Results) -> dict[object, float]:
    """Where each value of the x axis stands: itself if a number, its rank if text."""
    values = results.experiment.axes[results.experiment.figure.x]
    return {value: float(value) if is_numeric(values) else float(i) for i, value in enumerate(values)}


def x_axis(axes, results: Results, shown: list[object], with_label: bool) -> None:
    """log2 with ticks 64, 512, 1K for sizes; the axis values themselves as ticks elsewhere."""
    name = results.experiment.figure.x
    places = position(results)
    ticks = [value for value in results.experiment.axes[name] if value in shown]
    if name in BENCH and BENCH[name].kind == "size" and min(places.values()) > 0:
        axes.set_xscale("log", base=2)
    if len(ticks) > 9:
        ticks = ticks[::-(-len(ticks) // 9)]
    axes.xaxis.set_major_locator(FixedLocator([places[tick] for tick in ticks]))
    axes.xaxis.set_major_formatter(FixedFormatter([show(name, tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    if with_label:
        axes.set_xlabel(words.axis(name))


def plain_log_ticks(axis, low: float | None = None, high: float | None = None) -> None:
    """10, 100, 1,000 rather than powers; 20 and 50 as well where the range is short."""
    if low and high and high / low < 300:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:.9f}".rstrip("0")))
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def mark_failures(axes, panel: Panel, places: dict[object, float]) -> None:
    """An x at the foot of the panel wherever a run failed."""
    for line in panel.lines:
        for at in line.failed:
            axes.plot([places[at]], [0.04], marker="x", color=line.look.color, markersize=5, markeredgewidth=1.4,
                      linestyle="none", transform=axes.get_xaxis_transform(), clip_on=False, zorder=5, gid="failed")


def save(figure, folder: Path) -> None:
    """figure.pdf, .png and .svg; the same results give the same bytes."""
    figure.savefig(folder / "figure.pdf", metadata={"CreationDate": None, "ModDate": None, "Producer": None, "Creator": "loch"})
    figure.savefig(folder / "figure.png", metadata={"Software": "loch"})
    figure.savefig(folder / "figure.svg", metadata={"Date": None, "Creator": "loch"})
    plt.close(figure)
