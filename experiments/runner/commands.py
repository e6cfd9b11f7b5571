"""The three subcommands: run, plot and score."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import claims, grid, launch, located, outputs, overrides, preflight, published, report, schema, score, tuning
from .errors import BadInput
from .execute import OTHERS_LIMIT, Executor, Outcome
from .model import Experiment
from .points import Store, point_hash, read_document, write_atomically
from .progress import Progress
from .units import about


def run(args: argparse.Namespace) -> int:
    """`loch run`: 0 all points ran, 1 some failed."""
    binary = _binary()
    _check_flags(args, binary)
    launched = launch.from_flags(args.hostfile, args.interface, os.environ)
    files = _files(args.files)
    loaded = []
    for file in files:  # all are checked before any is run
        document = located.load(file)
        overrides.check_smoke(document)
        given = overrides.apply(document, args.set, args.fabric, args.smoke, _nodes_max(args, launched),
                                _cores(args, launched))
        for fewer in (text.strip("()") for text in given if text.startswith("(")):
            print(f"warning: {file}: {fewer}", file=sys.stderr)
        experiment = schema.read(document, given)
        if experiment.paper:
            published.check(document.mapping()["paper"], experiment.paper.source)
        if launched:
            launched.check(experiment, [*grid.tuning_points(experiment), *grid.points(experiment)])
        preflight.check(document, experiment, binary, launched)
        loaded.append(experiment)
    status = 0
    for experiment in loaded:
        folder = _folder(args, experiment, len(loaded))
        if args.dry_run:
            print(f"{experiment.name}: {grid.plan(experiment)}, {_estimate(experiment, folder, args.jobs)}")
            continue
        status = max(status, _run_one(experiment, folder, binary, args, launched))
    return status


def plot(args: argparse.Namespace) -> int:
    """`loch plot DIR`: redraws from stored results."""
    found = outputs.folders(Path(args.dir))
    if not found:
        raise BadInput(f"{args.dir}: no manifest.json in or below it; expected a folder that `loch run` wrote")
    for folder in found:
        results, _, _ = outputs.load(folder)
        outputs.draw(folder, results)
        print(folder / "figure.png")
    return 0


def score_command(args: argparse.Namespace) -> int:
    """`loch score [DIR]`."""
    root = Path(args.dir)
    if not root.is_dir() and args.dir != "results":
        raise BadInput(f"{args.dir}: no such folder")
    scored, notes = score.gather(root)
    if args.json:
        write_atomically(Path(args.json), score.as_json(scored))
        print(score.summary(scored))
    else:
        print(score.markdown(scored, notes, root), end="")
    return 0


def _binary() -> str:
    binary = os.environ.get("LOCH_BIN", "")
    if not binary or not os.access(binary, os.X_OK):
        raise BadInput(f"LOCH_BIN={binary}: expected the path of the built loch-bench; ./loch sets it")
    return os.path.abspath(binary)


def _check_flags(args: argparse.Namespace, binary: str) -> None:
    if args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs}: expected at least 1")
    if args.fabric == "verbs":
        preflight.require_fabric("--fabric", "verbs", binary)


def _nodes_max(args: argparse.Namespace, launched: launch.Launch | None) -> int | None:
    """With --fabric verbs the file was written for another fabric: its clusters become those of the hosts at hand."""
    return launched.slots if launched and args.fabric == "verbs" else None


def _cores(args: argparse.Namespace, launched: launch.Launch | None) -> int | None:
    """Those of a host, taken to be as many as here."""
    return len(os.sched_getaffinity(0)) if launched and args.fabric == "verbs" else None


def _files(given: list[str]) -> list[Path]:
    out: list[Path] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            found = sorted(path.glob("*.yaml"))
            if not found:
                raise BadInput(f"{text}: no *.yaml in this folder")
            out += found
        else:
            out.append(path)
    return out


def _folder(args: argparse.Namespace, experiment: Experiment, count: int) -> Path:
    name = experiment.name + ("-smoke" if args.smoke else "")
    if args.out:
        return Path(args.out) / name if count > 1 else Path(args.out)
    return Path("results") / name


def _estimate(experiment: Experiment, folder: Path, jobs: int) -> str:
    """How long it should take: from stored points of the same system where there are any, else a rough guess."""
    known: dict[str, list[float]] = {}
    for path in (folder / "points").glob("*.json"):
        document = read_document(path)
        if document:
            known.setdefault(str(document["runner"].get("system")), []).append(float(document["runner"].get("elapsed_s", 0)))
    side_by_side = alone = 0.0
    for point in [*grid.tuning_points(experiment), *grid.points(experiment)]:
        spans = known.get(point.system)
        seconds = sum(spans) / len(spans) if spans else guess_seconds(point)
        if point.is_measured:
            alone += seconds
        else:
            side_by_side += seconds
    return about(alone + side_by_side / min(jobs, os.cpu_count() or 1))


def guess_seconds(point: grid.Point) -> float:
    """Real seconds of one point before any has run: set-up and run length, or the simulator's usual pace."""
    span = sum(int(point.params.get(key, 0)) for key in ("warmup", "duration")) / 1e9
    if point.is_measured:
        return 1.0 + span
    workers = int(point.params["nodes"]) * int(point.params.get("clients", 1))
    operations = float(point.params.get("operations", span * workers * 20e3))
    return 0.5 + operations * 12e-6 + float(point.params.get("keys", 0)) * 0.5e-6


