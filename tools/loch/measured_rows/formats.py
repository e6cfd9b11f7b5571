"""The table formats of `loch calibrate --rows`: which columns tell a format, and the bench run that stands for a
row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable

from loch.measured_rows import stores
from loch.measured_rows.rows import CannotRun, Extra, Field, Row, RowModel, SMART_HARDWARE, checked

OPERATIONS = 100_000  # operations that a run measures, over all machines
ROUNDS = 10  # a run measures at least this many operations for each one that is outstanding at a time
QUEUE_PAIRS_MAX = 64  # most queue pairs of a thread to one machine that the option micro-verbs.queue-pairs allows


@dataclass(frozen=True)
class Format:
    """A table format. A table has this format if it has all `columns`; further columns are kept as they are."""

    name: str
    columns: frozenset[str]
    published: str  # column with the measured rate, in millions of operations a second
    flags: Callable[[Row, str], list[str]]  # flags of `loch bench` for a row; the second argument is --hardware, or ""
    rate: Callable[[Row, float], float]  # converts operations a second of all nodes to the unit of `published`
    title: Callable[[Row], str]
    # further columns of the written table, beside the rate, from a result's JSON document
    more: Callable[[dict[str, Any]], dict[str, float]] = lambda result: {}


class SwarmRow(RowModel):
    """One row of rdma_bench's rc-swarm: symmetric all-to-all READs or WRITEs of a few machines.

    Each of `threads_per_machine` threads has `vms_per_machine` queue pairs to each machine and `window_per_thread` work
    requests outstanding over all of them, to random peers and to random cache lines of a buffer of 2 MB.
    """

    hardware: str = ""
    verb: str
    transport: str = ""
    size_bytes: int = Field(gt=0, le=1 << 20)
    machines: int = Field(ge=2, le=1024)
    threads_per_machine: int = Field(ge=1, le=1024)
    vms_per_machine: int = Field(ge=1, le=QUEUE_PAIRS_MAX)
    window_per_thread: int = Field(ge=1, le=4096)
    unsignaled_batch: int = Field(1, ge=1, le=1024)

    class Config:
        extra = Extra.ignore


class RoundsRow(RowModel):
    """One row of SMART's microbenchmarks (ASPLOS 2024): READs or WRITEs of one machine to another.

    Each of `threads` posts `depth` requests one by one, waits for all of them, and begins again. `series` says which
    queue pairs and doorbell registers threads have.
    """

    hardware: str = ""
    series: str
    verb: str
    threads: int = Field(ge=1, le=1024)
    depth: int = Field(ge=1, le=4096)
    block_bytes: int = Field(gt=0, le=1 << 20)

    class Config:
        extra = Extra.ignore


ROUNDS_COLUMNS = frozenset(("series", "verb", "threads", "depth", "block_bytes"))
SERIES = {  # flags of `loch bench` by the table's column `series`
    "per_thread_qp": ("--doorbells", "shared"),
    "per_thread_doorbell": ("--doorbells", "own"),
    "doorbell_and_throttling": ("--doorbells", "own", "--throttle", "adaptive", "--throttle-sample", "50us"),
}


def rounds_flags(row: Row, hardware: str = "") -> list[str]:
    """The flags of `loch bench` for a row of SMART's microbenchmarks; CannotRun if the row cannot be simulated."""
    shape = checked(RoundsRow, row)
    verb, transport = verb_and_transport(shape.verb)
    sharing = SERIES.get(shape.series)
    if sharing is None:
        known = ", ".join(SERIES)
        raise CannotRun(f"series '{shape.series}': expected one of {known}: threads share no queue pair here")
    return [
        *("--protocol", "micro-verbs", "--fabric", "sim", "--hardware", hardware or shape.hardware or SMART_HARDWARE),
        *("--nodes", "2", "--server-nodes", "1", "--clients", str(shape.threads), *sharing),
        *("--get", "1", "--keys", "16", "--key-size", "16", "--value-size", str(shape.block_bytes)),
        *("--micro-verbs.verb", verb, "--micro-verbs.transport", transport, "--micro-verbs.inline", "off"),
        *("--micro-verbs.direction", "outbound", "--micro-verbs.round", str(shape.depth)),
        # The run lasts a fixed time, since threads are not equally fast. --throttle finds its first limits on
        # outstanding requests in the warm-up.
        *("--warmup", "500us", "--duration", "500us"),
    ]


