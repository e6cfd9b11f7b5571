"""The commands `loch run`, `plot`, `score`, `compare`, `reference` and `schema`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path

from loch.written import why_not, write_atomically

from . import (
    ablation,
    costs,
    document,
    engines,
    factors,
    grid,
    launch,
    located,
    other_names,
    outputs,
    overrides,
    power,
    preflight,
    published,
    reference,
    schema,
    score,
    second_score,
)
from .campaign import Campaign
from .errors import BadInput, reading
from .model import Experiment
from .pool import quiet_child
from .units import about


SAMPLES_MAX = 10_000  # most draws of --samples; more would take weeks


def run(args: argparse.Namespace) -> int:
    """Runs `loch run`; returns 0 if all points ran, 1 if some failed."""
    binary = _binary()
    _check_flags(args, binary)
    launched = launch.from_flags(args.hostfile, args.interface, os.environ)
    engine = engines.from_flags(args, os.environ)
    files = _files(args.files)
    loaded = []
    for file in files:  # all files are checked before the first point of any file runs
        document = other_names.by_keys(located.load(file))
        overrides.check_smoke(document)
        given = overrides.apply(
            document, args.set, args.fabric, args.smoke, _nodes_max(args, launched), _cores(args, launched)
        )
        for fewer in (text.strip("()") for text in given if text.startswith("(")):
            print(f"warning: {file}: {fewer}", file=sys.stderr)
        experiment = schema.read(document, given)
        if experiment.paper:
            published.check(document.mapping()["paper"], experiment)
        if launched:
            launched.check(experiment, [*grid.tuning_points(experiment), *grid.points(experiment)])
        preflight.check(document, experiment, binary, launched)
        power.check(document, grid.points(experiment), launched, args.dry_run)
        loaded.append(experiment)
    drawn = _draws(args, loaded, binary)
    placed = [(experiment, _folder(args, experiment, len(loaded))) for experiment in loaded]
    _check_names(placed)
    if args.dry_run:
        _print_plan(placed, args.jobs, drawn)
        return 0
    if engine:
        engine.check(binary)
    return Campaign(placed, binary, args, launched, engine, drawn).run()


def _check_names(placed: list[tuple[Experiment, Path]]) -> None:
    """Refuses two experiments of the same name, which would write into the same result folder."""
    seen: dict[Path, str] = {}
    for experiment, folder in placed:
        if folder in seen:
            raise BadInput(f"{experiment.file}: name: {experiment.name} is also that of {seen[folder]}")
        seen[folder] = experiment.file


def _draws(args: argparse.Namespace, loaded: list[Experiment], binary: str) -> list[factors.Samples | None]:
    """With --samples, the random draws of hardware constants for each experiment; None where no constant has a
    range."""
    if args.samples is None:
        if args.seed is not None:
            raise BadInput("--seed: of the draws of --samples, which is not given; measure.seed sets that of the load")
        return [None] * len(loaded)
    if not 2 <= args.samples <= SAMPLES_MAX:
        raise BadInput(f"--samples {args.samples}: expected from 2 to {SAMPLES_MAX}")
    seed = 1 if args.seed is None else args.seed
    if seed < 0:
        raise BadInput(f"--seed {seed}: expected at least 0")
    out: list[factors.Samples | None] = []
    for experiment in loaded:
        found = factors.of(experiment, binary)
        out.append(factors.draw(found, args.samples, seed, binary) if found else None)
        if not found:
            print(
                f"warning: {experiment.name}: no constant has a range and no reading is open; no bands", file=sys.stderr
            )
    if not any(out):
        raise BadInput("--samples: nothing to draw: no constant of these hardware profiles has a range")
    return out


def _print_plan(placed: list[tuple[Experiment, Path]], jobs: int, drawn: list[factors.Samples | None]) -> None:
    total = 0.0
    for (experiment, folder), samples in zip(placed, drawn):
        points = [*grid.tuning_points(experiment), *grid.points(experiment)]
        if samples is not None:
            points += factors.all_points(experiment, {}, samples)
        span = costs.of_points(points, costs.Costs(experiment, folder), costs.slots(jobs))
        total += span
        print(f"{experiment.name}: {grid.plan(experiment)}, {about(span)}")
    if len(placed) > 1:
        print(f"{len(placed)} experiments, {about(total)} with --jobs {jobs}")


def plot(args: argparse.Namespace) -> int:
    """Runs `loch plot DIR`: draws the figures and report.html again from stored results."""
    root = Path(args.dir)
    found = outputs.folders(root)
    if not found:
        raise BadInput(f"{args.dir}: no manifest.json in or below it; expected a folder that `loch run` wrote")
    if args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs}: expected at least 1")
    if len(found) == 1:
        damaged = _redraw(found[0])[1]
        print(found[0] / "figure.png")
        return _tell_damaged(damaged, "drawn as a gap")
    pool = multiprocessing.get_context("fork").Pool(min(args.jobs, len(found)), initializer=quiet_child)
    try:
        damaged = []
        for folder, those in pool.imap(_redraw, found):
            print(folder / "figure.png", flush=True)
            damaged += those
        pool.close()
        pool.join()
    finally:
        pool.terminate()
    if found != [root]:
        outputs.write_overview(root)
        print(root / "report.html")
    return _tell_damaged(damaged, "drawn as a gap")


def _redraw(folder: Path) -> tuple[Path, list[str]]:
    """Draws one result folder again; returns the folder and messages on its damaged points."""
    results, choices, store = outputs.load(folder)
    with reading(str(folder)):
        outputs.redraw(folder, results, choices, store)
    return folder, list(store.damaged.values())


def _tell_damaged(damaged: list[str], what: str) -> int:
    """Prints a line for each damaged stored point; returns exit status 1 if there is any, else 0."""
    for each in damaged:
        print(f"{each}; {what}, ./loch run runs it again", file=sys.stderr)
    return 1 if damaged else 0


def reference_command(args: argparse.Namespace) -> int:
    """Runs `loch reference DIR`: extracts small reference results from finished runs."""
    into = Path(args.out)
    for folder in reference.write(Path(args.dir), into):
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder} ({size / 1024:.0f} KiB)")
    rows, notes = score.calibration(Path(args.dir))
    if rows:
        write_atomically(into / score.CALIBRATION, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)
    return 0


def score_command(args: argparse.Namespace) -> int:
    """Runs `loch score [DIR]`: compares stored results with the published numbers."""
    root = Path(args.dir)
    if not root.is_dir() and args.dir != "results":
        raise BadInput(f"{args.dir}: no such folder")
    _check_output("--json", args.json)
    _check_output("--keep", args.keep)
    sheet = score.gather(root)
    table = _ablation(args, root, sheet)
    if args.json:
        write_atomically(Path(args.json), score.as_json(sheet))
    if args.json != "-":
        print(
            second_score.verdict(sheet.part) if args.json else score.markdown(sheet, root),
            end="\n" if args.json else "",
        )
        if table is not None:
            print("\n" + ablation.markdown(table, ablation.mechanisms()), end="")
    return _tell_damaged(sheet.damaged, "left out")


def _ablation(args: argparse.Namespace, root: Path, sheet: score.Sheet) -> ablation.Table | None:
    """The table of --ablation: of the folders that are named, or the one that is kept in `root` if none is."""
    if args.ablation is None:
        if args.keep:
            raise BadInput(f"--keep {args.keep}: goes with --ablation and the folders that it compares")
        return None
    if not args.ablation:
        return ablation.kept(root)
    table = ablation.of_folders(root, sheet.part, [Path(folder) for folder in args.ablation])
    if args.keep:
        ablation.keep(Path(args.keep), table)
    return table


def compare_command(args: argparse.Namespace) -> int:
    """Runs `loch compare A B`: tests whether two result folders differ; exit status 1 if B is worse."""
    from . import compare  # imported here because NumPy, which only this command needs, loads slowly

    _check_output("--json", args.json)
    found = compare.of_folders(Path(args.a), Path(args.b), args.metric or ["throughput_ops_s"], args.tolerance)
    if args.json:
        write_atomically(Path(args.json), compare.as_json(found, args.tolerance))
    if args.json != "-":
        print(compare.as_text(found), end="")
    return 1 if found.has_regression else 0


def schema_command(args: argparse.Namespace) -> int:
    """Runs `loch schema`: prints the JSON Schema of experiment files, for editors."""
    print(document.json_schema(), end="")
    return 0


def _check_output(flag: str, path: str | None) -> None:
    """Refuses an output that cannot be written, before any work is done."""
    wrong = why_not(path) if path else ""
    if wrong:
        raise BadInput(f"{flag} {path}: {wrong}")


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
    """With --fabric verbs, the largest number of nodes that the hosts can run; larger clusters are reduced to it."""
    return launched.slots if launched and args.fabric == "verbs" else None


def _cores(args: argparse.Namespace, launched: launch.Launch | None) -> int | None:
    """The number of cores of each host, assumed to equal that of this machine."""
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
