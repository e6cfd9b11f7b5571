"""A table as a figure: in each cell the value obtained, below it the published value and the relative error, whose size
is shaded, and the band of sampled results if there is one. The least of several systems is bold, of the values obtained
and of the published ones."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field as of, replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from loch.runner.drawing import Drawing, Figure, Point, Published, number, show

from . import style, words
from .frame import foot, text_in, title, wrapped
from .series import Group, Series, by_rest, groups, varying

ROW_IN, HEAD_IN, HEAD_LINE_IN, GROUP_IN = 0.40, 0.22, 0.11, 0.22
ORIGIN_PT = 6.5
SMALL = 6.0  # smallest font size that is legible in print, in points
SHADES = [(0.05, "#c9e4d4"), (0.10, "#e3f0c9"), (0.25, "#fbe6bd"), (float("inf"), "#f5c6b8")]
CALIBRATED = "#dddddd"  # ground of a cell whose published value the model was calibrated on
LABEL_SHARE = 0.27  # largest share of the width that row names take
BOLD_EM = 0.70  # mean width of a bold letter, as a share of the font size


@dataclass
class _Row:
    """One row: its name and details, and for each column the series, field and point of its value, or None for an empty
    cell."""

    name: str
    detail: str
    places: list[tuple[Series, str, Point] | None]
    ends_block: bool = False
    least: set[int] = of(default_factory=set)  # columns in which this row has the least of the values obtained
    least_published: set[int] = of(default_factory=set)  # columns in which it has the least published value


def draw(drawing: Drawing):
    """Draws the experiment's results as a table and returns the figure; with bands it is as wide as the page."""
    if any(point.bands for series in drawing.series for point in series.points):
        drawing = replace(drawing, figure=replace(drawing.figure, width="two"))
    figure = drawing.figure
    compared = {(each.series, each.field, each.place): each for each in drawing.published if not each.over}
    blocks = [(group, _columns(drawing, group), _rows(drawing, group)) for group in groups(drawing)]
    for _, _, rows in blocks:
        _find_least(rows, compared)
    head = HEAD_IN + HEAD_LINE_IN * max([0, *(name.count("\n") for _, columns, _ in blocks for name in columns)])
    body = sum(
        ROW_IN * len(rows) + head + GROUP_IN * (_origins(figure, group).count("\n") + 1) for group, _, rows in blocks
    )
    page = plt.figure(figsize=(_width(figure), body + 0.75), layout="constrained")
    axes = page.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(-body, 0)
    title(page, drawing)
    top = 0.0
    for group, columns, rows in blocks:
        top = _group(axes, drawing, group, columns, rows, compared, top, head)
    shown = [
        each for _, _, rows in blocks for row in rows for place in row.places if (each := _comparison(compared, place))
    ]
    places = [place for _, _, rows in blocks for row in rows for place in row.places if place]
    has_bands = any(field in point.bands for _, field, point in places)
    foot(page, drawing, _legend(drawing, shown, has_bands, any(row.least for _, _, rows in blocks for row in rows)))
    return page


def _find_least(rows: list[_Row], compared: dict[Any, Published]) -> None:
    """Finds, for each quantity of which less is better, the row with the least value in each column, if several systems
    have one; hardened variants are no systems of their own."""
    quantities: dict[str, list[_Row]] = {}
    for row in rows:
        for name in {_quantity(place[1]) for place in row.places if place and not place[0].hardened_of}:
            quantities.setdefault(name, []).append(row)
    for name, several in quantities.items():
        if not words.is_less_better(name) or len(several) < 2:
            continue
        for column in range(len(several[0].places)):
            obtained, published = [], []
            for row in several:
                place = row.places[column]
                value = place[2].median(place[1]) if place else None
                one = _comparison(compared, place)
                obtained += [(value, row)] if value is not None else []
                published += [(one.value, row)] if one is not None and one.value is not None else []
            for found, which in (obtained, "least"), (published, "least_published"):
                least = min((value for value, _ in found), default=0.0)
                for value, row in found if len(found) > 1 else []:
                    if short(value) == short(least):
                        getattr(row, which).add(column)


def _quantity(field: str) -> str:
    """What a field measures: of all operations (gb_sent_all) the same as of one kind (gb_sent)."""
    return field.removesuffix("_all")


