"""Tests of how the data path of verbs uses a device: by which functions it posts, doorbells, postings with a refused request,
thread domains, RECVs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import zoo


# a device with ibv_wr_*, and the same one without
WAYS = ("mlx5-ib", "mlx5-ib,extended=0")


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


def doorbells(calls: dict[str, int]) -> int:
    return calls["ibv_post_send"] + calls["ibv_wr_complete"]


def counted(result: Any, counter: str) -> float:
    """The sum of a counter over the nodes of a run."""
    return float(sum(node["counters"][counter] for node in result["nodes"]))


@pytest.mark.parametrize("name", ("nessie", "herd", "pilaf", "seq-rpc"))
def test_a_device_with_ibv_wr_is_posted_to_by_them(name: str) -> None:
    """READs, WRITEs inline and not, atomics, and SENDs over RC, UC and UD: all requests are posted by ibv_wr_* where the
    device has them, except an atomic that tries the device, and none where it does not or --post-send is given."""
    result, calls = run("mlx5-ib", name)
    assert calls["ibv_post_send"] == 1 and calls["ibv_wr_complete"] > 1, calls
    assert counted(result, "verbs.built") == counted(result, "verbs.posted") > 0
    for settings, more in (("mlx5-ib,extended=0", ()), ("mlx5-ib", ("--post-send",))):
        result, calls = run(settings, name, *more)
        assert calls["ibv_wr_complete"] == 0 and calls["ibv_post_send"] > 1, (settings, calls)
        assert counted(result, "verbs.built") == 0 < counted(result, "verbs.posted")


def test_a_device_may_have_ibv_wr_for_some_queue_pairs() -> None:
    """A queue pair that cannot be made for ibv_wr_* is made without. The first three are made to try RC, UC and UD, and
    the fourth is the first of a worker."""
    for n in (1, 2, 3, 4):
        result, calls = run(f"mlx5-ib,fail=ibv_create_qp_ex:{n}:EOPNOTSUPP", "herd")
        assert result["operations"]["error"] == 0
        assert calls["ibv_wr_complete"] > 0, (n, calls)


@pytest.mark.parametrize("name", ("nessie", "herd", "pilaf"))
def test_a_posting_that_ibv_wr_complete_refuses_is_not_lost(name: str) -> None:
    """ibv_wr_complete posts all requests of a turn or none. If it fails, each of them ends with an error, which is
    counted, the connection is made anew, and the run ends as many operations as were asked for."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
        path = Path(folder) / "result.json"
        for n in (60, 150, 300):
            flags = [*zoo.flags_of(name, operations=2000), "--window", "16", "--json", str(path)]
            settings = zoo.environment(zoo.RELEASE, f"mlx5-ib,fail=ibv_wr_complete:{n}")
            outcome = zoo.execute([zoo.bench(zoo.RELEASE), *flags], settings)
            assert outcome.status == 0 and not outcome.fault, f"{n}: {outcome.fault}\n{outcome.said}"
            result = json.loads(path.read_text())
            assert result["operations"]["total"] == 2000 and result["operations"]["corrupt"] == 0, n
            assert counted(result, "verbs.errors") >= 1, n


@pytest.mark.parametrize("settings", WAYS)
def test_the_slots_of_a_turn_share_a_doorbell(settings: str) -> None:
    """READs that 32 window slots post in one turn of the worker's loop go to the device by one doorbell."""
    _, calls = run(settings, "micro-verbs", "--window", "32", "--get", "1")
    assert calls["request"] >= 1000
    assert doorbells(calls) * 8 <= calls["request"], calls


