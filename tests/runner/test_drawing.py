"""Tests of a figure's data: series, points with the values of their repeats, failures, distributions, time series."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import SMALL, read
from loch.runner import drawing, grid, outputs, published, result
from loch.runner.drawing import Distribution, Drawing, Run
from loch.runner.result import Bin, Event, Stored

RUNNER: dict[str, Any] = {"host": {"cpu": "some CPU", "cores": 2}}
BOTH = SMALL.replace(
    "  CD:", "  local: {protocol: nessie, fabric: shm, cluster: {nodes: 2}, clients: 1, duration: 5ms}\n  CD:"
)


class Kept:
    """A store of points whose results are given by a function of the test."""

    def __init__(self, documents: Any) -> None:
        self.damaged: dict[Path, str] = {}
        self._documents = documents

    def of(self, point: grid.Point) -> Stored | None:
        document = self._documents(point)
        if document is None:
            return None
        whole = {"throughput_ops_s": 1.0, **document, "runner": RUNNER}
        return result.of_file("name", whole, "failure" in document, "x.json")


def drawn(documents: Any, figure: str = "{kind: line, y: [throughput_ops_s]}", text: str = SMALL) -> Drawing:
    experiment = read(text.replace("{kind: line, y: latency_us.get.mean}", figure))
    return drawing.of(outputs.collect(experiment, Kept(documents), []))


def test_a_point_has_the_values_of_its_repeats_and_why_others_have_none() -> None:
    def documents(point: grid.Point) -> Any:
        if point.axes["value_size"] == 4096 and point.repeat == 1:
            return {"failure": {"reason": "timed out after 3 s"}}
        if point.axes["value_size"] == 8192:
            return {"throughput_ops_s": 5} if point.repeat == 0 else None
        return {"throughput_ops_s": 10.0 + point.repeat, "latency_us": {"get": {"mean": 2}}}

    got = drawn(documents, "{kind: line, y: [throughput_ops_s, latency_us.get.mean]}")
    (series,) = got.series
    small, middle, large = series.points
    assert (small.at, small.place) == ({"value_size": 2048}, (("value_size", 2048),))
    assert small.values["throughput_ops_s"] == [10.0, 11.0] and small.failures == []
    assert (small.median("throughput_ops_s"), small.median("none")) == (10.5, None)
    assert middle.values["throughput_ops_s"] == [10.0] and middle.failures == ["timed out after 3 s"]
    assert large.values == {"value_size": [], "throughput_ops_s": [5.0], "latency_us.get.mean": []}
    assert large.failures == ["has not run"]
    assert series.point({"value_size": 4096}) is middle
    assert series.point({"value_size": 1}) is None
    assert got.named("CD") is series


def test_a_series_says_what_it_is_and_where_it_is_from() -> None:
    text = BOTH.replace("axes: {", "axes: {window: [1, 2], ")
    got = drawn(lambda point: {}, "{kind: line, x: window, y: [throughput_ops_s], panels: value_size}", text)
    local, simulated = got.series
    assert (local.is_measured, simulated.is_measured, local.protocol) == (True, False, "nessie")
    assert local.origins[()] == "measured (shm on some CPU, 2 cores)"
    assert set(simulated.origins) == {(), *((("value_size", size),) for size in (2048, 4096, 8192))}
    assert simulated.origins[()] == "simulated (connectx3-10gbe, seeds 1 to 2)"
    axes = {"window": [1, 2], "value_size": [2048, 4096, 8192]}
    assert (got.title, got.called, got.axes) == ("A small experiment", "published", axes)
    assert got.caption.startswith("Medians of n = 2 runs")


@pytest.mark.parametrize(
    ("y", "fabric", "is_warned"),
    [
        ("latency_us.all.p99", "sim", True),
        ("latency_us.get.p99_9", "sim", True),
        ("latency_us.all.max", "sim", True),
        ("latency_us.all.p50", "sim", False),
        ("latency_us.all.mean", "sim", False),
        ("latency_us.all.p99", "shm", False),
    ],
)
def test_a_figure_of_simulated_tails_warns(y: str, fabric: str, is_warned: bool) -> None:
    text = SMALL.replace("fabric: sim", f"fabric: {fabric}")
    got = drawn(lambda point: {}, f"{{kind: line, y: [{y}]}}", text)
    assert ("Simulated percentiles above the median say little" in got.caption) == is_warned, got.caption


@pytest.fixture
def withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives Table 1's mean latency of Nessie at 4 KB no value, as if the paper withheld it."""
    for path in published.FOLDER.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    numbers = tmp_path / "nessie-2017.yaml"
    text = numbers.read_text(encoding="utf-8")
    assert text.count("CD: [40, 55, 89,") == 1
    numbers.write_text(text.replace("CD: [40, 55, 89,", "CD: [40, null, 89,"), encoding="utf-8")
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    published.find.cache_clear()
    yield
    published.find.cache_clear()


