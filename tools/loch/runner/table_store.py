"""Reference results (reference/NAME) as a source of stored points."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from .errors import BadInput
from .grid import Point
from .model import Experiment
from .result import Stored, of_table
from .stored_json import read_json
from .tables import axis_text


LARGEST = 1 << 1023  # the largest power of two that a float can be


class TableStore:
    """The points of a reference folder, with the interface of points.Store."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder
        self._axes = list(experiment.axes)
        self.damaged: dict[Path, str] = {}  # always empty, because a damaged table is refused as a whole
        self._rows: dict[tuple, dict[str, str]] = {}
        with open(folder / "table.csv", encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                self._rows[(row["system"], row["repeat"], *(row[axis] for axis in self._axes))] = row
        path = folder / "data.json"
        self._data = read_json(path) if path.is_file() else {}
        if not isinstance(self._data, dict):
            raise BadInput(f"{path}: expected a mapping")

    def of(self, point: Point) -> Stored | None:
        """The stored result of a point, found by system, axes and repeat."""
        place = (point.system, str(point.repeat + 1), *(axis_text(point.axes[axis]) for axis in self._axes))
        row = self._rows.get(place)
        if row is None or row["status"] == "missing":
            return None
        kept = self._data.get(row["point"], {})
        runner = {
            "host": kept.get("host", {}),
            "others_cpu_share": kept.get("others_cpu_share"),
            "system": point.system,
        }
        if row["status"] == "failed":
            failure = kept.get("failure", {"reason": "it failed"})
            return of_table(row["point"], {"failure": failure}, runner, str(self.folder))
        document: dict[str, Any] = {}
        skipped = {"system", "repeat", "seed", "status", "point", *self._axes}
        for name, text in row.items():
            if name not in skipped and text != "":
                value = _value(text)
                if isinstance(value, float) and not math.isfinite(value):
                    where = f"{self.folder / 'table.csv'}: {name} of {', '.join(place)}"
                    raise BadInput(f"{where}: {text[:40]} is no number")
                _put(document, name.split("."), value)
        for name, node in kept.get("distributions", {}).items():
            _put(document, name.split("."), node)
        document["caveats"] = kept.get("caveats", [])
        return of_table(row["point"], document, runner, str(self.folder))


def _put(document: dict, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        document = document.setdefault(part, {})
    if isinstance(document.get(path[-1]), dict) and isinstance(value, dict):
        document[path[-1]].update(value)
    else:
        document[path[-1]] = value


def _value(text: str) -> Any:
    """The value for a text in table.csv: a truth value, a number or the text."""
    if text in ("true", "false"):
        return text == "true"
    if "_" in text:  # Python would take it for a separator of digits
        return text
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if abs(value) < LARGEST else float(text)
    return text
