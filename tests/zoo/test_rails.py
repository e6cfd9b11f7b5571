"""Tests of runs that use two rails: two devices of each process at once, on emulated machines."""

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
from test_doctor import ask, doctor, listed
from test_processes import launch, on, rejoin, run_in_two

HOST = socket.gethostname()
TWO = "mlx5-roce,copies=2"
RAILS = ("zoo_mlx5_0", "zoo_mlx5_1")
BOTH = "+".join(RAILS)
# seq-atomic's requests all go to node 0, which is reached by rail 0; micro-cuckoo posts none.
NOT_SPREAD = ("micro-cuckoo", "seq-atomic")
NEEDS_MPIRUN = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")


@pytest.fixture(name="folder")
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        yield Path(name)


def named(name: str) -> zoo.Protocol:
    return next(each for each in zoo.protocols() if each.name == name)


def run(
    settings: str, protocol: str, *more: str, nodes: int = 2, duration: str = "20ms", device: str = BOTH
) -> zoo.Outcome:
    """A run in one process; the outcome's `fault` says why it did not go well."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
        path = Path(folder) / "result.json"
        flags = zoo.flags_of(named(protocol), duration=duration, nodes=nodes)
        command = [
            zoo.bench(zoo.RELEASE),
            *flags,
            "--json",
            str(path),
            *(("--device", device) if device else ()),
            *more,
        ]
        outcome = zoo.execute(command, zoo.environment(zoo.RELEASE, settings))
        if path.exists() and path.stat().st_size:
            outcome.result = json.loads(path.read_text())
    if not outcome.fault:
        outcome.fault = zoo.wrong_with_run(outcome, named(protocol))
    return outcome


def result_of(settings: str, protocol: str, *more: str, **other: Any) -> Any:
    outcome = run(settings, protocol, *more, **other)
    assert not outcome.fault, f"{outcome.fault}\n{outcome.said}"
    return outcome.result


def refusal(settings: str, *more: str, protocol: str = "nessie") -> str:
    """The one line by which a run is refused."""
    outcome = run(settings, protocol, *more)
    # a note lists the capabilities in which the rails differ
    lines = [line for line in outcome.said.strip().splitlines() if not line.startswith("note: ")]
    assert outcome.status in (1, 2) and len(lines) == 1, outcome.said
    return lines[0]


def posted(result: Any) -> dict[int, tuple[float, ...]]:
    """By node: how many requests its workers gave to the device of each rail."""
    return {
        node["node"]: tuple(node["counters"][f"rail{rail}.verbs.posted"] for rail in (0, 1)) for node in result["nodes"]
    }


def on_two_rails(protocol: str, *more: str, **other: Any) -> Any:
    """The result of a run of 20 ms on two rails, or of 1 s if a node posted nothing to either rail in 20 ms: the threads of
    a crowded machine may get no core for so long."""
    result = result_of(TWO, protocol, *more, **other)
    if all(any(counts) for counts in posted(result).values()):
        return result
    return result_of(TWO, protocol, *more, duration="1s", **other)


# ---- Runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", [each.name for each in zoo.protocols()])
def test_each_protocol_runs_on_two_rails(protocol: str) -> None:
    result = on_two_rails(protocol, nodes=3)
    assert [(each["rail"], each["can"]["device"]) for each in result["devices"]] == list(enumerate(RAILS))
    assert result["capabilities"]["device"] == ", ".join(RAILS)
    assert any(note.startswith("2 rails: what goes to node n takes rail n mod 2") for note in result["notes"])
    assert not [node for node in result["nodes"] if node["counters"]["verbs.unknown_source"]], "datagrams were dropped"
    sums = [sum(each) for each in zip(*posted(result).values(), strict=True)]
    assert all(count > 0 for count in sums) or protocol in NOT_SPREAD, sums


def test_what_goes_to_a_node_takes_its_own_rail() -> None:
    """With two nodes, all that node 0 posts to node 1 takes rail 1, and the other way rail 0; a node reads its own
    records over its own rail, if it does."""
    result = on_two_rails("pilaf", "--server-nodes", "1")
    assert result["operations"]["total"] + result["operations"]["outside_window"] > 0
    counts = posted(result)
    assert counts[1][0] > 0 and counts[1][1] == 0, counts
    assert counts[0][0] == 0, counts


def test_one_rail_is_the_default() -> None:
    result = result_of(TWO, "nessie", device="")
    assert [(each["rail"], each["can"]["device"]) for each in result["devices"]] == [(0, RAILS[0])]
    assert not [note for note in result["notes"] if "rails" in note]
    assert not [name for name in result["nodes"][0]["counters"] if name.startswith("rail")]


def test_the_conformance_suite_of_the_fabric_on_two_rails() -> None:
    outcome = zoo.execute(
        [str(zoo.RELEASE / "tests/fabric/fabric_conformance_test"), "--gtest_brief=1"],
        {**zoo.environment(zoo.RELEASE, TWO), "LOCH_TEST_DEVICE": BOTH},
    )
    assert not outcome.fault and outcome.status == 0, f"{outcome.fault}\n{outcome.said}"


@NEEDS_MPIRUN
@pytest.mark.parametrize("machine", ["mlx5-ib", "mlx5-roce"])
@pytest.mark.parametrize("protocol", ["nessie", "herd"])
def test_two_processes_with_two_rails_each(protocol: str, machine: str, folder: Path) -> None:
    settings = f"{machine},copies=2"
    result = run_in_two(settings, settings, protocol, folder, "--device", BOTH)
    operations = result["operations"]
    assert (operations["corrupt"], operations["error"]) == (0, 0)
    assert sorted((each["node"], each["rail"]) for each in result["devices"]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(sum(each) > 0 for each in zip(*posted(result).values(), strict=True)), posted(result)


@NEEDS_MPIRUN
def test_a_node_that_is_killed_comes_back_on_two_rails(folder: Path) -> None:
    rejoin("mlx5-ib,copies=2", folder, device=BOTH)


# ---- Unlike rails ---------------------------------------------------------------------------------
def test_capabilities_are_the_least_of_both_rails() -> None:
    """The second rail's device lacks what the first has, though node 0 alone would not meet it."""
    plain = result_of(TWO, "pilaf")["capabilities"]
    least = result_of(f"{TWO},1:inline=64,1:rd_atomic=2,1:mtu=512,1:order=never", "pilaf")["capabilities"]
    assert plain["max_inline_bytes"] > 64 and plain["in_order_placement"] is True
    assert (least["max_inline_bytes"], least["max_rd_atomic"], least["mtu_bytes"]) == (64, 2, 512)
    assert least["in_order_placement"] is False


