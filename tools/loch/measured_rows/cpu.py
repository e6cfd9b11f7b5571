"""./loch calibrate --cpu: what servers' work takes on this machine, beside what simulated servers are charged."""

from __future__ import annotations

import csv
import ctypes
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

from loch import places
from loch.ending import CommandError, one_line, status_of
from loch.flags import Parser
from loch.written import why_not, write_atomically

EPILOG = """First the constants `cpu` of the hardware profile, beside the same work on this machine (`loch cpu`). Then the work of
a server for one request: real servers answer clients on the fabric shm, with a table of MEMORY in pages of 4 KiB, the
same in huge pages, and with a table that fits into caches; and simulated servers do, without what they are charged for
posting. Each time is a median without the WRITE of the reply. Half of the cores have a server each and half a client;
150 requests are outstanding, in slots a value apart, as many as a NessieSD node has from 15 nodes of 10 clients.
`scaled` is the largest table's time on the profile's processor (experiments/hardware/data/processors.csv): what the
work takes in caches by the ratio of clock rates and by that of lines that come from another core, what it takes beyond
by that of memory latencies, with this machine's misses of the TLB (at most) or without (at least). Two processors that
are alike in these need not be equally fast, so the range is no bound.

example: ./loch calibrate --cpu --hardware connectx3-10gbe
exit status: 0; 1 a run failed; 2 bad input"""
RUN_S = 900.0  # seconds of real time after which a run is given up
SLOTS = 150  # requests outstanding at a server node: those of 15 nodes of 10 clients
MEMORY_WANTED = 16 << 30  # bytes of the largest table, where twice as much is available
SMALL_KEYS = 200  # keys of a table that fits into caches
OVERHEAD = {"nessie-sd": 1.66, "herd": 2.0}  # memory that a table takes at most, as a multiple of its values
POSTING = "cpu.post=0,cpu.doorbell=0,cpu.write_combine=0"
PR_SET_THP_DISABLE = 41


