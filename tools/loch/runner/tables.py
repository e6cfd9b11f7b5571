"""Results as rows and as medians: table.csv, and the look-ups for figures, claims and comparisons."""

from __future__ import annotations

import csv
import io
import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import expression
from .grid import Point, choice_key
from .model import Experiment
from .result import Failure, Result, Stored

if TYPE_CHECKING:
    from .bands import Bands

# Result fields left out of table.csv: they differ between runs of the same simulation, or describe the machine.
_NOT_TIDY = (
    "provenance.",
    "loch.",
    "sim.wall_s",
    "sim.events_per_s",
    "sim.peak_memory_bytes",
    "config.json",
    "runner.",
)
_ABOVE = re.compile(r"(.+\.cdf\.[a-z_]+)\.above_(\d+)")


def flatten(document: dict, prefix: str = "") -> dict[str, Any]:
    """The scalars of nested mappings under dotted names; lists are left out."""
    out: dict[str, Any] = {}
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            out.update(flatten(value, name + "."))
        elif isinstance(value, (int, float, str, bool)) and not name.startswith(_NOT_TIDY):
            out[name] = value
    return out


@dataclass
class Row:
    """One point (run of loch-bench) of the figure with its stored result or failure; `stored` is None if it has not
    run."""

    point: Point
    hash: str
    stored: Stored | None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.stored is not None and not self.stored.failed

    @property
    def result(self) -> Result:
        """The result of a point that succeeded; LookupError for any other point."""
        if self.stored is None or self.stored.result is None:
            raise LookupError(f"{self.point.title()}: it has no result")
        return self.stored.result

    @property
    def failure(self) -> Failure | None:
        """The failure of a point that has run without a result, else None."""
        return self.stored.failure if self.stored is not None else None


def failed_share(row: Row) -> float:
    """The share of a point's operations that gave up: conflict, timeout, or error, which includes a full table."""
    total = row.fields.get("operations.total") or 0
    gave_up = sum(row.fields.get(f"operations.{kind}") or 0 for kind in ("conflict", "timeout", "error"))
    return gave_up / total if total else 0.0


class Results:
    """All rows of one experiment, in the order of the file."""

    def __init__(self, experiment: Experiment, rows: list[Row]) -> None:
        self.experiment = experiment
        self.rows = rows
        self.commit = ""  # the commit of the program that ran the points, if they do not say it (reference results)
        # intervals of the results over random draws of hardware constants, if the experiment was run with --samples
        self.bands: Bands | None = None
        self._by_place: dict[tuple, list[Row]] = {}
        for row in rows:
            if row.ok:
                row.fields = flatten(row.result.document)
                for name, tree in experiment.derive.items():
                    value = _derived(tree, row.fields, row.result)
                    if value is not None:
                        row.fields[name] = value
            self._by_place.setdefault(choice_key(row.point.system, row.point.axes), []).append(row)

    def at(self, system: str, axes: dict[str, Any]) -> list[Row]:
        """The repeats of one system at one combination of axis values."""
        return self._by_place.get(choice_key(system, axes), [])

    def values(self, system: str, axes: dict[str, Any], field_name: str) -> list[float]:
        """The values of a field in the repeats that have it; verbs.per_get.cdf.read.above_2 is the share above 2 of a
        distribution."""
        return self.values_by_seed(system, axes, field_name)[0]

    def values_by_seed(self, system: str, axes: dict[str, Any], field_name: str) -> tuple[list[float], list[int]]:
        """As `values`, with the seed of each value's cluster, which repeats share under `preloads`."""
        found = [(_field(row, field_name), int(row.point.params["seed"])) for row in self.at(system, axes) if row.ok]
        kept = [(float(value), seed) for value, seed in found if isinstance(value, (int, float))]
        return [value for value, _ in kept], [seed for _, seed in kept]

    def median(self, system: str, axes: dict[str, Any], field_name: str) -> float | None:
        """The median of a field over repeats, or None if no repeat has it."""
        values = self.values(system, axes, field_name)
        return statistics.median(values) if values else None

    def axes_of(self, system: str) -> list[dict[str, Any]]:
        """The combinations of axis values at which a system was to run."""
        seen: dict[tuple, dict[str, Any]] = {}
        for row in self.rows:
            if row.point.system == system:
                seen.setdefault(choice_key(system, row.point.axes), row.point.axes)
        return list(seen.values())

    def has_field(self, system: str, field_name: str) -> bool:
        """Whether any result of a system has a field."""
        return any(field_name in row.fields for row in self.rows if row.point.system == system)

    def has_failures(self, system: str, axes: dict[str, Any]) -> bool:
        return any(not row.ok for row in self.at(system, axes))

    def csv(self, only: set[str] | None = None) -> str:
        """table.csv: one row for each point and repeat, system and axes first; `only`: the result fields to include."""
        leading = ["system", *self.experiment.axes, "repeat", "seed", "status", "point"]
        names = {name for row in self.rows for name in row.fields if only is None or name in only}
        names |= {name for name in only or () if _ABOVE.fullmatch(name)}
        columns = sorted(names - set(leading))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(leading + columns)
        for row in self.rows:
            status = "ok" if row.ok else "failed" if row.stored else "missing"
            head = [
                row.point.system,
                *(axis_text(v) for v in row.point.axes.values()),
                row.point.repeat + 1,
                row.point.seed,
                status,
                row.hash,
            ]
            writer.writerow(head + [axis_text(_field(row, name)) for name in columns])
        return out.getvalue()


def _field(row: Row, name: str) -> Any:
    """A result field of a row, or the share of a distribution above a limit."""
    tail = None if name in row.fields else _ABOVE.fullmatch(name)
    if not tail:
        return row.fields.get(name)
    return _share_above(row.result, *tail.groups()) if row.ok else None


def _share_above(result: Result, field_name: str, limit: str) -> float | None:
    node = result.node(field_name)
    if not isinstance(node, list) or not node:
        return None
    return 1 - max((share for value, share in node if value <= int(limit)), default=0.0)


def _derived(tree: Any, fields: dict[str, Any], result: Result) -> float | None:
    def lookup(name: expression.Name) -> Any:
        value = fields.get(name.path)
        if value is None:
            value = result.node(name.path)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise KeyError(name.path)
        return value

    try:
        value = expression.evaluate(tree, lookup)
    except (KeyError, expression.ExpressionError):
        return None
    return value if isinstance(value, (int, float)) and value == value else None


def axis_text(value: Any) -> str:
    """An axis value in the form that table.csv uses."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
