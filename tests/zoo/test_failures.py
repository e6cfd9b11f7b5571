"""Tests of runs in which one call of libibverbs fails or one request ends in an error: a run ends well, or with one clear line
and an exit status; it never hangs and is never killed by a signal."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zoo

# nessie uses atomics, herd exchanges messages over UC and UD, pilaf exchanges messages over RC.
PROTOCOLS = ("nessie", "herd", "pilaf")
STATUSES = ("RETRY_EXC_ERR", "REM_ACCESS_ERR", "RNR_RETRY_EXC_ERR", "REM_OP_ERR", "LOC_PROT_ERR", "LOC_QP_OP_ERR")
# each of the first MOST_OF_ONE calls of a function fails in a run of its own, and so do a few later calls
MOST_OF_ONE = 40
LATER = (1, 7, 101, 1009)


def protocol(name: str) -> zoo.Protocol:
    return next(each for each in zoo.protocols() if each.name == name)


def numbers_of_calls(name: str, machine: str) -> dict[str, int]:
    """The number of calls of each function of libibverbs in one run."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
        path = Path(folder) / "calls"
        outcome = zoo.run_protocol(zoo.RELEASE, f"{machine},calls={path}", protocol(name))
        assert not outcome.fault, outcome.fault
        return {word: int(count) for word, count in map(str.split, path.read_text().splitlines())}


def plans(name: str) -> list[str]:
    """Machines with the failure to inject, in the notation of LOCH_ZOO. On a machine without ibv_wr_*, what posts by
    ibv_post_send."""
    whole, plain = "mlx5-ib", "mlx5-ib,extended=0"
    posting = ("ibv_post_send", "request")
    return [f"{whole},fail={plan}" for plan in failures(numbers_of_calls(name, whole))] + [
        f"{plain},fail={plan}"
        for plan in failures({key: count for key, count in numbers_of_calls(name, plain).items() if key in posting})
    ]


def failures(calls: dict[str, int]) -> list[str]:
    made = []
    for function, count in calls.items():
        tries = list(range(1, min(count, MOST_OF_ONE) + 1))
        tries += [MOST_OF_ONE + later for later in LATER if MOST_OF_ONE + later <= count]
        if function == "completion":
            made += [f"completion:{n}:{status}" for n in (1, 2, 50) for status in STATUSES]
        else:
            made += [f"{function}:{n}" for n in tries]
    return made


def judge(name: str, plan: str) -> str:
    """Runs a bench with one injected failure. Returns what is wrong with its end, or an empty text."""
    outcome = zoo.execute(
        [zoo.bench(zoo.RELEASE), *zoo.flags_of(name), "--json", os.devnull],
        zoo.environment(zoo.RELEASE, plan),
        timeout_s=40,
    )
    if outcome.fault:
        return f"{plan}: {outcome.fault}"
    refusal = [line for line in outcome.said.splitlines() if line.startswith(("loch bench: ", "verbs: "))]
    if outcome.status not in (0, 1, 2) or (outcome.status != 0 and len(refusal) != 1):
        return f"{plan}: status {outcome.status}: {outcome.said[:300]!r}"
    return ""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_failing_call_is_an_error_and_nothing_worse(name: str) -> None:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        faults = [fault for fault in pool.map(lambda plan: judge(name, plan), plans(name)) if fault]
    assert not faults, "\n".join(faults)


def test_a_setting_that_is_wrong_is_one_line() -> None:
    for setting, expected in (
        ("mlx6", "expected a machine first"),
        ("mlx5-ib,speed=3", "no such key"),
        ("mlx5-ib,delay_us", "expected KEY=VALUE"),
        ("mlx5-ib,drop=2", "expected a number from 0 to 1"),
        ("mlx5-ib,fail=ibv_create_qp", "expected FUNCTION:N"),
        ("mlx5-ib,fail=ibv_create_qp:0", "expected FUNCTION:N"),
        ("mlx5-ib,order=perhaps", "expected never, rts or always"),
        ("mlx5-ib,net=/nowhere/at/all", "cannot be opened"),
    ):
        outcome = zoo.execute([zoo.bench(zoo.RELEASE), *zoo.flags_of("nessie")], zoo.environment(zoo.RELEASE, setting))
        assert outcome.status == 2 and len(outcome.said.splitlines()) == 1, (setting, outcome.said)
        assert expected in outcome.said, (setting, outcome.said)
