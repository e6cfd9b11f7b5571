#!/usr/bin/python3
"""./loch mutate: random single edits of the code, each judged by the tests that should see it.

Reads the tree and writes only below $LOCH_BUILD/mutate (build/mutate): a copy of the tree, its build, the results.
docs/testing.md says what is edited, what is left out and who judges.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "experiments")]
if "LOCH_BUILD" in os.environ:
    sys.pycache_prefix = os.path.join(os.environ["LOCH_BUILD"], "pycache")

import edits as finder  # noqa: E402  (after the path is set)
from judge import Bench, Judge, Scratch, ScratchError, judges_of  # noqa: E402  (after the path is set)
from results import Results, ResultsError, accepted  # noqa: E402
from rooms import ROOMS, Room  # noqa: E402

UNITS_S = {"s": 1, "m": 60, "h": 3600}


class Parser(argparse.ArgumentParser):
    """Errors in one line, exit status 2."""

    def error(self, message: str) -> None:
        print(f"loch mutate: {message}", file=sys.stderr)
        sys.exit(2)


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found:
        raise argparse.ArgumentTypeError(f'"{text}" is no duration; expected 90s, 20m, 8h')
    return float(found.group(1)) * UNITS_S[found.group(2)]


def _whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number of at least 1')
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def parser() -> Parser:
    made = Parser(prog="loch mutate", description="Random single edits of the code, judged by unit tests, fuzz and explore.")
    made.add_argument("--room", action="append", metavar="R", help=f"whose code is edited (all): {', '.join(ROOMS)}; may be repeated")
    made.add_argument("--edits", type=_whole, default=10, metavar="N", help="how many of each room (10)")
    made.add_argument("--seed", type=_seed, default=1, metavar="S", help="which: the same seed draws the same of the same code (1)")
    made.add_argument("--fuzz-seeds", type=_whole, default=300, metavar="N", help="seeds of loch fuzz for each protocol (300)")
    made.add_argument("--time", type=_duration, metavar="T", help="begin no edit after this much time: 20m, 8h")
    made.add_argument("--jobs", type=_whole, default=os.cpu_count() or 1, metavar="N", help="of the build (one a core)")
    made.add_argument("--results", metavar="FILE", help="JSON lines; what is in there is not judged again "
                      "(default mutate/results.jsonl in the build folder)")
    made.add_argument("--again", action="append", choices=("survived", "time-limit"), default=[],
                      help="judge again, of those judged before, what survived for no reason that is known (tests were added) or "
                      "was killed by a time limit (the machine was busy); may be repeated")
    made.add_argument("--patience", type=_whole, default=1, metavar="N", help="times the usual time limits (1)")
    made.add_argument("--list", action="store_true", help="print the edits that would be judged, judge none")
    made.add_argument("--report", action="store_true", help="print the table of what was judged, judge none")
    return made


def draw(all_edits: list[finder.Edit], count: int, seed: str) -> list[finder.Edit]:
    """Without repetition: first a kind of edit, each as likely as another, then one of that kind."""
    random_source = random.Random(seed)
    by_kind: dict[str, list[finder.Edit]] = defaultdict(list)
    for edit in all_edits:
        by_kind[edit.kind].append(edit)
    drawn = []
    while by_kind and len(drawn) < count:
        kind = random_source.choice(sorted(by_kind))
        edits = by_kind[kind]
        drawn.append(edits.pop(random_source.randrange(len(edits))))
        if not edits:
            del by_kind[kind]
    return drawn


def edits_of(room: Room, tree: Path, folder: Path) -> list[finder.Edit]:
    return [edit for path in room.files(tree) for edit in finder.find(tree, path, room.skip, folder / "edits")]


class Progress:
    """One line on standard error: rewritten on a terminal, a line for each edit elsewhere."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self.prefix = ""

    def say(self, what: str) -> None:
        if self._on_terminal:
            print(f"\r\033[K{self.prefix}{what}"[:200], end="", file=sys.stderr, flush=True)

    def line(self, what: str) -> None:
        print(f"{chr(13) + chr(27) + '[K' if self._on_terminal else ''}{self.prefix}{what}", file=sys.stderr, flush=True)


def _judge_room(room: Room, chosen: list[finder.Edit], judges: list[Judge], bench: Bench, results: Results,
                args: argparse.Namespace, progress: Progress, ends: float) -> None:
    left = [edit for edit in chosen if not results.has(room.name, edit, args.fuzz_seeds)
            or results.is_in_doubt(room.name, edit, args.fuzz_seeds, args.again, accepted())]
    progress.prefix = f"{room.name}: "
    progress.line(f"{len(chosen)} edits, {len(chosen) - len(left)} judged before")
    if not left:
        return
    bench.prepare(judges)
    for number, edit in enumerate(left, len(chosen) - len(left) + 1):
        if time.monotonic() > ends:
            return
        progress.prefix = f"{room.name} {number} of {len(chosen)}: {edit.path}:{edit.line} {edit.kind}: "
        diff = edit.diff((bench.copy / edit.path).read_bytes())
        verdict = bench.judge(edit, judges)
        results.add(room.name, edit, diff, verdict, args.fuzz_seeds)
        by = f" by {verdict.by} ({verdict.how})" if verdict.by else ""
        progress.line(f"{verdict.outcome}{by}, {verdict.seconds:.0f} s")


def run(args: argparse.Namespace) -> int:
    rooms = [ROOMS[name] for name in args.room or ROOMS]
    names = [room.name for room in rooms]
    folder = Path(os.environ.get("LOCH_BUILD") or ROOT / "build") / "mutate"
    results = Results(Path(args.results) if args.results else folder / "results.jsonl")
    if args.report:
        print(results.report(names, accepted()))
        return 0
    if args.list:
        for room in rooms:
            for edit in draw(edits_of(room, ROOT, folder), args.edits, f"{args.seed} {room.name}"):
                print(f"{room.name} {edit.path}:{edit.line} ({edit.kind}, {edit.id})\n{edit.diff((ROOT / edit.path).read_bytes())}")
        return 0
    ends = time.monotonic() + args.time if args.time else float("inf")
    progress = Progress()
    scratch = Scratch(ROOT, folder, args.jobs)
    scratch.refresh()
    scratch.configure()
    bench = Bench(scratch, progress.say, args.patience)
    for room in rooms:
        chosen = draw(edits_of(room, scratch.copy, folder), args.edits, f"{args.seed} {room.name}")
        _judge_room(room, chosen, judges_of(room, args.fuzz_seeds), bench, results, args, progress, ends)
    print(results.report(names, accepted()))
    return 0


def main() -> int:
    args = parser().parse_args()
    for name in args.room or []:
        if name not in ROOMS:
            parser().error(f'--room: no room "{name}"; expected one of {", ".join(ROOMS)}')
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(args)
    except (ScratchError, ResultsError, ValueError, OSError) as error:
        print(f"loch mutate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nloch mutate: interrupted; what was judged is kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