def _run_one(experiment: Experiment, folder: Path, binary: str, args: argparse.Namespace,
             launched: launch.Launch | None) -> int:
    store = Store(folder / "points", binary)
    store.open()
    try:
        if args.fresh:
            store.forget_all()
            outputs.clear(folder)
        kept = _Kept()
        executor = Executor(experiment, store, args.jobs, launched)
        print(f"{experiment.name}: {grid.plan(experiment)}, {_estimate(experiment, folder, args.jobs)}", file=sys.stderr)
        _warn_governor(experiment, executor)
        _run_points(experiment, grid.tuning_points(experiment), store, executor, args, kept)
        choices = tuning.choose(experiment, store)
        points = grid.points(experiment, report.choices_by_key(choices))
        _run_points(experiment, points, store, executor, args, kept)
        results = outputs.collect(experiment, store, choices)
        verdicts = outputs.write(folder, results, choices, kept.stale, store)
        _tell(folder, results, verdicts)
        _warn_after(results)
    finally:
        store.close()
    failed = [row for row in results.rows if not row.ok]
    for row in failed:
        print("failed " + report.failure_text(row).lstrip("* "), file=sys.stderr)
    return 1 if failed else 0


class _Kept:
    """Stale points that --keep-stale left in place, and whether the warning has been given."""

    def __init__(self) -> None:
        self.stale = 0
        self.warned = False


def _run_points(experiment: Experiment, points: list[grid.Point], store: Store, executor: Executor,
                args: argparse.Namespace, kept: _Kept) -> None:
    """Runs those points that are not stored yet, that failed, or that another binary made."""
    todo, stale, names = [], 0, set()
    for point in points:
        name = point_hash(point)
        if name in names:
            continue
        names.add(name)
        stored = store.find(name)
        if stored is not None and not stored.failed:
            if not store.is_stale(stored, point):
                continue
            stale += 1
            if args.keep_stale:
                kept.stale += 1
                continue
        todo.append(point)
    if stale and not kept.warned:
        what = "kept as they are (--keep-stale)" if args.keep_stale else "run again (--keep-stale keeps them)"
        print(f"warning: stored points were made by another binary or hardware file; they are {what}", file=sys.stderr)
        kept.warned = True
    if not todo:
        return
    progress = Progress(len(todo), args.jobs, experiment.name)

    def ended(outcome: Outcome) -> None:
        progress.ended(outcome)
    try:
        executor.run(grid.shuffled(todo, experiment.measure.seed), ended, progress.tick)
    finally:
        progress.close()


def _warn_governor(experiment: Experiment, executor: Executor) -> None:
    governor = executor.host["governor"]
    if governor not in (None, "performance") and any(system.is_measured for system in experiment.systems):
        print(f"warning: the CPU governor is {governor}, not performance; measured points will vary", file=sys.stderr)


def _warn_after(results: outputs.Results) -> None:
    stored = [row.stored for row in results.rows if row.ok]
    gave_up = report.many_gave_up(results)
    if gave_up:
        print(f"warning: {gave_up}", file=sys.stderr)
    if any(each.document.get("loch", {}).get("dirty") for each in stored):
        print("warning: the tree has uncommitted changes; the commit in the results does not say all", file=sys.stderr)
    shares = [each.runner.get("others_cpu_share") or 0 for each in stored]
    busy = sum(share > OTHERS_LIMIT for share in shares)
    if busy:
        print(f"warning: others used over {OTHERS_LIMIT:.0%} of the CPU during {busy} measured points "
              f"(at most {max(shares):.0%}); compare them with care", file=sys.stderr)


def _tell(folder: Path, results: outputs.Results, verdicts: list[claims.Verdict]) -> None:
    """Published against obtained, claims, and where everything is."""
    comparisons = published.compare(results)
    if comparisons:
        rows = report.comparison_table(results, comparisons)
        widths = [max(len(str(row[i])) for row in [report.COMPARISON_HEAD, *rows]) for i in range(len(rows[0]))]
        for row in [report.COMPARISON_HEAD, *rows]:
            print("  ".join(str(cell).ljust(width) if i < 4 else str(cell).rjust(width)
                            for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        print(published.score(comparisons).text())
    for verdict in verdicts:
        state = "not evaluated" if verdict.held is None else "held" if verdict.held else "NOT held"
        print(f"claim {state}: {verdict.text}" + (f" ({verdict.why})" if verdict.why else ""))
    print(f"{folder}: figure.pdf figure.png figure.svg table.csv report.md")
