#!/usr/bin/python3
"""Measures how many 64-byte GETs a second one client makes on shared memory (fabric shm), beside memcached, Redis and an
older loch-bench.

  tests/budget/shm_ratios.py [NEW] [--old OLD] [--rounds N] [--operations N] [--window W] [--protocol NAME]…
  LOCH_OLD_BENCH=OLD cmake --build build/release --target shm_ratios      # the same, of this build

NEW is build/release/bin/loch-bench by default. Each round runs every protocol once with OLD and once with NEW; the
table has the medians in millions of GETs a second, the median of the rounds' ratios NEW/OLD, the first and third
quartile of these ratios, and the medians of the rounds' ratios to memcached and Redis. Designs without servers are
measured in GETs a second of the clients' CPU time, which other programs on the machine hardly disturb. Designs with
servers, whose threads wait for each other, are measured in GETs a second of time: they have one client and one server,
so a machine with fewer than two free cores measures its scheduler instead. memcached and Redis, which Loch starts
itself, run with NEW in the same rounds, with the same window; where one of them is not on this machine, its row says
so. The first line is the machine's own speed in the rounds: a plain loop, BLAKE2b over 16 MiB, by CPU time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

BENCH = os.environ.get("LOCH_BIN", str(Path(__file__).resolve().parents[2] / "build/release/bin/loch-bench"))
ONE_SIDED = ["nessie", "pilaf"]
SERVED = ["nessie-sd", "herd"]
KERNEL = ["memcached", "redis"]
COMMON = "--fabric shm --nodes 2 --clients 1 --keys 10000 --key-size 16 --value-size 64 --get 1 --warmup 0ms"


class Failed(Exception):
    """A program could not be run; the text says why."""


@dataclass
class Row:
    """What was measured of one protocol: millions of GETs a second by round."""

    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    missing: str = ""  # why there is nothing: the server program is not on this machine

    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(self.old, self.new)]


LOOP = bytes(16 << 20)


def loop_speed() -> float:
    """Megabytes of BLAKE2b a second of CPU time: how fast this machine is at this moment."""
    before = time.process_time()
    hashlib.blake2b(LOOP).digest()
    return len(LOOP) / (time.process_time() - before) / 1e6


def flags_of(protocol: str, window: int, operations: int) -> list[str]:
    served = "" if protocol in ONE_SIDED else "--server-nodes 1 --servers 1"
    return f"--protocol {protocol} {COMMON} {served} --window {window} --operations {operations}".split()


def cpu_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(program: str, protocol: str, window: int, operations: int) -> float:
    """Millions of GETs a second of one run."""
    with tempfile.TemporaryDirectory(prefix="loch-ratios-") as folder:
        result = Path(folder) / "result.json"
        command = [program, "bench", *flags_of(protocol, window, operations), "--json", str(result)]
        before = cpu_time()
        try:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"{program}: {error}") from None
        if ran.returncode != 0:
            said = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
            raise Failed(said[-1])
        if protocol in ONE_SIDED:
            return operations / (cpu_time() - before) / 1e6
        return float(json.loads(result.read_text())["throughput_ops_s"]) / 1e6


def run(
    old: str | None,
    new: str,
    protocols: list[str],
    rounds: int,
    window: int,
    operations: int,
    speeds: list[float] | None = None,
) -> dict[str, Row]:
    """Measures the rounds. `speeds` gets the machine's speed in each."""
    rows = {protocol: Row() for protocol in protocols}
    for number in range(rounds):
        if speeds is not None:
            speeds.append(loop_speed())
        for protocol, row in rows.items():
            if protocol in KERNEL:
                if row.missing:
                    continue
                try:
                    row.new.append(measure(new, protocol, window, operations))
                except Failed as error:
                    if "is not on this machine" not in str(error):
                        raise
                    row.missing = str(error)
                continue
            # The program that runs first alternates, so that a load that comes and goes favours neither.
            for program, into in [(old, row.old), (new, row.new)][:: 1 if number % 2 == 0 else -1]:
                if program is not None:
                    into.append(measure(program, protocol, window, operations))
    return rows


def quartiles(values: Sequence[float]) -> list[float]:
    return statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3


def table(rows: dict[str, Row]) -> str:
    others = [name for name in KERNEL if name in rows and not rows[name].missing]
    titles = ["64-byte GETs, one client, shm", "old, M/s", "new, M/s", "new/old", "quartiles"]
    titles += [f"new/{name}" for name in others]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, row in rows.items():
        if row.missing:
            lines.append(f"| {name} | not measured: {row.missing} |" + " |" * (len(titles) - 2))
            continue
        new = f"{statistics.median(row.new):.3f}"
        cells = [name, "", new, "", ""]
        if row.old:
            low, middle, high = quartiles(row.ratios())
            cells = [name, f"{statistics.median(row.old):.3f}", new, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        for other in others:
            pairs = zip(row.new, rows[other].new)
            cells.append("" if name == other else f"{statistics.median(a / b for a, b in pairs):.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    every = [*ONE_SIDED, *SERVED, *KERNEL]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("new", nargs="?", default=BENCH)
    parser.add_argument("--old", default=os.environ.get("LOCH_OLD_BENCH"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--operations", type=int, default=500_000)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--protocol", action="append", choices=every)
    asked = parser.parse_args()
    if asked.rounds < 1 or asked.operations < 1:
        print("shm_ratios: --rounds, --operations: expected at least 1", file=sys.stderr)
        return 2
    old = None if asked.old is None else str(Path(asked.old).resolve())
    new = str(Path(asked.new).resolve())
    speeds: list[float] = []
    try:
        rows = run(old, new, asked.protocol or every, asked.rounds, asked.window, asked.operations, speeds)
    except Failed as error:
        print(f"shm_ratios: {error}", file=sys.stderr)
        return 1
    low, middle, high = quartiles(speeds)
    print(f"plain loop: {middle:,.0f} MB/s of BLAKE2b, quartiles {low:,.0f} to {high:,.0f}\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