def _legend(drawing: Drawing, shown: list[Published], has_bands: bool, has_least: bool) -> str:
    """The caption's sentences on the published values and on the shades (sizes of errors) of the cells."""
    word = drawing.called
    notes = []
    if any(each.error is not None for each in shown):
        notes.append(f"Below: {word} value and error. Shades: within 5, 10, 25 %, more.")
    if has_least:
        notes.append(f"Bold: the least, of what was obtained and of {word} values.")
    if has_bands:
        notes.append(f"Last line of a cell: {drawing.band}; *: the {word} value is not in it.")
    if any(each.kind == "calibrated" for each in shown):
        notes.append("Grey: calibrated on, no prediction.")
    if any(each.value is None for each in shown):
        notes.append(f"–: withheld or not {word}.")
    return " ".join(notes)


def _width(figure: Figure) -> float:
    return style.COLUMN_IN if figure.width == "one" else style.PAGE_IN


def _label_share(drawing: Drawing) -> float:
    """The share of the width for the row names; less than LABEL_SHARE if systems are the columns and the names are
    short."""
    figure = drawing.figure
    if not figure.across or varying(drawing):
        return LABEL_SHARE
    longest = max(len(_name(field)) for field in figure.rows)
    return min(LABEL_SHARE, (longest + 1) * 7 / 72 * BOLD_EM / _width(figure))


def _head_size(columns: int) -> float:
    return 7 if columns < 9 else 6 if columns < 12 else 5.6


def _origins(figure: Figure, group: Group) -> str:
    return wrapped("; ".join(group.origins), ORIGIN_PT, _width(figure) - 0.1)


def _columns(drawing: Drawing, group: Group) -> list[str]:
    """The heads of the columns: the values of the x axis, or the systems' labels."""
    figure = drawing.figure
    if not figure.across:
        return [show(figure.x, value) for value in drawing.axes[figure.x]]
    cell = (1 - _label_share(drawing)) * _width(figure) / len(group.series)
    room = int(cell / (_head_size(len(group.series)) / 72 * BOLD_EM))
    return [textwrap.fill(system.label, max(1, room), break_long_words=False) for system in group.series]


def _rows(drawing: Drawing, group: Group) -> list[_Row]:
    figure, several = drawing.figure, varying(drawing)
    out: list[_Row] = []
    if figure.across:
        order = list({point.place: point.at for series in group.series for point in series.points}.values())
        order.sort(key=lambda axes: [drawing.axes[k].index(v) for k, v in axes.items()])
        for axes in order:
            at = ", ".join(f"{k.replace('_', ' ')} {show(k, v)}" for k, v in axes.items() if k in several)
            here = [(series, series.point(axes) or Point(axes, {}, [])) for series in group.series]
            for field in figure.rows:
                out.append(_Row(_name(field), at, [(series, field, point) for series, point in here]))
            out[-1].ends_block = True
        return out
    values = drawing.axes[figure.x]
    known = {(each.series, each.field) for each in drawing.published if each.value is not None}
    for field in figure.rows:
        alike = [each for each in figure.rows if _quantity(each) == _quantity(field)]
        for system in group.series:
            if (system.name, field) not in known and any((system.name, each) in known for each in alike):
                continue  # the paper has this quantity of the system under another definition, which has its own row
            rest = by_rest(drawing, system, (), figure.x) or {(): []}
            for fixed, points in rest.items():
                there = {point.at[figure.x]: point for point in points}
                rest_text = ", ".join(f"{k} {show(k, v)}" for k, v in fixed if k in several)
                out.append(
                    _Row(
                        system.label,
                        ", ".join(filter(None, [_name(field), rest_text])),
                        [(system, field, there[value]) if value in there else None for value in values],
                    )
                )
        out[-1].ends_block = field == alike[-1]
    return out


def _name(field: str) -> str:
    return words.unscaled(field).replace(", mean", "")


