"""Reference results: the part of a finished run that figures, claims and scores need, small enough for the source tree.

  reference/NAME/experiment.yaml   the experiment that was run
                 table.csv         one row for each point and repeat, with only the columns in use
                 manifest.json     the resolved experiment, tuned parameters, claims, seconds that each point took
                 data.json         distributions, reasons of failures, the machine that measured
                 report.md         the report of the run
                 bands.json        with --samples: intervals of the results over random draws of hardware constants
  reference/calibration.json       the rows of `loch calibrate`
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from loch.written import write_atomically

from . import bands, blocks, expression, located, lookup, null_models, outputs, published, roles
from .errors import BadInput
from .model import Experiment
from .points import read_point
from .stored_json import read_json
from .tables import Results

# Columns that every table keeps, because warnings, captions and readers use them.
_CORE = (
    "throughput_ops_s",
    "goodput_bytes_s",
    "latency_us.all.mean",
    "operations.total",
    "operations.conflict",
    "operations.timeout",
    "operations.error",
    "transport",
    "capabilities.device",
)


def write(root: Path, into: Path) -> list[Path]:
    """Writes reference results for every result folder at or below `root`; returns the folders written."""
    found = [folder for folder in outputs.folders(root) if (folder / "points").is_dir()]
    if not found:
        raise BadInput(f"{root}: no results in or below it; expected a folder that `loch run` wrote")
    written = []
    for folder in found:
        results, choices, store = outputs.load(folder)
        damaged = [each for path, each in store.damaged.items() if path.exists()]
        if damaged:
            raise BadInput(f"{damaged[0]}; run it again first: ./loch run {results.experiment.file}")
        missing = sum(row.stored is None for row in results.rows)
        if missing:
            raise BadInput(
                f"{folder}: {missing} points have not run; finish it first: ./loch run {results.experiment.file}"
            )
        if _has_changed(results.experiment):
            raise BadInput(
                f"{folder}: {results.experiment.file} is no longer what ran; run it again: "
                f"./loch run {results.experiment.file}"
            )
        target = into / results.experiment.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        report = blocks.markdown(outputs.report_of(folder, results, choices, store))
        _write_one(folder, target, results, report)
        written.append(target)
    return written


def _has_changed(experiment: Experiment) -> bool:
    """Whether the experiment file differs from what was run, so that file and results would not belong together."""
    source = Path(experiment.file)
    if not source.is_file() or experiment.overrides:
        return False
    return json.dumps(located.load(source).plain(), default=str) != json.dumps(experiment.document, default=str)


def _write_one(folder: Path, target: Path, results: Results, report: str) -> None:
    experiment = results.experiment
    source = Path(experiment.file)
    if source.is_file() and not experiment.overrides:
        shutil.copyfile(source, target / "experiment.yaml")
    else:
        write_atomically(target / "experiment.yaml", located.dump(experiment.document))
    write_atomically(target / "report.md", report.replace(experiment.file, _of_tree(experiment.file)))
    write_atomically(target / "table.csv", results.csv(columns(results)))
    write_atomically(target / "manifest.json", _manifest(folder, results))
    write_atomically(target / "data.json", _data(results))
    if results.bands is not None:
        bands.write(target, results.bands)


def columns(results: Results) -> set[str]:
    """The result fields that the figure, claims and published numbers of an experiment use."""
    experiment, figure = results.experiment, results.experiment.figure
    out = {*_CORE, *figure.y, *figure.rows, *experiment.derive, *(system.goal for system in experiment.systems)}
    if figure.along:
        out.add(figure.x)
    names = [name for claim in experiment.claims for name in expression.names(claim.claim)]
    item = published.of(results)
    out.update(item.predictions if item else ())
    for cell in item.cells if item else []:
        if cell.is_single:
            names += expression.names(cell.obtained)
        else:
            out.add(cell.field)
    out |= null_models.columns(experiment)
    for headline in roles.load(published.FOLDER).headlines:
        if headline.experiment == experiment.name:
            names += expression.names(headline.claim.claim)
    return out | {name.path.partition(".")[2] for name in names if lookup.system_of(name)}


def _manifest(folder: Path, results: Results) -> str:
    """The run's manifest without the parts that only a rerun needs; one line for each point."""
    document = read_json(folder / "manifest.json")
    points = [
        {"point": each["point"], "system": each["system"], "elapsed_s": each["elapsed_s"]}
        for each in document.pop("points")
    ]
    tuned = [
        float(stored.runner.elapsed_s or 0)
        for path in sorted((folder / "points").glob("*.json"))
        if (stored := read_point(path)) and stored.runner.tuning
    ]
    document["tuning_mean_s"] = round(sum(tuned) / len(tuned), 3) if tuned else None
    document["tuned"] = [
        {key: value for key, value in choice.items() if key != "candidates"} for choice in document["tuned"]
    ]
    document["file"] = _of_tree(results.experiment.file)
    lines = ",\n  ".join(json.dumps(each) for each in points)
    return json.dumps(document, indent=1, default=str)[:-2] + f',\n "points": [\n  {lines}\n ]\n}}\n'


def _of_tree(file: str) -> str:
    """The path of an experiment relative to the source tree."""
    return "experiments/" + file.rpartition("experiments/")[2] if "experiments/" in file else Path(file).name


def _data(results: Results) -> str:
    figure = results.experiment.figure
    out: dict[str, dict] = {}
    for row in results.rows:
        kept: dict[str, Any] = {}
        if row.failure is not None:
            kept["failure"] = {"reason": row.failure.reason}
        elif figure.kind == "cdf":
            kept["distributions"] = {y: node for y in figure.y if isinstance(node := row.result.node(y), (list, dict))}
        elif figure.kind == "timeline":
            kept["distributions"] = {
                name: row.result.document.get(name) for name in ("timeline", "events", "probed_keys", "duration_s")
            }
        if row.ok and (caveats := row.result.known.caveats):
            kept["caveats"] = caveats
        if row.point.is_measured and row.stored is not None:
            host = row.stored.runner.host
            kept["host"] = {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel, "governor": host.governor}
            kept["others_cpu_share"] = row.stored.runner.others_cpu_share
        if kept:
            out[row.hash] = kept
    lines = ",\n ".join(f"{json.dumps(name)}: {json.dumps(kept, separators=(',', ':'))}" for name, kept in out.items())
    return "{" + (f"\n {lines}\n" if lines else "") + "}\n"