def test_published_numbers_have_a_place_or_are_not_there(withheld: None) -> None:
    figure = "{kind: line, y: [latency_us.all.mean]}"
    documents = {"latency_us": {"all": {"mean": 60.0}}}
    got = drawn(lambda point: documents, figure)
    numbers = [each for each in got.published if each.field == "latency_us.all.mean"]
    assert [(each.series, each.place, each.over) for each in numbers] == [
        ("CD", (("value_size", size),), "") for size in (2048, 4096, 8192)
    ]
    for each in numbers:
        assert each.error == (None if each.value is None else pytest.approx(60.0 / each.value - 1))
    assert [each.value for each in numbers] == [40, None, 89]
    assert drawn(lambda point: documents, figure.replace("}", ", published: false}")).published == []


def test_a_figure_over_time_has_runs() -> None:
    bins = [{"t_s": 0, "ops_s": 4, "p50_us": None}, {"t_s": 0.5, "ops_s": 2, "failed_s": 1, "unwritable_keys": 3}]
    whole = {
        "timeline": bins,
        "events": [{"t_s": 0.1, "event": "kill", "node": 1}],
        "probed_keys": 40,
        "duration_s": 1,
    }

    def documents(point: grid.Point) -> Any:
        return whole if point.repeat == 0 else {"timeline": None} if point.axes["value_size"] == 2048 else None

    got = drawn(documents, "{kind: timeline}")
    first, second, _ = got.series[0].points
    assert first.runs == [Run(1.0, [Bin(0, 4, 0.0, None), Bin(0.5, 2, 1, 3)], [Event(0.1, "kill", 1)], 40.0)]
    assert (first.failures, second.failures) == (["has no time series"], ["has not run"])


def test_a_figure_of_distributions_has_one_each_repeat() -> None:
    got = drawn(lambda point: {"latency_us": {"get": {"count": 1 + point.repeat}}}, "{kind: cdf, y: [latency_us.get]}")
    assert [each.samples for each in got.series[0].points[0].distributions["latency_us.get"]] == [1, 2]


def test_a_panel_of_one_hardware_profile_names_it_alone() -> None:
    text = SMALL.replace("hardware: connectx3-10gbe\n", "").replace(
        "axes: {", "axes: {hardware: [connectx3-10gbe, connectx2-20g-ib], "
    )
    got = drawn(lambda point: {}, "{kind: line, x: value_size, y: [throughput_ops_s], panels: hardware}", text)
    origins = got.series[0].origins
    assert origins[()] == "simulated (connectx3-10gbe, connectx2-20g-ib, seeds 1 to 2)"
    assert origins[(("hardware", "connectx2-20g-ib"),)] == "simulated (connectx2-20g-ib, seeds 1 to 2)"


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ([[1, 0.5], [2, 1.0]], Distribution([(1.0, 0.5), (2.0, 1.0)], 1.0, True)),
        ([], Distribution([], 1.0, True)),
        ({"count": 4, "histogram": [[1.5, 1], [3, 3]]}, Distribution([(1.5, 0.25), (3.0, 1.0)], 4.0, True)),
        ({"count": 4, "p50": 2, "p99": 9}, Distribution([(2.0, 0.5), (9.0, 0.99)], 4.0, False)),
        ({"count": 4, "p50": 2}, Distribution([], 4.0, False)),
        ({"count": 0, "p50": 2, "p99": 9}, Distribution([], 0.0, False)),
        (None, Distribution([], 0.0, False)),
        # A figure may name any field of a result; these fields hold no distribution.
        ("text", Distribution([], 0.0, False)),
        (["a", "b"], Distribution([], 1.0, True)),
        ([[1, 2, 3]], Distribution([], 1.0, True)),
        ([[1, True]], Distribution([], 1.0, True)),
        ({"count": "x", "p50": None, "p99": []}, Distribution([], 0.0, False)),
        ({"count": 0, "histogram": [[1, 0]]}, Distribution([], 0.0, True)),
        ({"histogram": [1, 2]}, Distribution([], 0.0, True)),
    ],
)
def test_a_distribution(node: Any, wanted: Distribution) -> None:
    found = result.of_file("name", {"throughput_ops_s": 1, "other": {"field": node}, "runner": {}}, False, "x.json")
    assert found.result is not None
    assert drawing.distribution(found.result, "other.field") == wanted


def test_sizes_are_known() -> None:
    assert drawing.is_size("value_size") and not drawing.is_size("clients") and not drawing.is_size("nessie.expiry")