@dataclass(frozen=True)
class Case:
    """One kind of request to one store."""

    protocol: str
    operation: str  # GET or PUT
    value_size: int  # bytes

    def flags(self, workers: int) -> list[str]:
        """The flags of a run with `workers` server workers and as many clients."""
        mix = "1" if self.operation == "GET" else "0"
        given = ["--protocol", self.protocol, "--nodes", "2", "--server-nodes", "1", "--servers", str(workers)]
        given += ["--clients", str(workers), "--window", str(max(1, SLOTS // workers))]
        given += ["--key-size", "16", "--value-size", str(self.value_size)]
        return [*given, "--get", mix, "--service-times", "--json", "-"]


CASES = [
    Case(protocol, operation, value_size)
    for protocol in ("nessie-sd", "herd")
    for operation in ("GET", "PUT")
    for value_size in ((64, 1000, 16384) if protocol == "nessie-sd" else (64, 1000))
]


@dataclass
class Work:
    """Median ns of a request without posting, by what it was measured on; None where a run failed."""

    case: Case
    small: float | None = None  # table that fits into caches
    huge_pages: float | None = None  # largest table
    small_pages: float | None = None  # largest table
    simulated: float | None = None


@dataclass(frozen=True)
class Processor:
    """What is published of a profile's processor."""

    name: str
    clock_ghz: tuple[float, float]  # base and turbo
    memory_ns: tuple[float, float]  # range of a random access to memory, without a miss of the TLB
    line_ns: tuple[float, float]  # range of a line that another core has changed


def main(words: list[str], setup: Callable[[], int], program: str) -> int:
    """Runs the command; `setup` builds the program if needed and returns an exit status."""
    return status_of(lambda: _run(words, setup, program), "loch calibrate")


def _run(words: list[str], setup: Callable[[], int], program: str) -> int:
    parser = Parser(prog="loch calibrate --cpu", description=__doc__, epilog=EPILOG)
    parser.add_argument("--cpu", action="store_true", required=True, help="measure this machine's processor")
    parser.add_argument("--hardware", metavar="NAME", default="connectx3-10gbe", help="profile (connectx3-10gbe)")
    parser.add_argument(
        "--memory", metavar="SIZE", default="", help="of the largest table (half of what is available, at most 16G)"
    )
    parser.add_argument("--cores", metavar="N", type=int, default=0, help="for servers and clients (all)")
    parser.add_argument("--seconds", metavar="S", type=float, default=1.0, help="seconds of each run (1)")
    parser.add_argument("--json", metavar="FILE", default="", help="write all times here, too")
    given = parser.parse_args(words)
    if not 0.01 <= given.seconds <= 3600:
        raise CommandError(f"--seconds {given.seconds:g}: expected 0.01 to 3600")
    usable = len(os.sched_getaffinity(0))
    cores = given.cores or usable
    if not 2 <= cores <= max(2, usable):
        raise CommandError(f"--cores {given.cores}: expected 2 to {usable}, the cores that this process may use")
    workers = cores // 2
    processor = processor_of(given.hardware)
    if given.json and (fault := why_not(given.json)):
        raise CommandError(f"--json {given.json}: {fault}")
    if status := setup():
        return status
    costs = _costs(program, given.memory)
    constants = constants_of(given.hardware)
    memory = int(costs["memory_bytes"])
    print(measured_on(memory, bool(given.memory), workers))
    works, failures = measure(program, given.hardware, memory, given.seconds, workers)
    costs = least(costs, _costs(program, str(memory)))
    print(costs_table(costs, constants, given.hardware))
    print(work_table(works, costs, processor))
    for failure in failures:
        print(f"loch calibrate: {failure}", file=sys.stderr)
    if given.json:
        write_atomically(given.json, json.dumps(_document(costs, works, processor, workers), indent=1) + "\n")
    return 1 if failures else 0


def processor_of(hardware: str) -> Processor:
    """The processor of a profile; CommandError for a profile without one."""
    with open(_hardware_folder() / "data" / "processors.csv", encoding="utf-8", newline="") as stream:
        rows = {row["profile"]: row for row in csv.DictReader(stream)}
    if hardware not in rows:
        raise CommandError(f"--hardware {hardware}: no processor is known of it; expected one of {', '.join(rows)}")
    row = rows[hardware]
    return Processor(
        row["processor"],
        (float(row["ghz_base"]), float(row["ghz_turbo"])),
        (float(row["memory_ns_low"]), float(row["memory_ns_high"])),
        (float(row["line_ns_low"]), float(row["line_ns_high"])),
    )


def measured_on(memory_bytes: int, is_given: bool, workers: int) -> str:
    """What the servers' work is measured on, in a line."""
    memory = f"{memory_bytes / 2**30:.1f} GiB"
    if not is_given and memory_bytes < MEMORY_WANTED:
        memory += ", half of what is available, for less than 32 GiB are"
    each = f"{workers} server workers, {workers} clients" if workers > 1 else "1 server worker, 1 client"
    return f"table of {memory}; {each}, {max(1, SLOTS // workers) * workers} requests outstanding\n"


def _costs(program: str, memory: str) -> dict[str, Any]:
    """What `loch cpu` measures."""
    done = subprocess.run(
        [program, "cpu", "--json", "-", *(["--memory", memory] if memory else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(one_line(done.stderr.strip().removeprefix("loch cpu: ")))
    costs: dict[str, Any] = json.loads(done.stdout)
    return costs


def least(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Of two measurements of a machine on which others may work, the lesser time of each; the higher clock rate."""
    found = dict(before)
    for name, value in after.items():
        if isinstance(value, float):
            found[name] = (max if name == "clock" else min)(value, before[name])
    return found


def constants_of(hardware: str) -> dict[str, float]:
    """The constants `cpu` of a profile of experiments/hardware, by name without `cpu.`."""
    from ruamel.yaml import YAML

    document = YAML(typ="safe").load(_hardware_folder() / f"{hardware}.yaml")
    return {name: float(constant["value"]) for name, constant in document["cpu"].items()}


def _hardware_folder() -> Path:
    return Path(os.environ.get("LOCH_HOME") or places.SOURCE, "experiments", "hardware")


def _in_small_pages() -> None:
    """Denies huge pages to the calling process and those that it becomes."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def _service_time(words: Sequence[str], in_small_pages: bool = False) -> float:
    """Median ns of a request's work without posting, of one run of `loch bench`; CommandError if the run fails."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RUN_S,
            check=False,
            preexec_fn=_in_small_pages if in_small_pages else None,
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"not done after {RUN_S:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise CommandError(one_line(lines[-1] if lines else f"loch bench ended with status {done.returncode}"))
    return work_of(json.loads(done.stdout))


def work_of(result: dict[str, Any]) -> float:
    """Median ns of a request's work without posting and without reading the clock, in a result of `loch bench`."""
    counters = result["nodes"][0]["counters"]
    if not counters.get("service.requests"):
        raise CommandError("no request was measured")
    # the clock is read once for the begin and once for the end, and twice around each post
    clock = counters["service.clock_ns"]
    return max(0.0, float(counters["service.median_ns"] - counters["service.posting_ns"] - 2 * clock))


def measure(
    program: str, hardware: str, memory_bytes: int, seconds: float, workers: int
) -> tuple[list[Work], list[str]]:
    """Runs every case on shm and on the simulator; what could not be measured, in words."""
    works, failures = [Work(case) for case in CASES], []
    runs = [(work, name) for work in works for name in ("simulated", "small", "huge_pages", "small_pages")]
    for work, name in _shown(runs):
        words = [
            program,
            "bench",
            *work.case.flags(workers),
            *run_flags(work.case, name, hardware, memory_bytes, seconds),
        ]
        try:
            setattr(work, name, _service_time(words, name == "small_pages"))
        except CommandError as error:
            failures.append(f"{title(work.case)}, {name.replace('_', ' ')}: {error}")
    return works, failures


def run_flags(case: Case, name: str, hardware: str, memory_bytes: int, seconds: float) -> list[str]:
    """The flags of one run that tell what it is measured on."""
    large = max(SMALL_KEYS, int(memory_bytes / OVERHEAD[case.protocol] / (case.value_size + 64)))
    if name == "simulated":
        profile = ["--fabric", "sim", "--hardware", hardware, "--hardware-set", POSTING]
        return [*profile, "--keys", "100000", "--warmup", "200us", "--duration", "2ms"]
    keys = SMALL_KEYS if name == "small" else large
    # by default each of the two nodes would get two fifths of what is available, though the clients' holds no table
    room = ["--memory", str(memory_bytes * 5 // 4 + (64 << 20))]  # and its request slots
    return [
        "--fabric",
        "shm",
        *room,
        "--keys",
        str(keys),
        "--warmup",
        "100ms",
        "--duration",
        f"{round(seconds * 1000)}ms",
    ]


def _shown(runs: list[tuple[Work, str]]) -> Iterable[tuple[Work, str]]:
    """The runs in order, with a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        return runs
    from rich.console import Console
    from rich.progress import track

    return track(runs, "runs", console=Console(stderr=True), transient=True)


def title(case: Case) -> str:
    """What a row is called."""
    return f"{case.protocol} {case.operation} {case.value_size} B"


def scaled(work: Work, costs: dict[str, Any], processor: Processor) -> tuple[float, float] | None:
    """The least and most ns that the work on the largest table, in 4-KiB pages, may take on the processor; None where it
    was not measured. What it takes beyond the work in caches is time of memory: here with misses of the TLB, whose
    price on the processor is not published, so that the least assumes none and the most as many."""
    if work.small_pages is None or work.small is None:
        return None
    near = [costs["clock"] / each for each in processor.clock_ghz]
    if costs["line"]:
        near += [each / costs["line"] for each in processor.line_ns]
    in_caches = min(work.small, work.small_pages)
    beyond = work.small_pages - in_caches
    low, high = in_caches * min(near), in_caches * max(near)
    if costs["memory"] > 0 and costs["memory_huge"] > 0:
        low += beyond * processor.memory_ns[0] / max(costs["memory"], costs["memory_huge"])
        high += beyond * processor.memory_ns[1] / min(costs["memory"], costs["memory_huge"])
    return low, high


def costs_table(costs: dict[str, Any], constants: dict[str, float], hardware: str) -> str:
    """The profile's constants beside this machine's."""
    lines = [f"{'constant':<14} {'this machine':>12} {hardware:>18}"]
    for name in ("memory", "memory_huge", "line", "hash", "hash_byte", "compare", "compare_byte", "copy", "copy_byte"):
        here = "-" if costs[name] is None else f"{costs[name]:.3g}"
        there = f"{constants[name]:.3g}" if name in constants else "-"
        lines.append(f"{'cpu.' + name:<14} {here:>12} {there:>18}")
    there = f"{constants['post'] + constants['doorbell']:.3g}"
    lines.append(f"{'post, doorbell':<14} {costs['post']:>12.3g} {there:>18}   non-temporal stores for MMIO here")
    lines.append(f"{'clock, GHz':<14} {costs['clock']:>12.3g}")
    return "\n".join(lines) + "\n"


def work_table(works: list[Work], costs: dict[str, Any], processor: Processor) -> str:
    """The work of a request on this machine, simulated, and scaled to the processor."""
    head = f"{'ns a request':<22} {'in cache':>9} {'huge pages':>11} {'4-KiB pages':>12} {'simulated':>10}"
    lines = [f"{head}   scaled to {processor.name}"]
    shares = []
    for work in works:
        cells = [
            "-" if each is None else f"{each:.0f}"
            for each in (work.small, work.huge_pages, work.small_pages, work.simulated)
        ]
        line = f"{title(work.case):<22} {cells[0]:>9} {cells[1]:>11} {cells[2]:>12} {cells[3]:>10}"
        if band := scaled(work, costs, processor):
            low, high = band
            line += f"   {low:.0f} to {high:.0f}"
            if work.simulated:
                verdict = "in" if low <= work.simulated <= high else "too cheap" if work.simulated < low else "too dear"
                line += f": simulated is {verdict}"
                shares.append((low + high) / 2 / work.simulated)
        lines.append(line)
    if shares:
        lines.append(f"middle of the scaled range over simulated: median {statistics.median(shares):.2f}")
    return "\n".join(lines)


def _document(costs: dict[str, Any], works: list[Work], processor: Processor, workers: int) -> dict[str, Any]:
    return {
        "schema": 2,
        "costs": costs,
        "processor": processor.name,
        "servers": workers,
        "clients": workers,
        "outstanding": max(1, SLOTS // workers) * workers,
        "requests": [
            {
                "protocol": work.case.protocol,
                "operation": work.case.operation,
                "value_size": work.case.value_size,
                "in_cache_ns": work.small,
                "huge_pages_ns": work.huge_pages,
                "small_pages_ns": work.small_pages,
                "simulated_ns": work.simulated,
                "scaled_ns": scaled(work, costs, processor),
            }
            for work in works
        ],
    }
