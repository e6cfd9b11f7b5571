"""Tests of shm_ratios.py with programs that stand in for loch-bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import shm_ratios

STANDIN = """\
#!{python}
import json, sys
arguments = sys.argv[1:]
protocol = arguments[arguments.index("--protocol") + 1]
with open({calls!r}, "a") as calls:
    calls.write({name!r} + " " + protocol + "\\n")
for absent in {absent!r}:
    if protocol == absent:
        sys.exit("loch-bench: " + absent + " is not on this machine: ./loch brings it")
if {broken!r}:
    sys.exit("loch-bench: --window: expected more")
with open(arguments[arguments.index("--json") + 1], "w") as out:
    json.dump({{"throughput_ops_s": {rate}}}, out)
"""


def standin(folder: Path, name: str, rate: float, absent: tuple[str, ...] = (), broken: bool = False) -> str:
    program = folder / name
    text = STANDIN.format(
        python=sys.executable, calls=str(folder / "calls"), name=name, absent=absent, broken=broken, rate=rate
    )
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


def test_the_two_programs_alternate(tmp_path: Path) -> None:
    old, new = standin(tmp_path, "old", 1.5e6), standin(tmp_path, "new", 3e6)
    rows = shm_ratios.run(old, new, ["herd", "memcached"], 2, 4, 10)
    calls = (tmp_path / "calls").read_text().split("\n")[:-1]
    assert calls == [
        *["old herd", "new herd", "new memcached"],
        *["new herd", "old herd", "new memcached"],
    ]
    assert rows["herd"].ratios() == [2.0, 2.0]
    lines = shm_ratios.table(rows).split("\n")
    assert lines[2:] == ["| herd | 1.500 | 3.000 | 2.00 | 2.00 to 2.00 | 1.0 |", "| memcached |  | 3.000 |  |  |  |"]


def test_ratios_are_those_of_each_round() -> None:
    rows = {
        "nessie": shm_ratios.Row(new=[4.0, 2.0, 3.0]),
        "memcached": shm_ratios.Row(new=[0.4, 0.1, 0.1]),
        "redis": shm_ratios.Row(new=[0.5, 0.5, 0.5]),
    }
    lines = shm_ratios.table(rows).split("\n")
    assert lines[0].endswith("| new/memcached | new/redis |")
    # 10, 20 and 30 times memcached: the medians' ratio is 30
    assert lines[2] == "| nessie |  | 3.000 |  |  | 20.0 | 6.0 |"


def test_the_machine_is_measured_in_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shm_ratios, "LOOP", bytes(1 << 20))
    speeds: list[float] = []
    shm_ratios.run(None, standin(tmp_path, "new", 3e6), ["herd"], 3, 4, 10, speeds)
    assert len(speeds) == 3 and min(speeds) > 0


def test_a_server_program_that_is_absent_is_named(tmp_path: Path) -> None:
    new = standin(tmp_path, "new", 3e6, absent=("redis",))
    lines = shm_ratios.table(shm_ratios.run(None, new, ["herd", "memcached", "redis"], 1, 4, 10)).split("\n")
    assert lines[2] == "| herd |  | 3.000 |  |  | 1.0 |"
    assert lines[3] == "| memcached |  | 3.000 |  |  |  |"
    assert lines[4].startswith("| redis | not measured: loch-bench: redis is not on this machine")
    assert {line.count("|") for line in lines} == {lines[0].count("|")}


def test_another_failure_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["shm_ratios", standin(tmp_path, "new", 3e6, broken=True)])
    assert shm_ratios.main() == 1
    assert capsys.readouterr().err == "shm_ratios: loch-bench: --window: expected more\n"


@pytest.mark.parametrize("protocol", shm_ratios.ONE_SIDED + shm_ratios.SERVED)
def test_only_designs_with_servers_get_one(protocol: str) -> None:
    flags = shm_ratios.flags_of(protocol, 16, 10)
    assert ("--servers" in flags) == (protocol in shm_ratios.SERVED)
