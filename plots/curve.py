"""Figures of one result field over another (latency over throughput), points joined along an axis (number of
clients)."""

from __future__ import annotations

from matplotlib.ticker import MaxNLocator

from loch.runner.drawing import Drawing, Place, number, show

from . import frame, stats, style, words
from .frame import Panel
from .series import Group, Line, by_rest, groups, label_of, look_of, panel_places


def draw(drawing: Drawing):
    """Draws a panel for each result field, for each value of the axis `panels:`, and apart for simulated and measured
    series."""
    figure = drawing.figure
    found = [
        Panel(group, y, _lines(drawing, group, y, place), False, place)
        for place in panel_places(drawing)
        for group in groups(drawing)
        for y in figure.y
    ]
    found = [panel for panel in found if panel.lines]
    columns = frame.arrange(drawing, found)
    page = frame.page(drawing, columns, frame.legend_of(found))
    for panel in found:
        _panel(drawing, panel, found)
    frame.share_limits(found)
    frame.align(page, columns)
    values = ", ".join(show(figure.along, value) for value in drawing.axes[figure.along])
    notes = [f"Along each line: {words.axis(figure.along)} {values}."]
    if any(line.published for panel in found for line in panel.lines):
        notes.append("Hollow marks: published values.")
    failed = sum(len(line.failed) for panel in found for line in panel.lines)
    if failed:
        notes.append(f"Failed runs left out: {failed}.")
    frame.foot(page, drawing, " ".join(notes))
    return page


def _lines(drawing: Drawing, group: Group, y: str, place: Place) -> list[Line]:
    """One line for each combination of axis values: x and y are the medians of the figure's x field and of field `y`.

    A point without a result in both fields is counted as failed, and not drawn.
    """
    figure = drawing.figure
    looks = style.looks(drawing.series)
    known = {(each.series, each.field, each.place): each.value for each in drawing.published if not each.over}
    out = []
    for series in group.series:
        rest = by_rest(drawing, series, place, figure.along)
        for i, (fixed, points) in enumerate(rest.items()):
            look = look_of(looks[series.name], i, len(rest))
            line = Line(label_of(drawing, series, fixed), look, [], [], [], [], [])
            for point in points:
                across, values = point.median(figure.x), point.values[y]
                if across is None or not values:
                    line.failed.append(point.at[figure.along])
                else:
                    _point(line, across, values)
                there, above = (known.get((series.name, field, point.place)) for field in (figure.x, y))
                if there is not None and above is not None:
                    line.published.append((there, above))
            out.append(line)
    return out


def _point(line: Line, across: float, values: list[float]) -> None:
    middle, low, high = stats.median_interval(values)
    line.x.append(across)
    line.middle.append(middle)
    line.low.append(low)
    line.high.append(high)


def _xs(panel: Panel) -> list[float]:
    return [x for line in panel.lines for x in (*line.x, *(at for at, _ in line.published))]


def _panel(drawing: Drawing, panel: Panel, found: list[Panel]) -> None:
    figure, axes = drawing.figure, panel.axes
    label = words.of(panel.y, frame.largest(panel, found))
    alike = [each for each in found if each.group.is_measured == panel.group.is_measured]
    xs = _xs(panel)
    widest = max((max(_xs(each), default=0.0) for each in alike), default=0.0)
    across = words.of(figure.x, widest)
    if widest <= 2.5 * max(xs, default=0.0):
        # the x axis extends to the largest x of all panels if that is at most 2.5 times this panel's largest x
        xs = [*xs, widest]
    is_cut = figure.y_max is not None or bool(figure.log)
    for line in panel.lines:
        errors = [
            [(middle - low) * label.factor for _, middle, low, _ in line.results()],
            [(high - middle) * label.factor for _, middle, _, high in line.results()],
        ]
        marks, _, _ = axes.errorbar(
            [x * across.factor for x in line.x],
            [middle * label.factor for _, middle, _, _ in line.results()],
            yerr=errors,
            color=line.look.color,
            marker=line.look.marker,
            linestyle=line.look.line,
            capsize=1.5,
            elinewidth=0.7,
            clip_on=is_cut,
            gid="hardened" if line.look.hardened else None,
        )
        frame.describe(
            marks,
            [
                f"{line.label}: {number(middle * label.factor)} {label.unit} at {number(x * across.factor)} {across.unit}"
                for x, middle, _, _ in line.results()
            ],
        )
        if line.published:
            axes.plot(
                [x * across.factor for x, _ in line.published],
                [y * label.factor for _, y in line.published],
                linestyle="none",
                marker=line.look.marker,
                markerfacecolor="none",
                markeredgecolor=line.look.color,
                markersize=7.5,
                markeredgewidth=0.9,
                clip_on=is_cut,
                zorder=4,
                gid="published",
            )
    numbers = frame.numbers(panel)
    if figure.log and numbers and min(numbers) > 0:
        axes.set_yscale("log")
        low, high = min(numbers) * label.factor / 1.6, (figure.y_max or max(numbers) * 1.6) * label.factor
        frame.plain_log_ticks(axes.yaxis, low, high)
        axes.set_ylim(low, high)
    else:
        axes.set_ylim(0, (figure.y_max or max(numbers, default=1.0) * 1.12 or 1.0) * label.factor)
    if figure.x_log and xs and min(xs) > 0:
        axes.set_xscale("log")
        frame.plain_log_ticks(axes.xaxis, min(xs) * across.factor, max(xs) * across.factor)
    else:
        axes.set_xlim(0, (max(xs, default=1.0) or 1.0) * across.factor * 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    frame.y_label(axes, label.label)
    axes.set_xlabel(across.label)
