"""The papers' numbers (plots/published/*.yaml), and their comparison with obtained results."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from loch.places import SOURCE

from . import claim_list, expression, located, lookup, targets, values
from .errors import BadInput, did_you_mean
from .grid import show
from .model import Experiment
from .tables import Results

FOLDER = Path(SOURCE) / "plots" / "published"


NO_PAPERS = (
    targets.NAME,
    "readings",
    "roles",
    "assumptions",
    "mechanisms",
    "misses",
)  # files in FOLDER that hold no paper's numbers
KINDS = {"E": "exact", "D": "derived", "T": "trend"}


@dataclass(frozen=True)
class Cell:
    """One published number: its id in plots/published/targets.yaml, and its value, None if the paper withholds it.

    The number belongs to a field, a series and an axis value, or is single: then `obtained` is the expression to
    compare.
    """

    id: str
    # name of the result field that the published number is compared with; for a number that belongs to no series, a
    # text that describes it
    field: str
    series: str
    at: Any
    value: float | None
    kind: str = "E"  # a letter of KINDS, such as E for an exact number
    # whether the simulator was calibrated on the published number, so that the result is no prediction
    calibration: bool = False
    explained: str = ""  # section docs/fidelity.md#anchor that explains why the result misses this value
    # for a number that belongs to no series: the expression over results that gives the obtained number
    obtained: Any = None
    axis: str = ""
    where: tuple[tuple[str, Any], ...] = ()
    place: str = ""  # file:line of the number, for error messages

    @property
    def is_single(self) -> bool:
        return self.obtained is not None


@dataclass(frozen=True)
class Shown:
    """A published value that is drawn and not compared, because it counts elsewhere or has no result of its own.

    With a series it is a mark of that series at one place; without, a line across the panels of its field.
    """

    field: str
    value: float
    what: str
    series: str = ""
    at: tuple[tuple[str, Any], ...] = ()
    id: str = ""  # id of the number, if it has one; a line with an id stands instead of that number's own mark


@dataclass(frozen=True)
class PublishedItem:
    """One figure or table of a paper with its numbers."""

    source: str
    item: str
    citation: str
    setup: str
    cells: tuple[Cell, ...]
    called: str = "published"  # word for the item's numbers in figures and reports
    # section docs/fidelity.md#anchor that explains numbers that the results miss and that name no section of their own
    explained: str = ""
    # series whose order at each place is compared with that of the results (orders.py), and the published lead, as a
    # share, below which a pair of them has no order
    orders: tuple[str, ...] = ()
    alike: float = 0.0
    shown: tuple[Shown, ...] = ()
    # result fields that the score prints at every point, published there or not (predictions.py)
    predictions: tuple[str, ...] = ()

    def value(self, field: str, series: str, at: Any) -> float | None:
        """The published value, or None if it is withheld or not published."""
        return next((c.value for c in self.cells if (c.field, c.series, c.at) == (field, series, at)), None)

    def series(self, field: str, series: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.field == field and cell.series == series]


@lru_cache(maxsize=None)
def find(source: str, item: str) -> PublishedItem | None:
    """The numbers of a paper's figure or table, or None if plots/published has none."""
    path = FOLDER / f"{source}.yaml"
    if not path.is_file():
        return None
    document = located.load(path, ours=True)
    items = document.mapping().get("items")
    found = items.mapping().get(item) if items is not None else None
    return _item(document, found, source, item) if found is not None else None


_ITEM = (
    "setup",
    "axis",
    "at",
    "where",
    "first_id",
    "ids",
    "metrics",
    "numbers",
    "groups",
    "calibration",
    "why",
    "kind",
    "orders",
    "shown",
    "predictions",
)
_SHOWN = ("field", "value", "what", "series", "at", "id")
_NUMBER = ("id", "what", "value", "kind", "calibration", "why", "obtained")
_ID = re.compile(r"V\d+[a-z]*")


