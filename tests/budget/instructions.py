#!/usr/bin/python3
"""User-mode instructions per operation, by layer, of points in real time; what docs/data-path.md is made from.

  tests/budget/instructions.py [--bench PROGRAM] [--device LIBRARY] [--case NAME]… [--top N] [--rewrite]

Runs each point twice under callgrind (valgrind), with different numbers of operations, and divides the difference by
the difference of the numbers, so that the cost of what a run does only once cancels out. Prints a table; --top N adds
the N functions that cost most of each case. --rewrite stores the figures in budget.json, which the test compares with.
--device LIBRARY stands in for libibverbs in the cases on verbs (by default the library of emulated NICs, docs/zoo.md);
its instructions belong to no layer of Loch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from callgrind import ORDER, TREE, Costs, Sources, attribute, read_profile

BUDGET = Path(__file__).resolve().parent / "budget.json"
WORK = ["*RealtimeWorker::resume*", "*ShmWorker::tell_sinks*"]
# Work before the load that threads share: how much of it a thread does is chance, and callgrind counts a thread that has ended
# together with a later one of the same number.
SET_UP = ["loch::in_parallel(*const&)", "*loch::in_parallel(*::_M_run()"]
BENCH = TREE / "build/release/bin/loch-bench"
ZOO = TREE / "build/release/lib/libloch_zoo.so"
FEW, MANY = 2_000, 12_000


@dataclass(frozen=True)
class Case:
    """A measured point, and whether its client or its server threads are counted."""

    flags: str
    side: str = "client"
    # Whether the thread polls while it waits for other threads. As the number of polls is random, only the
    # instructions of the functions in WORK are then counted, which handle what the thread waited for.
    waits: bool = False
    fabric: str = "shm"


_ALONE = "--nodes 2 --clients 1 --keys 2000 --key-size 16 --value-size 64"
_SERVED = "--nodes 2 --server-nodes 1 --servers 1 --clients 1 --window 16 --keys 2000 --key-size 16 --value-size 64"
CASES = {
    "READ": Case(f"--protocol micro-verbs {_ALONE} --get 1"),
    "READ, window 32": Case(f"--protocol micro-verbs --window 32 {_ALONE} --get 1"),
    "drtm-em GET": Case(f"--protocol drtm-em {_ALONE} --get 1"),
    "farm-em GET": Case(f"--protocol farm-em {_ALONE} --get 1"),
    "pilaf GET": Case(f"--protocol pilaf {_ALONE} --get 1"),
    "nessie GET": Case(f"--protocol nessie {_ALONE} --get 1"),
    "nessie PUT": Case(f"--protocol nessie {_ALONE} --get 0"),
    "nessie-hy GET": Case(f"--protocol nessie-hy {_ALONE} --get 1"),
    "nessie-sd GET, client": Case(f"--protocol nessie-sd {_SERVED} --get 1", waits=True),
    "nessie-sd GET, server": Case(f"--protocol nessie-sd {_SERVED} --get 1", "server", waits=True),
    "herd GET, client": Case(f"--protocol herd {_SERVED} --get 1", waits=True),
    "herd GET, server": Case(f"--protocol herd {_SERVED} --get 1", "server", waits=True),
    "READ, verbs": Case(f"--protocol micro-verbs {_ALONE} --get 1 --post-send", fabric="verbs"),
    "READ, verbs, window 32": Case(f"--protocol micro-verbs --window 32 {_ALONE} --get 1 --post-send", fabric="verbs"),
    "nessie GET, verbs": Case(f"--protocol nessie {_ALONE} --get 1 --post-send", fabric="verbs"),
    "herd GET, server, verbs": Case(
        f"--protocol herd --herd.retry 1s --herd.give-up 10s {_SERVED} --get 1 --post-send",
        "server",
        waits=True,
        fabric="verbs",
    ),
    "READ, ibv_wr": Case(f"--protocol micro-verbs {_ALONE} --get 1", fabric="verbs"),
    "READ, ibv_wr, window 32": Case(f"--protocol micro-verbs --window 32 {_ALONE} --get 1", fabric="verbs"),
    "nessie GET, ibv_wr": Case(f"--protocol nessie {_ALONE} --get 1", fabric="verbs"),
}
# How far a layer of the code may exceed its budget: by this share of the budget plus this number of instructions per
# operation.
SHARE_MORE, FEW_MORE = 0.05, 3.0


class Failed(Exception):
    """A point could not be measured; the text says why."""


def measure(program: Path, sources: Sources, case: Case, device: Path) -> Costs:
    """Instructions per operation by layer and function."""
    few, many = (_costs(program, sources, case, operations, device) for operations in (FEW, MANY))
    per: Costs = defaultdict(float)
    for where in few.keys() | many.keys():
        per[where] = (many[where] - few[where]) / (MANY - FEW)
    return per


def _costs(program: Path, sources: Sources, case: Case, operations: int, device: Path) -> Costs:
    with tempfile.TemporaryDirectory(prefix="loch-budget-") as name:
        folder = Path(name)
        # valgrind runs one thread at a time. Without --fair-sched chance decides which thread runs next, and thereby how many
        # replies a client finds at once, which changed the instructions per operation by up to 10 %.
        command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--separate-threads=yes", "--fair-sched=yes"]
        command += [f"--toggle-collect={function}" for function in (WORK if case.waits else SET_UP)]
        command += [f"--collect-atstart={'no' if case.waits else 'yes'}"]
        command += [f"--callgrind-out-file={folder}/out", str(program), "bench", *case.flags.split()]
        command += ["--fabric", case.fabric, "--warmup", "0ms", "--operations", str(operations)]
        command += ["--json", f"{folder}/result.json"]
        env = dict(os.environ)
        if case.fabric == "verbs":
            env["LD_PRELOAD"], env["LOCH_ZOO"] = str(device), "mlx5-ib"
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
        if ran.returncode != 0:
            raise Failed(f"{' '.join(command[4:])}: exit status {ran.returncode}\n{ran.stderr[-2000:]}")
        done = json.loads((folder / "result.json").read_text())["operations"]
        if (ended := done["ok"] + done["not_found"]) < operations * 0.99:
            raise Failed(f"{case.flags}: of {operations} operations {ended} ended")
        sums: Costs = defaultdict(float)
        for path in sorted(folder.glob("out-*")):
            profile = read_profile(path)
            if _side(profile.functions) != case.side:
                continue
            for where, cost in attribute(profile, str(program), sources, str(device)).items():
                sums[where] += cost
        return sums


def _side(functions: Iterable[tuple[str, str]]) -> str:
    """Whether a thread that executed `functions` is a client, a server or another thread."""
    names = [name for _, name in functions]
    if any(re.search(r"Driver::(slot_main|bare_main|operate)", name) for name in names):
        return "client"
    return "server" if any("RealtimeWorker::resume" in name for name in names) else "other"


def by_layer(costs: Costs) -> dict[str, float]:
    layers: dict[str, float] = defaultdict(float)
    for (layer, _), cost in costs.items():
        layers[layer] += cost
    return {layer: round(layers[layer], 1) for layer in ORDER if round(layers[layer], 1) != 0}


def table(figures: dict[str, dict[str, float]]) -> str:
    shown = [layer for layer in ORDER if any(layer in layers for layers in figures.values())]
    lines = [f"| instructions per operation | {' | '.join(shown)} | all |", f"|---|{'---|' * (len(shown) + 1)}"]
    for name, layers in figures.items():
        cells = [f"{layers[layer]:,.0f}" if layer in layers else "" for layer in shown]
        lines.append(f"| {name} | {' | '.join(cells)} | {sum(layers.values()):,.0f} |")
    return "\n".join(lines)


def top(costs: Costs, number: int) -> str:
    largest = sorted(costs.items(), key=lambda item: -item[1])[:number]
    return "\n".join(f"  {cost:8.1f}  {layer:10}  {function}" for (layer, function), cost in largest)


def measure_all(names: list[str], bench: Path, device: Path, number: int = 0) -> dict[str, dict[str, float]]:
    """Instructions per operation by case and layer; prints the `number` most expensive functions of each case."""
    sources = Sources(bench)
    figures = {}
    with tempfile.TemporaryDirectory(prefix="loch-budget-") as folder:
        # valgrind 3.19 cannot read clang 19's debug information, so it runs stripped copies; llvm-symbolizer reads the originals.
        program, library = Path(folder) / "loch-bench", Path(folder) / "device.so"
        for whole, stripped in (bench, program), (device, library):
            if whole.exists():
                subprocess.run(["objcopy", "--strip-debug", str(whole), str(stripped)], check=True)
        for name in names:
            costs = measure(program, sources, CASES[name], library)
            figures[name] = by_layer(costs)
            if number:
                print(f"{name}: {sum(figures[name].values()):,.0f}\n{top(costs, number)}", flush=True)
    return figures


def over(figures: dict[str, dict[str, float]], budget: dict[str, dict[str, float]]) -> list[str]:
    """The layers, and sums of a case's layers, that exceed their budget, one line each."""
    lines = []
    for name, layers in figures.items():
        allowed = budget.get(name)
        if allowed is None:
            lines.append(f"{name}: the budget has no such case")
            continue
        of_all = [("all", sum(layers.values()), sum(allowed.values()))]
        for layer, cost, most in [(each, layers[each], allowed.get(each, 0.0)) for each in layers] + of_all:
            if cost > most * (1 + SHARE_MORE) + FEW_MORE:
                lines.append(f"{name}: {layer}: {cost:.0f} instructions per operation, budget {most:.0f}")
    return lines


def compiler(bench: Path) -> str:
    """The compiler that built the program; another compiler produces other instruction counts."""
    said = subprocess.run(
        ["readelf", "-p", ".comment", str(bench)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    found = re.search(r"clang version \S+", said)
    return found.group() if found else "unknown"


def missing() -> list[str]:
    return [each for each in ("valgrind", "objcopy", "readelf", "llvm-symbolizer-19") if shutil.which(each) is None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, default=BENCH)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--device", type=Path, default=ZOO)
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--rewrite", action="store_true")
    asked = parser.parse_args()
    if absent := missing():
        print(f"instructions.py: not installed: {' '.join(absent)}", file=sys.stderr)
        return 2
    names = asked.case or list(CASES)
    try:
        figures = measure_all(names, asked.bench, asked.device, asked.top)
    except Failed as error:
        print(f"instructions.py: {error}", file=sys.stderr)
        return 1
    print(table(figures))
    if asked.rewrite:
        stored = json.loads(BUDGET.read_text())["instructions"] if BUDGET.exists() else {}
        whole = {"compiler": compiler(asked.bench), "instructions": {**stored, **figures}}
        BUDGET.write_text(json.dumps(whole, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