class TurnsRow(RowModel):
    """One row of the dynamic microbenchmark of SMART's artifact (Table 1): as a RoundsRow, but threads take turns.

    `threads_active` is a text such as `36..95 drawn anew each interval`.
    """

    series: str
    threads_started: str
    threads_active: str
    interval_ms: float = Field(gt=0, le=1e5)

    class Config:
        extra = Extra.ignore


# A row of Table 1 is simulated with all slow times divided by one number: the interval, the time for which the artifact
# tries each limit of outstanding requests, and the length of the run. The NIC and its queues answer within microseconds.
SHORTER = 80.0  # that number where nothing speaks against it: 8 ms become 100 us
INTERVAL_MIN_US = 100.0  # an interval is not made shorter than that, which a round of requests almost takes
SAMPLE_MS = 8.0  # the artifact's time of trying one limit
TUNING_MS = SAMPLE_MS * 66  # it tries 6 of them, and keeps the best one for 60 samples (common/fabric/throttle/tuner.h)
RUN_MS, INTERVALS = 30_000.0, 24  # a run is at least as long, and has so many intervals
SIMULATED_MS_MAX, INTERVALS_MIN = (
    1_000.0,
    12,
)  # a longer run is cut to that, which takes two minutes, or to 12 intervals


def turns_flags(row: Row, hardware: str = "") -> list[str]:
    """The flags of `loch bench` for a row of threads that take turns; CannotRun if the row cannot be simulated."""
    shape = checked(TurnsRow, row)
    range_given = re.match(r"\s*(\d+)\s*\.\.\s*(\d+)(?!\d)", shape.threads_active)
    if range_given is None:
        raise CannotRun(f"threads_active '{shape.threads_active}': expected a range, such as 36..95")
    low, high = (int(number) for number in range_given.groups())
    words = rounds_flags({**row, "threads": shape.threads_started}, hardware)
    threads = int(words[words.index("--clients") + 1])
    if not 1 <= low <= high:
        raise CannotRun(
            f"threads_active '{shape.threads_active}': expected 1 or more, and not more than the second number"
        )
    if high > threads:
        raise CannotRun(f"threads_active '{shape.threads_active}': more than the {threads} threads of threads_started")
    shorter = max(1.0, min(SHORTER, shape.interval_ms * 1e3 / INTERVAL_MIN_US))
    run_ms = max(RUN_MS, INTERVALS * shape.interval_ms) / shorter
    run_ms = min(run_ms, max(SIMULATED_MS_MAX, INTERVALS_MIN * shape.interval_ms / shorter))
    changed = {
        "--throttle-sample": _ns(SAMPLE_MS / shorter),
        "--warmup": _ns(TUNING_MS / shorter),  # in which the first limits are found
        "--duration": _ns(run_ms),
    }
    for at, word in enumerate(words):
        words[at] = changed.get(words[at - 1], word) if at % 2 else word
    return [*words, "--active", f"{low}..{high}", "--active-every", _ns(shape.interval_ms / shorter)]


def _ns(milliseconds: float) -> str:
    return f"{round(milliseconds * 1e6)}ns"


TURNS_COLUMNS = ROUNDS_COLUMNS - {"threads"} | {"threads_started", "threads_active", "interval_ms"}


SWARM_COLUMNS = frozenset(
    ("verb", "size_bytes", "machines", "threads_per_machine", "vms_per_machine", "window_per_thread")
)


