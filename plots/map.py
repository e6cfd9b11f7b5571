"""Maps of the best design over two axes: each cell (combination of their values) has the colour of its best system, and
shows that system's lead over the second."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle

from loch.runner.drawing import Drawing, Place, show

from . import style, words
from .frame import foot, legend, legend_size, title
from .series import Group, groups, origins, panel_places, panel_title

CELL_IN, EVEN = 0.27, 1.03  # CELL_IN: side of a cell, in inches. EVEN: a lead (ratio) below it counts as a draw
FULL = 3.0  # lead (ratio to the second best) from which a cell has the winner's colour at full strength


def draw(drawing: Drawing):
    """Draws one map for each small multiple of the simulated and of the measured series; the first y field decides the
    winner."""
    figure = drawing.figure
    maps = [
        (group, place)
        for group in groups(drawing)
        for place in panel_places(drawing)
        if any(set(place) <= set(point.place) for series in group.series for point in series.points)
    ]
    width = style.COLUMN_IN if figure.width == "one" else style.PAGE_IN
    across = 1 if figure.width == "one" else min(len(maps), 3)
    down = -(-len(maps) // across)
    looks = style.looks(drawing.series)
    handles = [Patch(color=looks[s.name].color, label=s.label) for s in drawing.series if s.is_drawn]
    handles.append(Patch(color="#eeeeee", label=f"within {EVEN - 1:.0%}"))
    legend_columns, legend_in = legend_size(handles, width)
    body = down * (CELL_IN * len(drawing.axes[figure.down]) + 0.42)
    page = plt.figure(figsize=(width, body + legend_in + 0.85), layout="constrained")
    outer = page.add_gridspec(down + 1, across, height_ratios=[legend_in, *([body / down] * down)])
    above = page.add_subplot(outer[0, :])
    above.set_axis_off()
    legend(above, handles, legend_columns)
    for i, (group, place) in enumerate(maps):
        axes = page.add_subplot(outer[1 + i // across, i % across])
        _map(axes, drawing, group, place, looks)
        if i + across >= len(maps):
            axes.set_xlabel(words.axis(figure.x))
        if i % across == 0:
            axes.set_ylabel(words.axis(figure.down))
    title(page, drawing)
    what = words.of(figure.y[0]).label.split(" (")[0]
    foot(
        page,
        drawing,
        f"Colour: the design with the {'lowest' if is_cost(figure.y[0]) else 'highest'} {what}; number: "
        "its lead, as a ratio to the next.",
    )
    return page


def is_cost(field: str) -> bool:
    """Whether lower values of a result field are better."""
    return field.startswith(("latency", "power", "joules", "wire_bytes")) or "joules" in field


def winner(group: Group, at: dict[str, Any], field: str) -> tuple[str, float | None] | None:
    """The best system at a point of the axes, and its lead over the second as a ratio (None if no other system has a
    result)."""
    found = [
        (value, series.name)
        for series in group.series
        if (point := series.point(at)) is not None and (value := point.median(field)) is not None
    ]
    if not found:
        return None
    found.sort(key=lambda pair: pair[0], reverse=not is_cost(field))
    if len(found) == 1:
        return found[0][1], None
    best, second = found[0][0], found[1][0]
    return found[0][1], (second / best if is_cost(field) else best / second) if best and second else None


def _map(axes, drawing: Drawing, group: Group, place: Place, looks: dict[str, style.Look]) -> None:
    figure = drawing.figure
    columns, rows = (drawing.axes[axis] for axis in (figure.x, figure.down))
    everywhere = [point.at for series in group.series for point in series.points]
    for i, x in enumerate(columns):
        for j, y in enumerate(rows):
            wanted = {(figure.x, x), (figure.down, y), *place}
            at = next((each for each in everywhere if wanted <= set(each.items())), None)
            best = winner(group, at, figure.y[0]) if at is not None else None
            if best is None:
                axes.text(i, j, "–", ha="center", va="center", fontsize=6)
                continue
            name, lead = best
            color, ink = shade(looks[name].color, lead)
            axes.add_patch(
                Rectangle((i - 0.5, j - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=0.8, gid="winner")
            )
            text = "–" if lead is None else "=" if lead < EVEN else f"{lead:.2f}" if lead < 10 else f"{lead:.0f}"
            axes.text(i, j, text, ha="center", va="center", fontsize=6, color=ink)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), [show(figure.x, value) for value in columns])
    axes.set_yticks(range(len(rows)), [show(figure.down, value) for value in rows])
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if group.is_measured:
        axes.set_facecolor(style.MEASURED_GROUND)
    name = panel_title(drawing, place)
    axes.set_title(
        "\n".join([*([name] if name else []), *origins(group, place)]),
        loc="left",
        fontsize=6.5,
        style="italic",
        pad=3,
    )


def shade(color: str, lead: float | None) -> tuple[tuple[float, ...], str]:
    """A cell's fill, the winner's colour, paler the smaller the lead, and the ink (black or white) that is legible on
    it."""
    if lead is not None and lead < EVEN:
        return to_rgb("#eeeeee"), "black"
    share = 0.35 + 0.65 * min(1.0, ((lead or FULL) - 1) / (FULL - 1))
    mixed = tuple(1 - share * (1 - part) for part in to_rgb(color))
    brightness = 0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2]
    return mixed, "black" if brightness > 0.5 else "white"
