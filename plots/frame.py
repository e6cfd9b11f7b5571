"""The page of a figure: columns of panels, their labels, the x axis, the caption; and saving it byte for byte alike."""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from loch.runner.drawing import Drawing, Place, is_size, show
from loch.written import write_atomically

from . import style, words
from .series import Group, Line, origins, panel_title

PANEL_IN, RATIO_IN, MARGIN_IN = 1.65, 0.62, 0.75
BESIDE_IN = 0.55  # of a panel's width, for what stands left of its axes
LEGEND_KEY_IN = 0.44  # of a legend's entry, for its key and the room around
HEADING_PT, HEADING_LINE_IN = 6.5, 0.11
Y_LABEL_LETTERS = 28  # letters of a y label that fit next to a panel


@dataclass
class Panel:
    """One set of axes and, below it, the ratio to the published values if there are any."""

    group: Group
    y: str
    lines: list[Line]
    has_ratio: bool
    at: Place = ()  # small multiples: the axis value that it shows
    axes: Any = None
    ratio: Any = None
    width_in: float = style.COLUMN_IN - BESIDE_IN  # of the axes, about


def arrange(drawing: Drawing, found: list[Panel]) -> list[list[Panel]]:
    """Columns of panels: one below the other, or, two columns wide, by kind of series, by field or as small multiples."""
    figure = drawing.figure
    if figure.width == "one" or len(found) == 1:
        return [found]
    if figure.panels:
        places = list(dict.fromkeys(panel.at for panel in found))
        count = len(places) if len(places) <= 3 else 2 if len(places) == 4 else 3
        return [[panel for place in places[i::count] for panel in found if panel.at == place] for i in range(count)]
    if len({panel.group.is_measured for panel in found}) == 2:
        return [[p for p in found if p.group.is_measured == kind] for kind in (False, True)]
    return [[panel] for panel in found]


def page(drawing: Drawing, columns: list[list[Panel]], handles: list):
    """A figure with its axes made, one column of panels beside the other, and one legend above them all."""
    width = style.COLUMN_IN if drawing.figure.width == "one" else style.PAGE_IN
    for panel in (panel for column in columns for panel in column):
        panel.width_in = width / len(columns) - BESIDE_IN

    def height(column: list[Panel]) -> float:
        return sum(
            PANEL_IN + 0.2 + RATIO_IN * panel.has_ratio + HEADING_LINE_IN * _heading(drawing, panel).count("\n")
            for panel in column
        )

    legend_columns, legend_in = legend_size(handles, width)
    body = max(map(height, columns))
    figure = plt.figure(figsize=(width, body + MARGIN_IN + legend_in), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, hspace=0.02, wspace=0.04)
    outer = figure.add_gridspec(2, len(columns), height_ratios=[max(legend_in, 0.01), body])
    if handles:
        above = figure.add_subplot(outer[0, :])
        above.set_axis_off()
        legend(above, handles, legend_columns)
    for at, column in enumerate(columns):
        _column(drawing, figure, outer[1, at], column)
    title(figure, drawing)
    return figure


def _column(drawing: Drawing, figure, cell, column: list[Panel]) -> None:
    heights = [h for panel in column for h in ([PANEL_IN, RATIO_IN] if panel.has_ratio else [PANEL_IN])]
    inner = cell.subgridspec(len(heights), 1, height_ratios=heights)
    row = 0
    for panel in column:
        panel.axes = figure.add_subplot(inner[row])
        row += 1
        if panel.has_ratio:
            panel.ratio = figure.add_subplot(inner[row], sharex=panel.axes)
            panel.axes.tick_params(labelbottom=False)
            row += 1
        for axes in (panel.axes, panel.ratio) if panel.ratio is not None else (panel.axes,):
            axes.set_facecolor(style.MEASURED_GROUND if panel.group.is_measured else "white")
        panel.axes.set_title(_heading(drawing, panel), loc="left", fontsize=HEADING_PT, style="italic", pad=3)


