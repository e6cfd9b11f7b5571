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
# SMART's names of what a write does after its CAS failed, weakest first -> value of `loch bench --backoff`
BACKOFFS = {"backoff_unbounded": "exponential", "backoff_dynamic_limit": "limited", "coroutine_throttling": "throttled"}
SMART = (DOORBELL, THROTTLING, *BACKOFFS)

# The hash table of SMART's artifact has 256 subtables of 200,000 main buckets on each memory node: 100,000 groups of 3
# buckets with 7 slots each. 200,000 and 256 have the greatest common divisor 64, so that only one bucket in 64 is ever
# a key's first. The simulated table also has 256 subtables, of GROUPS * 2 main buckets: the greatest common divisor of
# that and 256 is 64 too, and as large a share of the slots is used.
SUBTABLES, SLOTS_PER_GROUP, PUBLISHED_GROUPS, GROUPS = 256, 21, 100_000, 224
KEYS_MIN = 1000

# CPU time of an update in SMART's artifact beyond what the simulator counts for one; from the one-thread rows of its
# Figure 8
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
    """The flags of `loch bench` for a row; CannotRun if the row cannot be simulated."""
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
        *_techniques(techniques_of(shape.system), gets),
        *_times(shape, gets),
    ]


def _keys(shape: StoreRow) -> list[str]:
    """The flags for a smaller hash table with fewer keys, whose slots are as full as those of the published one.

    A hundred million keys would take 9 GB a memory node. Fewer keys change little, because popular keys, at which
    clients meet, stay as popular: Zipf ranks are drawn from the published number of keys, and a rank beyond the
    simulated keys stands for one of these in turn.
    """
    load = min(0.9, shape.keys / (shape.memory_nodes * SUBTABLES * PUBLISHED_GROUPS * SLOTS_PER_GROUP))
    slots = SUBTABLES * GROUPS * SLOTS_PER_GROUP
    keys = max(1, min(shape.keys, max(KEYS_MIN, math.floor(load * slots) * shape.memory_nodes)))
    # 1.001: a load factor slightly above the used share of the slots, since the number of groups is rounded up
    words = ["--keys", str(keys), "--race.load-factor", f"{1.001 * keys / shape.memory_nodes / slots:.6g}"]
    if shape.zipf == 0:
        return [*words, "--distribution", "uniform"]
    return [
        *(*words, "--distribution", "zipfian-n", "--zipf-theta", str(shape.zipf)),
        *("--zipf-items", str(shape.keys)),
    ]


def _techniques(has: frozenset[str], gets: float) -> list[str]:
    """The flags for SMART's techniques. With updates each limit of outstanding requests is tried for as long as in the
    artifact, since it takes milliseconds until fewer coroutines contend for a key."""
    words = ["--doorbells", "own" if DOORBELL in has else "shared"]
    if THROTTLING in has:
        words += ["--throttle", "adaptive", "--throttle-sample", "50us" if gets == 1 else "8ms"]
    kind = [name for published, name in BACKOFFS.items() if published in has][-1:]
    return [*words, "--backoff", *(kind or ["none"])]


def _times(shape: StoreRow, gets: float) -> list[str]:
    """The flags for warm-up and duration. The warm-up is long enough to find the limit of outstanding requests.

    Without backoff an update whose CAS failed is tried again at once, and the load takes long to become steady: with 96
    threads nearly all coroutines come to contend for one popular key, which takes 150 ms, with 16 threads 5 ms.
    """
    waits = techniques_of(shape.system) & set(BACKOFFS)
    threads = shape.threads * shape.compute_nodes
    until_limit = 80_000 if THROTTLING in techniques_of(shape.system) else 20_000
    until_steady = until_limit if waits or threads <= 24 else max(until_limit, 60_000) if threads <= 56 else 150_000
    warmup, duration = (500, 500) if gets == 1 else (until_steady, 20_000)
    idle = math.ceil(shape.idle_us)
    words = ["--warmup", f"{warmup + 2 * idle}us", "--duration", f"{duration + 4 * idle}us"]
    words += [] if gets == 1 else ["--at-end", "abandon"]
    return words + (["--pause", f"{shape.idle_us:g}us"] if shape.idle_us else [])


def more(result: dict[str, Any]) -> dict[str, float]:
    """The values of a result that the written table has beside the rate, by column."""
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