def test_a_capability_that_one_rail_lacks_is_missing() -> None:
    assert "atomic" in refusal(f"{TWO},1:atomics=0")
    assert "UC" in refusal(f"{TWO},1:uc=0", protocol="herd")


def test_replies_of_one_rail_in_another_byte_order_are_put_right() -> None:
    """Old words of atomics arrive reversed over the second rail alone."""
    outcome = zoo.execute(
        [str(zoo.RELEASE / "tests/fabric/fabric_conformance_test"), "--gtest_brief=1", "--gtest_filter=*Atomics*"],
        {**zoo.environment(zoo.RELEASE, f"{TWO},1:big_endian=1"), "LOCH_TEST_DEVICE": BOTH},
    )
    assert not outcome.fault and outcome.status == 0, f"{outcome.fault}\n{outcome.said}"
    assert re.search(r"PASSED +\] [1-9]", outcome.said), outcome.said


def test_rails_of_two_kinds_of_network_are_refused() -> None:
    said = refusal("azure-hb")
    assert f"the rails of {HOST} are unlike: zoo_mlx5_0 is in RoCE v2" in said, said
    assert "zoo_mlx5_1 in InfiniBand" in said, said


@NEEDS_MPIRUN
def test_rails_named_in_another_order_meet_by_network(folder: Path) -> None:
    path = folder / "result.json"
    command = [zoo.bench(zoo.RELEASE), *zoo.flags_of("nessie", duration="100ms"), "--json", str(path), "--device"]
    turned = "+".join(reversed(RAILS))
    done = launch([*on(TWO, [*command, BOTH], folder, 1), ":", *on(TWO, [*command, turned], folder, 1)])
    assert done.returncode == 0, done.stdout + done.stderr
    devices = json.loads(path.read_text())["devices"]
    for rail in (0, 1):
        networks = {each["network"] for each in devices if each["rail"] == rail}
        assert networks == {f"RoCE v2, 10.1.{rail}.0/24"}, devices


