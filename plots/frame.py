"""The parts of a figure around its data: columns of panels, axis labels, legend, title, caption, and the saved
files."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import matplotlib.pyplot as plt
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter

from loch.runner.drawing import PUTS, SYSTEMS, Drawing, Level, Place, is_size, number, show
from loch.written import write_atomically

from . import style, words
from .series import Group, Line, origins, panel_title

PANEL_IN, RATIO_IN, MARGIN_IN = 1.65, 0.62, 0.75
BESIDE_IN = 0.55  # width to the left of a panel's axes, for the y label and the tick labels, in inches
LEGEND_KEY_IN = 0.44  # width of a legend entry's marker and of the space around it, in inches
HEADING_PT, HEADING_LINE_IN = 6.5, 0.11
TITLE_PT, FOOT_PT = 8, 6
TITLE_LINE_IN, FOOT_LINE_IN = 0.14, 0.115
FOOT_LINES = 3  # lines of a caption for which there is room in every figure
TICKS_MAX = 12  # most labels of ticks of an x axis
Y_LABEL_LETTERS = 28  # number of letters of a y label that fit along the height of a panel
WIDE_TICK_IN = 0.15  # by how much a tick label such as 10,000 is wider than those that BESIDE_IN has room for
Y_LABEL_LINE_IN = 0.13  # height of each further line of a y label, which stands upright beside the axes


@dataclass
class Panel:
    """One panel of a figure: its axes and, where the figure asks for it, axes below with the ratio to the published
    values."""

    group: Group
    y: str
    lines: list[Line]
    has_ratio: bool
    at: Place = ()  # the panel's (axis, value) pairs if the figure consists of small multiples; else empty
    levels: tuple[Level, ...] = ()  # published values that are lines across the panel
    axes: Any = None
    ratio: Any = None
    width_in: float = style.COLUMN_IN - BESIDE_IN  # approximate width of the axes, in inches
    heading_in: float = width_in  # largest width of a line of the heading, in inches


def arrange(drawing: Drawing, found: list[Panel]) -> list[list[Panel]]:
    """The panels of each column of the figure, top to bottom.

    A figure as wide as one text column has one column of panels; one as wide as two has a column for each small
    multiple (three at most), for simulated and for measured series, or for each result field (three at most).
    """
    figure = drawing.figure
    if figure.width == "one" or len(found) == 1:
        return [found]
    if figure.panels:
        places = list(dict.fromkeys(panel.at for panel in found))
        count = len(places) if len(places) <= 3 else 2 if len(places) == 4 else 3
        return [[panel for place in places[i::count] for panel in found if panel.at == place] for i in range(count)]
    if len({panel.group.is_measured for panel in found}) == 2:
        return [[p for p in found if p.group.is_measured == kind] for kind in (False, True)]
    if len(found) > 3:
        count = 2 if len(found) == 4 else 3
        return [found[i::count] for i in range(count)]
    return [[panel] for panel in found]


def page(drawing: Drawing, columns: list[list[Panel]], handles: list):
    """Makes the figure with empty axes for all panels, one column beside the other, and one legend above them."""
    width = style.COLUMN_IN if drawing.figure.width == "one" else style.PAGE_IN
    for panel in (panel for column in columns for panel in column):
        panel.width_in = width / len(columns) - BESIDE_IN
        panel.heading_in = panel.width_in
        if len(columns) > 2:  # nothing beside it is free for a heading that is wider than its axes
            label_lines = len(_y_lines(words.of(panel.y).label))
            panel.heading_in -= WIDE_TICK_IN + Y_LABEL_LINE_IN * (label_lines - 1)

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
        _column(drawing, figure, outer[1, at], column, body - height(column))
    title(figure, drawing)
    return figure


def _column(drawing: Drawing, figure, cell, column: list[Panel], below_in: float) -> None:
    """Makes the axes of one column; `below_in`: what the highest column has more, left empty below the last panel if a
    panel would fit there, so that no panel is stretched."""
    heights = [h for panel in column for h in ([PANEL_IN, RATIO_IN] if panel.has_ratio else [PANEL_IN])]
    missing = [PANEL_IN] * int(below_in / PANEL_IN)
    inner = cell.subgridspec(len(heights) + len(missing), 1, height_ratios=heights + missing)
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
    """A panel's heading: the axis value that it shows, and the origin of its results, broken into lines that fit its
    width."""
    name = panel_title(drawing, panel.at)
    return "\n".join(
        [
            *([name] if name else []),
            *(wrapped(origin, HEADING_PT, panel.heading_in) for origin in origins(panel.group, panel.at)),
        ]
    )


@lru_cache(maxsize=10_000)
def text_in(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text in a font of `size` points, in inches.

    It is taken from the points that control the outlines' curves, among which fonts have the outermost ones: 30 times
    as fast as the curves' own extent, and as wide.
    """
    font = FontProperties(family=style.RC["font.family"], weight=weight)
    path = TextPath((0, 0), text, size=size, prop=font)
    across = path.vertices[path.codes != path.CLOSEPOLY, 0] if len(path.vertices) else path.vertices
    return float(across.max() - across.min()) / 72 if len(across) else 0.0