def _item(document: located.Item, found: located.Item, source: str, name: str) -> PublishedItem:
    """Reads one figure or table of a paper (an item): numbers on axes (`metrics:`, of the item and of its `groups:`),
    and single numbers (`numbers:`)."""
    entries = found.mapping()
    _known(found, _ITEM)
    cells: list[Cell] = []
    groups = [found] if "metrics" in entries else []
    groups += entries["groups"].items or [] if "groups" in entries else []
    for group in groups:
        _known(group, _ITEM)
        cells += _cells(group, found)
    for number in entries["numbers"].items or [] if "numbers" in entries else []:
        cells.append(_number(number, found))
    if not cells:
        raise found.error("expected metrics: on an axis, or numbers:")
    cells = [_as_listed(cell) for cell in cells]
    citation, word = (document.mapping().get(key) for key in ("citation", "called"))
    orders, alike = _orders(entries.get("orders"), {cell.series for cell in cells})
    return PublishedItem(
        source,
        name,
        str(citation.value) if citation else source,
        str(entries["setup"].value) if "setup" in entries else "",
        tuple(cells),
        str(word.value) if word else "published",
        claim_list.pointer(entries.get("why")),
        orders,
        alike,
        tuple(_shown(each) for each in (entries["shown"].items or [] if "shown" in entries else [])),
        _predictions(entries.get("predictions")),
    )


def _shown(item: located.Item) -> Shown:
    """Reads an entry of `shown:`."""
    _known(item, _SHOWN)
    entries = item.mapping()
    for key in ("field", "value", "what"):
        if key not in entries:
            raise item.error("missing", key)
    if ("series" in entries) != ("at" in entries):
        raise item.error("expected both series: and at:, or neither", "series" if "series" in entries else "at")
    value = _value(entries["value"])
    if value is None:
        raise entries["value"].error("expected a number")
    at = entries["at"].mapping() if "at" in entries else {}
    return Shown(
        str(entries["field"].value),
        value,
        str(entries["what"].value),
        str(entries["series"].value) if "series" in entries else "",
        tuple((key, values.value_of(child, key)) for key, child in at.items()),
        _id(entries["id"]) if "id" in entries else "",
    )


def _orders(item: located.Item | None, known: set[str]) -> tuple[tuple[str, ...], float]:
    """Reads `orders: {series: [A, B], alike: 0.05}`."""
    if item is None:
        return (), 0.0
    entries = item.mapping()
    for key in entries:
        if key not in ("series", "alike"):
            raise item.error(f"no such key{did_you_mean(key, ('series', 'alike'))}", key)
    for key in ("series", "alike"):
        if key not in entries:
            raise item.error("missing", key)
    series = [str(each.value) for each in entries["series"].items or []]
    unknown = [name for name in series if name not in known]
    if unknown or len(series) < 2 or len(set(series)) < len(series):
        raise entries["series"].error(
            "expected at least two series of the item" + (f", not {unknown[0]}" if unknown else "")
        )
    alike = _value(entries["alike"])
    if alike is None or not 0 <= alike < 1:
        raise entries["alike"].error("expected a share from 0 to below 1")
    return tuple(series), float(alike)


def _predictions(item: located.Item | None) -> tuple[str, ...]:
    """Reads `predictions: [FIELD, …]`."""
    if item is None:
        return ()
    fields = [each.value for each in item.items or []]
    if not fields or len(set(map(str, fields))) < len(fields) or not all(_is_name(each) for each in fields):
        raise item.error("expected a list of result fields, each once, such as [throughput_ops_s]")
    return tuple(fields)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value == value.strip()


def _as_listed(cell: Cell) -> Cell:
    """The published number `cell`, completed by what the list of targets (targets.yaml) says of its id."""
    target = targets.load(FOLDER).get(targets.base(cell.id))
    if target is None:
        return cell
    return replace(
        cell,
        calibration=cell.calibration or target.calibration,
        kind="T" if target.kind == "T" and cell.kind == "E" else cell.kind,
    )


