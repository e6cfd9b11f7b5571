"""A table as a picture: obtained above, published and error below, shaded by the error's size."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from runner import published
from runner.grid import show
from runner.report import number
from runner.tables import Results

from . import style, words
from .frame import foot
from .series import groups

ROW_IN, HEAD_IN, GROUP_IN = 0.40, 0.22, 0.22
SHADES = [(0.05, "#c9e4d4"), (0.10, "#e3f0c9"), (0.25, "#fbe6bd"), (float("inf"), "#f5c6b8")]
LABEL_SHARE = 0.27  # of the width, for the row names


def draw(results: Results):
    """The figure."""
    figure = results.experiment.figure
    values = results.experiment.axes[figure.x]
    kinds = groups(results)
    rows = sum(len(figure.rows) * len(group.systems) for group in kinds)
    body = ROW_IN * rows + (HEAD_IN + GROUP_IN) * len(kinds)
    width = style.COLUMN_IN if figure.width == "one" else style.PAGE_IN
    page = plt.figure(figsize=(width, body + 0.75), layout="constrained")
    axes = page.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(-body, 0)
    page.suptitle(results.experiment.title, fontsize=8, wrap=True)
    compared = {}
    if figure.published:
        compared = {(c.system, c.cell.field, c.cell.at): c for c in published.compare(results)}
    top = 0.0
    for group in kinds:
        top = _group(axes, results, group, values, compared, top)
    foot(page, results, "Below: published value and error. Shades: within 5, 10, 25 %, more. "
         "–: withheld or not published." if compared else "")
    return page


def _group(axes, results: Results, group, values: list[object], compared: dict, top: float) -> float:
    figure = results.experiment.figure
    cell = (1 - LABEL_SHARE) / len(values)
    axes.text(0, top - GROUP_IN / 2, "; ".join(group.origins), fontsize=6.5, style="italic", va="center")
    top -= GROUP_IN
    axes.text(0, top - HEAD_IN / 2, words.axis(figure.x), fontsize=6.5, va="center")
    for i, value in enumerate(values):
        axes.text(LABEL_SHARE + (i + 0.5) * cell, top - HEAD_IN / 2, show(figure.x, value), fontsize=7, va="center",
                  ha="center", weight="bold")
    axes.plot([0, 1], [top, top], color="black", linewidth=0.9)
    top -= HEAD_IN
    axes.plot([0, 1], [top, top], color="black", linewidth=0.5)
    for field in figure.rows:
        for system in group.systems:
            _row(axes, results, group, system, field, values, compared, top)
            top -= ROW_IN
        axes.plot([0, 1], [top, top], color="#bbbbbb", linewidth=0.4)
    axes.plot([0, 1], [top, top], color="black", linewidth=0.9)
    return top


def _row(axes, results: Results, group, system, field: str, values: list[object], compared: dict, top: float) -> None:
    cell = (1 - LABEL_SHARE) / len(values)
    name = words.of(field).label.replace(", mean", "")
    axes.text(0, top - ROW_IN * 0.33, system.label, fontsize=7, va="center", weight="bold")
    axes.text(0, top - ROW_IN * 0.70, name, fontsize=5.8, va="center")
    for i, value in enumerate(values):
        places = [a for a in results.axes_of(system.name) if a[results.experiment.figure.x] == value]
        obtained = results.median(system.name, places[0], field) if places else None
        failed = bool(places) and results.has_failures(system.name, places[0])
        left = LABEL_SHARE + i * cell
        one = compared.get((system.name, field, value))
        if one is not None and one.error is not None:
            shade = next(color for limit, color in SHADES if abs(one.error) <= limit)
            axes.add_patch(Rectangle((left, top - ROW_IN), cell, ROW_IN, facecolor=shade, linewidth=0))
        elif group.is_measured:
            axes.add_patch(Rectangle((left, top - ROW_IN), cell, ROW_IN, facecolor=style.MEASURED_GROUND, linewidth=0))
        middle = left + cell / 2
        text = "x" if failed and obtained is None else number(obtained)
        axes.text(middle, top - ROW_IN * 0.24, text, fontsize=6.8, ha="center", va="center",
                  gid="failed" if failed else None)
        if one is not None:
            axes.text(middle, top - ROW_IN * 0.56, number(one.cell.value), fontsize=5.6, ha="center", va="center",
                      color="#444444")
            if one.error is not None:
                error = "0%" if abs(one.error) < 0.005 else f"{one.error:+.0%}".replace("-", "−")
                axes.text(middle, top - ROW_IN * 0.82, error, fontsize=5.6, ha="center", va="center",
                          color="#444444")
