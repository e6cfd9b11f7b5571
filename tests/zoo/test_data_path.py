"""Tests of how the data path of verbs uses a device: doorbells, chains with a refused request, thread domains,
RECVs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import zoo


def protocol(name: str) -> zoo.Protocol:
    return next(each for each in zoo.protocols() if each.name == name)


def run(settings: str, name: str, *more: str) -> tuple[Any, dict[str, int]]:
    """A run's result, and how often it called each function of libibverbs; the key "request" has the number of posted
    work requests."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
        path = Path(folder) / "calls"
        outcome = zoo.run_protocol(zoo.RELEASE, f"{settings},calls={path}", protocol(name), more)
        assert not outcome.fault, f"{settings}: {outcome.fault}\n{outcome.said}"
        calls = {word: int(count) for word, count in map(str.split, path.read_text().splitlines())}
    return outcome.result, calls


def test_the_slots_of_a_turn_share_a_doorbell() -> None:
    """READs that 32 window slots post in one turn of the worker's loop go to the device as one chain, with one
    doorbell."""
    _, calls = run("mlx5-ib", "micro-verbs", "--window", "32", "--get", "1")
    assert calls["request"] >= 1000
    assert calls["ibv_post_send"] * 8 <= calls["request"], calls


def test_a_slot_alone_does_not_wait_for_others() -> None:
    """With one window slot each request is given to the device at once, not held back for a longer chain."""
    _, calls = run("mlx5-ib", "micro-verbs", "--window", "1", "--get", "1")
    assert calls["request"] == calls["ibv_post_send"] >= 100


@pytest.mark.parametrize("name", ("nessie", "pilaf", "herd"))
def test_a_request_that_is_refused_within_a_chain(name: str) -> None:
    """Of a chain with a refused request the device takes the requests before that one, which complete; those behind it
    are flushed, and the run goes on."""
    # Runs of 800 ms, because a message that was lost with its connection is sent again only after 160 ms.
    for n in (120, 121, 127, 140):
        with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
            path = Path(folder) / "result.json"
            flags = [*zoo.flags_of(name, duration="800ms"), "--window", "16", "--json", str(path)]
            settings = zoo.environment(zoo.RELEASE, f"mlx5-ib,fail=request:{n}")
            outcome = zoo.execute([zoo.bench(zoo.RELEASE), *flags], settings)
            assert outcome.status == 0 and not outcome.fault, f"request {n}: {outcome.fault}\n{outcome.said}"
            operations = json.loads(path.read_text())["operations"]
        assert operations["corrupt"] == 0 and operations["total"] > 50, (n, operations)


def test_a_worker_has_a_domain_of_its_own_where_the_device_has_domains() -> None:
    result, calls = run("mlx5-ib", "nessie")
    workers = calls["ibv_alloc_td"]
    assert workers >= 2 and calls["ibv_alloc_parent_domain"] == calls["ibv_create_cq_ex"] == workers
    assert result["operations"]["error"] == 0


@pytest.mark.parametrize(
    "settings",
    (
        "mlx5-ib,domains=0",
        "mlx5-ib,extended=0",
        "mlx5-ib,domains=0,extended=0",
        "mlx5-ib,fail=ibv_alloc_td:1,fail=ibv_alloc_td:2",
        "mlx5-ib,fail=ibv_alloc_parent_domain:2",
        "mlx5-ib,fail=ibv_create_cq_ex:1,fail=ibv_create_cq_ex:2",
    ),
)
def test_without_domains_or_private_queues_a_run_is_the_same(settings: str) -> None:
    for name in ("nessie", "herd"):
        result, _ = run(settings, name)
        assert result["operations"]["error"] == 0


def test_receive_buffers_of_a_turn_are_posted_together() -> None:
    """Receive buffers are posted several a call: posted one by one, there would be at least as many calls as SENDs."""
    _, calls = run("mlx5-ib", "pilaf", "--window", "16", "--get", "0")
    assert 0 < calls["ibv_post_srq_recv"] + calls["ibv_post_recv"] < calls["request"], calls
