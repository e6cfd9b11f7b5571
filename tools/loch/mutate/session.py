"""A run of `loch mutate`: random single edits of the code, each judged by the tests that should detect it.

The run reads the source tree and writes only below $LOCH_BUILD/mutate (build/mutate): a copy of the tree, the copy's
build, and the results. docs/testing.md says what is edited, what is left out and which tests judge.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from pathlib import Path

from loch import places
from loch.mutate import edits as finder
from loch.mutate.judge import Bench, Judge, Scratch, ScratchError, judges_of
from loch.mutate.results import Results, ResultsError, accepted
from loch.mutate.modules import MODULES, Module

__all__ = ["ResultsError", "ScratchError", "draw", "edits_of", "run"]
ROOT = Path(places.SOURCE)


def draw(all_edits: list[finder.Edit], count: int, seed: str) -> list[finder.Edit]:
    """Draws `count` different edits at random: first the kind of edit, all kinds equally likely, then an edit of that
    kind."""
    random_source = random.Random(seed)
    by_kind: dict[str, list[finder.Edit]] = defaultdict(list)
    for edit in all_edits:
        by_kind[edit.kind].append(edit)
    drawn: list[finder.Edit] = []
    while by_kind and len(drawn) < count:
        kind = random_source.choice(sorted(by_kind))
        edits = by_kind[kind]
        drawn.append(edits.pop(random_source.randrange(len(edits))))
        if not edits:
            del by_kind[kind]
    return drawn


def edits_of(module: Module, tree: Path, folder: Path) -> list[finder.Edit]:
    return [edit for path in module.files(tree) for edit in finder.find(tree, path, module.skip, folder / "edits")]


class Progress:
    """Progress on standard error: one line that is rewritten on a terminal, else a line for each judged edit."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self.prefix = ""

    def say(self, what: str) -> None:
        if self._on_terminal:
            print(f"\r\033[K{self.prefix}{what}"[:200], end="", file=sys.stderr, flush=True)

    def line(self, what: str) -> None:
        print(
            f"{chr(13) + chr(27) + '[K' if self._on_terminal else ''}{self.prefix}{what}", file=sys.stderr, flush=True
        )


def _judge_module(
    module: Module,
    chosen: list[finder.Edit],
    judges: list[Judge],
    bench: Bench,
    results: Results,
    args: argparse.Namespace,
    progress: Progress,
    ends: float,
) -> None:
    left = [
        edit
        for edit in chosen
        if not results.has(module.name, edit, args.fuzz_seeds)
        or results.is_in_doubt(module.name, edit, args.fuzz_seeds, args.again, accepted())
    ]
    progress.prefix = f"{module.name}: "
    progress.line(f"{len(chosen)} edits, {len(chosen) - len(left)} judged before")
    if not left:
        return
    bench.prepare(judges)
    for number, edit in enumerate(left, len(chosen) - len(left) + 1):
        if time.monotonic() > ends:
            return
        progress.prefix = f"{module.name} {number} of {len(chosen)}: {edit.path}:{edit.line} {edit.kind}: "
        diff = edit.diff((bench.copy / edit.path).read_bytes())
        verdict = bench.judge(edit, judges)
        results.add(module.name, edit, diff, verdict, args.fuzz_seeds)
        by = f" by {verdict.by} ({verdict.how})" if verdict.by else ""
        progress.line(f"{verdict.outcome}{by}, {verdict.seconds:.0f} s")


def run(args: argparse.Namespace) -> int:
    modules = [MODULES[name] for name in args.room or MODULES]
    names = [module.name for module in modules]
    folder = Path(places.BUILD) / "mutate"
    results = Results(Path(args.results) if args.results else folder / "results.jsonl")
    if args.report:
        print(results.report(names, accepted()))
        return 0
    if args.list:
        for module in modules:
            for edit in draw(edits_of(module, ROOT, folder), args.edits, f"{args.seed} {module.name}"):
                print(
                    f"{module.name} {edit.path}:{edit.line} ({edit.kind},"
                    f" {edit.id})\n{edit.diff((ROOT / edit.path).read_bytes())}"
                )
        return 0
    ends = time.monotonic() + args.time if args.time else float("inf")
    progress = Progress()
    scratch = Scratch(ROOT, folder, args.jobs)
    scratch.refresh()
    scratch.configure()
    bench = Bench(scratch, progress.say, args.patience)
    for module in modules:
        chosen = draw(edits_of(module, scratch.copy, folder), args.edits, f"{args.seed} {module.name}")
        _judge_module(module, chosen, judges_of(module, args.fuzz_seeds), bench, results, args, progress, ends)
    print(results.report(names, accepted()))
    return 0
