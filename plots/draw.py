"""Draws an experiment's figure into its result folder."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from loch.runner.tables import Results

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


def draw(results: Results, folder: Path) -> None:
    """Writes figure.pdf, figure.png and figure.svg."""
    with matplotlib.rc_context(style.RC):
        frame.save(KINDS[results.experiment.figure.kind](results), folder)
