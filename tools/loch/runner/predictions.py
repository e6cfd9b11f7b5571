"""What is obtained at every point of a figure of which a part of the published rows is not in this repository: the result
fields that an item of plots/published names under `predictions:`, by series and place, so that whoever has the other
rows can hold them against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import markup, report
from .grid import show
from .published import Comparison, PublishedItem
from .tables import Results


@dataclass(frozen=True)
class Prediction:
    """One system at one combination of axis values; both tuples are in the order of the item's `predictions:`."""

    source: str
    item: str
    experiment: str
    overrides: tuple[str, ...]  # what the run changed of its experiment file (--set)
    system: str
    axes: tuple[tuple[str, Any], ...]
    obtained: tuple[tuple[str, float | None], ...]  # by field; None: the point has failed or does not have the field
    published: tuple[float | None, ...]  # None: not in this repository
    repeats: int  # those that have a result


def of_results(results: Results, item: PublishedItem | None, comparisons: list[Comparison]) -> list[Prediction]:
    """The predictions of one experiment; none on shared memory (fabric shm) or if its item asks for none."""
    if item is None or not item.predictions:
        return []
    known = {(each.system, each.axes, each.field): each.cell.value for each in comparisons}
    out = []
    for system in results.experiment.systems:
        if system.params["fabric"] == "shm":
            continue
        for axes in results.axes_of(system.name):
            place = tuple(axes.items())
            out.append(
                Prediction(
                    item.source,
                    item.item,
                    results.experiment.name,
                    tuple(results.experiment.overrides),
                    system.name,
                    place,
                    tuple((field, results.median(system.name, axes, field)) for field in item.predictions),
                    tuple(known.get((system.name, place, field)) for field in item.predictions),
                    sum(row.ok for row in results.at(system.name, axes)),
                )
            )
    return out


def markdown(predictions: list[Prediction]) -> list[str]:
    """The score's section of predictions, one table for each experiment; nothing if there are none."""
    if not predictions:
        return []
    out = [
        "## Predictions by series\n",
        "Medians over repeats at every point of figures whose published rows are not all in this repository; those that"
        " are stand in brackets.\n",
    ]
    by_experiment: dict[str, list[Prediction]] = {}
    for each in predictions:
        by_experiment.setdefault(each.experiment, []).append(each)
    for name, rows in by_experiment.items():
        first = rows[0]
        changed = f", run with {markup.code(' '.join(first.overrides))}" if first.overrides else ""
        out.append(f"### {name} ({first.item} of {first.source}{changed})\n")
        head = ["series", *(axis for axis, _ in first.axes), *(field for field, _ in first.obtained), "repeats"]
        out.append(markup.table(head, [_cells(each) for each in rows]))
    return out


def _cells(each: Prediction) -> list[str]:
    cells = [each.system, *(show(axis, value) for axis, value in each.axes)]
    for (_, obtained), published in zip(each.obtained, each.published):
        beside = f" ({report.number(published)})" if published is not None else ""
        cells.append(("no result" if obtained is None else report.number(obtained)) + beside)
    return [*cells, str(each.repeats)]


def as_json(predictions: list[Prediction]) -> list[dict[str, Any]]:
    """One entry for each point."""
    return [
        {
            "source": each.source,
            "item": each.item,
            "experiment": each.experiment,
            "overrides": list(each.overrides),
            "system": each.system,
            "at": dict(each.axes),
            "obtained": dict(each.obtained),
            "published": {field: known for (field, _), known in zip(each.obtained, each.published)},
            "repeats": each.repeats,
        }
        for each in predictions
    ]