def _known(item: located.Item, allowed: tuple[str, ...]) -> None:
    for key in item.mapping():
        if key not in allowed:
            raise item.error(f"no such key{did_you_mean(key, allowed)}", key)


def _traits(item: located.Item, above: located.Item) -> dict[str, Any]:
    """The keys kind, calibration and why of a number, or those that its item gives for all its numbers."""
    entries = {**above.mapping(), **item.mapping()}
    kind = str(entries["kind"].value) if "kind" in entries else "E"
    if kind not in KINDS:
        raise entries["kind"].error(f"expected one of {', '.join(f'{k} ({word})' for k, word in KINDS.items())}")
    calibration = entries["calibration"].value if "calibration" in entries else False
    if not isinstance(calibration, bool):
        raise entries["calibration"].error("expected true or false")
    return {"kind": kind, "calibration": calibration, "explained": claim_list.pointer(entries.get("why"))}


def _value(item: located.Item) -> float | None:
    if item.value is not None and (not isinstance(item.value, (int, float)) or isinstance(item.value, bool)):
        raise item.error(f"expected a number or null, found {item.kind()}")
    return item.value


def _cells(group: located.Item, above: located.Item) -> list[Cell]:
    """Reads numbers on an axis. Their ids count up from first_id, or are listed in ids:, with null for a missing
    number."""
    entries = group.mapping()
    for key in ("axis", "at", "metrics"):
        if key not in entries:
            raise group.error("missing", key)
    if ("first_id" in entries) == ("ids" in entries):
        raise group.error("expected first_id: or ids:", "first_id")
    axis, traits = str(entries["axis"].value), _traits(group, above)
    at = [values.value_of(each, axis) for each in entries["at"].items or []]
    where = tuple(
        (key, values.value_of(child, key))
        for key, child in (entries["where"].mapping() if "where" in entries else {}).items()
    )
    count = int(entries["first_id"].value) if "first_id" in entries else 0
    cells: list[Cell] = []
    for field, series_of in entries["metrics"].mapping().items():
        for series, numbers in series_of.mapping().items():
            if numbers.items is None or len(numbers.items) != len(at):
                raise numbers.error(f"expected {len(at)} numbers (null: withheld), one for each of at:")
            ids = (
                _ids(entries["ids"], field, series, len(at))
                if "ids" in entries
                else [f"V{count + i}" for i in range(len(at))]
            )
            count += len(at)
            cells += [
                Cell(
                    each,
                    field,
                    series,
                    place,
                    _value(value),
                    axis=axis,
                    where=where,
                    place=f"{value.file}:{value.line}",
                    **traits,
                )
                for each, place, value in zip(ids, at, numbers.items)
                if each
            ]
    return cells


def _ids(item: located.Item, field: str, series: str, count: int) -> list[str | None]:
    listed = item.mapping().get(field)
    listed = listed.mapping().get(series) if listed is not None else None
    if listed is None or listed.items is None or len(listed.items) != count:
        raise item.error(f"expected {count} ids such as V85 for {field}, {series} (null: no such number)")
    return [None if each.value is None else _id(each) for each in listed.items]


def _id(item: located.Item) -> str:
    if not _ID.fullmatch(str(item.value)):
        raise item.error(f"expected an id such as V85 or V85b, found {item.kind()}")
    return str(item.value)


def _number(item: located.Item, above: located.Item) -> Cell:
    """Reads a single number with the expression over results to compare it with."""
    _known(item, _NUMBER)
    entries = item.mapping()
    for key in ("id", "what", "value", "obtained"):
        if key not in entries:
            raise item.error("missing", key)
    text = str(entries["obtained"].value)
    try:
        tree = expression.parse_arithmetic(text)
    except expression.ExpressionError as error:
        raise entries["obtained"].error(f"cannot read {text!r}: {error}") from None
    if not expression.names(tree):
        raise entries["obtained"].error(f"{text!r} names no result")
    line = entries["obtained"].line
    return Cell(
        _id(entries["id"]),
        str(entries["what"].value),
        "",
        None,
        _value(entries["value"]),
        obtained=tree,
        place=f"{item.file}:{line}",
        **_traits(item, above),
    )


