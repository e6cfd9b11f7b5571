"""The papers' numbers (plots/published/*.yaml), and how ours compare with them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from . import located, schema
from .errors import BadInput, did_you_mean
from .tables import Results

FOLDER = Path(__file__).resolve().parent.parent.parent / "plots" / "published"


@dataclass(frozen=True)
class Cell:
    """One published number: its id in the list of targets, and its value, None when it is withheld."""

    id: str
    field: str
    series: str
    at: object
    value: float | None


@dataclass(frozen=True)
class PublishedItem:
    """One figure or table of one paper."""

    source: str
    item: str
    citation: str
    setup: str
    axis: str
    where: tuple[tuple[str, object], ...]
    cells: tuple[Cell, ...]

    def value(self, field: str, series: str, at: object) -> float | None:
        """The number, or None when it is withheld or not published."""
        return next((c.value for c in self.cells if (c.field, c.series, c.at) == (field, series, at)), None)

    def series(self, field: str, series: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.field == field and cell.series == series]


@lru_cache(maxsize=None)
def find(source: str, item: str, folder: Path = FOLDER) -> PublishedItem | None:
    """A published item, or None when we have no numbers of it."""
    path = folder / f"{source}.yaml"
    if not path.is_file():
        return None
    document = located.load(path)
    items = document.mapping().get("items")
    found = items.mapping().get(item) if items is not None else None
    return _item(document, found, source, item) if found is not None else None


def _item(document: located.Item, found: located.Item, source: str, name: str) -> PublishedItem:
    entries = found.mapping()
    for key in ("axis", "at", "first_id", "metrics"):
        if key not in entries:
            raise found.error("missing", key)
    axis = str(entries["axis"].value)
    at = [schema.value_of(each, axis) for each in entries["at"].items or []]
    where = entries["where"].mapping() if "where" in entries else {}
    cells: list[Cell] = []
    number = int(entries["first_id"].value)
    for field, series_of in entries["metrics"].mapping().items():
        for series, values in series_of.mapping().items():
            if values.items is None or len(values.items) != len(at):
                raise values.error(f"expected {len(at)} numbers (null: withheld), one for each of at:")
            for place, value in zip(at, values.items):
                if value.value is not None and not isinstance(value.value, (int, float)):
                    raise value.error(f"expected a number or null, found {value.kind()}")
                cells.append(Cell(f"V{number}", field, series, place, value.value))
                number += 1
    text = {key: str(entries[key].value) if key in entries else "" for key in ("setup",)}
    citation = document.mapping().get("citation")
    return PublishedItem(source, name, str(citation.value) if citation else source, text["setup"], axis,
                         tuple((key, schema.value_of(child, key)) for key, child in where.items()), tuple(cells))


def of(results: Results) -> PublishedItem | None:
    """What the experiment's paper: names, or None."""
    paper = results.experiment.paper
    return find(paper.source, paper.item) if paper else None


def check(experiment_item: located.Item, source: str) -> None:
    """Refuses a paper that plots/published does not know."""
    known = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    if source not in known:
        raise BadInput(f"{experiment_item.file}:{experiment_item.line}: paper.source: {source} is not in plots/published"
                       f"{did_you_mean(source, known)}")


@dataclass(frozen=True)
class Comparison:
    """One published number beside what we obtained; either may be missing."""

    cell: Cell
    system: str
    obtained: float | None

    @property
    def error(self) -> float | None:
        """obtained / published - 1."""
        if self.obtained is None or not self.cell.value:
            return None
        return self.obtained / self.cell.value - 1


def compare(results: Results) -> list[Comparison]:
    """Every published cell whose series a simulated or verbs system stands for, in the paper's order."""
    item = of(results)
    if item is None or item.axis not in results.experiment.axes:
        return []
    out = []
    for cell in item.cells:
        for system in results.experiment.systems:
            if system.published != cell.series or system.params["fabric"] == "shm":
                continue  # shared memory on one machine is not the published cluster
            for axes in results.axes_of(system.name):
                rows = results.at(system.name, axes)
                if not results.has_field(system.name, cell.field):
                    continue  # this experiment does not derive it
                if axes[item.axis] == cell.at and all(rows[0].point.params.get(k) == v for k, v in item.where):
                    out.append(Comparison(cell, system.name, results.median(system.name, axes, cell.field)))
    return out


@dataclass(frozen=True)
class Score:
    """How many numbers came how near."""

    numbers: int
    within_5: int
    within_10: int
    within_25: int
    median_error: float | None
    worst: Comparison | None

    def text(self) -> str:
        if not self.numbers:
            return "no published number can be compared"
        worst = f"{self.worst.cell.id} {self.worst.error:+.1%}"
        return (f"{self.numbers} numbers: {self.within_5} within 5 %, {self.within_10} within 10 %, "
                f"{self.within_25} within 25 %; median absolute error {self.median_error:.1%}; worst {worst}")


def score(comparisons: list[Comparison]) -> Score:
    """Counts over the comparisons that have both numbers."""
    errors = [(abs(each.error), each) for each in comparisons if each.error is not None]
    sizes = [size for size, _ in errors]
    def within(limit: float) -> int:
        return sum(size <= limit + 1e-12 for size in sizes)
    return Score(len(errors), within(0.05), within(0.10), within(0.25), statistics.median(sizes) if sizes else None,
                 max(errors, key=lambda pair: pair[0])[1] if errors else None)
