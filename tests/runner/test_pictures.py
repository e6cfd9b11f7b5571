"""Tests of the pictures themselves: texts stay inside, and what a reader must not miss stands there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from loch.runner.drawing import Drawing
from plots import draw, style
from support import SMALL
from test_drawing import drawn

KINDS = [
    "{kind: line, y: [throughput_ops_s, latency_us.get.mean], width: two}",
    "{kind: bars, y: [throughput_ops_s]}",
    "{kind: table, rows: [latency_us.get.mean]}",
    "{kind: cdf, y: [latency_us.get]}",
]
# Words of the widest letters: as many letters as usual would not fit on a line.
WIDE = " ".join(["WORKLOADS OF MMMM GETS UNDER WWWW"] * 12)


def documents(point: Any) -> Any:
    get = {"mean": 20.0 + point.repeat, "count": 4, "p50": 2, "p99": 9}
    return {"throughput_ops_s": 1e6, "latency_us": {"get": get, "all": get, "put": get}}


def picture(given: Drawing) -> Figure:
    """The figure as it is saved, with all its texts in their places."""
    with matplotlib.rc_context(style.RC):
        made: Figure = draw.KINDS[given.figure.kind](given)
        made.canvas.draw()
    return made


def texts(made: Figure) -> list[Text]:
    """Title, caption and marks of the picture, and titles and texts of its panels; not the labels of ticks."""
    holders = (made, *made.axes)
    return [each for holder in holders for each in holder.get_children() if isinstance(each, Text) and each.get_text()]


@pytest.mark.parametrize("figure", KINDS)
def test_no_text_is_cut_off_by_the_edge(figure: str) -> None:
    given = drawn(documents, figure)
    made = picture(replace(given, title=WIDE[:150], caption=WIDE, source=WIDE[:200]))
    for text in texts(made):
        box = text.get_window_extent()
        assert -1 <= box.x0 <= box.x1 <= made.bbox.width + 1, text.get_text()
        assert -1 <= box.y0 <= box.y1 <= made.bbox.height + 1, text.get_text()
    plt.close(made)


@pytest.mark.parametrize("figure", [KINDS[0], KINDS[1], KINDS[3]])
def test_a_long_caption_takes_nothing_from_the_panels(figure: str) -> None:
    heights = []
    for caption in ("Short.", WIDE * 3):
        made = picture(replace(drawn(documents, figure), caption=caption))
        heights.append(made.axes[-1].get_window_extent().height / made.dpi)
        plt.close(made)
    assert heights[1] > 0.9 * heights[0], heights


def test_a_caption_names_points_by_the_first_of_axes_that_advance_together() -> None:
    text = SMALL.replace(
        "axes: {value_size: [2K, 4K, 8K]}",
        "axes: {value_size: [2K, 4K, 8K], keys: [1000, 2000, 3000]}\nzip: [[value_size, keys]]",
    ).replace(", keys: 1000", "")
    given = drawn(
        lambda point: {"throughput_ops_s": 1.0 + point.repeat % 2},
        text=text.replace("repeats: 2", "repeats: auto"),
    )
    assert "wider than 2 % of the median: CD value_size=2K, CD value_size=4K" in given.caption


@pytest.mark.parametrize(("field", "is_warned"), [("latency_us.get", True), ("verbs.per_put.cdf.total", False)])
def test_a_distribution_of_simulated_latencies_warns_of_its_tail(field: str, is_warned: bool) -> None:
    given = drawn(documents, f"{{kind: cdf, y: [{field}]}}")
    assert ("Simulated percentiles above the median say little" in given.caption) == is_warned