def of(results: Results) -> PublishedItem | None:
    """The published item that the experiment's `paper:` key names, or None."""
    paper = results.experiment.paper
    return find(paper.source, paper.item) if paper else None


def called(experiment: Experiment) -> str:
    """What figures call the numbers to which an experiment is compared: "published", or the word that their file
    gives."""
    item = find(experiment.paper.source, experiment.paper.item) if experiment.paper else None
    return item.called if item else "published"


def check(experiment_item: located.Item, experiment: Experiment) -> None:
    """Refuses a paper that plots/published does not have, and single numbers whose expression the experiment cannot
    evaluate."""
    paper = experiment.paper
    if paper is None:
        return
    known = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in NO_PAPERS)
    if paper.source not in known:
        raise BadInput(
            f"{experiment_item.file}:{experiment_item.line}: paper.source: {paper.source} is not in "
            f"plots/published{did_you_mean(paper.source, known)}"
        )
    item = find(paper.source, paper.item)
    if item is None or not paper.score:
        return
    for cell in item.cells:
        wrong = wrong_number(experiment, cell) if cell.is_single else None
        if wrong:
            raise BadInput(f"{cell.place}: {cell.id}: {wrong} (in {experiment.file})")


def wrong_number(experiment: Experiment, cell: Cell) -> str | None:
    """Why an experiment cannot evaluate a single number although it has some of its systems; None if it can."""
    if not is_asked(experiment, cell):
        return None  # the number's systems belong to another experiment of the same published item
    systems = [system.name for system in experiment.systems]
    for name in expression.names(cell.obtained):
        if not lookup.system_of(name):
            return f"{name.path} is no SYSTEM.field"
        is_as_written = not experiment.overrides
        wrong = lookup.wrong_name(experiment.axes, systems, name, is_as_written)
        if wrong:
            return wrong
        several = lookup.open_axes(experiment, name)
        if several:
            return f"{name.path} runs at several {' and '.join(several)}; say which in [...]"
        if is_as_written and not lookup.runs(experiment, name):
            return f"{name.path} does not run there"
    return None


def is_asked(experiment: Experiment, cell: Cell) -> bool:
    """Whether an experiment has any system that a single number's expression names."""
    systems = {system.name for system in experiment.systems}
    return any(lookup.system_of(name) in systems for name in expression.names(cell.obtained))


@dataclass(frozen=True)
class Comparison:
    """One published number and the obtained value; either may be missing."""

    cell: Cell
    system: str
    obtained: float | None
    axes: tuple[tuple[str, Any], ...] = ()  # the axis values of the obtained result
    missing: str = ""  # why there is no obtained value
    field: str = ""  # the result field, if the number is the value of a single field
    # for a ratio of two systems: the names of both systems, the result field, the axis values
    ratio: tuple | None = None

    @property
    def error(self) -> float | None:
        """obtained / published - 1; for a published 0, 0 if it was met and else None."""
        if self.obtained is None or self.cell.value is None:
            return None
        if self.cell.value == 0:
            return 0.0 if self.obtained == 0 else None
        return self.obtained / self.cell.value - 1

    @property
    def counts(self) -> bool:
        """Whether the number counts for the score: it is an exact one, and the simulator was not calibrated on it."""
        return self.error is not None and self.cell.kind == "E" and not self.cell.calibration


def compare(results: Results) -> list[Comparison]:
    """Compares published numbers with results, in the paper's order: each number on an axis with every system (not on
    shared memory, fabric shm) that stands for its series, and each single number whose expression the experiment's
    systems can evaluate."""
    item = of(results)
    out: list[Comparison] = []
    for cell in item.cells if item is not None else []:
        if not cell.is_single:
            out += _on_axis(results, cell)
        elif is_asked(results.experiment, cell) and not wrong_number(results.experiment, cell):
            out.append(_single(results, cell))
    return out


