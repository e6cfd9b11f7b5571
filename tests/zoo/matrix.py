#!/usr/bin/python3
"""Tests every emulated machine (docs/zoo.md) with every protocol and with the conformance and litmus suites of fabrics:
./loch test --zoo.

usage: matrix.py [--sanitizers] [--valgrind] [--only REGEX] [--jobs N]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zoo

VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--fair-sched=yes", "--num-callers=30"]
# For each kind of emulated device, the protocol that also runs on it under valgrind; kinds not listed have none.
WITH_VALGRIND = {
    "mlx5-ib": "nessie",
    "mlx5-be": "nessie",
    "mlx5-roce": "pilaf",
    "mlx5-adaptive": "herd",
    "bnxt": "nessie-sd",
}


# In their builds the conformance suite runs without its second half, which is the first over the decorator that counts
# requests: on shared memory ./loch test runs that half with sanitizers too.
SANITIZERS = ("asan", "tsan")
# How many runs that wait for much of their time go on beside each other run.
WAITING_BESIDE = 8


# A suite waits longest with TSan; valgrind's runs take the most CPU time.
LONGEST_FIRST = ("valgrind", "tsan", "asan", "release")


@dataclass(frozen=True)
class Step:
    """One test run, a cell of a table of results; `table` is the name of the build, or valgrind."""

    table: str
    machine: str
    what: str
    act: Callable[[], zoo.Outcome]

    @property
    def waits(self) -> bool:
        """Whether the run waits for much of its time: for time-outs, or as valgrind runs one thread at once."""
        return self.what in zoo.SUITES or self.table == "valgrind"

    @property
    def name(self) -> str:
        return f"{self.table} {self.machine} {self.what}"


def without_debug_information(build: Path, to: Path) -> Path:
    """Copies a build's program and its library of emulated NICs without debug information: valgrind 3.19 cannot read
    Clang 19's."""
    for name in ("bin/loch-bench", "lib/libloch_zoo.so"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["objcopy", "--strip-debug", str(build / name), str(to / name)], check=True)
    return to


def plan(builds: dict[str, Path], for_valgrind: Path | None = None) -> list[Step]:
    steps = []
    for table, build in builds.items():
        for machine in zoo.machines():
            for suite in zoo.suites(machine):
                act = partial(zoo.try_suite, build, machine, suite, is_plain=table in SANITIZERS)
                steps.append(Step(table, machine.name, suite, act))
            for protocol in (*zoo.protocols(), *zoo.protocols_over_rc(), *zoo.protocols_on_memory_nodes()):
                if table == "tsan" and zoo.refusal(machine, protocol):
                    continue  # no worker has begun by then, so that no thread could race with another
                act = partial(zoo.try_protocol, build, machine, protocol)
                steps.append(Step(table, machine.name, protocol.name, act))
    if for_valgrind is None:
        return steps
    of = {protocol.name: protocol for protocol in zoo.protocols()}
    for machine in zoo.machines():
        if name := WITH_VALGRIND.get(machine.name):
            act = partial(zoo.try_protocol, for_valgrind, machine, of[name], prefix=VALGRIND)
            steps.append(Step("valgrind", machine.name, name, act))
    return steps


def run(steps: list[Step], jobs: int, is_watched: bool) -> dict[Step, zoo.Outcome]:
    """Runs the steps: `jobs` at once, and beside them the suites of fabrics and valgrind's runs, which wait for much of
    their time. Prints a line for each fault, and the progress if `is_watched`."""
    began, ended = time.monotonic(), {}
    with ThreadPoolExecutor(jobs) as busy, ThreadPoolExecutor(WAITING_BESIDE * jobs) as idle:
        order = sorted(steps, key=lambda step: LONGEST_FIRST.index(step.table))
        waiting = {(idle if step.waits else busy).submit(step.act): step for step in order}
        for future in as_completed(waiting):
            step = waiting[future]
            ended[step] = future.result()
            if is_watched:
                print(
                    f"\r\033[K{len(ended)}/{len(steps)}  {time.monotonic() - began:.0f} s  {step.name}",
                    end="",
                    flush=True,
                )
            if ended[step].fault:
                clear = "\r\033[K" if is_watched else ""
                print(f"{clear}FAIL {step.name} ({ended[step].seconds:.1f} s): {ended[step].fault}", flush=True)
    if is_watched:
        print("\r\033[K", end="")
    return ended


def table_of(name: str, ended: dict[Step, zoo.Outcome]) -> str:
    """A table with a row for each machine and a column for each protocol or suite: ok, - (rightly refused) or FAIL."""
    own = {(step.machine, step.what): outcome for step, outcome in ended.items() if step.table == name}
    columns = list(dict.fromkeys(what for _, what in own))
    columns.sort(key=lambda what: (what in zoo.SUITES, what))
    rows = [machine.name for machine in zoo.machines() if any(of == machine.name for of, _ in own)]
    widths = [max(4, len(column)) for column in columns]
    lines = [f"{name:14} " + " ".join(column.rjust(width) for column, width in zip(columns, widths)) + "   seconds"]
    for row in rows:
        cells = [own[row, column].mark if (row, column) in own else "" for column in columns]
        seconds = sum(outcome.seconds for (machine, _), outcome in own.items() if machine == row)
        lines.append(
            f"{row:14} " + " ".join(cell.rjust(width) for cell, width in zip(cells, widths)) + f"  {seconds:8.1f}"
        )
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sanitizers", action="store_true", help="in the asan and tsan builds too")
    parser.add_argument("--valgrind", action="store_true", help="one protocol a kind of device under valgrind")
    parser.add_argument("--only", default="", metavar="REGEX", help="of names like 'asan mlx5-vf herd'")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    asked = parser.parse_args(words)
    names = ["release", *(SANITIZERS if asked.sanitizers else [])]
    builds = {name: zoo.RELEASE if name == "release" else zoo.RELEASE.parent / name for name in names}
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
        stripped = without_debug_information(builds["release"], Path(folder)) if asked.valgrind else None
        steps = [step for step in plan(builds, stripped) if re.search(asked.only, step.name)]
        if not steps:
            print(f"--only {asked.only}: no step has such a name", file=sys.stderr)
            return 2
        began = time.monotonic()
        ended = run(steps, max(1, asked.jobs), sys.stdout.isatty())
    for name in [*names, *(["valgrind"] if asked.valgrind else [])]:
        if any(step.table == name for step in ended):
            print(table_of(name, ended) + "\n")
    failed = [step for step, outcome in ended.items() if outcome.fault]
    for step in failed:
        print(f"---- {step.name}: {ended[step].fault}\n{ended[step].said[-6000:]}")
    print(f"zoo: {len(ended)} runs, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
