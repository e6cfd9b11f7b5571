#!/usr/bin/python3
"""Measures how many 64-byte GETs a second one client makes on `shm`, and compares two builds of loch-bench.

  tests/budget/shm_ratios.py [NEW] [--old OLD] [--rounds N] [--operations N] [--window W] [--protocol NAME]…
  LOCH_OLD_BENCH=OLD cmake --build build/release --target shm_ratios      # the same, of this build

NEW is build/release/bin/loch-bench by default. Each round runs every protocol once with OLD and once with NEW; the table has
the medians in millions of GETs a second, the median of the rounds' ratios NEW/OLD, and the first and third quartile of the
ratios. For designs without servers the rate is GETs a second of the clients' CPU time, which other programs on the
machine hardly disturb; of the others, whose threads wait for each other, GETs a second of time: they have one client
and one server, so a machine with fewer than two free cores measures its scheduler instead. memcached and Redis, which
Loch starts itself, run with NEW in the same rounds; where one of them is not on this machine, its row says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
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


def run(old: str | None, new: str, protocols: list[str], rounds: int, window: int, operations: int) -> dict[str, Row]:
    rows = {protocol: Row() for protocol in protocols}
    for number in range(rounds):
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


def table(rows: dict[str, Row]) -> str:
    lines = ["| 64-byte GETs, one client, shm | old, M/s | new, M/s | new/old | quartiles |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        if row.missing:
            lines.append(f"| {name} | not measured: {row.missing} | | | |")
        elif not row.old:
            lines.append(f"| {name} | | {statistics.median(row.new):.3f} | | |")
        else:
            ratios = row.ratios()
            low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
            old, new = statistics.median(row.old), statistics.median(row.new)
            lines.append(f"| {name} | {old:.3f} | {new:.3f} | {middle:.2f} | {low:.2f} to {high:.2f} |")
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
    try:
        rows = run(
            old, str(Path(asked.new).resolve()), asked.protocol or every, asked.rounds, asked.window, asked.operations
        )
    except Failed as error:
        print(f"shm_ratios: {error}", file=sys.stderr)
        return 1
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
