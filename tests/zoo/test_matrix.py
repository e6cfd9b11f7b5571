"""Tests every protocol on every emulated machine (docs/zoo.md): it runs and its values are right, or one line refuses
it because of what the device lacks. ./loch test --zoo adds the conformance and litmus suites of fabrics, sanitizers and
valgrind."""

from __future__ import annotations

import os

import matrix
import zoo

# The conformance and litmus suites run on two emulated devices only: one that moves the bytes of a message in random
# order, and one to which requests are posted as a chain (ibv_post_send), for it lacks extended posting.
SUITES_ON = ("mlx5-adaptive", "mlx4")


def shortened(said: str) -> str:
    """A long output's beginning and end: its first failure is often the cause of the others."""
    return said if len(said) <= 6000 else f"{said[:4000]}\n[…]\n{said[-2000:]}"


def test_every_protocol_on_every_machine() -> None:
    steps = [
        step
        for step in matrix.plan({"release": zoo.RELEASE})
        if step.what not in zoo.SUITES or step.machine in SUITES_ON
    ]
    assert len(steps) > 200
    ended = matrix.run(steps, len(os.sched_getaffinity(0)), is_watched=False)
    print(matrix.table_of("release", ended))
    faults = [
        f"{step.name}: {outcome.fault}\n{shortened(outcome.said)}" for step, outcome in ended.items() if outcome.fault
    ]
    assert not faults, "\n".join(faults)
    assert {outcome.mark for outcome in ended.values()} == {"ok", "-"}


def test_late_requests_lost_messages_and_a_storm_of_events() -> None:
    for protocol in zoo.protocols():
        settings = "mlx5-roce,delay_us=30,events=2000" + (",drop=0.02" if protocol.name == "herd" else "")
        outcome = zoo.run_protocol(zoo.RELEASE, settings, protocol)
        assert not outcome.fault, f"{protocol.name}: {outcome.fault}\n{outcome.said}"


def test_judging_a_run_can_fail() -> None:
    nessie = next(protocol for protocol in zoo.protocols() if protocol.name == "nessie")
    refused = zoo.run_protocol(zoo.RELEASE, "irdma", nessie)
    assert "exit status 2" in refused.fault and "atomics" in refused.fault
    ran = zoo.judge_refusal(zoo.run_protocol(zoo.RELEASE, "mlx5-ib", nessie), "nothing")
    assert ran.fault == "ran, although: nothing"
    slow = zoo.execute(["sleep", "5"], dict(os.environ), timeout_s=0.2)
    assert slow.fault.startswith("hangs")
    assert zoo.FAULT.search("note\nzoo: a completion queue of 2 entries overran")
    device = dict(zoo.machines()[0].devices[0])
    assert zoo.lacks(device, nessie.needs) == "" and zoo.lacks({**device, "atomics": False}, nessie.needs) == "atomics"