@NEEDS_MPIRUN
def test_processes_with_different_numbers_of_rails_are_refused(folder: Path) -> None:
    command = [zoo.bench(zoo.RELEASE), *zoo.flags_of("nessie"), "--device"]
    done = launch([*on(TWO, [*command, BOTH], folder, 1), ":", *on(TWO, [*command, RAILS[0]], folder, 1)])
    said = done.stdout + done.stderr
    assert f"--device: {HOST} has 2 rails and {HOST} has 1; expected equally many on each host" in said, said


# ---- Rails that fail ------------------------------------------------------------------------------
@pytest.mark.parametrize("rail", [0, 1])
def test_a_device_that_fails_ends_the_run_and_is_named(rail: int) -> None:
    outcome = run(f"{TWO},{rail}:raise=DEVICE_FATAL:2000", "nessie", duration="20s")
    assert outcome.status == 1 and outcome.seconds < 15, outcome.said
    assert f"{RAILS[rail]} has failed: it reports IBV_EVENT_DEVICE_FATAL" in outcome.said, outcome.said


def test_a_port_that_goes_down_ends_the_run_and_is_named() -> None:
    outcome = run(f"{TWO},1:raise=PORT_ERR:2000", "nessie", duration="30s")
    assert outcome.status == 1 and outcome.seconds < 25, outcome.said
    assert f"port 1 of {RAILS[1]} went down" in outcome.said, outcome.said


@pytest.mark.parametrize("call", ["ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "ibv_create_cq_ex"])
def test_calls_that_fail_on_either_rail_end_in_a_line(call: str) -> None:
    """Each of the first calls, of which some are of the second rail."""
    for n in range(1, 13):
        outcome = run(f"{TWO},fail={call}:{n}", "nessie")
        if outcome.status == 0:
            continue  # done without
        assert outcome.status in (1, 2), (n, outcome.said)
        assert not zoo.FAULT.search(outcome.said), (n, outcome.said)
        assert outcome.said.strip(), n


@pytest.mark.parametrize("rail", [0, 1])
def test_the_sick_rail_is_named(rail: int, folder: Path) -> None:
    result = result_of(f"{TWO},{rail}:retransmit=0.05,counters={folder}/sys", "nessie", duration="200ms")
    verdict = result["network"]["verdict"]
    assert re.fullmatch(rf"\d+ retransmissions? on {re.escape(HOST)} \({RAILS[rail]}\)", verdict), verdict
    (symptom,) = result["network"]["symptoms"]
    assert symptom["device"] == RAILS[rail]
    counters = result["nodes"][0]["counters"]
    prefix = "rail1." if rail else ""
    assert counters[f"{prefix}port.{symptom['counter']}"] == symptom["count"] > 0
    for when in ("before", "after"):
        assert f"rail1.port_{when}.{symptom['counter']}" in counters


def test_two_healthy_rails_are_clean(folder: Path) -> None:
    assert result_of(f"{TWO},counters={folder}/sys", "nessie")["network"]["verdict"] == "clean"


# ---- What shows the rails -------------------------------------------------------------------------
def test_devices_and_doctor_show_the_rails(folder: Path) -> None:
    assert [each["device"] for each in listed(TWO, "--device", BOTH)["rails"]] == list(RAILS)
    assert [each["device"] for each in listed(TWO)["rails"]] == [RAILS[0]]
    lines = ask(TWO, "--device", BOTH).stdout.splitlines()
    assert [line.split(" port ")[0] for line in lines if line.startswith("rail ")] == [
        f"rail {number}: {name}" for number, name in enumerate(RAILS)
    ]
    status, verdict = doctor(f"{TWO},1:atomics=0", folder, "--device", BOTH, "--protocol", "nessie")
    assert status == 1
    assert [rail["device"] for rail in verdict["rails"]] == list(RAILS)
    shown = {line["name"]: line["text"] for line in verdict["lines"]}
    assert shown["rail 0"].startswith(f"{RAILS[0]} port 1") and shown["rail 1"].startswith(f"{RAILS[1]} port 1")
    assert f"{RAILS[1]} lacks compare-and-swap" in shown["protocol nessie"], shown["protocol nessie"]
    refused = ask("azure-hb", "--device", BOTH)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1, refused.stderr
