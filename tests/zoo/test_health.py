"""Tests of a result's line on the health of the network, which comes from NICs' counters: runs on emulated devices."""

from __future__ import annotations

import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zoo
from test_processes import run_in_two

HOST = socket.gethostname()


@pytest.fixture(name="folder")
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        yield Path(name)


def run(settings: str, folder: Path, duration: str = "200ms") -> tuple[Any, str]:
    """The result of a run in one process, and what it printed."""
    path = folder / "result.json"
    command = [zoo.bench(zoo.RELEASE), *zoo.flags_of("nessie", duration=duration), "--json", str(path)]
    outcome = zoo.execute(command, zoo.environment(zoo.RELEASE, settings))
    assert not outcome.fault and outcome.status == 0, f"{outcome.fault}\n{outcome.said}"
    return json.loads(path.read_text()), outcome.said


@pytest.mark.parametrize("machine", ["mlx5-roce", "mlx4", "bnxt"])
def test_a_sick_device_is_named(machine: str, folder: Path) -> None:
    result, said = run(f"{machine},retransmit=0.01,counters={folder}/sys", folder)
    network = result["network"]
    assert (found := re.fullmatch(r"(?:at least )?(\d+) retransmissions? on (\S+)", network["verdict"])), network
    assert found[2] == HOST and network["is_sick"] is True
    assert f"  network: {network['verdict']}\n" in said
    assert result["caveats"][0] == f"the network was sick: {network['verdict']}"
    symptom = network["symptoms"][0]
    assert (symptom["kind"], symptom["meaning"], symptom["is_least"]) == ("fault", "retransmissions", False)
    files = list((folder / "sys").glob(f"*/ports/1/hw_counters/{symptom['counter']}"))
    assert 0 < symptom["count"] <= int(files[0].read_text())
    counters = result["nodes"][0]["counters"]
    assert counters[f"port.{symptom['counter']}"] == symptom["count"]
    before, after = (counters[f"port_{when}.{symptom['counter']}"] for when in ("before", "after"))
    assert after - before == symptom["count"] and after <= int(files[0].read_text())


def test_a_healthy_device_is_clean(folder: Path) -> None:
    result, said = run(f"mlx5-roce,counters={folder}/sys", folder)
    assert result["network"] == {"verdict": "clean", "is_sick": False, "symptoms": []}
    assert "  network: clean\n" in said
    assert not [caveat for caveat in result["caveats"] if "network" in caveat]
    device = result["devices"][0]
    assert (device["driver"], device["numa_node"], device["firmware"]) == ("mlx5_core", 0, "0.zoo")
    assert (device["mtu_bytes"], bool(device["gid"])) == (1024, True)


def test_where_nothing_can_be_read_nothing_is_clean(folder: Path) -> None:
    result, said = run("mlx5-roce,retransmit=0.01", folder)
    assert result["network"] == {"verdict": "not seen: no counters", "is_sick": False, "symptoms": []}
    assert "  network: not seen: no counters\n" in said
    assert (result["devices"][0]["driver"], result["devices"][0]["numa_node"]) == ("", None)


def test_counters_that_wrap_during_the_run_are_no_huge_ones(folder: Path) -> None:
    result, _ = run(f"mlx5-roce,retransmit=0.05,counter_start=4294967290,counters={folder}/sys", folder)
    (symptom,) = result["network"]["symptoms"]
    now = int((folder / "sys/zoo_mlx5_0/ports/1/hw_counters/packet_seq_err").read_text())
    assert now < 1_000_000, "the counter has wrapped"
    assert 0 < symptom["count"] <= now + 6 and symptom["is_least"] is False


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
def test_the_sick_one_of_two_processes_is_named(folder: Path) -> None:
    sick = f"mlx5-roce,counters={folder}/sys,retransmit=0.05"
    result = run_in_two(f"mlx5-roce,counters={folder}/sys", sick, "nessie", folder)
    assert re.fullmatch(r"\d+ retransmissions? on node 1", result["network"]["verdict"]), result["network"]
    assert [symptom["node"] for symptom in result["network"]["symptoms"]] == [1]
    blind = run_in_two(f"mlx5-roce,counters={folder}/other", "mlx5-roce", "nessie", folder)
    assert blind["network"]["verdict"] == "not seen on node 1: no counters"
