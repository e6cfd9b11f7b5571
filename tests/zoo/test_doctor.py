"""Tests of `loch devices` and `./loch doctor` on emulated machines: both print what the verbs fabric itself judges and
chooses."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zoo


@pytest.fixture(name="folder")
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        yield Path(name)


def ask(settings: str, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [zoo.bench(zoo.RELEASE), "devices", *more],
        env=zoo.environment(zoo.RELEASE, settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def listed(settings: str, *more: str, status: int = 0) -> Any:
    done = ask(settings, "--json", *more)
    assert done.returncode == status, done.stderr
    assert not zoo.FAULT.search(done.stderr), done.stderr
    return json.loads(done.stdout)


def program(folder: Path) -> Path:
    """A program that runs loch-bench on the emulated machine of the variable LOCH_ZOO."""
    path = folder / "loch-bench"
    path.write_text(
        f'#!/bin/sh\nLD_PRELOAD={zoo.RELEASE}/lib/libloch_zoo.so exec {zoo.bench(zoo.RELEASE)} "$@"\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def doctor(settings: str, folder: Path, *more: str) -> tuple[int, Any]:
    done = subprocess.run(
        [str(zoo.ROOT / "loch"), "--no-setup", "doctor", "--json", *more],
        env={**os.environ, "LOCH_ZOO": settings, "LOCH_BIN": str(program(folder))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["hosts"][0]


@pytest.mark.parametrize("machine", zoo.machines(), ids=lambda machine: machine.name)
def test_each_device_is_listed_with_what_it_can_do(machine: zoo.Machine) -> None:
    """Compares the list of devices that `loch devices` prints with the properties that the emulated device was made
    from."""
    is_refused = all(device["iwarp"] for device in machine.devices)
    answer = listed(machine.name, status=1 if is_refused else 0)
    assert len(answer["ports"]) == len(machine.devices)
    for device, port in zip(machine.devices, answer["ports"], strict=True):
        if device["iwarp"]:
            assert "iWARP" in port["refusal"] and port["can"] is None and answer["choice"] is None
            continue
        can = port["can"]
        assert (can["rc"], can["uc"], can["ud"]) == (device["rc"], device["uc"], device["ud"])
        assert (can["atomic_scope"] != "none") == (device["rc"] and device["atomics"])
        assert can["receives_connected"] == device["srq"]
        assert port["posting"] == ("ibv_wr" if device["extended"] else "ibv_post_send")
        assert can["max_inline_bytes"] <= device["max_inline"]
        assert (port["state"], port["refusal"]) == ("ACTIVE", None)
        assert port["gids"] and port["taken"]["device"] == port["device"]


@pytest.mark.parametrize("machine", ["mlx5-ib", "mlx5-lag", "azure-hb", "mlx4"])
def test_the_choice_is_that_of_a_run(machine: str, folder: Path) -> None:
    choice = listed(machine)["choice"]
    path = folder / "result.json"
    flags = zoo.flags_of("pilaf")
    outcome = zoo.execute([zoo.bench(zoo.RELEASE), *flags, "--json", str(path)], zoo.environment(zoo.RELEASE, machine))
    assert not outcome.fault and outcome.status == 0, outcome.said
    device = json.loads(path.read_text())["devices"][0]
    for key in ("port", "gid", "network", "gigabits_s"):
        assert choice[key] == device[key], key
    assert choice["device"] == device["can"]["device"]
    status, verdict = doctor(machine, folder)
    assert status == 0, verdict["lines"]
    for key in ("device", "port", "gid_index", "gid", "network", "link_layer"):
        assert verdict["choice"][key] == choice[key], key


def test_the_flags_choose_as_those_of_bench() -> None:
    assert listed("azure-hb")["choice"]["device"] == "zoo_mlx5_1"
    assert listed("azure-hb", "--device", "zoo_mlx5_0")["choice"]["device"] == "zoo_mlx5_0"
    assert listed("azure-hb", "--device", "10.1.0.0/16")["choice"]["gid"] == "10.1.0.1"
    assert listed("mlx5-roce", "--gid-index", "1")["choice"]["gid_index"] == 1
    refused = (
        (("--device", "nix"), "--device nix: no such device"),
        (("--port", "7"), "--port 7"),
        (("--gid-index", "99"), "--gid-index 99"),
        (("--pkey", "8001"), "--pkey"),
        (("--prot", "1"), "--port"),
    )
    for words, what in refused:
        done = ask("azure-hb", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert len(done.stderr.splitlines()) == 1 and what in done.stderr, done.stderr


def test_without_a_device_one_line_says_so() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        environment["LOCH_ZOO"] = "iwarp"
        environment["LD_PRELOAD"] = f"{zoo.RELEASE}/lib/libloch_zoo.so"
    done = subprocess.run(
        [zoo.bench(zoo.RELEASE), "devices"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "loch devices: verbs: " in done.stderr


@pytest.mark.parametrize("fails", ["ibv_alloc_pd", "ibv_create_cq"])
def test_a_device_that_cannot_be_opened_is_refused(fails: str, folder: Path) -> None:
    """A device whose port looks usable but which cannot be opened is refused by `loch devices` and ./loch doctor."""
    settings = f"mlx5-roce,fail={fails}:1:ENOMEM"
    answer = listed(settings, status=1)
    assert answer["choice"] is None and "Cannot allocate memory" in answer["refusal"]
    assert answer["ports"][0]["refusal"] == answer["refusal"]
    status, verdict = doctor(settings, folder)
    port = next(line for line in verdict["lines"] if line["name"] == "zoo_mlx5_0 port")
    assert (status, port["status"]) == (1, "no") and "Cannot allocate memory" in port["text"]


def test_doctor_compares_protocols_with_what_opening_the_device_showed(folder: Path) -> None:
    status, verdict = doctor("bnxt", folder, "--protocol", "nessie", "--protocol", "herd")
    lines = {line["name"]: line for line in verdict["lines"]}
    assert status == 1
    assert lines["protocol nessie"]["status"] == "ok"
    assert lines["protocol herd"]["status"] == "no" and lines["protocol herd"]["text"].endswith("lacks UC")
