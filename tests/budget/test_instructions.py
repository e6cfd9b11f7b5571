"""Tests that no layer exceeds its budget of instructions per operation (budget.json, docs/data-path.md), and that profiles of
callgrind are read correctly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import callgrind
import instructions

BENCH = Path(os.environ.get("LOCH_BIN", instructions.BENCH))
ZOO = Path(os.environ.get("LOCH_ZOO_LIBRARY", instructions.ZOO))

PROFILE = """\
positions: instr line
events: Ir

ob=(1) /x/program
fn=(1) loch::f()
0x1000 0 10
+4 0 20
cob=(2) /x/libc.so
cfn=(2) memcpy
calls=3 0x50 0
* 0 60
+4 0 5
fn=(3) std::helper()
0x2000 0 7

fn=(4) loch::g()
0x3000 0 1
cfn=(3)
calls=1 0x2000 0
+4 0 7

ob=(2)
fn=(2)
0x50 0 60
"""


class Known(callgrind.Sources):
    """Sources with given places instead of debug information."""

    def __init__(self, places: dict[int, callgrind.Place]) -> None:
        super().__init__(Path("/x/program"))
        self.places = places


@pytest.fixture
def profile(tmp_path: Path) -> callgrind.Profile:
    file = tmp_path / "out-01"
    file.write_text(PROFILE)
    return callgrind.read_profile(file)


def test_costs_and_calls_are_read(profile: callgrind.Profile) -> None:
    f = profile.functions[("/x/program", "loch::f()")]
    assert dict(f.own) == {0x1000: 10, 0x1004: 20, 0x1008: 5}
    assert dict(f.calls[0x1004]) == {("/x/libc.so", "memcpy"): 60}
    g = profile.functions[("/x/program", "loch::g()")]
    assert dict(g.calls[0x3004]) == {("/x/program", "std::helper()"): 7}


def test_libraries_belong_to_those_who_call_them(profile: callgrind.Profile) -> None:
    driver, fabric, nobody = (callgrind.Place(*each) for each in (("driver", "f"), ("fabric", "g"), ("", "helper")))
    places = {0x1000: driver, 0x1004: fabric, 0x1008: driver, 0x2000: nobody, 0x3000: driver, 0x3004: driver}
    costs = callgrind.attribute(profile, "/x/program", Known(places))
    assert costs == {("driver", "f"): 10 + 5 + 1 + 7, ("fabric", "g"): 20 + 60}


@pytest.mark.parametrize(
    ("function", "layer"),
    [
        ("loch::fabric::realtime::TscClock::compare()", "clock"),
        ("loch::measure::Histogram::add_octave(unsigned long)", "octaves"),
    ],
)
def test_what_a_run_does_a_few_times_is_not_counted(tmp_path: Path, function: str, layer: str) -> None:
    file = tmp_path / "out-01"
    file.write_text(PROFILE.replace("loch::g()", function))
    driver, fabric, nobody = (callgrind.Place(*each) for each in (("driver", "f"), ("fabric", "g"), ("", "helper")))
    places = {0x1000: driver, 0x1004: driver, 0x1008: driver, 0x2000: nobody, 0x3000: fabric, 0x3004: fabric}
    costs = callgrind.attribute(callgrind.read_profile(file), "/x/program", Known(places))
    assert instructions.by_layer(costs) == {"driver": 10 + 20 + 5 + 60}
    assert sum(cost for (where, _), cost in costs.items() if where == layer) == 1 + 7


def test_reading_the_time_counts_where_the_counter_keeps_it() -> None:
    slow = "RealtimeWorker::now_by_comparison"
    assert slow not in callgrind.by_chance("tsc")
    assert callgrind.by_chance("kvm-clock")[slow] == "clock"
    assert callgrind.clock_source() != ""


def test_a_file_has_the_layer_of_its_folder() -> None:
    tree = str(callgrind.TREE)
    assert callgrind.layer_of_path(f"{tree}/workloads/driver.cc") == "driver"
    assert callgrind.layer_of_path(f"{tree}/build/release/../../common/fabric/shm/post.cc") == "fabric"
    assert callgrind.layer_of_path("/another/copy/common/fabric/awaitables.h") == "wrapping"
    assert callgrind.layer_of_path(f"{tree}/nessie/get.cc") == "protocol"
    assert callgrind.layer_of_path(f"{tree}/common/base/rng.h") == ""
    assert callgrind.layer_of_path("/usr/include/c++/12/bits/stl_vector.h") == ""


def test_more_than_five_per_cent_is_too_much() -> None:
    budget = {"GET": {"driver": 400.0, "fabric": 200.0}}
    assert instructions.over({"GET": {"driver": 416.0, "fabric": 208.0}}, budget) == []
    assert instructions.over({"GET": {"driver": 300.0, "fabric": 100.0}}, budget) == []
    assert instructions.over({"GET": {"driver": 424.0, "fabric": 100.0}}, budget) == [
        "GET: driver: 424 instructions per operation, budget 400"
    ]
    assert len(instructions.over({"GET": {"driver": 419.0, "fabric": 209.0, "rpc": 13.0}}, budget)) == 2
    assert instructions.over({"PUT": {}}, budget) == ["PUT: the budget has no such case"]


@pytest.mark.parametrize("name", instructions.CASES)
def test_the_budget_is_kept(name: str) -> None:
    if absent := instructions.missing():
        pytest.skip(f"not installed: {' '.join(absent)}")
    budget = json.loads(instructions.BUDGET.read_text())
    if (made_by := instructions.compiler(BENCH)) != budget["compiler"]:
        pytest.skip(f"the budget is that of {budget['compiler']}, the program that of {made_by}")
    # On a busy machine threads take other turns, which moves a few instructions an operation. Three times is no chance.
    for _ in range(3):
        figures = instructions.measure_all([name], BENCH, ZOO)
        found = instructions.over(figures, budget["instructions"])
        if not found:
            return
    pytest.fail(
        f"{'; '.join(found)}\n{instructions.table(figures)}\nto accept: tests/budget/instructions.py --rewrite",
    )
