"""Looks up names in claims and published numbers: SYSTEM.field at axis values, as the median over repeats."""

from __future__ import annotations

from typing import Any

from . import expression
from .errors import did_you_mean
from .grid import combinations, show
from .model import Experiment
from .tables import Results


class Missing(Exception):
    """A name in an expression has no value in the results; the message says why."""


def system_of(name: expression.Name) -> str:
    """The system in a name such as CD.throughput_ops_s; "" if the name is an axis."""
    return name.path.split(".")[0] if "." in name.path else ""


def wrong_name(
    experiment_axes: dict[str, list[Any]], systems: list[str], name: expression.Name, with_values: bool = True
) -> str | None:
    """Why a name has no meaning in an experiment with the given systems and axes, or None if it has one."""
    system = system_of(name)
    if not system and name.path not in experiment_axes:
        return f"{name.path} is neither SYSTEM.field nor an axis{did_you_mean(name.path, experiment_axes)}"
    if system and system not in systems:
        return (
            f"{system} is no system of this experiment, which has {', '.join(systems)}"
            f"{did_you_mean(system, systems)}"
        )
    for key, value in name.at:
        if key not in experiment_axes:
            return f"{key} is no axis{did_you_mean(key, experiment_axes)}"
        if with_values and value is not expression.EVERY and same(experiment_axes[key], key, value) is None:
            return f"{key}={_text(key, value)}: not among {', '.join(show(key, each) for each in experiment_axes[key])}"
    return None


def same(values: list[Any], key: str, wanted: Any) -> Any | None:
    """The value of axis `key` that a number or text in an expression denotes, or None."""
    return next(
        (each for each in values if expression.comparable(each) == wanted or show(key, each) == str(wanted)), None
    )


def _text(key: str, value: Any) -> str:
    return show(key, int(value)) if isinstance(value, float) and value == int(value) else str(value)


def open_axes(experiment: Experiment, name: expression.Name) -> list[str]:
    """The axes that a name does not fix although its system runs at several of their values.

    Axes that advance together with a fixed axis do not count.
    """
    there = places(experiment, name)
    given = {
        axis
        for group in [*([key] for key, _ in name.at), *experiment.zips]
        if any(k in group for k, _ in name.at)
        for axis in group
    }
    return [axis for axis in experiment.axes if axis not in given and len({place[axis] for place in there}) > 1]


def runs(experiment: Experiment, name: expression.Name) -> bool:
    """Whether the name's system runs at any combination of axis values that agrees with the name."""
    return bool(places(experiment, name))


def places(experiment: Experiment, name: expression.Name) -> list[dict[str, Any]]:
    """The combinations of axis values at which the name's system runs and which agree with the name's [...]."""
    given = {key: same(experiment.axes[key], key, value) for key, value in name.at if value is not expression.EVERY}
    system = experiment.system(system_of(name))
    if None in given.values():
        return []
    return [
        place for place in combinations(experiment, system) if all(place[key] == value for key, value in given.items())
    ]


def value(results: Results, name: expression.Name, axes: dict[str, Any] | None = None) -> Any:
    """The median that a name denotes. `axes`: values for the axes that the name leaves open; without it none may be
    open.

    For a name with an axis at `*`, a mapping from that axis' values to medians (of the first such axis; the values of
    further such axes are pooled).
    """
    if not system_of(name):
        return expression.comparable((axes or {})[name.path])
    system, _, field = name.path.partition(".")
    here = {key: each for key, each in (axes or {}).items() if key not in dict(name.at)}
    there = [
        place for place in places(results.experiment, name) if all(place[key] == each for key, each in here.items())
    ]
    found = [(place, results.median(system, place, field)) for place in there]
    if not name.is_many:
        if not there:
            raise Missing(f"{system} does not run {_at({**here, **_given(name)})}".rstrip())
        if found[0][1] is None:
            raise Missing(f"{system} has no {field} {_at(there[0])}".rstrip())
        return found[0][1]
    every = [key for key, each in name.at if each is expression.EVERY]
    several = {
        tuple(place[key] for key in every) if len(every) > 1 else place[every[0]]: number
        for place, number in found
        if number is not None
    }
    if not several:
        raise Missing(f"{system} has no {field} at any {', '.join(every)}")
    return several


def _given(name: expression.Name) -> dict[str, Any]:
    return {key: int(each) if isinstance(each, float) and each == int(each) else each for key, each in name.at}


def _at(place: dict[str, Any]) -> str:
    return "at " + ", ".join(f"{key} {show(key, each)}" for key, each in place.items()) if place else ""