def _group(
    axes, drawing: Drawing, group, columns: list[str], rows: list[_Row], compared: dict, top: float, head: float
) -> float:
    figure = drawing.figure
    label = _label_share(drawing)
    if not figure.across:
        names = [width for row in rows for width in (text_in(row.name, 7, "bold"), text_in(row.detail, SMALL))]
        label = min(label, max([*names, text_in(words.axis(figure.x), ORIGIN_PT)]) / _width(figure) + 0.02)
    cell = (1 - label) / len(columns)
    origins = _origins(figure, group)
    height = GROUP_IN * (origins.count("\n") + 1)
    axes.text(0, top - height / 2, origins, fontsize=ORIGIN_PT, style="italic", va="center")
    top -= height
    axes.text(0, top - head / 2, "" if figure.across else words.axis(figure.x), fontsize=6.5, va="center")
    for i, name in enumerate(columns):
        axes.text(
            label + (i + 0.5) * cell,
            top - head / 2,
            name,
            fontsize=_head_size(len(columns)),
            va="center",
            ha="center",
            weight="bold",
        )
    axes.plot([0, 1], [top, top], color="black", linewidth=0.9)
    top -= head
    axes.plot([0, 1], [top, top], color="black", linewidth=0.5)
    for row in rows:
        axes.text(0, top - ROW_IN * 0.33, row.name, fontsize=7, va="center", weight="bold")
        axes.text(0, top - ROW_IN * 0.70, row.detail, fontsize=SMALL, va="center")
        for i, place in enumerate(row.places):
            is_least = i in row.least, i in row.least_published
            _cell(axes, group, place, compared, (label + i * cell, top, cell), is_least)
        top -= ROW_IN
        if row.ends_block:
            axes.plot([0, 1], [top, top], color="#bbbbbb", linewidth=0.4)
    axes.plot([0, 1], [top, top], color="black", linewidth=0.9)
    return top


def _comparison(compared: dict[Any, Published], place: tuple[Series, str, Point] | None) -> Published | None:
    """The published value to compare with a cell's result, or None if the paper has none."""
    return compared.get((place[0].name, place[1], place[2].place)) if place else None


def _cell(
    axes,
    group: Group,
    place,
    compared: dict[Any, Published],
    box: tuple[float, float, float],
    is_least: tuple[bool, bool],
) -> None:
    left, top, width = box
    obtained = place[2].median(place[1]) if place else None
    failed = place is not None and bool(place[2].failures)
    one = _comparison(compared, place)
    band = place[2].bands.get(place[1]) if place else None
    if one is not None and one.error is not None:
        shade = next(color for limit, color in SHADES if abs(one.error) <= limit)
        shade = CALIBRATED if one.kind == "calibrated" else shade
        axes.add_patch(Rectangle((left, top - ROW_IN), width, ROW_IN, facecolor=shade, linewidth=0))
    elif group.is_measured:
        axes.add_patch(Rectangle((left, top - ROW_IN), width, ROW_IN, facecolor=style.MEASURED_GROUND, linewidth=0))
    middle, apart = left + width / 2, width / 30
    text = "" if place is None else "x" if failed and obtained is None else short(obtained)

    def write(line: float, text: str, x: float = middle, ha: str = "center", is_bold: bool = False, **look) -> None:
        weight = "bold" if is_bold else "normal"
        axes.text(x, top - ROW_IN * line, text, ha=ha, va="center", weight=weight, **look)

    below: dict[str, Any] = {"fontsize": SMALL, "color": "#444444"}
    write(0.24, text, is_bold=is_least[0], fontsize=6.8, gid="failed" if failed else "least" if is_least[0] else None)
    if band is not None:
        is_out = one is not None and one.value is not None and not band[0] <= one.value <= band[1]
        write(0.82, f"{short(band[0])}–{short(band[1])}{' *' if is_out else ''}", gid="band", **below)
    if one is None:
        return
    error = None if one.error is None else "0%" if abs(one.error) < 0.005 else f"{one.error:+.0%}".replace("-", "−")
    if band is not None and error is not None:  # side by side: the third line is the band's
        write(0.56, short(one.value), middle - apart, "right", is_least[1], **below)
        write(0.56, error, middle + apart, "left", **below)
        return
    write(0.56, short(one.value), is_bold=is_least[1], **below)
    if error is not None:
        write(0.82, error, **below)


def short(value: float | None) -> str:
    """A number in short form for a narrow cell: 2.61 M rather than 2,610,000."""
    if value is None or abs(value) < 1e5:
        return number(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return number(value)