def swarm_flags(row: Row, hardware: str = "") -> list[str]:
    """The flags of `loch bench` for a row of rc-swarm; CannotRun if the row cannot be simulated."""
    shape = checked(SwarmRow, row)
    verb, transport = verb_and_transport(shape.verb, shape.transport)
    profile = hardware or shape.hardware
    if not profile:
        raise CannotRun("hardware: no profile is named")
    outstanding = shape.machines * shape.threads_per_machine * shape.window_per_thread
    return [
        *("--protocol", "micro-verbs", "--fabric", "sim", "--hardware", profile),
        *("--nodes", str(shape.machines), "--clients", str(shape.threads_per_machine)),
        *("--window", str(shape.window_per_thread), "--get", "1", "--keys", "16", "--key-size", "16"),
        *("--value-size", str(shape.size_bytes), "--micro-verbs.verb", verb, "--micro-verbs.transport", transport),
        *("--micro-verbs.queue-pairs", str(shape.vms_per_machine), "--micro-verbs.peers", "random"),
        *("--micro-verbs.buffer", "2M", "--micro-verbs.signal-interval", str(shape.unsignaled_batch)),
        *("--warmup", "400us", "--operations", str(max(OPERATIONS, ROUNDS * outstanding))),
    ]


def verb_and_transport(verb: str, transport: str = "") -> tuple[str, str]:
    """Verb and transport of a row: `read`, `write`, `uc_write`, `write-rc`, or the transport in a column of its own."""
    words = re.split(r"[^a-z]+", f"{verb} {transport}".lower().strip())
    verbs = {word.rstrip("s") for word in words} & {"read", "write"}
    transports = set(words) & {"rc", "uc", "ud"}
    if len(verbs) != 1 or len(transports) > 1:
        raise CannotRun(f"verb '{verb}': expected read or write, over rc or uc")
    chosen, over = verbs.pop(), transports.pop() if transports else "rc"
    if over == "ud" or (chosen == "read" and over == "uc"):
        raise CannotRun(
            f"verb '{verb}': a {chosen.upper()} needs {'rc' if chosen == 'read' else 'rc or uc'}, not {over}"
        )
    return chosen, over


def _swarm_title(row: Row) -> str:
    return (
        f"{row.get('hardware', '')} {row['verb']} {row['size_bytes']} B, {row['machines']} x {row['threads_per_machine']}"
        f" x {row['vms_per_machine']}, window {row['window_per_thread']}, signaled 1 in {row.get('unsignaled_batch') or 1}"
    )


def _rounds_title(row: Row) -> str:
    return f"{row['series']} {row['verb']} {row['block_bytes']} B, {row['threads']} threads, depth {row['depth']}"


def _turns_title(row: Row) -> str:
    return (
        f"{row['series']} {row['verb']} {row['block_bytes']} B, {row['threads_active']} of {row['threads_started']}"
        f" threads, {row['interval_ms']} ms, depth {row['depth']}"
    )


FORMATS = (
    Format(
        name="smart-micro",
        columns=ROUNDS_COLUMNS,
        published="mops",
        flags=rounds_flags,
        rate=lambda row, operations_s: operations_s * 1e-6 * int(row["depth"]),
        title=_rounds_title,
    ),
    Format(
        name="smart-turns",
        columns=TURNS_COLUMNS,
        published="mops",
        flags=turns_flags,
        rate=lambda row, operations_s: operations_s * 1e-6 * int(row["depth"]),
        title=_turns_title,
    ),
    Format(
        name="rc-swarm",
        columns=SWARM_COLUMNS,
        published="mops_per_machine",
        flags=swarm_flags,
        rate=lambda row, operations_s: operations_s * 1e-6 / int(row["machines"]),
        title=_swarm_title,
    ),
    Format(
        name="smart-race",
        columns=stores.COLUMNS,
        published="mops",
        flags=stores.flags,
        rate=lambda row, operations_s: operations_s * 1e-6,
        title=stores.title,
        more=stores.more,
    ),
)


def format_of(columns: list[str]) -> Format | None:
    """The format of a table with the columns `columns`, or None if no format has them."""
    return next((each for each in FORMATS if each.columns <= set(columns)), None)
