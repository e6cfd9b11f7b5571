"""Tests of stored points as typed values: checked keys, other keys that are kept, and the key that an error names."""

import json
from pathlib import Path
from typing import Any

import pytest

from loch.runner import result
from loch.runner.errors import BadInput
from loch.runner.points import Store, read_point
from loch.runner.result import Bin, Event

RUNNER = {
    "system": "CD",
    "axes": {"value_size": 2048},
    "tuning": False,
    "stamp": {"binary": "ab"},
    "elapsed_s": 1,
    "others_cpu_share": None,
    "host": {"cpu": "some CPU", "cores": 2, "kernel": "6.1", "governor": None, "name": "node7"},
}
GOOD: dict[str, Any] = {
    "schema": 1,
    "throughput_ops_s": 1000,
    "loch": {"version": "0.2.0", "commit": "abc", "dirty": True, "branch": "main"},
    "capabilities": {"device": "rxe0", "rc": True},
    "operations": {"total": 10, "corrupt": 0},
    "latency_us": {"get": {"mean": 1.5, "histogram": [[1, 4], [2, 6]]}, "put": None},
    "verbs": {"read": 3, "per_get": {"cdf": {"read": [[1, 0.5], [2, 1.0]]}}},
    "nodes": [{"counters": {"misses": 4}}],
    "timeline": [{"t_s": 0, "ops_s": 5.0, "p50_us": None}, {"t_s": 1, "ops_s": 6, "failed_s": 1, "unwritable_keys": 2}],
    "events": [{"t_s": 0.5, "event": "kill", "node": 1}],
    "caveats": ["not steady"],
    "a_key_of_a_later_release": {"deep": [1, "two"]},
    "runner": RUNNER,
}


def test_what_the_runner_relies_on_is_typed() -> None:
    stored = result.of_file("name", GOOD, False, "x.json")
    assert stored.result is not None and stored.failure is None and not stored.failed
    known = stored.result.known
    assert (known.throughput_ops_s, known.transport, known.caveats) == (1000, "verbs", ["not steady"])
    assert known.loch is not None and (known.loch.version, known.loch.dirty) == ("0.2.0", True)
    assert known.capabilities is not None and known.capabilities.device == "rxe0"
    assert known.timeline == [Bin(0, 5.0, 0.0, None), Bin(1, 6, 1, 2)]
    assert known.events == [Event(0.5, "kill", 1)]
    assert (known.sim, known.probed_keys) == (None, None)
    runner = stored.runner
    assert (runner.system, runner.elapsed_s, runner.others_cpu_share, runner.tuning) == ("CD", 1, None, False)
    assert (runner.host.cpu, runner.host.cores, runner.host.governor) == ("some CPU", 2, None)


def test_what_nobody_knows_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path, "")
    found = result.of_program({key: value for key, value in GOOD.items() if key != "runner"})
    store.keep("name", found, RUNNER)
    assert json.loads(store.path("name").read_text(encoding="utf-8")) == GOOD
    stored = read_point(store.path("name"))
    assert stored is not None and stored.result is not None
    assert stored.result.node("a_key_of_a_later_release.deep") == [1, "two"]
    assert stored.result.node("nodes.0.counters.misses") == 4
    assert stored.result.node("verbs.per_get.cdf.read") == [[1, 0.5], [2, 1.0]]
    for missing in ("nodes.1.counters", "nodes.first", "throughput_ops_s.mean", "none"):
        assert stored.result.node(missing) is None


def test_a_file_is_read_again_once_it_has_changed(tmp_path: Path) -> None:
    store = Store(tmp_path, "")
    path = store.path("ab")
    path.write_text(json.dumps(GOOD))
    first = store.find("ab")
    assert first is not None and store.find("ab") is first  # not read again
    path.write_text(json.dumps({**GOOD, "throughput_ops_s": 20000}))
    other = store.find("ab")
    assert other is not None and other.result is not None and other.result.known.throughput_ops_s == 20000
    path.write_text("{")
    assert store.find("ab") is None and path in store.damaged
    path.unlink()
    assert store.find("ab") is None
    store.let_go()
    path.write_text(json.dumps(GOOD))
    assert store.find("ab") == first


