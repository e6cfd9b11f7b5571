"""Readings that papers leave open (plots/published/readings.yaml): what `loch run --samples` draws beside constants, and
in which experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loch.places import SOURCE

from . import located, per_axis
from .errors import BadInput
from .located import Item
from .model import Experiment, Paper, System
from .options import BENCH, protocol_options

READINGS = Path(SOURCE) / "plots" / "published" / "readings.yaml"
_REQUIRED = ("option", "papers", "source")
_KNOWN = (*_REQUIRED, "values", "times", "from", "most", "items", "protocols")


@dataclass(frozen=True)
class Reading:
    """An option, or several that go together ("servers, clients"), that a paper leaves open, with the values that its
    text allows."""

    option: str
    values: tuple[Any, ...]  # of several options tuples; with `is_multiple`, factors of what the experiment sets
    papers: tuple[str, ...]  # ids of the papers that leave the option open, such as nessie-2017
    source: str
    items: tuple[str, ...] = ()  # the papers' figures and sections that are meant; empty: all
    protocols: tuple[str, ...] = ()  # the protocols that are meant; empty: all that have the option
    is_multiple: bool = False
    least: float = 0  # with `is_multiple`: what is below it stays as the experiment sets it
    most: float = float("inf")  # with `is_multiple`: the option's largest value

    @property
    def name(self) -> str:
        return self.option

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(self.option.split(", "))

    def levels(self) -> tuple[str, ...]:
        """The names of the values."""
        if self.is_multiple:
            return tuple(f"times {each:g}" for each in self.values)
        return tuple(", ".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in self.values)

    def is_about(self, paper: Paper | None) -> bool:
        return paper is not None and paper.source in self.papers and (not self.items or paper.item in self.items)

    def options_of(self, params: dict[str, Any], level: int) -> dict[str, Any]:
        """The options of a run with one of the values; `params` are those that the experiment gives the run."""
        drawn = self.values[level]
        if self.is_multiple:
            given = params.get(self.option)
            if given is None or float(given) < self.least:
                return {}
            return {self.option: _parsed(self.option, min(self.most, float(given) * drawn))}
        each = drawn if isinstance(drawn, tuple) else (drawn,)
        return {option: _parsed(option, value) for option, value in zip(self.options, each)}


def _parsed(key: str, value: Any) -> Any:
    """A value as the runner keeps it; BadInput if the option does not take it."""
    option = BENCH.get(key)
    if option is None:
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, float) and option.kind in ("count", "size", "duration"):
        return round(value)  # in the option's unit: bytes or nanoseconds
    parsed = option.parse(value)
    if parsed is None:
        raise BadInput(f"{READINGS.name}: {key}: expected {option.expected()}, found {value}")
    return parsed


def readings(path: Path = READINGS) -> list[Reading]:
    """The readings of a file; BadInput with file and line if one lacks its source or values."""
    if not path.is_file():
        return []
    return [_reading(item) for item in located.load(path, ours=True).mapping()["readings"].items or []]


def _reading(item: Item) -> Reading:
    entries = item.mapping()
    for key in entries:
        if key not in _KNOWN:
            raise entries[key].error(f"expected one of {', '.join(_KNOWN)}")
    for key in _REQUIRED:
        if key not in entries or entries[key].value == "":
            raise item.error("a reading needs option, values or times, papers and source; missing", key)
    if ("values" in entries) == ("times" in entries):
        raise item.error("expected either values or times")
    is_multiple = "times" in entries
    listed = entries["times" if is_multiple else "values"]
    found = tuple(_value(each) for each in listed.items or [])
    if len(found) < 2:
        raise listed.error("expected two values or more")
    options = _texts(entries["option"])
    if is_multiple and (len(options) > 1 or not all(isinstance(each, (int, float)) and each > 0 for each in found)):
        raise listed.error("expected numbers above 0, of one option")
    if len(options) > 1 and not all(isinstance(each, tuple) and len(each) == len(options) for each in found):
        raise listed.error(f"expected lists of {len(options)} values")
    for key in ("from", "most"):
        if key in entries and (not is_multiple or not isinstance(entries[key].value, (int, float))):
            raise entries[key].error("expected a number, beside times")
    return Reading(
        ", ".join(options),
        found,
        _texts(entries["papers"]),
        str(entries["source"].value),
        _texts(entries.get("items")),
        _texts(entries.get("protocols")),
        is_multiple,
        float(entries["from"].value) if "from" in entries else 0,
        float(entries["most"].value) if "most" in entries else float("inf"),
    )


def _value(item: Item) -> Any:
    return item.value if item.items is None else tuple(each.value for each in item.items)


def _texts(item: Item | None) -> tuple[str, ...]:
    if item is None:
        return ()
    return (str(item.value),) if item.items is None else tuple(str(each.value) for each in item.items)


def takes(system: System, option: str, binary: str) -> bool:
    """Whether a system has an option: one of bench, or one that its protocol lists."""
    if option in BENCH:
        return True
    listed = protocol_options(binary, str(system.params.get("protocol", "")))
    return listed is not None and option in listed


def is_of(reading: Reading, system: System, binary: str) -> bool:
    """Whether a reading is about a system: a simulated one that has its options, of the protocols that it names."""
    if reading.protocols and system.params.get("protocol") not in reading.protocols:
        return False
    return not system.is_measured and all(takes(system, option, binary) for option in reading.options)


def is_open(experiment: Experiment, reading: Reading, binary: str) -> bool:
    """Whether a reading may be drawn: it is about one system at least, its options are not tuned, and have the same
    values in all systems that it is about. Where values differ, comparing them is the purpose of the figure; so it is
    where an option is an axis, unless the reading multiplies all of the axis' values."""
    having = [system for system in experiment.systems if is_of(reading, system, binary)]
    for option in reading.options:
        if any(option in system.tune for system in experiment.systems):
            return False
        if option in experiment.axes:
            if not reading.is_multiple or any(option in system.params for system in having):
                return False
            continue
        if len({_written(system.params.get(option)) for system in having}) != 1:
            return False
        is_given = all(option in system.params for system in having)
        differs = any(isinstance(system.params.get(option), per_axis.PerAxis) for system in having)
        if not is_given if reading.is_multiple else differs:
            return False
    return bool(having)


def _written(value: Any) -> str:
    return value.text(repr) if isinstance(value, per_axis.PerAxis) else repr(value)