def _heading(drawing: Drawing, panel: Panel) -> str:
    """Which of the small multiples it is, and where its values come from, in lines that the panel has room for."""
    name = panel_title(drawing, panel.at)
    letters = int(panel.width_in / 0.0475)
    return "\n".join(
        [
            *([name] if name else []),
            *(textwrap.fill(origin, letters) for origin in origins(panel.group, panel.at)),
        ]
    )


def text_in(text: str, size: float) -> float:
    """The width of a line of text, in inches."""
    return (
        TextPath((0, 0), text, size=size, prop=FontProperties(family=style.RC["font.family"])).get_extents().width / 72
    )


def legend(axes, handles: list, columns: int) -> None:
    """The legend in axes of its own. It is read line by line, so that the series keep their order."""
    axes.legend(
        handles=[each for column in range(columns) for each in handles[column::columns]],
        loc="center",
        ncols=columns,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.2,
        labelspacing=0.3,
    ).set_in_layout(False)


def legend_size(handles: list[Any], width: float) -> tuple[int, float]:
    """How many columns a legend above the panels has, and its height in inches."""
    if not handles:
        return 1, 0.0
    longest = max(text_in(handle.get_label(), style.RC["legend.fontsize"]) for handle in handles)
    columns = max(1, min(len(handles), int((width - 0.05) / (LEGEND_KEY_IN + longest))))
    columns = -(-len(handles) // -(-len(handles) // columns))  # rows of equal length
    return columns, 0.06 + 0.13 * -(-len(handles) // columns)


def legend_of(shown: list[Panel]) -> list[Line2D]:
    """One entry for each line of any panel, and one for published values."""
    handles: dict[str, Line2D] = {}
    marked = None
    for panel in fullest_first(shown):
        for line in panel.lines:
            handles.setdefault(
                line.label,
                Line2D(
                    [], [], color=line.look.color, marker=line.look.marker, linestyle=line.look.line, label=line.label
                ),
            )
            marked = marked or (line.look if line.published else None)
    out = list(handles.values())
    if marked:
        out.append(
            Line2D(
                [],
                [],
                color=marked.color,
                marker=marked.marker,
                linestyle="none",
                markerfacecolor="none",
                markersize=7.5,
                markeredgewidth=0.9,
                label="published",
            )
        )
    return out


def fullest_first(shown: list[Panel]) -> list[Panel]:
    """The order in which a legend goes through the panels, so that its entries are in that of the file."""
    return sorted(shown, key=lambda panel: -len(panel.lines))


def largest(panel: Panel, shown: list[Panel]) -> float:
    """The largest value among the panels of the same field, which then have one unit."""
    alike = [each for each in shown if each.y == panel.y and each.group.is_measured == panel.group.is_measured]
    return max((v for each in alike for v in numbers(each)), default=0.0)


def numbers(panel: Panel) -> list[float]:
    """All values drawn in a panel."""
    out = [v for line in panel.lines for v in line.high if v is not None]
    return out + [v for line in panel.lines for _, v in line.published]


def share_limits(shown: list[Panel]) -> None:
    """Small multiples of one field have one y axis, unless it would press some of them flat."""
    for y, kind in dict.fromkeys((panel.y, panel.group.is_measured) for panel in shown):
        alike = [panel for panel in shown if (panel.y, panel.group.is_measured) == (y, kind) and panel.at]
        limits = [panel.axes.get_ylim() for panel in alike]
        if len(alike) > 1 and max(top for _, top in limits) <= 2.5 * min(top for _, top in limits):
            for panel in alike:
                panel.axes.set_ylim(min(low for low, _ in limits), max(top for _, top in limits))


def align(figure, columns: list[list[Panel]]) -> None:
    """The y labels of a column stand in one line."""
    for column in columns:
        figure.align_ylabels([axes for panel in column for axes in (panel.axes, panel.ratio) if axes is not None])


def foot(figure, drawing: Drawing, more: str = "") -> None:
    """The caption with n under the panels."""
    text = " ".join(filter(None, (drawing.caption, more, drawing.figure.note)))
    figure.supxlabel(_wrapped(text, 78 if drawing.figure.width == "one" else 165), fontsize=6)


def title(figure, drawing: Drawing) -> None:
    """The experiment's title above all."""
    figure.suptitle(_wrapped(drawing.title, 58 if drawing.figure.width == "one" else 124), fontsize=8)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))


