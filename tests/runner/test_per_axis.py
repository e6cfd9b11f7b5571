"""Tests of option values that depend on a point's axis values: which value applies, and what is refused."""

import pytest

from loch.runner import grid, located, report, schema
from loch.runner.errors import BadInput
from loch.runner.points import point_hash

TEXT = """\
name: cases
systems:
  HY: {{protocol: nessie-hy, clients: 9, servers: {servers}}}
  SD: {{protocol: nessie-sd, clients: 10, servers: 2, only: {{value_size: 2K}}}}
axes: {{value_size: [2K, 32K, 64K], get: [0.5, 0.99], distribution: [uniform, zipfian]}}
measure: {{duration: {duration}, repeats: 1}}
"""
SPLIT = "{value_size <= 32K and get == 0.5: 3, value_size <= 32K: 1, else: 2}"


def read(servers: str = SPLIT, duration: str = "20ms", overrides: list[str] | None = None):
    document = located.parse(TEXT.format(servers=servers, duration=duration), "c.yaml")
    assert document is not None
    return schema.read(document, overrides)


def test_the_first_condition_that_holds_decides() -> None:
    experiment = read()
    found = {
        (point.axes["value_size"] // 1024, point.axes["get"]): point.params["servers"]
        for point in grid.points(experiment)
        if point.system == "HY"
    }
    assert found == {(2, 0.5): 3, (2, 0.99): 1, (32, 0.5): 3, (32, 0.99): 1, (64, 0.5): 2, (64, 0.99): 2}


def test_a_point_is_the_same_as_with_the_plain_value() -> None:
    plain = {point_hash(point) for point in grid.points(read("3")) if point.axes["value_size"] == 2048}
    cases = {point_hash(point) for point in grid.points(read("{value_size == 2K: 3, else: 1}"))}
    assert plain <= cases


def test_what_all_systems_share_may_depend_on_the_place_too() -> None:
    for duration, values in (("{distribution == uniform: 5ms, else: 9ms}", {5_000_000, 9_000_000}),):
        assert {point.params["duration"] for point in grid.points(read(duration=duration))} == values


def test_reports_say_it_in_words() -> None:
    (system, _) = read().systems
    shown = grid.show("servers", system.params["servers"])
    assert shown == "3 where value_size <= 32K and get == 0.5, 1 where value_size <= 32K, else 2"
    assert report.per_axis.among(system.params["servers"]) == [3, 1, 2]


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ("{value_size <= 32K: 3}", "c.yaml:3: systems.HY.servers: expected else: as well"),
        ("{else: 3}", "expected a condition such as value_size <= 32K"),
        ("{valu_size <= 32K: 3, else: 2}", "valu_size is no axis of this experiment; did you mean value_size?"),
        ("{3 < 4: 3, else: 2}", "is no axis of this experiment"),
        ("{value_size: 3, else: 2}", "expected a comparison"),
        ("{value_size <= 32Q: 3, else: 2}", "expected a condition such as value_size <= 32K, or else"),
        ("{value_size <= big: 3, else: 2}", "value_size: cannot order text and a number"),
        ("{value_size <= 1K: 3, else: 2}", "never holds, or never first: value_size is 2K, 32K, 64K"),
        ("{value_size <= 32K: 3, value_size == 2K: 1, else: 2}", "never holds, or never first"),
        ("{value_size <= 32K: many, else: 2}", "servers.value_size <= 32K: expected a whole number"),
        ("{value_size <= 32K: 3, else: [2]}", "servers.else: expected a whole number from 0 to 4096, found a list"),
    ],
)
def test_bad_conditions_are_refused_with_file_and_line(servers: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(servers)
    assert str(refused.value).startswith("c.yaml:3: systems.HY.servers")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_that_set_took_away_leave_the_condition_be() -> None:
    read("{value_size <= 1K: 3, else: 2}", overrides=["--set value_size=2K"])


def test_what_a_system_is_does_not_depend_on_the_place() -> None:
    document = located.parse(
        TEXT.format(servers="1", duration="1ms").replace("nessie-hy", "{get == 0.5: herd, else: pilaf}"), "c.yaml"
    )
    assert document is not None
    with pytest.raises(BadInput, match="protocol: expected a name, found a mapping"):
        schema.read(document)