def wrapped(text: str, size: float, width_in: float, weight: str = "normal") -> str:
    """The text broken into lines of at most `width_in` inches; a word that is wider has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_in(longer, size, weight) <= width_in:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def legend(axes, handles: list, columns: int) -> None:
    """Draws the legend into `axes`, ordered row by row: matplotlib fills a legend column by column."""
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
    """The number of columns of the legend above the panels, and its height in inches."""
    if not handles:
        return 1, 0.0
    longest = max(text_in(handle.get_label(), style.RC["legend.fontsize"]) for handle in handles)
    columns = max(1, min(len(handles), int((width - 0.05) / (LEGEND_KEY_IN + longest))))
    # the fewest columns that do not need more rows, so that the rows are about equally long
    columns = -(-len(handles) // -(-len(handles) // columns))
    return columns, 0.06 + 0.13 * -(-len(handles) // columns)


def legend_of(shown: list[Panel]) -> list[Line2D]:
    """Legend entries: one for each label among the panels' lines, and one for published values if any are drawn."""
    handles: dict[str, Line2D] = {}
    marked: dict[str, style.Look] = {}  # kind of published number -> look of the first line with one
    for panel in fullest_first(shown):
        for line in panel.lines:
            handles.setdefault(
                line.label,
                Line2D(
                    [], [], color=line.look.color, marker=line.look.marker, linestyle=line.look.line, label=line.label
                ),
            )
            for at, _ in line.published:
                marked.setdefault(line.kinds.get(at, "published"), line.look)
    out = list(handles.values())
    # the entry "published" shows the hollow mark of most published numbers, or another kind's mark if there is none
    if marked:
        kind = "published" if "published" in marked else next(iter(marked))
        out.append(Line2D([], [], label="published", **style.mark_of(kind, marked[kind])))
    return out + levels_of(shown)


def levels_of(shown: list[Panel]) -> list[Line2D]:
    """Legend entries of the published values that are lines across panels."""
    labels = dict.fromkeys(level.label for panel in shown for level in panel.levels)
    return [Line2D([], [], label=label, **look) for label, look in zip(labels, style.LEVELS)]


def draw_levels(axes, panel: Panel, shown: list[Panel], factor: float) -> None:
    """Draws the published values that are lines across the panel."""
    looks = {each.get_label(): look for each, look in zip(levels_of(shown), style.LEVELS)}
    for level in panel.levels:
        axes.axhline(level.value * factor, **looks[level.label], zorder=1.5, gid="level")


def fullest_first(shown: list[Panel]) -> list[Panel]:
    """The panels, those with most lines first: the legend built in this order keeps the experiment file's order of
    systems."""
    return sorted(shown, key=lambda panel: -len(panel.lines))