def is_numeric(values: list[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def position(drawing: Drawing) -> dict[Any, float]:
    """Where each value of the x axis stands: itself if a number, its rank if text."""
    values = drawing.axes[drawing.figure.x]
    return {value: float(value) if is_numeric(values) else float(i) for i, value in enumerate(values)}


def y_label(axes, label: str) -> None:
    """The label in as many lines as it takes."""
    axes.set_ylabel(textwrap.fill(label, Y_LABEL_LETTERS))


def x_axis(axes, drawing: Drawing, shown: list[Any], with_label: bool, width_in: float) -> None:
    """log2 with ticks 64, 512, 1K for sizes; the axis values themselves as ticks elsewhere."""
    name = drawing.figure.x
    places = position(drawing)
    ticks = [value for value in drawing.axes[name] if value in shown]
    in_bytes = is_size(name)
    wants_log = drawing.figure.x_log
    is_log = (in_bytes if wants_log is None else wants_log) and is_numeric(ticks) and min(places.values()) > 0
    if is_log:
        axes.set_xscale("log", base=2 if in_bytes else 10)
    names = {tick: "0" if tick == 0 else show(name, tick) for tick in ticks}
    ticks = _apart(ticks, places, is_log, names, width_in)
    axes.xaxis.set_major_locator(FixedLocator([places[tick] for tick in ticks]))
    axes.xaxis.set_major_formatter(FixedFormatter([names[tick] for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    if with_label:
        axes.set_xlabel(words.axis(name))


def _apart(
    ticks: list[Any], places: dict[Any, float], is_log: bool, names: dict[Any, str], width_in: float
) -> list[Any]:
    """The ticks that have room for their labels: at most nine, none that touches the one before."""

    def at(tick: Any) -> float:
        return math.log(places[tick]) if is_log else places[tick]

    if len(ticks) < 2:
        return ticks
    scale = 0.9 * width_in / (abs(at(ticks[-1]) - at(ticks[0])) or 1.0)  # the axis is a tenth longer than its ticks
    if len(ticks) > 9:
        ticks = ticks[:: -(-len(ticks) // 9)]
    size = style.RC["xtick.labelsize"]
    kept = ticks[:1]
    for tick in ticks[1:]:
        room = (text_in(names[tick], size) + text_in(names[kept[-1]], size)) / 2 + 0.05
        if abs(at(tick) - at(kept[-1])) * scale >= room:
            kept.append(tick)
    return kept


def plain_log_ticks(axis, low: float | None = None, high: float | None = None) -> None:
    """10, 100, 1,000 rather than powers; 20 and 50 as well where the range is short, more where it is shorter."""
    if low and high and high / low < 300:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low > 8 else (1.0, 2.0, 3.0, 4.0, 5.0, 7.0)))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:.9f}".rstrip("0"))
    )
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def mark_failures(axes, panel: Panel, places: dict[Any, float]) -> None:
    """An x at the foot of the panel wherever a run failed."""
    for line in panel.lines:
        for at in line.failed:
            axes.plot(
                [places[at]],
                [0.04],
                marker="x",
                color=line.look.color,
                markersize=5,
                markeredgewidth=1.4,
                linestyle="none",
                transform=axes.get_xaxis_transform(),
                clip_on=False,
                zorder=5,
                gid="failed",
            )


def save(figure, folder: Path) -> None:
    """figure.pdf, .png and .svg; the same results give the same bytes."""
    metadata = {
        "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": "loch"},
        "png": {"Software": "loch"},
        "svg": {"Date": None, "Creator": "loch"},
    }
    for kind, own in metadata.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, metadata=own)
        write_atomically(folder / f"figure.{kind}", drawn.getvalue())
    plt.close(figure)
