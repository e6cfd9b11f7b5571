"""Tests of the pictures themselves: texts stay inside, and what a reader must not miss stands there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import TextPath

from loch.runner import contradicted
from loch.runner.drawing import Drawing, Level, Published
from plots import draw, frame, style, words
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
    made = picture(replace(given, title=WIDE[:150], caption=WIDE, source=WIDE[:200], contradicted=(WIDE[:150],)))
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


LABELS = {"CD": "Nessie (CD)", "SD": "NessieSD", "S3": "3"}


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            "CD.goodput_bytes_s > 1.5 * SD.goodput_bytes_s where value_size >= 32K and get == 0.995",
            "goodput: Nessie (CD) > 1.5 × NessieSD at value size ≥ 32K, 99.5 % GETs",
        ),
        (
            'CD[nodes=3,hardware="a-b"].throughput_ops_s <= SD.throughput_ops_s',
            "throughput: Nessie (CD) (nodes 3, hardware a-b) ≤ NessieSD",
        ),
        (
            "CD.latency_us.get.p99_9 < CD.latency_us.put.mean",
            "Nessie (CD), 99.9th percentile of GET latency < Nessie (CD), mean PUT latency",
        ),
        ("S3.throughput_ops_s < 2 * S3.throughput_ops_s", "throughput: “3” < 2 × “3”"),
        ("CD.verbs.per_put.cas >= 1", "verbs per put cas: Nessie (CD) ≥ 1"),
    ],
)
def test_a_claim_in_words(claim: str, said: str) -> None:
    assert contradicted.in_words(claim, LABELS) == said


def claimed(*claims: str, more: str = "") -> Drawing:
    """A line figure of two systems of 1 M operations a second; `claims` are those of its experiment."""
    text = SMALL.replace("workload:", "  SD: {protocol: nessie-sd, servers: 1, clients: 11}\nworkload:")
    text = text.replace("Table 1", "Table 99") + "claims:\n" + "".join(f'  - "{each}"\n' for each in claims)
    return drawn(documents, f"{{kind: line, y: [throughput_ops_s]{more}}}", text)


def marks(given: Drawing) -> list[str]:
    made = picture(given)
    found = [" ".join(each.get_text().split()) for each in texts(made) if each.get_gid() == "contradicted"]
    plt.close(made)
    return found


def test_what_is_not_as_published_stands_in_the_picture() -> None:
    holds, fails = "CD.throughput_ops_s > 0", "CD.throughput_ops_s > 2 * SD.throughput_ops_s"
    assert marks(claimed(holds)) == []
    assert marks(claimed(holds, fails)) == ["NOT AS PUBLISHED – throughput: CD > 2 × SD"]
    several = claimed(fails, "CD.throughput_ops_s < 3")
    assert marks(several) == ["NOT AS PUBLISHED (2 conclusions) – throughput: CD > 2 × SD …"]
    assert several.contradicted[1] == "throughput: CD < 3"
    assert marks(claimed(fails, more=", source: false")) == []


def test_a_headline_and_its_claim_are_one_conclusion() -> None:
    text = SMALL.replace("name: small", "name: nessie-2017-figure5").replace(
        "workload:", "  SD: {protocol: nessie-sd, servers: 1, clients: 11}\nworkload:"
    )
    text += 'claims: ["CD.goodput_bytes_s > 1.2 * SD.goodput_bytes_s where value_size >= 8K"]\n'
    given = drawn(lambda point: {"goodput_bytes_s": 1e9}, "{kind: line, y: [goodput_bytes_s]}", text)
    assert given.contradicted[:2] == (
        "Nessie is slower than NessieSD below 8 KB",
        "Nessie is faster than NessieSD from 8 KB on",
    )
    assert not any(each.startswith("goodput:") for each in given.contradicted)


def bars_of(made: Figure, gid: str) -> list[float]:
    return [patch.get_height() for axes in made.axes for patch in axes.patches if patch.get_gid() == gid]


def test_a_published_ratio_stands_among_absolute_values() -> None:
    ratio = Published("SD", "throughput_ops_s", (("value_size", 4096),), 1.5, -0.3, "CD")
    given = replace(claimed("CD.throughput_ops_s > 0"), published=[ratio])
    assert bars_of(picture(replace(given, figure=replace(given.figure, kind="bars"))), "ratio") == [1.5]
    made = picture(given)
    (mark,) = [line for axes in made.axes for line in axes.lines if line.get_gid() == "ratio"]
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([4096.0], [1.5])  # of 1 M operations a second
    assert any("Dashes: published ratio times the result of CD." in each.get_text() for each in texts(made))
    absolute = replace(ratio, value=2e6, over="")
    assert bars_of(
        picture(replace(given, figure=replace(given.figure, kind="bars"), published=[ratio, absolute])), "published"
    ) == [2.0]
    plt.close("all")


def test_hardened_variants_share_an_entry_of_the_legend_of_bars() -> None:
    more = "".join(
        f"  {name}{end}: {{protocol: {protocol}, clients: 10{of}}}\n"
        for name, protocol in (("A", "nessie"), ("B", "nessie"))
        for end, of in (("", ""), ("H", f", hardened_of: {name}"))
    )
    made = picture(
        drawn(documents, "{kind: bars, y: [throughput_ops_s]}", SMALL.replace("workload:", more + "workload:"))
    )
    (legend,) = [each for axes in made.axes if (each := axes.get_legend()) is not None]
    assert sorted(each.get_text() for each in legend.get_texts()) == ["A", "B", "CD", "hardened"]
    plt.close(made)


def test_a_band_is_inside_its_panel() -> None:
    given = claimed("CD.throughput_ops_s > 0")
    first, *rest = given.series
    points = [replace(each, bands={"throughput_ops_s": (0.5e6, 3e6)}) for each in first.points]
    made = picture(replace(given, series=[replace(first, points=points), *rest], band="90 % band of 64 draws"))
    assert max(axes.get_ylim()[1] for axes in made.axes if axes.collections) >= 3.0
    plt.close(made)


def table(**more: Any) -> Drawing:
    """A table of two systems' GET latencies at 2, 4 and 8 KB: the first is faster by what was obtained, the second by
    what is published at 4 KB; the hardened variant is faster than both."""
    systems = (
        "  SD: {protocol: nessie-sd, servers: 1, clients: 11}\n  H: {protocol: nessie, clients: 11, hardened_of: CD}\n"
    )
    given = drawn(
        lambda point: {"latency_us": {"get": {"mean": {"CD": 20.0, "SD": 30.0, "H": 10.0}[point.system]}}, **more},
        "{kind: table, rows: [latency_us.get.mean]}",
        SMALL.replace("workload:", systems + "workload:"),
    )
    at = (("value_size", 4096),)
    published = [Published(name, "latency_us.get.mean", at, value, 0.1) for name, value in (("CD", 25.0), ("SD", 21.0))]
    return replace(given, published=published)


def bold(made: Figure) -> list[str]:
    """The numbers in bold, among which are column heads."""
    return [each.get_text() for each in texts(made) if each.get_weight() == "bold" and each.get_text()[0].isdigit()]


def test_the_least_of_a_table_is_bold() -> None:
    made = picture(table())
    assert bold(made) == ["2K", "4K", "8K", "20", "20", "20", "21"]
    plt.close(made)


def test_bands_stand_in_a_table_and_tell_which_published_values_are_out() -> None:
    given = table()
    series = [
        replace(each, points=[replace(point, bands={"latency_us.get.mean": (18.0, 24.0)}) for point in each.points])
        for each in given.series
    ]
    made = picture(replace(given, series=series, band="90 % band of 64 draws"))
    found = [each.get_text() for each in texts(made) if each.get_gid() == "band"]
    assert found == ["18–24", "18–24 *", *["18–24"] * 7]
    assert made.get_figwidth() == style.PAGE_IN  # a column of a paper is too narrow for them
    assert any("90 % band of 64 draws; *: the published value is not in it" in each.get_text() for each in texts(made))
    plt.close(made)


def test_a_quantity_of_two_definitions_has_one_row_a_system() -> None:
    derive = "derive: {gb_sent: throughput_ops_s / 1, gb_sent_all: throughput_ops_s / 2}\nmeasure:"
    text = SMALL.replace("workload:", "  SD: {protocol: nessie-sd, servers: 1, clients: 11}\nworkload:")
    given = drawn(documents, "{kind: table, rows: [gb_sent, gb_sent_all]}", text.replace("measure:", derive))
    at = (("value_size", 4096),)
    for published, rows in (
        ([Published("CD", "gb_sent", at, 514, 0.1), Published("SD", "gb_sent_all", at, 1245, 0.1)], 2),
        ([Published("CD", "gb_sent", at, 514, 0.1)], 3),
        ([], 4),
    ):
        made = picture(replace(given, published=published))
        assert sum(each.get_text() in ("CD", "SD") for each in texts(made)) == rows
        plt.close(made)


def test_panels_of_columns_that_have_fewer_are_as_high_as_the_others() -> None:
    text = SMALL.replace("axes: {", "axes: {window: [1, 2, 3, 4, 5], ")
    made = picture(
        drawn(documents, "{kind: line, x: value_size, y: [throughput_ops_s], panels: window, width: two}", text)
    )
    heights = [axes.get_window_extent().height for axes in made.axes if axes.axison]
    assert len(heights) == 5 and max(heights) < 1.3 * min(heights), heights
    plt.close(made)


def test_a_calibrated_ratio_is_marked_as_one() -> None:
    given = claimed("CD.throughput_ops_s > 0")
    ratio = Published("SD", "throughput_ops_s", (("value_size", 4096),), 1.5, -0.3, "CD", "calibrated")
    made = picture(replace(given, published=[ratio]))
    assert [line.get_gid() for axes in made.axes for line in axes.lines if line.get_gid()] == ["calibrated"]
    assert not any("Dashes" in each.get_text() for each in texts(made))
    plt.close(made)


def test_a_tick_of_a_load_is_a_percentage_or_idle() -> None:
    assert [words.value("share_of_max", at) for at in (0.001, 0.05, 1.0)] == ["idle", "5 %", "100 %"]
    assert words.value("get", 0.5) == ""


def panels_of(made: Figure) -> list[Any]:
    return [axes for axes in made.axes if axes.axison]


def legend_of(made: Figure) -> list[str]:
    return [each.get_text() for axes in made.axes if (legend := axes.get_legend()) for each in legend.get_texts()]


def test_all_fields_of_a_figure_may_share_one_panel() -> None:
    fields = "y: [throughput_ops_s, latency_us.get.mean], together: several things (units)"
    made = picture(drawn(documents, f"{{kind: line, {fields}, published: false}}"))
    (panel,) = panels_of(made)
    assert legend_of(made) == ["throughput", "GET latency, mean"]
    assert panel.get_ylabel() == "several things (units)"
    assert len({line.get_color() for line in panel.lines if len(line.get_xdata()) == 3}) == 2
    text = SMALL.replace("workload:", "  SD: {protocol: nessie-sd, servers: 1, clients: 11}\nworkload:")
    made = picture(drawn(documents, f"{{kind: line, {fields}, published: false}}", text))
    names = {f"{name}, {what}" for name in ("CD", "SD") for what in ("throughput", "GET latency, mean")}
    assert set(legend_of(made)) == names
    plt.close("all")


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_shares_of_gets_may_be_shown_as_those_of_puts(kind: str) -> None:
    text = SMALL.replace("axes: {value_size: [2K, 4K, 8K]}", "axes: {get: [1, 0.95, 0.5, 0]}")
    text = text.replace("get: 0.5, ", "value_size: 2K, ")
    made = picture(drawn(documents, f"{{kind: {kind}, x: get, x_as: puts, y: [throughput_ops_s]}}", text))
    (panel,) = panels_of(made)
    assert panel.get_xlabel() == "PUTs (%)"
    assert [each.get_text() for each in panel.get_xticklabels()] == ["0", "5", "50", "100"]
    assert list(panel.get_xticks()) == ([0, 5, 50, 100] if kind == "line" else [0, 1, 2, 3])
    plt.close(made)


@pytest.mark.parametrize(
    ("tail", "label", "scale"), [("", "share above", "log"), (", tail: false", "share at or below", "linear")]
)
def test_latencies_are_drawn_with_their_tail_or_as_the_share_below(tail: str, label: str, scale: str) -> None:
    made = picture(drawn(documents, f"{{kind: cdf, y: [latency_us.get]{tail}}}"))
    (panel,) = panels_of(made)
    assert (panel.get_ylabel(), panel.get_yscale()) == (label, scale)
    plt.close(made)


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_a_published_value_of_no_series_is_a_line_across(kind: str) -> None:
    level = Level("throughput_ops_s", 9e6, "an idle machine")
    given = replace(drawn(documents, f"{{kind: {kind}, y: [throughput_ops_s, latency_us.get.mean]}}"), levels=(level,))
    made = picture(given)
    (line,) = [each for axes in made.axes for each in axes.lines if each.get_gid() == "level"]
    assert list(line.get_ydata()) == [9.0, 9.0] and line.axes.get_ylim()[1] > 9
    assert "an idle machine" in legend_of(made)
    plt.close(made)


def test_no_heading_beside_wide_labels_is_cut_off() -> None:
    """A heading of short words, whose lines are as long as they may be, above three panels with labels of two lines and
    ticks up to 10,000."""

    def slow(point: Any) -> Any:
        late = {"mean": 20.0, "count": 4, "p50": 2, "p99": 20.0 + point.axes["value_size"] * 2}
        return {"throughput_ops_s": 1e6, "latency_us": {"get": late, "all": late, "put": late}}

    asked = "{kind: line, y: [latency_us.all.p99, latency_us.put.p99, latency_us.get.p99], log: true, width: two}"
    given = drawn(slow, asked)
    origin = f"simulated ({'i ' * 150})"
    made = picture(replace(given, series=[replace(each, origins={(): origin}) for each in given.series]))
    assert all("\n" in axes.get_ylabel() for axes in panels_of(made))
    headings = [text for text in texts(made) if "i i i" in text.get_text()]
    assert len(headings) == 3
    for text in headings:
        assert text.get_window_extent().x1 <= made.bbox.width + 1
    plt.close(made)


def test_a_band_and_an_interval_have_a_white_edge_on_bars() -> None:
    given = claimed("CD.throughput_ops_s > 0")
    first, *rest = given.series
    points = [
        replace(each, bands={"throughput_ops_s": (0.5e6, 3e6)}, values={"throughput_ops_s": [1e6, 1.2e6]})
        for each in first.points
    ]
    figure = replace(given.figure, kind="bars")
    made = picture(replace(given, figure=figure, series=[replace(first, points=points), *rest], band="90 % band"))
    lines = [each for axes in made.axes for each in axes.collections]
    assert len(lines) == 6 and all(each.get_path_effects() for each in lines)  # three bands, three intervals
    plt.close(made)


def test_every_point_has_a_tick_and_labels_do_not_touch() -> None:
    sizes = [4, 8, 16, 32, 44, 60, 64, 128, 192, 256, 1024]
    text = SMALL.replace("[2K, 4K, 8K]", str(sizes))
    made = picture(drawn(documents, "{kind: line, y: [throughput_ops_s], published: false}", text))
    (panel,) = panels_of(made)
    labelled, others = (list(panel.get_xticks(minor=minor)) for minor in (False, True))
    assert sorted([*labelled, *others]) == sizes
    assert {4, 8, 16, 32, 128, 1024} <= set(labelled) and 64 in others
    boxes = [each.get_window_extent() for each in panel.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in zip(boxes, boxes[1:]))
    plt.close(made)


def test_no_line_falls_to_a_zero_of_a_logarithmic_axis() -> None:
    def fewer(point: Any) -> Any:
        return {"throughput_ops_s": 0.0 if point.axes["value_size"] == 8192 else 5.0}

    made = picture(drawn(fewer, "{kind: line, y: [throughput_ops_s], log: true, published: false}"))
    (panel,) = panels_of(made)
    assert [str(y) for y in panel.lines[0].get_ydata()] == ["0.005", "0.005", "nan"]
    plt.close(made)


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_points_say_what_they_are_under_the_pointer(kind: str, tmp_path: Path) -> None:
    given = claimed("CD.throughput_ops_s > 0")
    number = Published("CD", "throughput_ops_s", (("value_size", 4096),), 1.5e6, -0.3)
    first, *rest = given.series
    points = [replace(each, values={"throughput_ops_s": [0.9e6, 1e6, 1.25e6]}) for each in first.points]
    given = replace(given, published=[number], series=[replace(first, label="A & B", points=points), *rest])
    draw.draw(replace(given, figure=replace(given.figure, kind=kind)), tmp_path)
    svg = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    said = re.findall("<title>([^<]*)</title>", re.sub("<metadata>.*?</metadata>", "", svg, flags=re.DOTALL))
    places = ["2K", "4K", "8K"]
    wanted = [f"A &amp; B, value size {at}: 1 Mops/s (0.9 to 1.25)" for at in places]
    wanted += [f"SD, value size {at}: 1 Mops/s" for at in places]
    assert sorted(said) == sorted([*wanted, "A &amp; B, published, value size 4K: 1.5 Mops/s"])
    assert 'id="published"' in svg and "#0" not in re.sub("#[0-9a-f]{6}", "", svg)


def test_points_of_which_some_are_not_drawn_say_nothing_wrong() -> None:
    svg = '<g id="#0">\n <use x="1"/>\n</g>\n<g id="line2d_2"><use x="2"/></g>'
    assert frame._with_texts(svg, [["one", "two"]]) == '<g>\n <use x="1"/>\n</g>\n<g id="line2d_2"><use x="2"/></g>'


@pytest.mark.parametrize(
    "text", ["i", "abc", "simulated (connectx3-10gbe, seed 1)", "µs", "$x_1$", "5 $", "a&@QGO %", "ends "]
)
def test_a_text_is_as_wide_as_its_outlines(text):
    for size, weight in ((8, "normal"), (9, "bold")):
        font = FontProperties(family=style.RC["font.family"], weight=weight)
        extent = TextPath((0, 0), text, size=size, prop=font).get_extents()
        assert frame.text_in(text, size, weight) == pytest.approx(extent.width / 72, abs=1e-6)


def test_no_text_has_no_width():
    assert (frame.text_in("", 8), frame.text_in(" ", 8)) == (0, 0)


@pytest.mark.parametrize("count, columns", [(2, 2), (3, 3), (4, 2), (5, 3), (6, 3)])
def test_a_figure_has_three_columns_of_result_fields_at_most(count: int, columns: int) -> None:
    group: Any = SimpleNamespace(is_measured=False)
    made: Any = SimpleNamespace(figure=SimpleNamespace(width="two", panels=None))
    panels = [frame.Panel(group, f"field{i}", [], False) for i in range(count)]
    arranged = frame.arrange(made, panels)
    assert len(arranged) == columns
    assert sorted(panel.y for column in arranged for panel in column) == [panel.y for panel in panels]
