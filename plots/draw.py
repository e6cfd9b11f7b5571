"""Draws the figure of an experiment into the experiment's result folder."""

from __future__ import annotations

from pathlib import Path

import matplotlib

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


def draw(drawing: Drawing, folder: Path) -> None:
    """Writes the figure as figure.pdf, figure.png and figure.svg into `folder`."""
    with matplotlib.rc_context(style.RC):
        frame.save(KINDS[drawing.figure.kind](drawing), folder)
