"""The time that `./loch doctor --hostfile` takes for the pings between 16 processes: a test of its own, beside which ctest
runs no other, because the processes alone fill two cores for half of that time."""

from __future__ import annotations

from pathlib import Path

from test_ping import TRANSPORTS, a_folder, doctor, needs_mpirun, tried_thrice

__all__ = ["a_folder"]


@needs_mpirun
@tried_thrice
def test_sixteen_processes_ping_each_other_in_20_s(folder: Path) -> None:
    status, answer, took = doctor(folder, {-1: "mlx5-roce"}, 16)
    result = answer["pings"]
    assert took < 20, f"{took:.1f} s"
    assert status == 0, result and result["verdict"]
    assert {(pair["from"], pair["to"]) for pair in result["pairs"]} == {
        (i, j) for i in range(16) for j in range(16) if i != j
    }
    for pair in result["pairs"]:
        for transport in TRANSPORTS:
            cell = pair[transport]
            assert cell["sent"] > 0 and cell["arrived"] > 0, (transport, pair)
            assert cell["rate"] is None or cell["rate"] > 0
        assert pair["uc"]["loss"] == pair["ud"]["loss"] == 0, pair
    replied = [pair[each]["round_trip_us"] is not None for pair in result["pairs"] for each in TRANSPORTS]
    assert sum(replied) > 0.8 * len(replied), "a crowded machine loses some replies' deadlines, not most"
    assert result["table"].count("\n") >= 3 * 18