def test_a_failure_is_one(tmp_path: Path) -> None:
    store = Store(tmp_path, "")
    store.keep_failure(
        "name", result.Failure(reason="ended by SIGKILL", exit_status=-9, command="./loch bench"), RUNNER
    )
    stored = store.find("name")
    assert stored is not None and stored.failed and stored.result is None and stored.hash == "name"
    assert stored.failure == result.Failure(
        reason="ended by SIGKILL", exit_status=-9, stderr_tail="", command="./loch bench"
    )


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("throughput_ops_s", None, "throughput_ops_s: expected a number"),
        ("throughput_ops_s", "1", "throughput_ops_s: expected a number"),
        ("throughput_ops_s", True, "throughput_ops_s: expected a number"),
        ("goodput_bytes_s", [], "goodput_bytes_s: expected a number"),
        ("loch", [], "loch: expected a mapping"),
        ("loch.commit", 3, "loch.commit: expected text"),
        ("latency_us", [1], "latency_us: expected a mapping"),
        ("operations", None, "operations: expected a value, found nothing"),
        ("latency_us.get.mean", "fast", "latency_us.get.mean: expected a number"),
        ("latency_us.get.histogram", [[1, 2, 3]], "latency_us.get.histogram.0: expected two numbers"),
        ("verbs.per_get.cdf.read", [[1, 1], [1, True]], "verbs.per_get.cdf.read.1: expected two numbers"),
        (
            "cpu",
            {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": 1}}}}}}}}}},
            "cpu.a.b.c.d.e.f.g.h.i: nested",
        ),
        ("transport", 4, "transport: expected text"),
        ("caveats", "not steady", "caveats: expected a list of texts"),
        ("timeline", [{"t_s": 0}], "timeline.0: expected t_s and ops_s"),
        ("events", [{"t_s": 0, "event": "<b>"}], "events.0: expected t_s and event"),
        ("runner", [], "runner: expected a mapping"),
        ("runner.host", 3, "runner.host: expected a mapping"),
        ("runner.host.cores", "two", "runner.host.cores: expected a number"),
        ("runner.elapsed_s", "1 s", "runner.elapsed_s: expected a number"),
        ("failure", {"reason": "x"}, "a failure where a result was expected"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(path: str, value: Any, said: str) -> None:
    document = json.loads(json.dumps(GOOD))
    *above, last = path.split(".")
    node = document
    for key in above:
        node = node[key]
    node[last] = value
    with pytest.raises(BadInput) as refused:
        result.of_file("name", document, False, "DIR/points/x.json")
    assert str(refused.value).startswith(f"DIR/points/x.json: {said}")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (None, "a result where a failure was expected"),
        ({}, "failure.reason: missing"),
        ({"reason": 3}, "failure.reason: expected text"),
        ({"reason": "x", "stderr_tail": []}, "failure.stderr_tail: expected text"),
        ("x", "failure: expected a mapping"),
    ],
)
def test_so_is_a_damaged_failure(failure: Any, said: str) -> None:
    document = {"runner": RUNNER} if failure is None else {"runner": RUNNER, "failure": failure}
    with pytest.raises(BadInput) as refused:
        result.of_file("name", document, True, "x.failed.json")
    assert str(refused.value) == f"x.failed.json: {said}"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "the result is no JSON object"),
        ({"schema": 2}, "schema: expected 1, found 2"),
        ({"schema": 1}, "throughput_ops_s: expected a number"),
        ({"schema": 1, "throughput_ops_s": 1, "operations": {"corrupt": 3}}, "3 values read were corrupt"),
    ],
)
def test_what_a_program_leaves_is_a_result_or_a_reason(document: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        result.of_program(document)
    assert str(refused.value) == said


def test_a_table_may_leave_out_what_a_point_must_have() -> None:
    stored = result.of_table("name", {"latency_us": {"get": {"mean": 1}}}, {"host": {}}, "reference/x")
    assert stored.result is not None and stored.result.known.throughput_ops_s is None
    with pytest.raises(BadInput, match="^reference/x: name: cpu: expected a mapping$"):
        result.of_table("name", {"cpu": 1}, {}, "reference/x")
