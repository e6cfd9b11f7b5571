"""Tests of what asynchronous events of a device do to a run on verbs."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zoo
from test_health import run

HOST = socket.gethostname()


@pytest.fixture(name="folder")
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        yield Path(name)


def fails(settings: str, duration: str) -> zoo.Outcome:
    outcome = zoo.execute(
        [zoo.bench(zoo.RELEASE), *zoo.flags_of("nessie", duration=duration)], zoo.environment(zoo.RELEASE, settings)
    )
    assert not outcome.fault and outcome.status == 1, f"{outcome.fault} {outcome.status}\n{outcome.said}"
    return outcome


@pytest.mark.parametrize("event", ["DEVICE_FATAL", "CQ_ERR"])
def test_a_device_that_failed_ends_the_run(event: str) -> None:
    outcome = fails(f"mlx5-roce,raise={event}:500", "60s")
    assert f"loch bench: verbs: zoo_mlx5_0 has failed: it reports IBV_EVENT_{event} (dmesg)\n" in outcome.said
    assert outcome.seconds < 30


def test_a_port_that_stays_down_ends_the_run() -> None:
    outcome = fails("mlx5-roce,raise=PORT_ERR:500", "60s")
    assert "loch bench: verbs: port 1 of zoo_mlx5_0 went down and has not come back within 5" in outcome.said
    assert outcome.seconds < 40


def test_a_port_that_comes_back_is_named(folder: Path) -> None:
    settings = f"mlx5-roce,counters={folder}/sys,raise=PORT_ERR:500,raise=PORT_ACTIVE:600"
    result, said = run(settings, folder, duration="6s")
    assert result["network"]["verdict"] == f"1 failure of the port on {HOST}"
    assert "  network: 1 failure of the port" in said
    counters = result["fabric_counters"]
    assert (counters["verbs.events.IBV_EVENT_PORT_ERR"], counters["verbs.events.IBV_EVENT_PORT_ACTIVE"]) == (1, 1)


@pytest.mark.parametrize(
    ("event", "said_as"), [("QP_FATAL", "queue pair that failed"), ("PATH_MIG_ERR", "failed path migration")]
)
def test_what_a_run_survives_is_named(event: str, said_as: str, folder: Path) -> None:
    result, _ = run(f"mlx5-roce,counters={folder}/sys,raise={event}:500", folder)
    assert result["network"]["verdict"] == f"1 {said_as} on {HOST}"
    assert result["network"]["symptoms"][0]["counter"] == f"IBV_EVENT_{event}"
    blind, _ = run(f"mlx5-roce,raise={event}:500", folder)
    assert blind["network"]["verdict"] == f"1 {said_as} on {HOST}; not seen: no counters"


def test_harmless_events_are_counted_and_leave_the_network_clean(folder: Path) -> None:
    result, _ = run(f"mlx5-roce,counters={folder}/sys,events=500", folder, duration="500ms")
    assert result["network"]["verdict"] == "clean"
    counted = {name: n for name, n in result["fabric_counters"].items() if name.startswith("verbs.events.")}
    assert sum(counted.values()) == result["fabric_counters"]["verbs.events"] > 20, counted
    assert "verbs.events.IBV_EVENT_GID_CHANGE" in counted