def largest(panel: Panel, shown: list[Panel]) -> float:
    """The largest value among the panels that show the same result field, of simulated or of measured runs; it decides
    their unit."""
    alike = [each for each in shown if each.y == panel.y and each.group.is_measured == panel.group.is_measured]
    return max((v for each in alike for v in numbers(each)), default=0.0)


def numbers(panel: Panel) -> list[float]:
    """The values that must fit into a panel: upper ends of intervals and bands, and published values."""
    out = [v for line in panel.lines for v in line.high if v is not None]
    out += [high for line in panel.lines for _, high in line.bands.values()]
    out += [level.value for level in panel.levels]
    return out + [v for line in panel.lines for _, v in line.published]


def share_limits(shown: list[Panel]) -> None:
    """Gives the small multiples of one result field the same y range, unless their upper ends differ by more than 2.5
    times."""
    for y, kind in dict.fromkeys((panel.y, panel.group.is_measured) for panel in shown):
        alike = [panel for panel in shown if (panel.y, panel.group.is_measured) == (y, kind) and panel.at]
        limits = [panel.axes.get_ylim() for panel in alike]
        if len(alike) > 1 and max(top for _, top in limits) <= 2.5 * min(top for _, top in limits):
            for panel in alike:
                panel.axes.set_ylim(min(low for low, _ in limits), max(top for _, top in limits))


def align(figure, columns: list[list[Panel]]) -> None:
    """Aligns the y labels of all panels in a column."""
    for column in columns:
        figure.align_ylabels([axes for panel in column for axes in (panel.axes, panel.ratio) if axes is not None])


def foot(figure, drawing: Drawing, more: str = "") -> None:
    """Writes the caption below the panels: the drawing's text with the number of repeats, `more`, and the figure's
    note; then the source, and in another colour which conclusions of the paper the results contradict."""
    text = " ".join(filter(None, (drawing.caption, more, drawing.figure.note)))
    lines = [wrapped(each, FOOT_PT, _line_in(drawing)) for each in (text, drawing.source) if each]
    said = wrapped(_contradicted(drawing), FOOT_PT, _line_in(drawing), "bold")
    # The layout makes room for one text below the panels and puts it at the lower edge; the mark stands on that
    # text's last lines, left empty.
    figure.supxlabel("\n".join(lines) + "\n" * len(said.splitlines()), fontsize=FOOT_PT)
    _make_room(figure, drawing, sum(len(each.splitlines()) for each in (*lines, said)))
    if said:
        edge = figure.get_layout_engine().get()["h_pad"] / figure.get_figheight()
        look = {"fontsize": FOOT_PT, "weight": "bold", "color": style.MARK}
        figure.text(0.5, edge, said, ha="center", va="bottom", gid="contradicted", **look)


def _contradicted(drawing: Drawing) -> str:
    """The mark of a picture that does not show what its paper concludes: the first such conclusion, and their number."""
    if not drawing.contradicted:
        return ""
    number, first = len(drawing.contradicted), drawing.contradicted[0]
    return f"NOT AS PUBLISHED{f' ({number} conclusions)' if number > 1 else ''} – {first}" + (
        " …" if number > 1 else ""
    )


def _make_room(figure, drawing: Drawing, foot_lines: int) -> None:
    """Makes the figure higher by what a long title and a long caption need, so that they take nothing from the
    panels."""
    title_lines = wrapped(drawing.title, TITLE_PT, _line_in(drawing)).count("\n")
    more = TITLE_LINE_IN * title_lines + FOOT_LINE_IN * max(0, foot_lines - FOOT_LINES)
    figure.set_figheight(figure.get_figheight() + more)


def title(figure, drawing: Drawing) -> None:
    """Writes the experiment's title above the figure."""
    figure.suptitle(wrapped(drawing.title, TITLE_PT, _line_in(drawing)), fontsize=TITLE_PT)


