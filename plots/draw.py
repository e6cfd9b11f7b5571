"""Draws the figure of an experiment into the experiment's result folder."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from loch.runner.drawing import Drawing

from . import bars, cdf, curve, frame, line, map as winners, style, table, timeline

KINDS = {
    "line": line.draw,
    "bars": bars.draw,
    "table": table.draw,
    "cdf": cdf.draw,
    "curve": curve.draw,
    "map": winners.draw,
    "timeline": timeline.draw,
}


def prepare() -> None:
    """Draws a small figure that nobody sees: fonts and writers of formats are then loaded, and child processes that draw
    need half the time."""
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(3, 2), layout="constrained")
        axes = figure.subplots()
        axes.plot([1, 2], [1, 10], marker="o", label="0.5")
        axes.set_yscale("log")
        axes.set_title("title", weight="bold")
        axes.set_xlabel("label")
        axes.legend()
        for kind in ("pdf", "png", "svg"):
            figure.savefig(io.BytesIO(), format=kind)


def draw(drawing: Drawing, folder: Path) -> None:
    """Writes the figure as figure.pdf, figure.png and figure.svg into `folder`."""
    with matplotlib.rc_context(style.RC):
        frame.save(KINDS[drawing.figure.kind](drawing), folder)
