"""A result folder: collecting stored points into Results, and writing table, report, manifest and figures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from . import claims, grid, located, report, schema
from .errors import BadInput
from .model import Experiment
from .points import Store, point_hash, write_atomically
from .tables import Results, Row

FIGURES = ("figure.pdf", "figure.png", "figure.svg")
PLOTS = Path(__file__).resolve().parent.parent.parent / "plots"


def collect(experiment: Experiment, store: Store, choices: list[dict]) -> Results:
    """The experiment's points with whatever is stored of them."""
    rows = []
    for system in experiment.systems:
        for axes in grid.combinations(experiment, system):
            chosen = report.choices_by_key(choices).get(grid.choice_key(system.name, axes), {})
            for repeat in range(experiment.measure.repeats):
                params = grid.resolve(system, axes, experiment.measure.seed + repeat, chosen)
                point = grid.Point(system.name, axes, repeat, params, chosen=chosen)
                name = point_hash(point)
                rows.append(Row(point, name, store.find(name)))
    return Results(experiment, rows)


def write(folder: Path, results: Results, choices: list[dict], stale: int, store: Store) -> list[claims.Verdict]:
    """table.csv, report.md, manifest.json and the figure; returns the verdicts on the claims."""
    verdicts = claims.judge_all(results)
    write_atomically(folder / "table.csv", results.csv())
    write_atomically(folder / "report.md", report.markdown(results, verdicts, choices, stale, store))
    write_atomically(folder / "manifest.json", report.manifest(results, verdicts, choices))
    mark = folder / ".figure"
    stamp = _figure_stamp(folder, results)
    if not (mark.is_file() and mark.read_text(encoding="utf-8") == stamp and all((folder / f).is_file() for f in FIGURES)):
        mark.unlink(missing_ok=True)
        draw(folder, results)
        write_atomically(mark, stamp)
    return verdicts


def _figure_stamp(folder: Path, results: Results) -> str:
    """What the figure follows from: if it is as it was, so is the figure."""
    digest = hashlib.sha256((folder / "manifest.json").read_bytes())
    digest.update(results.csv().encode())
    for path in sorted([*PLOTS.glob("*.py"), *PLOTS.glob("published/*.yaml")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def clear(folder: Path) -> None:
    """--fresh: what an earlier run wrote beside its points goes too."""
    for name in (*FIGURES, ".figure", "table.csv", "report.md", "manifest.json"):
        (folder / name).unlink(missing_ok=True)


def draw(folder: Path, results: Results) -> None:
    """figure.pdf, .png and .svg."""
    from plots import draw as figures
    figures.draw(results, folder)


def load(folder: Path) -> tuple[Results, list[dict], Store]:
    """The results of a finished run, from its manifest and points alone."""
    path = folder / "manifest.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        plain, file = document["experiment"], document["file"]
        choices, overrides = document["tuned"], document["overrides"]
    except OSError as error:
        raise BadInput(f"{path}: cannot read it: {error.strerror}; expected a folder that `loch run` wrote") from None
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{path}: not a manifest of `loch run`") from None
    item = located.from_plain(plain, str(path), "")
    _fix_paths(item, "")
    experiment = schema.read(item, overrides)
    experiment.file = file
    store = Store(folder / "points", "")
    return collect(experiment, store, choices), choices, store


def _fix_paths(item: located.Item, path: str) -> None:
    item.path = path
    for key, child in (item.entries or {}).items():
        _fix_paths(child, f"{path}.{key}" if path else key)


def folders(root: Path) -> list[Path]:
    """Every result folder at or below `root`, in order of name."""
    if (root / "manifest.json").is_file():
        return [root]
    return sorted(path.parent for path in root.glob("**/manifest.json"))