def _line_in(drawing: Drawing) -> float:
    """The width of a line of text across the whole figure, in inches."""
    return (style.COLUMN_IN if drawing.figure.width == "one" else style.PAGE_IN) - 0.1


def is_numeric(values: list[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def tick_text(drawing: Drawing, value: Any) -> str:
    """What the tick of a value of the x axis says."""
    name = drawing.figure.x
    if drawing.figure.x_as == PUTS:
        return f"{_puts(value):g}"
    return "0" if value == 0 else words.value(name, value) or show(name, value)


def _puts(get: float) -> float:
    """The percentage of PUTs that goes with a share of GETs, without what the subtraction leaves in the last digits."""
    return round(100 * (1 - get), 9)


def position(drawing: Drawing) -> dict[Any, float]:
    """The x coordinate of each value of the x axis: what its tick says where all are numbers, else its rank."""
    values = drawing.axes[drawing.figure.x]
    if drawing.figure.x_as == PUTS:
        return {value: _puts(value) for value in values}
    return {value: float(value) if is_numeric(values) else float(i) for i, value in enumerate(values)}


def y_label(axes, label: str) -> None:
    """Sets the label of the y axis, broken into lines of at most Y_LABEL_LETTERS letters, before the unit if need be."""
    axes.set_ylabel("\n".join(_y_lines(label)))


def _y_lines(label: str) -> list[str]:
    """The lines of a y axis's label."""
    name, bracket, unit = label.partition(" (")
    parts = [label] if len(label) <= Y_LABEL_LETTERS else [name, bracket.lstrip() + unit]
    return [line for part in parts for line in textwrap.wrap(part, Y_LABEL_LETTERS)]


def x_axis(axes, drawing: Drawing, shown: list[Any], with_label: bool, width_in: float) -> None:
    """Sets up the x axis: base-2 logarithmic with ticks such as 64, 512, 1K for sizes, else the experiment's values as
    ticks; a value whose label does not fit has a short tick without one."""
    name = drawing.figure.x
    places = position(drawing)
    ticks = [value for value in drawing.axes[name] if value in shown]
    in_bytes = is_size(name)
    wants_log = drawing.figure.x_log
    is_log = (in_bytes if wants_log is None else wants_log) and is_numeric(ticks) and min(places.values()) > 0
    if is_log:
        axes.set_xscale("log", base=2 if in_bytes else 10)
    names = {tick: tick_text(drawing, tick) for tick in ticks}
    labelled = _apart(ticks, places, is_log, names, width_in)
    axes.xaxis.set_major_locator(FixedLocator([places[tick] for tick in labelled]))
    axes.xaxis.set_major_formatter(FixedFormatter([names[tick] for tick in labelled]))
    axes.xaxis.set_minor_locator(FixedLocator([places[tick] for tick in ticks if tick not in labelled]))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if with_label:
        axes.set_xlabel(words.axis(name, drawing.figure.x_as))


def _apart(
    ticks: list[Any], places: dict[Any, float], is_log: bool, names: dict[Any, str], width_in: float
) -> list[Any]:
    """The ticks whose labels fit on the axis: no label touches its left neighbour; every second, third … tick if more
    than TICKS_MAX labels would fit."""

    def at(tick: Any) -> float:
        return math.log(places[tick]) if is_log else places[tick]

    if len(ticks) < 2:
        return ticks
    # Inches for each unit of x. The axis is about a tenth longer than the range of the ticks, hence the 0.9.
    scale = 0.9 * width_in / (abs(at(ticks[-1]) - at(ticks[0])) or 1.0)
    size = style.RC["xtick.labelsize"]

    def fitting(some: list[Any]) -> list[Any]:
        kept = some[:1]
        for tick in some[1:]:
            room = (text_in(names[tick], size) + text_in(names[kept[-1]], size)) / 2 + 0.05
            if abs(at(tick) - at(kept[-1])) * scale >= room:
                kept.append(tick)
        return kept

    kept = fitting(ticks)
    return kept if len(kept) <= TICKS_MAX else fitting(ticks[:: -(-len(ticks) // TICKS_MAX)])


def plain_log_ticks(axis, low: float | None = None, high: float | None = None) -> None:
    """Ticks of a logarithmic axis as plain numbers: 10, 100, 1,000; also 20 and 50, or more, if the range is short."""
    if low and high and high / low < 300:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low > 8 else (1.0, 2.0, 3.0, 4.0, 5.0, 7.0)))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:.9f}".rstrip("0"))
    )
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def mark_failures(axes, panel: Panel, places: dict[Any, float]) -> None:
    """Draws an x at the bottom of the panel at each x value where a run failed."""
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


def mark_repeats(axes, place: float, values: list[float], color: str) -> None:
    """Draws a dot for each repeat of a point whose repeats fall into two groups far apart, which a median does not
    describe."""
    axes.plot(
        [place] * len(values),
        values,
        marker="o",
        color=color,
        markersize=1.8,
        markeredgewidth=0,
        alpha=0.7,
        linestyle="none",
        zorder=6,
        gid="repeat",
    )


def point_text(drawing: Drawing, name: str, at: Any, label: words.Words, values: Sequence[float]) -> str:
    """What a point says under the pointer: its line's name, its place, its value and the interval of it; `values`:
    median, low and high end, or a published value alone."""
    figure = drawing.figure
    place = ""
    if figure.x != SYSTEMS:
        axis, _, unit = words.axis(figure.x, figure.x_as).partition(" (")
        place = f", {axis} {tick_text(drawing, at)}{' %' if unit.startswith('%') else ''}"
    middle, *ends = (number(value * label.factor) for value in values)
    interval = f" ({ends[0]} to {ends[1]})" if ends and ends[0] != ends[1] else ""
    return f"{name}{place}: {middle}{' ' * bool(label.unit)}{label.unit}{interval}"


def describe(artist: Any, texts: list[str]) -> None:
    """Lets the points of an artist say something under the pointer in figure.svg; for a bar, one text."""
    artist.point_texts = texts


def _numbered(figure) -> list[list[str]]:
    """Gives each described artist an id by which its group is found in the SVG; returns the texts by that number."""
    found = figure.findobj(lambda artist: getattr(artist, "point_texts", None))
    for i, artist in enumerate(found):
        artist.set_gid(f"{artist.get_gid() or ''}#{i}")
    return [artist.point_texts for artist in found]


_DESCRIBED = re.compile(r'<g id="([^"#]*)#(\d+)">(.*?)(?=<g id="|\Z)', re.DOTALL)
_MARK = re.compile(r"(<use [^>]*)/>")


def _with_texts(svg: str, texts: list[list[str]]) -> str:
    """The SVG in which each described point has a <title>."""

    def titled(found: re.Match[str]) -> str:
        gid, own, body = found[1], [f"<title>{escape(each)}</title>" for each in texts[int(found[2])]], found[3]
        head = f'<g id="{gid}">' if gid else "<g>"
        if len(own) == len(_MARK.findall(body)):
            return head + _MARK.sub(lambda mark: f"{mark[1]}>{own.pop(0)}</use>", body)
        return head + (own[0] if len(own) == 1 else "") + body  # a bar is one path

    return _DESCRIBED.sub(titled, svg)


def save(figure, folder: Path) -> None:
    """Saves figure.pdf, figure.png and figure.svg without dates, so that the same results give the same bytes."""
    texts = _numbered(figure)
    metadata = {
        "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": "loch"},
        "png": {"Software": "loch"},
        "svg": {"Date": None, "Creator": "loch"},
    }
    for kind, own in metadata.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, metadata=own)
        data = drawn.getvalue()
        if kind == "svg":
            data = _with_texts(data.decode(), texts).encode()
        write_atomically(folder / f"figure.{kind}", data)
    plt.close(figure)
