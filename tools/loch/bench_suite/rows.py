"""The rows of `loch bench-suite`, and how one turn of each is measured: by the CPU time of a process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from typing import Any, Callable

from loch import places
from loch.bench_suite.peers import CHURN, Peer
from loch.ending import one_line

GROUPS = ("queue", "run", "nodes", "peers")
BARE_QUEUE = "bare queue"
QUEUE_PROGRAM = os.path.join(places.BUILD, "release", "common", "fabric", "sim", "event_queue_bench")
PATIENCE_S = 600.0  # seconds of real time after which a turn is given up

NESSIE = ["--protocol", "nessie", "--hardware", "connectx3-10gbe", "--get", "0.5"]
# The simulated runs whose speed is measured: name, flags of `loch bench`, simulated microseconds after the warm-up.
FULL_RUN = (
    "full run: nessie, 15 nodes of 12 clients, 16 KB",
    [*NESSIE, "--nodes", "15", "--clients", "12", "--value-size", "16K", "--keys", "200000"],
    40_000,
)
ONE_SIDED = (
    "one-sided verbs: micro-verbs, 15 nodes of 12 clients, 64 B",
    ["--protocol", "micro-verbs", "--nodes", "15", "--clients", "12", "--value-size", "64", "--keys", "16"],
    20_000,
)
BY_NODES = tuple(
    (
        f"nessie, {nodes} nodes of 4 clients, 1 KB",
        [*NESSIE, "--nodes", str(nodes), "--clients", "4", "--value-size", "1K", "--keys", str(2000 * nodes)],
        240_000 // nodes,
    )
    for nodes in (15, 60, 240)
)


LEAST_CPU_S = 0.05  # a load that takes less CPU time than this cannot be told from the noise of the set-up's time


class Failed(Exception):
    """A turn of a row did not end well; the message is one line."""


@dataclass
class Row:
    """A row of the table, with the values that its turns measured, by the values' names."""

    name: str
    turn: Callable[[], dict[str, float]]
    is_optional: bool = False  # whether the row may fail without the command failing
    failure: str = ""
    values: dict[str, list[float]] = field(default_factory=dict)

    @property
    def events_s(self) -> list[float]:
        return self.values.get("events_s", [])

    def measure(self) -> None:
        """Measures one turn, unless an earlier one failed."""
        if self.failure:
            return
        try:
            for name, value in self.turn().items():
                self.values.setdefault(name, []).append(value)
        except Failed as error:
            self.failure = str(error)
            self.values.clear()


@dataclass(frozen=True)
class Suite:
    """What is measured: the program loch-bench, and the number that divides the default size of each load."""

    program: str
    share: int = 1


@dataclass(frozen=True)
class Ended:
    """A process that has ended: what it printed, its CPU time (user and system; user alone) and the most memory that it
    held."""

    output: str
    cpu_s: float
    user_s: float
    kilobytes: int


def make(groups: list[str], suite: Suite, programs: list[Peer]) -> list[Row]:
    """The rows of the table that belong to `groups` ("queue", "run", "nodes", …), in the order of the table."""
    rows: list[Row] = []
    if "queue" in groups:
        is_there = os.access(QUEUE_PROGRAM, os.X_OK)
        absence = "" if is_there else "absent: ./loch bench-suite of the source tree builds it"
        rows.append(Row(BARE_QUEUE, functools.partial(_queue_turn, suite), not is_there, absence))
    runs = [*((FULL_RUN, ONE_SIDED) if "run" in groups else ()), *(BY_NODES if "nodes" in groups else ())]
    for name, flags, span in runs:
        rows.append(Row(name, functools.partial(_run_turn, suite, flags, span)))
    for peer in programs if "peers" in groups else []:
        rows.append(Row(peer.name, functools.partial(_peer_turn, suite, peer), True, peer.absence))
    return rows


def _queue_turn(suite: Suite) -> dict[str, float]:
    words = [QUEUE_PROGRAM, "--benchmark_filter=^churn<EventQueue>/1000$", "--benchmark_format=json"]
    ended = _end_of([*words, f"--benchmark_min_time={1 / suite.share}"])
    found = json.loads(ended.output)["benchmarks"][0]
    events_s = float(found["items_per_second"])
    return {"events_s": events_s, "ns_an_event": 1e9 / events_s}


def _peer_turn(suite: Suite, peer: Peer) -> dict[str, float]:
    events = max(CHURN // suite.share // peer.slower, 1000)
    before, after = _end_of([*peer.command, "0"]), _end_of([*peer.command, str(events)])
    events_s = events / _load_s(suite, before, after)
    return {"events_s": events_s, "ns_an_event": 1e9 / events_s}


def _run_turn(suite: Suite, flags: list[str], span_us: int) -> dict[str, float]:
    """One turn of a simulated run."""
    before, nothing = _bench(suite, flags, ["--warmup", "0us", "--duration", "1us"])
    after, result = _bench(suite, flags, ["--warmup", "50us", "--duration", f"{max(span_us // suite.share, 20)}us"])
    events = float(result["sim"]["events"] - nothing["sim"]["events"])
    operations = _operations(result) - _operations(nothing)
    cpu_s = _load_s(suite, before, after)
    nodes = int(flags[flags.index("--nodes") + 1])
    return {
        "events_s": events / cpu_s,
        "ns_an_event": 1e9 * cpu_s / events,
        "operations_s": operations / cpu_s,
        "events_an_operation": events / max(operations, 1),
        "setup_s": before.cpu_s,
        "kb_a_node": after.kilobytes / nodes,
    }


def _load_s(suite: Suite, before: Ended, after: Ended) -> float:
    """The CPU time of a load: that of a process with the load, less that of a process which only sets up. In a suite
    with smaller loads (share > 1) the set-up is not subtracted.

    Only user time counts: system time is spent in page faults of the set-up, and varies more than the load's time.
    """
    if suite.share > 1:
        return max(after.user_s, 1e-6)
    load_s = after.user_s - before.user_s
    if load_s < LEAST_CPU_S:
        raise Failed(f"a load of {load_s:.3f} s of CPU time is too short to be measured")
    return load_s


def _bench(suite: Suite, flags: list[str], load: list[str]) -> tuple[Ended, dict[str, Any]]:
    ended = _end_of([suite.program, "bench", "--fabric", "sim", "--seed", "1", *flags, *load, "--json", "-"])
    return ended, json.loads(ended.output)


def _operations(result: dict[str, Any]) -> float:
    """The operations that a run executed, within its measurement window and outside it."""
    return float(result["operations"]["total"] + result["operations"]["outside_window"])


def _end_of(words: list[str]) -> Ended:
    """Runs a process to its end; Failed if that takes too long or its exit status is not 0."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        except OSError as error:
            raise Failed(f"{words[0]}: {error.strerror}") from None
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            lines = errors.read().strip().splitlines()
            raise Failed(one_line(lines[-1] if lines else f"{words[0]} ended with status {process.returncode}"))
        out.seek(0)
        return Ended(out.read(), usage.ru_utime + usage.ru_stime, usage.ru_utime, usage.ru_maxrss)
