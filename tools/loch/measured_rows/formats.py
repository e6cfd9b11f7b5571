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