def _on_axis(results: Results, cell: Cell) -> list[Comparison]:
    out = []
    for system in results.experiment.systems:
        if (
            cell.axis not in results.experiment.axes
            or system.published != cell.series
            or system.params["fabric"] == "shm"
        ):
            continue  # not this number's axis or series, or a run on shm where the paper used a cluster
        if not results.has_field(system.name, cell.field):
            continue  # this experiment does not have the result field
        for axes in results.axes_of(system.name):
            rows = results.at(system.name, axes)
            if axes[cell.axis] == cell.at and all(rows[0].point.params.get(k) == v for k, v in cell.where):
                out.append(
                    Comparison(
                        cell,
                        system.name,
                        results.median(system.name, axes, cell.field),
                        tuple(axes.items()),
                        field=cell.field,
                    )
                )
    return out


def _single(results: Results, cell: Cell) -> Comparison:
    try:
        value = expression.evaluate(cell.obtained, lambda name: lookup.value(results, name))
    except (lookup.Missing, expression.ExpressionError) as error:
        return Comparison(cell, "", None, missing=str(error))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return Comparison(cell, "", None, missing=f"the expression gives {value}, no number")
    if isinstance(cell.obtained, expression.Name):  # the number is one field of one system, so a figure can show it
        system, _, field = cell.obtained.path.partition(".")
        places = lookup.places(results.experiment, cell.obtained)
        return Comparison(cell, system, float(value), tuple(places[0].items()), field=field)
    return Comparison(
        cell, "", float(value), ratio=None if cell.kind == "T" else _ratio(results.experiment, cell.obtained)
    )


def _ratio(experiment: Experiment, tree: Any) -> tuple | None:
    """The systems, field and axis values of a ratio such as CD[value_size=2K].goodput_bytes_s /
    SD[value_size=2K].goodput_bytes_s."""
    sides = (tree.left, tree.right) if isinstance(tree, expression.Binary) and tree.sign == "/" else ()
    if not sides or not all(isinstance(side, expression.Name) and not side.is_many for side in sides):
        return None
    (system, _, field), (base, _, below) = (side.path.partition(".") for side in sides)
    at, below_at = (lookup.places(experiment, side)[0] for side in sides)
    return (system, base, field, tuple(at.items())) if (field, at) == (below, below_at) else None


def place(comparison: Comparison) -> str:
    """The axis value of a comparison as text; empty for a single number."""
    return show(comparison.cell.axis, comparison.cell.at) if comparison.cell.axis else ""


@dataclass(frozen=True)
class Score:
    """Counts of published numbers by relative error."""

    numbers: int
    within_5: int
    within_10: int
    within_25: int
    median_error: float | None
    worst: Comparison | None

    def text(self) -> str:
        if self.worst is None:
            return "no published number can be compared"
        worst = f"{self.worst.cell.id} {self.worst.error:+.1%}"
        return (
            f"{self.numbers} numbers: {self.within_5} within 5 %, {self.within_10} within 10 %, "
            f"{self.within_25} within 25 %; median absolute error {self.median_error:.1%}; worst {worst}"
        )


def score(comparisons: list[Comparison]) -> Score:
    """The score of comparisons: counts of exact predicted numbers by relative error."""
    errors = [(abs(each.error), each) for each in comparisons if each.counts and each.error is not None]
    sizes = [size for size, _ in errors]

    def within(limit: float) -> int:
        return sum(size <= limit + 1e-12 for size in sizes)

    return Score(
        len(errors),
        within(0.05),
        within(0.10),
        within(0.25),
        statistics.median(sizes) if sizes else None,
        max(errors, key=lambda pair: pair[0])[1] if errors else None,
    )
