"""A result folder: collects stored points into Results, and writes table, report, manifest and figures."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

from loch.ending import reason
from loch.places import SOURCE
from loch.written import write_atomically

from . import (
    auto_repeats,
    bands,
    blocks,
    claims,
    drawing,
    explanations,
    grid,
    inline_svg,
    located,
    page,
    report,
    schema,
)
from .errors import BadInput, reading
from .model import Experiment
from .points import PointSource, Store, point_hash
from .stored_json import read_json
from .table_store import TableStore
from .tables import Results, Row

FIGURES = ("figure.pdf", "figure.png", "figure.svg")
NAMES = (*FIGURES, "table.csv", "report.md", "report.html")
PLOTS = Path(SOURCE) / "plots"


def collect(experiment: Experiment, store: PointSource, choices: list[dict]) -> Results:
    """The points of an experiment with what is stored of each, in the order of systems, axis values and repeats."""
    by_place: dict[tuple, list[grid.Point]] = {}
    chosen = report.choices_by_key(choices)
    for point in grid.points(experiment, chosen, auto_repeats.counts(experiment, store, chosen)):
        by_place.setdefault(grid.choice_key(point.system, point.axes), []).append(point)
    rows = []
    for system in experiment.systems:
        for axes in grid.combinations(experiment, system):
            for point in by_place[grid.choice_key(system.name, axes)]:
                stored = store.of(point)
                rows.append(Row(point, stored.hash if stored else point_hash(point), stored))
    return Results(experiment, rows)


def write(
    folder: Path, results: Results, choices: list[dict], stale: int, store: Store
) -> tuple[list[claims.Verdict], blocks.Report]:
    """Writes table.csv, report.md and manifest.json; returns the verdicts on the claims, and the report."""
    verdicts = claims.judge_all(results)
    write_atomically(folder / "table.csv", results.csv())
    written = report.write_up(results, verdicts, choices, stale, store)
    write_atomically(folder / "report.md", blocks.markdown(written))
    write_atomically(folder / "manifest.json", report.manifest(results, verdicts, choices, stale))
    return verdicts, written


def is_drawn(folder: Path, results: Results) -> bool:
    """Whether the figure and report.html exist and were made from `results`."""
    mark = folder / ".figure"
    return (
        mark.is_file()
        and mark.read_text(encoding="utf-8") == _figure_stamp(folder, results)
        and all((folder / name).is_file() for name in NAMES)
    )


def draw_all(folder: Path, results: Results, written: blocks.Report) -> None:
    """Writes the figure, report.html and the file .figure, whose hash shows that they were made from `results`."""
    mark = folder / ".figure"
    mark.unlink(missing_ok=True)
    draw(folder, results)
    write_atomically(folder / "report.html", page.of_folder(folder, written))
    write_atomically(mark, _figure_stamp(folder, results))


def redraw(folder: Path, results: Results, choices: list[dict], store: PointSource) -> None:
    """Draws the figure and writes report.html again, from stored results."""
    draw(folder, results)
    write_atomically(folder / "report.html", page.of_folder(folder, report_of(folder, results, choices, store)))


def report_of(folder: Path, results: Results, choices: list[dict], store: PointSource) -> blocks.Report:
    """The report of stored results, with the bands that lie beside them."""
    stale = int(read_json(folder / "manifest.json").get("stale", 0))
    return report.write_up(results, claims.judge_all(results), choices, stale, store)


def write_overview(root: Path) -> None:
    """Writes the report.html of a folder that contains several result folders."""
    write_atomically(
        root / "report.html", page.of_folders(root, [folder for folder in folders(root) if folder != root])
    )


def _figure_stamp(folder: Path, results: Results) -> str:
    """A hash of everything that the figure and report.html depend on; they are drawn again only if it has changed."""
    digest = hashlib.sha256((folder / "manifest.json").read_bytes())
    digest.update(results.csv().encode())
    if (folder / bands.NAME).is_file():
        digest.update((folder / bands.NAME).read_bytes())
    for path in sorted(
        [
            *PLOTS.glob("*.py"),
            *PLOTS.glob("published/*.yaml"),
            *Path(page.__file__).parent.glob("templates/*"),
            Path(page.__file__),
            Path(inline_svg.__file__),
            Path(explanations.__file__),
            *explanations.DOCS.glob("fidelity.md"),
        ]
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def clear(folder: Path) -> None:
    """For --fresh: removes the files that an earlier run wrote next to its points."""
    for name in (*NAMES, ".figure", "manifest.json", bands.NAME):
        (folder / name).unlink(missing_ok=True)


def draw(folder: Path, results: Results) -> None:
    """Writes figure.pdf, figure.png and figure.svg."""
    from plots import draw as figures

    figures.draw(drawing.of(results), folder)


def load(folder: Path) -> tuple[Results, list[dict], PointSource]:
    """Loads the results of a finished run from its manifest and its points.

    Points that are damaged, or missing although the manifest lists them, have no result and are named in `damaged`.
    """
    path = folder / "manifest.json"
    try:
        document = read_json(path)
        plain, file = document["experiment"], str(document["file"])
        choices, overrides = document["tuned"], [str(each) for each in document["overrides"]]
        ran = {str(each["point"]) for each in document["points"] if each.get("status", "missing") != "missing"}
    except BadInput as error:
        raise BadInput(f"{path}: not a manifest of `loch run`: {str(error).removeprefix(f'{path}: ')}") from None
    except (AttributeError, KeyError, TypeError):
        raise BadInput(f"{path}: not a manifest of `loch run`") from None
    with reading(str(path)):
        item = located.from_plain(plain, str(path), "")
        _fix_paths(item, "")
        experiment = schema.read(item, overrides)
        experiment.file = file
        store = open_store(folder, experiment)
        results = collect(experiment, store, choices)
    results.bands = bands.read(folder)
    results.commit = str(document.get("commit", ""))
    for row in results.rows:
        if isinstance(store, Store) and row.stored is None and row.hash in ran:
            store.damaged.setdefault(store.path(row.hash), f"{store.path(row.hash)}: it is gone")
    return results, choices, store


def open_store(folder: Path, experiment: Experiment) -> PointSource:
    """The source of a result folder's points: the files in points/, or the table of a reference folder."""
    if (folder / "points").is_dir() or not (folder / "table.csv").is_file():
        return Store(folder / "points", "")
    try:
        return TableStore(folder, experiment)
    except (BadInput, OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise BadInput(
            f"{folder}: table.csv or data.json is not as `loch reference` wrote it: {reason(error)}"
        ) from None


def _fix_paths(item: located.Item, path: str) -> None:
    item.path = path
    for key, child in (item.entries or {}).items():
        _fix_paths(child, f"{path}.{key}" if path else key)


def folders(root: Path) -> list[Path]:
    """Every result folder at or below `root`, sorted by name."""
    if (root / "manifest.json").is_file():
        return [root]
    return sorted(path.parent for path in root.glob("**/manifest.json"))
