"""Tests of `measure.power`: from the keys of an experiment to the arguments of `loch power` and the names of points."""

from pathlib import Path

import pytest

from support import SMALL, read
from loch.runner import grid, power
from loch.runner.errors import BadInput
from loch.runner.launch import Launch
from loch.runner.model import Power
from loch.runner.points import point_hash

BOTH = SMALL.replace(
    "  CD:", "  local: {protocol: nessie, fabric: shm, cluster: {nodes: 2}, clients: 1, duration: 5ms}\n  CD:"
)


def settings(text: str) -> Power | None:
    return read(BOTH.replace("repeats: 2}", f"repeats: 2, power: {text}}}")).measure.power


def test_every_key_becomes_a_value() -> None:
    assert settings("{source: rapl}") == Power("rapl")
    assert settings("{source: replay, trace: watts of a day.csv}") == Power("replay", trace="watts of a day.csv")
    assert settings(
        '{source: ipmi, bmc: ["{host}-ipmi", "fe80::1"], port: 6230, user: 7, sensor: "x; id", rate: 0.5, idle: 1500ms}'
    ) == Power("ipmi", ("{host}-ipmi", "fe80::1"), 6230, "7", "x; id", "", 0.5, 1_500_000_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{source: rapl, bmc: node7}", "measure.power.bmc: goes with source: ipmi, not rapl"),
        ("{source: replay, trace: a.csv, user: me}", "measure.power.user: goes with source: ipmi, not replay"),
        ("{source: ipmi, trace: a.csv}", "measure.power.trace: goes with source: replay, not ipmi"),
        ("{source: replay}", "measure.power.trace: source: replay needs the file of its samples"),
    ],
)
def test_what_does_not_go_together_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        settings(text)
    assert said in str(refused.value)


def test_measured_points_alone_have_them() -> None:
    experiment = read(BOTH.replace("repeats: 2}", "repeats: 2, power: {source: rapl}}"))
    points = grid.points(experiment)
    assert {point.system: point.power for point in points} == {"local": Power("rapl"), "CD": None}
    assert not any("power" in point.params for point in points)


def test_a_value_is_one_argument_whatever_stands_in_it() -> None:
    point = grid.Point("local", {}, 0, {"fabric": "shm"}, power=Power("ipmi", sensor='a" --into /x; id', rate_hz=2.0))
    argv = power.wrapped(point, None, ["bench"], Path("r.json"), Path("w.csv"))
    asked = argv[len(power.TOOL) : argv.index("--result")]
    assert asked == ["--source", "ipmi", "--sensor", 'a" --into /x; id', "--rate", "2"]
    assert argv[-4:] == ["--", "bench", "--json", "r.json"]
    assert power.wrapped(grid.Point("CD", {}, 0, {}), None, ["bench"], Path("r.json"), Path("w")) == [
        "bench",
        "--json",
        "r.json",
    ]


def test_without_hosts_no_name_stands_for_them() -> None:
    point = grid.Point("local", {}, 0, {"fabric": "shm"}, power=Power("ipmi", ("{host}-ipmi",)))
    with pytest.raises(BadInput, match="--hostfile"):
        power.wrapped(point, None, ["bench"], Path("r.json"), Path("w.csv"))


def test_hosts_are_asked_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_hosts", lambda point, launched: ["me@n1", "n2"])

    def asked(by: Power) -> list[str]:
        point = grid.Point("local", {}, 0, {"fabric": "verbs"}, power=by)
        argv = power.wrapped(point, Launch, ["bench"], Path("r"), Path("w"))  # type: ignore[arg-type]
        return argv[len(power.TOOL) : argv.index("--result")]

    assert asked(Power("rapl")) == ["--source", "rapl", "--host", "me@n1", "--host", "n2"]
    ipmi = Power("ipmi", ("{host}-ipmi", "rack"), user="admin")
    bmcs = ["--bmc", "n1-ipmi", "--bmc", "n2-ipmi", "--bmc", "rack"]
    assert asked(ipmi) == ["--source", "ipmi", *bmcs, "--user", "admin"]
    assert asked(Power("replay", trace="a.csv")) == ["--source", "replay", "--trace", "a.csv"]


def test_names_of_points_are_those_of_earlier_releases() -> None:
    """Names of points equal those of earlier releases, so that a campaign begun with one of them can be continued."""
    params = {"fabric": "shm", "protocol": "nessie", "seed": 1}
    watts = Power("ipmi", ("{host}-i", "rack"), 700, "me", "Total Power", "", 0.5, 10_000_000_000)
    point = grid.Point("local", {}, 0, params, power=watts)
    written = (
        "--source ipmi --bmc '{host}-i' --bmc rack --port 700 --user me --sensor 'Total Power' --rate 0.5 --idle 10s"
    )
    assert power.text(watts) == written
    assert point_hash(point) == point_hash(grid.Point("local", {}, 0, {**params, "power": written}))
    assert point_hash(point) != point_hash(grid.Point("local", {}, 0, params))


def test_baselines_lengthen_a_point() -> None:
    assert power.extra_seconds(grid.Point("a", {}, 0, {}, power=Power("rapl", idle_ns=1_500_000_000))) == 3.0
    assert power.extra_seconds(grid.Point("a", {}, 0, {})) == 0.0
