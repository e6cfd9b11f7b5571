"""Expands an experiment into its points (runs of loch-bench): product, zip and exclude of axes, tuning candidates,
repeats, order of running."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

from . import expression, per_axis
from .errors import BadInput
from .model import Experiment, Power, System
from .options import BENCH, is_protocol_option
from .units import format_duration, format_size


@dataclass
class Point:
    """One run of loch-bench; `params` has all its options under their canonical names, the seed of the repeat
    included."""

    system: str
    axes: dict[str, Any]
    repeat: int
    params: dict[str, Any]
    tuning: bool = False
    chosen: dict[str, Any] = field(default_factory=dict)  # the parameters that tuning chose, or tries
    power: Power | None = None  # how power is read during the point; None: power is not read
    draw: int | None = (
        None  # with `--samples`: the number of the random draw of constants, from 0; None: the profiles' own constants
    )

    @property
    def is_measured(self) -> bool:
        return self.params.get("fabric") != "sim"

    @property
    def seed(self) -> int:
        """The seed of the load, which no other repeat of the point has."""
        return int(self.params.get("load_seed", self.params["seed"]))

    def title(self) -> str:
        """A title for messages, such as "CD value_size=16K repeat 2"."""
        axes = " ".join(f"{k}={show(k, v)}" for k, v in self.axes.items())
        tail = (
            "tuning " + " ".join(f"{k}={v}" for k, v in self.chosen.items())
            if self.tuning
            else f"draw {self.draw + 1}"
            if self.draw is not None
            else f"repeat {self.repeat + 1}"
        )
        return " ".join(filter(None, [self.system, axes, tail]))


def show(key: str, value: Any) -> str:
    """An option's value as text, in the form that users write."""
    if isinstance(value, per_axis.PerAxis):
        return value.text(lambda each: show(key, each))
    if isinstance(value, bool):
        return "true" if value else "false"
    kind = BENCH[key].kind if key in BENCH else "size" if key == "data_per_node" else "text"
    if kind == "size":
        return format_size(value)
    if kind == "duration":
        return format_duration(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def combinations(experiment: Experiment, system: System) -> list[dict[str, Any]]:
    """The combinations of axis values at which a system runs, in the order of the file: without those that `exclude`
    removes and those that the system's `only` does not list."""
    groups: list[list[str]] = []
    for axis in experiment.axes:
        zipped = next((group for group in experiment.zips if axis in group), [axis])
        if zipped not in groups:
            groups.append(zipped)
    choices = [
        [dict(zip(group, values)) for values in zip(*(experiment.axes[axis] for axis in group))] for group in groups
    ]
    out = []
    for parts in itertools.product(*choices):
        merged = {key: value for part in parts for key, value in part.items()}
        ordered = {axis: merged[axis] for axis in experiment.axes}
        if not any(_matches(rule, system.name, ordered) for rule in experiment.excludes) and all(
            ordered[axis] in values for axis, values in system.only.items()
        ):
            out.append(ordered)
    return out


def _matches(rule: dict[str, list[Any]], system: str, axes: dict[str, Any]) -> bool:
    return all((system if key == "system" else axes[key]) in values for key, values in rule.items())


def resolve(system: System, axes: dict[str, Any], seed: int, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """All options of one run. The number of keys is data_per_node * scale * nodes that hold data / value_size, at least
    1.

    `extra` holds tuned parameters and the rate that stands for the axis share_of_max; without a rate the load is a
    closed loop.
    """
    own = {key: per_axis.at(value, axes) for key, value in system.params.items()}
    params = {**own, **axes, **(extra or {}), "seed": seed}
    params.pop("share_of_max", None)
    data = params.pop("data_per_node", per_axis.at(system.data_per_node, axes))
    scale = params.pop("scale", system.scale)
    if data is not None:
        params["keys"] = max(
            1, int(data * scale * (params.get("server_nodes") or params["nodes"]) / params["value_size"])
        )
    if params["fabric"] != "sim":
        params.pop("hardware", None)
    return params


def candidates(system: System, axes: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameter combinations that tuning tries; parameters given as expressions are computed from the other
    options."""
    lists = {key: value for key, value in system.tune.items() if isinstance(value, list)}
    out = []
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values))
        own = {key: per_axis.at(value, axes) for key, value in system.params.items()}
        known = {**own, **axes, **chosen}
        for key, tree in system.tune.items():
            if key not in lists:
                chosen[key] = _work_out(system, key, tree, known)
        out.append({key: chosen[key] for key in system.tune})
    return out


def _work_out(system: System, key: str, tree: Any, known: dict[str, Any]) -> Any:
    place = f"{system.where}: systems.{system.name}.tune.{key}"

    def lookup(name: expression.Name) -> Any:
        if name.path not in known:
            raise BadInput(f"{place}: {name.path} has no value here")
        return known[name.path]

    value = expression.evaluate(tree, lookup)
    option = BENCH.get(key)
    if option is None:
        return value
    parsed = option.parse(value)
    if parsed is None:
        raise BadInput(
            f"{place}: expected {option.expected()}, the expression gives "
            f"{value if isinstance(value, str) else format(value, 'g')}"
        )
    return parsed


def tuning_points(experiment: Experiment) -> list[Point]:
    """Short runs of every tuning candidate. With `tune_at`, several combinations of axis values share one run."""
    out = []
    for system in experiment.systems:
        if not system.tune:
            continue
        for axes in combinations(experiment, system):
            where = {**axes, **experiment.measure.tune_at}
            for chosen in candidates(system, where):
                params = resolve(system, where, experiment.measure.seed, chosen)
                if "duration" in params:
                    params["duration"] = experiment.measure.tune_duration or max(1, int(params["duration"]) // 4)
                out.append(Point(system.name, axes, 0, params, tuning=True, chosen=chosen))
    return out


def points(
    experiment: Experiment,
    choices: dict[tuple, dict[str, Any]] | None = None,
    counts: dict[tuple, int] | None = None,
) -> list[Point]:
    """The points of the figure, repeats as the outer loop.

    `choices`: the tuned parameters, by system and axis values (choice_key()). `counts`: the number of repeats, by the
    same key, of the points that have another number than `measure: {repeats: …}`.
    """
    out = []
    fixed, by_point = experiment.measure.repeats, counts or {}
    for repeat in range(max([fixed, *by_point.values()])):
        for system in experiment.systems:
            for axes in combinations(experiment, system):
                key = choice_key(system.name, axes)
                if repeat < by_point.get(key, fixed):
                    out.append(point_of(experiment, system, axes, repeat, (choices or {}).get(key, {})))
    return out


def point_of(
    experiment: Experiment, system: System, axes: dict[str, Any], repeat: int, chosen: dict[str, Any]
) -> Point:
    """One repeat, counted from 0, of a system at one combination of axis values; `chosen`: the tuned parameters."""
    params = resolve(system, axes, experiment.measure.seed + repeat, chosen)
    preloads = experiment.measure.preloads
    if preloads is not None and repeat >= preloads and not system.is_measured:
        # the cluster of an earlier repeat, under a load with this repeat's own seed
        params["seed"] = experiment.measure.seed + repeat % preloads
        params["load_seed"] = experiment.measure.seed + repeat
    point = Point(system.name, axes, repeat, params, chosen=chosen)
    point.power = experiment.measure.power if point.is_measured else None
    return point


def maximum_points(experiment: Experiment, choices: dict[tuple, dict[str, Any]]) -> list[Point]:
    """The closed-loop runs, with all repeats, from which the axis share_of_max takes each system's maximum
    throughput."""
    return points(experiment, choices) if "share_of_max" in experiment.axes else []


def choice_key(system: str, axes: dict[str, Any]) -> tuple:
    """A dictionary key for one system at one combination of axis values."""
    return (system, *sorted(axes.items()))


def shuffled(all_points: list[Point], seed: int) -> list[Point]:
    """The order of running: one repeat of all points after the other, each shuffled, so that drift affects all systems
    alike."""
    rng = random.Random(seed)
    out: list[Point] = []
    for _, group in itertools.groupby(all_points, key=lambda point: point.repeat):
        block = list(group)
        rng.shuffle(block)
        out += block
    return out


def plan(experiment: Experiment) -> str:
    """The size of an experiment in words, such as "6 systems × 7 sizes × 3 repeats = 126 points"."""
    measure = experiment.measure
    total = len(points(experiment))
    parts = [_count(len(experiment.systems), "system")]
    parts += [
        _count(len(values), {"value_size": "size"}.get(axis, axis))
        for axis, values in experiment.axes.items()
        if not any(axis in group[1:] for group in experiment.zips)
    ]
    if measure.is_auto:
        parts.append(f"{measure.repeats} to {measure.most_repeats} repeats")
    else:
        parts.append(_count(measure.repeats, "repeat"))
    tuning = len({repr(point.params) for point in tuning_points(experiment)})
    excluded = " after exclusions" if experiment.excludes or any(s.only for s in experiment.systems) else ""
    extra = f", plus {tuning} short runs to tune" if tuning else ""
    least = "at least " if measure.is_auto else ""
    return f"{' × '.join(parts)} = {least}{total} points{excluded}{extra}"


def _count(n: int, what: str) -> str:
    if is_protocol_option(what):
        return f"{n} values of {what}"
    plural = what if n == 1 or what.endswith("s") else what + "s"
    return f"{n} {plural.replace('_', ' ')}"
