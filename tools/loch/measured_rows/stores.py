"""Rows of published stores on disaggregated memory (SMART, ASPLOS 2024): the bench run that stands for a row."""

from __future__ import annotations

import math
from typing import Any

from loch.measured_rows.rows import CannotRun, Extra, Field, Row, RowModel, SMART_HARDWARE, checked

COLUMNS = frozenset(
    ("system", "workload", "memory_nodes", "compute_nodes", "threads", "coroutines")
    + ("key_bytes", "value_bytes", "keys", "zipf", "idle_us")
)
GETS = {"ycsb-a": 0.5, "ycsb-b": 0.95, "ycsb-c": 1.0, "update-only": 0.0}  # share of GETs by workload
DOORBELL, THROTTLING = "doorbell", "throttling"
# what a system's writes do after a lost swap, weakest first: `loch bench --backoff`
BACKOFFS = {"backoff_unbounded": "exponential", "backoff_dynamic_limit": "limited", "coroutine_throttling": "throttled"}
SMART = (DOORBELL, THROTTLING, *BACKOFFS)

# The artifact's table has 256 subtables of 200,000 main buckets, and so 3 * 7 * 100,000 slots, on each memory node.
# 200,000 has 64 in common with 256, so that one first bucket in 64 is used. The simulated one has as many subtables, of
# GROUPS * 2 main buckets, which have 64 in common with 256 too, and as large a share of its slots is used.
SUBTABLES, SLOTS_PER_GROUP, PUBLISHED_GROUPS, GROUPS = 256, 21, 100_000, 224
KEYS_MIN = 1000

# CPU time that an update of the artifact takes beside what the profile says, by the one-thread rows of Figure 8
PUT_CPU_NS = 1600


class StoreRow(RowModel):
    """One row of SMART's store: client machines of `threads` threads, each with `coroutines` operations under way."""

    hardware: str = ""
    system: str
    workload: str
    memory_nodes: int = Field(ge=1, le=64)
    compute_nodes: int = Field(ge=1, le=64)
    threads: int = Field(ge=1, le=1024)
    coroutines: int = Field(ge=1, le=1024)
    key_bytes: int = Field(ge=1, le=4096)
    value_bytes: int = Field(ge=8, le=1 << 20)
    keys: int = Field(ge=1, le=10**12)
    zipf: float = Field(ge=0, le=10)
    idle_us: float = Field(0, ge=0, le=1e6)

    class Config:
        extra = Extra.ignore


def techniques_of(system: str) -> frozenset[str]:
    """Which of SMART's techniques a system has: `race`, `race+doorbell`, `+backoff_unbounded`, `smart_ht` …

    A name that begins with + stands for what is added to race+doorbell+throttling, as in the captions of Figure 14.
    """
    first, *others = system.strip().lower().split("+")
    if first == "smart_ht" and not others:
        return frozenset(SMART)
    unknown = [name for name in others if name not in SMART]
    if first not in ("race", "") or unknown or (not first and not others):
        raise CannotRun(f"system '{system}': expected smart_ht, or race with one or more of +{', +'.join(SMART)}")
    return frozenset(others if first else (DOORBELL, THROTTLING, *others))


def flags(row: Row, hardware: str = "") -> list[str]:
    """The flags of `loch bench` for a row; CannotRun if it is none that can be run."""
    shape = checked(StoreRow, row)
    gets = GETS.get(shape.workload)
    if gets is None:
        raise CannotRun(f"workload '{shape.workload}': expected one of {', '.join(GETS)}")
    return [
        *("--protocol", "race", "--fabric", "sim", "--hardware", hardware or shape.hardware or SMART_HARDWARE),
        *("--race.variant", "published", "--race.attempts", "1000000000", "--race.put-cpu", f"{PUT_CPU_NS}ns"),
        *("--nodes", str(shape.memory_nodes + shape.compute_nodes), "--server-nodes", str(shape.memory_nodes)),
        *("--clients", str(shape.threads), "--window", str(shape.coroutines), "--get", str(gets)),
        *("--key-size", str(shape.key_bytes), "--value-size", str(shape.value_bytes)),
        *_keys(shape),
        *_techniques(techniques_of(shape.system)),
        *_times(shape, gets),
    ]


def _keys(shape: StoreRow) -> list[str]:
    """As large a share of a smaller table is used; how often each of the first keys is asked for stays as it is.

    A hundred million keys would take 9 GB a memory node. What the number of keys decides is how often two clients meet
    at one key. That is the ranks' doing, which are drawn from all; those beyond the simulated keys fall on them in turn.
    """
    load = min(0.9, shape.keys / (shape.memory_nodes * SUBTABLES * PUBLISHED_GROUPS * SLOTS_PER_GROUP))
    slots = SUBTABLES * GROUPS * SLOTS_PER_GROUP
    keys = max(1, min(shape.keys, max(KEYS_MIN, math.floor(load * slots) * shape.memory_nodes)))
    # a little more than the share, since the number of groups is rounded up
    words = ["--keys", str(keys), "--race.load-factor", f"{1.001 * keys / shape.memory_nodes / slots:.6g}"]
    if shape.zipf == 0:
        return [*words, "--distribution", "uniform"]
    return [
        *(*words, "--distribution", "zipfian-n", "--zipf-theta", str(shape.zipf)),
        *("--zipf-items", str(shape.keys)),
    ]


def _techniques(has: frozenset[str]) -> list[str]:
    words = ["--doorbells", "own" if DOORBELL in has else "shared"]
    if THROTTLING in has:
        words += ["--throttle", "adaptive", "--throttle-sample", "50us"]
    kind = [name for published, name in BACKOFFS.items() if published in has][-1:]
    return [*words, "--backoff", *(kind or ["none"])]


def _times(shape: StoreRow, gets: float) -> list[str]:
    """Limits of outstanding requests are tried in the warm-up. Updates that are tried again at once come to rest slowly.

    With 96 threads a popular key has nearly all coroutines waiting in the end, and it takes 100 ms until they are there.
    """
    waits = techniques_of(shape.system) & set(BACKOFFS)
    warmup, duration = (500, 500) if gets == 1 else (30_000, 10_000) if waits else (100_000, 10_000)
    idle = math.ceil(shape.idle_us)
    words = ["--warmup", f"{warmup + 2 * idle}us", "--duration", f"{duration + 4 * idle}us"]
    return words + (["--pause", f"{shape.idle_us:g}us"] if shape.idle_us else [])


def more(result: dict[str, Any]) -> dict[str, float]:
    """What a result says beside the rate, by column."""
    latency, operations = result["latency_us"]["all"], result["operations"]
    return {
        "obtained_p50_us": latency["p50"],
        "obtained_p99_us": latency["p99"],
        "obtained_mean_tries": 1 + operations["retries"] / max(1, operations["total"]),
    }


def title(row: Row) -> str:
    """Names a row in tables and messages."""
    idle = row["idle_us"].strip()
    return (
        f"{row['system']} {row['workload']}, {row['compute_nodes']} x {row['threads']} threads, zipf {row['zipf']}"
        + (f", idle {idle} us" if idle not in ("", "0") else "")
    )