@pytest.mark.parametrize("settings", WAYS)
def test_a_slot_alone_does_not_wait_for_others(settings: str) -> None:
    """With one window slot each request is given to the device at once, not held back for more."""
    _, calls = run(settings, "micro-verbs", "--window", "1", "--get", "1")
    assert calls["request"] == doorbells(calls) >= 100


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ("nessie", "pilaf", "herd"))
def test_a_request_that_is_refused_within_a_chain(name: str, way: str) -> None:
    """Of a chain with a refused request ibv_post_send takes the requests before that one, which complete, and
    ibv_wr_complete takes none; the others are flushed, and the run goes on."""
    # Runs of 800 ms, because a message that was lost with its connection is sent again only after 160 ms.
    for n in (120, 121, 127, 140):
        with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
            path = Path(folder) / "result.json"
            flags = [*zoo.flags_of(name, duration="800ms"), "--window", "16", "--json", str(path)]
            settings = zoo.environment(zoo.RELEASE, f"{way},fail=request:{n}")
            outcome = zoo.execute([zoo.bench(zoo.RELEASE), *flags], settings)
            assert outcome.status == 0 and not outcome.fault, f"request {n}: {outcome.fault}\n{outcome.said}"
            operations = json.loads(path.read_text())["operations"]
        assert operations["corrupt"] == 0 and operations["total"] > 50, (n, operations)


def test_a_worker_has_a_domain_of_its_own_where_the_device_has_domains() -> None:
    result, calls = run("mlx5-ib", "nessie")
    workers = calls["ibv_alloc_td"]
    assert workers >= 2 and calls["ibv_alloc_parent_domain"] == calls["ibv_create_cq_ex"] == workers
    assert result["operations"]["error"] == 0
    assert counted(result, "verbs.thread_domains") == workers
    assert result["config"]["doorbells"] == "auto"


def test_doorbell_registers_are_those_that_were_asked_for() -> None:
    """shared makes no thread domain, own as many as workers; both say so in the result."""
    result, calls = run("mlx5-ib", "nessie", "--doorbells", "shared")
    assert calls["ibv_alloc_td"] == calls["ibv_alloc_parent_domain"] == 0 == counted(result, "verbs.thread_domains")
    assert (result["config"]["doorbells"], result["operations"]["error"]) == ("shared", 0)
    result, calls = run("mlx5-ib", "nessie", "--doorbells", "own")
    assert calls["ibv_alloc_td"] == counted(result, "verbs.thread_domains") >= 2
    assert (result["config"]["doorbells"], result["operations"]["error"]) == ("own", 0)


@pytest.mark.parametrize(
    "settings",
    ("mlx5-ib,domains=0", "mlx5-ib,fail=ibv_alloc_td:2:ENOMEM", "mlx5-ib,fail=ibv_alloc_parent_domain:1"),
)
def test_registers_of_their_own_that_a_device_refuses(settings: str) -> None:
    """A device without thread domains, and one that runs out of them: refused in a line, where auto goes on."""
    flags = zoo.flags_of("nessie", duration="100ms")
    outcome = zoo.execute(
        [zoo.bench(zoo.RELEASE), *flags, "--doorbells", "own"], zoo.environment(zoo.RELEASE, settings)
    )
    assert outcome.status != 0
    assert "makes no thread domain, and so no doorbell register of its own, for worker" in outcome.said, outcome.said
    assert result_of_auto(settings)["operations"]["error"] == 0


def result_of_auto(settings: str) -> Any:
    return run(settings, "nessie", "--doorbells", "auto")[0]


@pytest.mark.parametrize(
    "settings",
    (
        "mlx5-ib,domains=0",
        "mlx5-ib,extended=0",
        "mlx5-ib,domains=0,extended=0",
        "mlx5-ib,fail=ibv_alloc_td:1,fail=ibv_alloc_td:2",
        "mlx5-ib,fail=ibv_alloc_parent_domain:2",
        "mlx5-ib,fail=ibv_create_cq_ex:1,fail=ibv_create_cq_ex:2",
        "mlx5-ib,fail=ibv_create_qp_ex:1,fail=ibv_create_qp_ex:2,fail=ibv_create_qp_ex:3",
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
