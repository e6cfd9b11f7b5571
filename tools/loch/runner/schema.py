"""Converts an experiment's YAML into a model.Experiment; refuses anything else in one line with file, line and key."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from loch.places import SOURCE

from . import claim_list, document as document_shape, expression, grid, lookup, options, per_axis, power
from .errors import did_you_mean
from .located import Item
from .model import AUTO, AUTO_LEAST, PRELOADS, PUTS, REPEATS, SYSTEMS, Experiment, Figure, Measure, Paper, System
from .options import BENCH, SEEDS, Option
from .values import at_most, field_of, known, listed, no_program, option_of, text_of, truth_of, value_of

TOP = document_shape.keys(document_shape.Experiment)
# Upper limits on the size of an experiment. A larger experiment is taken for a mistake: reading it alone would take
# hours.
SYSTEMS_MAX, AXIS_MAX = 100, 1000
COMBINATIONS_MAX = 100_000  # combinations of axis values, before `exclude` removes some
POINTS_MAX = 10_000


def read(document: Item, overrides: list[str] | None = None) -> Experiment:
    """The checked experiment that a YAML document, read with its line numbers, describes."""
    document_shape.check(document)
    top = document.mapping()
    name = text_of(top["name"])
    axes = _axes(document)
    figure = _figure(document, axes)
    derive, derive_text = _derive(top.get("derive"))
    base = _base_params(document, axes)
    if len(top["systems"].mapping()) > SYSTEMS_MAX:
        raise document.error(
            f"expected at most {SYSTEMS_MAX} systems, found {len(top['systems'].mapping()):,}", "systems"
        )
    systems = [_system(child, key, base, axes) for key, child in top["systems"].mapping().items()]
    if not systems:
        raise top["systems"].error("expected at least one system")
    _check_hardened(top["systems"], systems)
    if figure.x_as == PUTS and any(max(per_axis.among(each.params.get("delete", 0))) for each in systems):
        raise top["figure"].error("with DELETEs, what is no GET is not all PUTs", "x_as")
    if figure.relative_to and figure.relative_to not in top["systems"].mapping():
        raise top["figure"].error(
            f"no system of this experiment{did_you_mean(figure.relative_to, top['systems'].mapping())}", "relative_to"
        )
    zips = _zips(top.get("zip"), axes)
    _check_combinations(document, axes, zips)
    measure = _measure(top.get("measure"), axes, zips, is_as_written=not overrides)
    experiment = Experiment(
        file=document.file,
        name=name,
        title=text_of(top["title"]) if "title" in top else name,
        paper=_paper(top.get("paper")),
        notes=text_of(top["notes"]) if "notes" in top else "",
        systems=systems,
        axes=axes,
        zips=zips,
        excludes=_excludes(top.get("exclude"), axes, [s.name for s in systems]),
        measure=measure,
        figure=figure,
        claims=claim_list.read(top.get("claims"), axes, [s.name for s in systems], is_as_written=not overrides),
        derive=derive,
        derive_text=derive_text,
        overrides=list(overrides or []),
        document=document.plain(),
    )
    _check_points(document, experiment)
    if not overrides:  # with overrides, the axis values that a condition names may have been removed
        _check_cases(experiment)
    return experiment


def _check_cases(experiment: Experiment) -> None:
    """Refuses conditions of axis-dependent values that hold at no point of the experiment."""
    reached: dict[int, set[int]] = {}
    found: dict[int, per_axis.PerAxis] = {}
    for system in experiment.systems:
        places = grid.combinations(experiment, system)
        for _, value in per_axis.of({**system.params, "data_per_node": system.data_per_node}):
            found[id(value)] = value
            reached.setdefault(id(value), set()).update(id(value.case_at(axes)) for axes in places)
    for identity, value in found.items():
        for case in value.cases:
            if id(case) not in reached[identity]:
                named = {name.path for each in case.conditions for name in expression.names(each)}
                shown = (
                    f"{key} is {', '.join(grid.show(key, each) for each in experiment.axes[key])}"
                    for key in sorted(named)
                )
                raise case.place.error(f"never holds, or never first: {'; '.join(shown)}")


def _check_combinations(document: Item, axes: dict[str, list[Any]], zips: list[list[str]]) -> None:
    """Refuses too many combinations of axis values, before they are enumerated."""
    total = math.prod(len(values) for axis, values in axes.items() if not any(axis in group[1:] for group in zips))
    if total > COMBINATIONS_MAX:
        raise document.error(f"{total:,} combinations of their values; at most {COMBINATIONS_MAX:,}", "axes")


def _check_points(document: Item, experiment: Experiment) -> None:
    """Refuses an experiment with too many points and tuning runs."""
    here = {system.name: len(grid.combinations(experiment, system)) for system in experiment.systems}
    total = experiment.measure.most_repeats * sum(here.values())
    for system in experiment.systems:
        tried = (
            math.prod(len(values) for values in system.tune.values() if isinstance(values, list)) if system.tune else 0
        )
        total += tried * here[system.name]
    if total > POINTS_MAX:
        raise document.error(f"{total:,} points, the short runs to tune among them; at most {POINTS_MAX:,}", "axes")


def _base_params(document: Item, axes: dict[str, list[Any]]) -> dict[str, Any]:
    """The options that all systems share: fabric, hardware, cluster, workload, run length, scale."""
    top = document.mapping()
    params: dict[str, Any] = {"fabric": "sim", "nodes": 1}
    for key in ("fabric", "hardware", "scale"):
        if key in top:
            params[key] = value_of(top[key], key)
    if "hardware" in params:
        check_hardware(document, str(params["hardware"]))
    if "cluster" in top:
        params.update({k: per_axis.read(child, k, axes) for k, child in top["cluster"].mapping().items()})
    if "workload" in top:
        for key, child in top["workload"].mapping().items():
            key = "workload_file" if key == "file" else key
            params[key] = per_axis.read(child, key, axes)
        if "keys" in params and "data_per_node" in params:
            raise top["workload"].error("give keys or data_per_node, not both", "keys")
    if "measure" in top:
        params.update(
            {
                k: per_axis.read(child, k, axes)
                for k, child in top["measure"].mapping().items()
                if k in document_shape.RUN_LENGTH + document_shape.OVER_TIME
            }
        )
    return params


def _system(item: Item, name: str, base: dict[str, Any], axes: dict[str, list[Any]]) -> System:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise item.error(
            "expected a name of letters, digits and _ that starts with a letter; use label: for the legend"
        )
    entries = item.mapping()
    bench = tuple(k for k in BENCH if k not in SEEDS)
    own = {
        k: per_axis.read(child, k, axes) for k, child in entries.items() if k in bench or options.is_protocol_option(k)
    }
    for key in ("data_per_node", "scale"):
        if key in entries:
            own[key] = per_axis.read(entries[key], key, axes)
    if "cluster" in entries:
        own.update({k: per_axis.read(child, k, axes) for k, child in entries["cluster"].mapping().items()})
    for key in own:
        if key in axes:
            raise item.error(f"{key} is an axis of this experiment; a system cannot fix it", key)
    params = {**base, **own}
    if "keys" in own or "keys" in axes:
        params.pop("data_per_node", None)
    if "data_per_node" in own or "data_per_node" in axes:
        params.pop("keys", None)
    if params["fabric"] != "sim":
        params.pop("hardware", None)
    if "duration" in own and "operations" not in own:
        params.pop("operations", None)
    elif "operations" in own and "duration" not in own:
        params.pop("duration", None)
    tune, goal, maximize = _tune(item, axes)
    _possible(item, {**params, **{k: None for k in axes}, **{k: None for k in tune}}, params)
    data, scale = params.pop("data_per_node", None), params.pop("scale", 1.0)
    return System(
        name=name,
        label=text_of(entries["label"]) if "label" in entries else name,
        published=text_of(entries["published"]) if "published" in entries else name,
        params=params,
        data_per_node=data,
        scale=float(scale),
        tune=tune,
        goal=goal,
        maximize=maximize,
        hardened_of=text_of(entries["hardened_of"]) if "hardened_of" in entries else "",
        is_drawn=truth_of(entries["drawn"]) if "drawn" in entries else True,
        only=_only(entries.get("only"), axes),
        where=item.file if item.line is None else f"{item.file}:{item.line}",
    )


def _only(item: Item | None, axes: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Reads a system's `only:`, the axis values at which alone the system runs; without it the system runs at all
    values."""
    out: dict[str, list[Any]] = {}
    if item is None:
        return out
    for key, child in item.mapping().items():
        if key not in axes:
            raise item.error(f"no axis of this experiment{did_you_mean(key, axes)}", key)
        out[key] = [value_of(each, key) for each in child.scalars()]
        for value in out[key]:
            if value not in axes[key]:
                raise child.error(f"{value} is not among {', '.join(map(str, axes[key]))}")
    return out


def _check_hardened(item: Item, systems: list[System]) -> None:
    names = [system.name for system in systems]
    for system in systems:
        if system.hardened_of and (system.hardened_of not in names or system.hardened_of == system.name):
            raise item.mapping()[system.name].error(
                f"expected another system of this file{did_you_mean(system.hardened_of, names)}", "hardened_of"
            )


def _possible(item: Item, given: dict[str, Any], params: dict[str, Any]) -> None:
    """Refuses options that contradict each other, before anything runs."""
    get, delete = (max(per_axis.among(params.get(key, 0))) for key in ("get", "delete"))
    if get + delete > 1 + 1e-9 and not any(key in dict(per_axis.of(params)) for key in ("get", "delete")):
        raise item.error(f"get {params['get']} and delete {params['delete']} add up to more than 1", "get")
    if "data_per_node" in params and "value_size" not in given and "workload_file" not in given:
        raise item.error("data_per_node needs a value_size to become a number of keys", "data_per_node")
    if "share_of_max" in given and "rate" in given:
        raise item.error("the axis share_of_max decides it", "rate")
    if "duration" in params and "operations" in params:
        raise item.error("give duration or operations, not both", "duration")
    if params.get("processes") and params["fabric"] == "sim":
        raise item.error("a simulation is one process; processes goes with fabric shm, verbs or ofi", "processes")
    if params["fabric"] == "sim" and "hardware" in item.mapping():
        check_hardware(item, str(params["hardware"]))


def check_hardware(item: Item, hardware: str) -> None:
    """Refuses a hardware profile that is neither a file nor a name in experiments/hardware/."""
    folder = Path(SOURCE) / "experiments" / "hardware"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if known and hardware not in known and not Path(hardware).is_file():
        raise item.error(
            f"no profile {hardware!r}; expected one of {', '.join(known)} or a file{did_you_mean(hardware, known)}",
            "hardware",
        )


def _tune(item: Item, axes: dict[str, list[Any]]) -> tuple[dict[str, Any], str, bool]:
    entries = item.mapping()
    goals = [key for key in ("maximize", "minimize") if key in entries]
    if "tune" not in entries:
        if goals:
            raise item.error("there is no tune: to choose from", goals[0])
        return {}, "", True
    if len(goals) != 1:
        raise item.error("needs maximize: or minimize: with a result field alongside it", "tune")
    tune: dict[str, Any] = {}
    for key, child in entries["tune"].mapping().items():
        no_program(entries["tune"], key)
        if key not in BENCH and not options.is_protocol_option(key):
            raise entries["tune"].error(f"no such option{did_you_mean(key, BENCH)}", key)
        if key in axes:
            raise entries["tune"].error(f"{key} is an axis of this experiment; it cannot be tuned", key)
        if child.items is not None:
            at_most(child, AXIS_MAX)
            tune[key] = [value_of(each, key) for each in child.items]
            if not tune[key]:
                raise child.error("expected at least one value")
            continue
        try:
            tune[key] = expression.parse_arithmetic(str(child.value))
        except expression.ExpressionError as error:
            raise child.error(f"expected a list of values or an expression such as 12 - servers: {error}") from None
    _tune_order(entries["tune"], tune)
    return tune, field_of(entries[goals[0]]), goals[0] == "maximize"


def _tune_order(item: Item, tune: dict[str, Any]) -> None:
    lists = {key for key, value in tune.items() if isinstance(value, list)}
    if not lists:
        raise item.error("expected at least one option with a list of values to try")
    for key, tree in tune.items():
        if key in lists:
            continue
        for name in expression.names(tree):
            if name.path not in lists and name.path not in BENCH:
                raise item.error(f"{name.path} is no option{did_you_mean(name.path, [*lists, *BENCH])}", key)


def _axes(document: Item) -> dict[str, list[Any]]:
    item = document.mapping().get("axes")
    if item is None:
        return {}
    axes: dict[str, list[Any]] = {}
    for key, child in item.mapping().items():
        if child.items is None or not child.items:
            raise child.error("expected a list of at least one value, such as [2K, 4K]")
        at_most(child, AXIS_MAX)
        axes[key] = [value_of(each, key) for each in child.items]
        if len(set(axes[key])) != len(axes[key]):
            raise child.error("the same value is there twice")
    return axes


def _zips(item: Item | None, axes: dict[str, list[Any]]) -> list[list[str]]:
    groups: list[list[str]] = []
    used: set[str] = set()
    for group in listed(item, "a list of groups such as [[value_size, keys]]"):
        names = [text_of(each) for each in listed(group, "a group of axes such as [value_size, keys]")]
        for name in names:
            if name not in axes:
                raise group.error(f"{name} is no axis{did_you_mean(name, axes)}")
            if name in used:
                raise group.error(f"{name} is there twice")
            used.add(name)
        lengths = {name: len(axes[name]) for name in names}
        if len(names) < 2 or len(set(lengths.values())) != 1:
            found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise group.error(f"expected two or more axes of the same length: {found}")
        groups.append(names)
    return groups


def _excludes(item: Item | None, axes: dict[str, list[Any]], systems: list[str]) -> list[dict[str, list[Any]]]:
    out = []
    for rule in listed(item, "a list of rules such as [{system: SD, value_size: 128K}]"):
        parsed: dict[str, list[Any]] = {}
        for key, child in rule.mapping("a rule such as {system: SD, value_size: 128K}").items():
            if key != "system" and key not in axes:
                raise rule.error(f"neither an axis nor system{did_you_mean(key, ['system', *axes])}", key)
            values = [text_of(each) if key == "system" else value_of(each, key) for each in child.scalars()]
            for value in values:
                among = systems if key == "system" else axes[key]
                if value not in among:
                    raise rule.error(f"{value} is not among {', '.join(map(str, among))}", key)
            parsed[key] = values
        if not parsed:
            raise rule.error("an empty rule would exclude everything")
        out.append(parsed)
    return out


def _tune_at(
    item: Item | None, axes: dict[str, list[Any]], zips: list[list[str]], is_as_written: bool
) -> dict[str, Any]:
    """Reads `tune_at:`, the axis values at which candidates are tried for all points; an axis zipped with one of them
    takes its value at the same position.

    If --set has removed such a value from its axis, tuning takes place at each value, as without tune_at.
    """
    out: dict[str, Any] = {}
    if item is None:
        return out
    for key, child in item.mapping().items():
        if key not in axes:
            raise item.error(f"no axis of this experiment{did_you_mean(key, axes)}", key)
        value = value_of(child, key)
        if value not in axes[key]:
            if not is_as_written:
                continue
            raise child.error(f"{value} is not among {', '.join(map(str, axes[key]))}")
        at = axes[key].index(value)
        out.update({axis: axes[axis][at] for group in [[key], *zips] if key in group for axis in group})
    return out


def _measure(item: Item | None, axes: dict[str, list[Any]], zips: list[list[str]], is_as_written: bool) -> Measure:
    if item is None:
        return Measure()
    kinds = {
        "seed": BENCH["seed"],
        "preloads": PRELOADS,
        "timeout": Option("duration"),
        "tune_duration": Option("duration"),
    }
    found: dict[str, Any] = {}
    for key, option in kinds.items():
        if key in item.mapping():
            child = item.mapping()[key]
            found[key] = option.parse(child.value)
    timeout = found.get("timeout")
    settings = item.mapping().get("power")
    repeats = item.mapping().get("repeats")
    is_auto = repeats is not None and repeats.value == AUTO
    return Measure(
        power=power.read(settings) if settings is not None else None,
        repeats=AUTO_LEAST if is_auto else 3 if repeats is None else int(REPEATS.parse(repeats.value) or 3),
        is_auto=is_auto,
        seed=int(found.get("seed", 1)),
        preloads=found.get("preloads"),
        timeout_s=timeout / 1e9 if timeout else None,
        tune_duration=found.get("tune_duration"),
        tune_at=_tune_at(item.mapping().get("tune_at"), axes, zips, is_as_written),
    )


def _paper(item: Item | None) -> Paper | None:
    if item is None:
        return None
    entries = item.mapping()
    return Paper(
        text_of(entries["source"]), text_of(entries["item"]), truth_of(entries["score"]) if "score" in entries else True
    )


def _figure(document: Item, axes: dict[str, list[Any]]) -> Figure:
    item = document.mapping().get("figure")
    first = next(iter(axes), "")
    if item is None:
        return Figure("line", first, ("throughput_ops_s",))
    entries = item.mapping()
    kind = text_of(entries["kind"]) if "kind" in entries else "line"
    _figure_keys(item, kind)
    across = text_of(entries["across"]) if "across" in entries else ""
    x = "" if kind == "timeline" else _figure_x(item, kind, axes, first, across)
    fields = {key: tuple(field_of(each) for each in entries[key].scalars()) for key in ("y", "rows") if key in entries}
    if kind == "table" and not fields.get("rows"):
        raise item.error("a table needs rows: with the result fields to show", "rows")
    if "together" in entries and len(fields.get("y", ())) < 2:
        raise item.error("needs two or more result fields in y", "together")
    if "x_as" in entries and x != "get":
        raise item.error(f"the axis {x} has no share of PUTs; goes with the axis get", "x_as")
    width = text_of(entries["width"]) if "width" in entries else "one"
    flags = {key: truth_of(entries[key]) for key in _FLAGS if key in entries}
    y_max = options.Option("real").parse(entries["y_max"].value) if "y_max" in entries else None
    if "y_max" in entries and y_max is None:
        raise item.error("expected a number above 0, in the unit of the result field", "y_max")
    panels, labels = _panels(entries.get("panels"), axes, (x,))
    default_y = ("latency_us.all",) if kind == "cdf" else ("throughput_ops_s",)
    return Figure(
        kind=kind,
        x=x,
        y=fields.get("y", default_y),
        together=text_of(entries["together"]) if "together" in entries else "",
        x_as=text_of(entries["x_as"]) if "x_as" in entries else "",
        rows=fields.get("rows", ()),
        width=width,
        across=across,
        along=_an_axis(item, "along", axes, first) if kind == "curve" else "",
        down=(
            _an_axis(item, "down", axes, next((axis for axis in axes if axis not in (x, panels)), ""))
            if kind == "map"
            else ""
        ),
        panels=panels,
        panel_labels=labels,
        y_max=y_max,
        relative_to=text_of(entries["relative_to"]) if "relative_to" in entries else "",
        note=text_of(entries["note"]) if "note" in entries else "",
        **flags,
    )


_FLAGS = ("published", "ratio", "source", "log", "x_log", "tail")  # keys of `figure:` that are true or false
# Keys of `figure:` that only some kinds of figures have.
_DRAWN_BY_FIELD = ("line", "bars", "table", "cdf", "curve", "map")
_OF_KINDS = {
    "x": _DRAWN_BY_FIELD,
    "y": _DRAWN_BY_FIELD,
    "along": ("curve",),
    "down": ("map",),
    "across": ("table",),
    "rows": ("table",),
    "panels": ("line", "bars", "curve", "cdf", "map"),
    "x_log": ("line", "curve", "cdf"),
    "x_as": ("line", "bars"),
    "tail": ("cdf",),
    "together": ("line",),
    "y_max": ("line", "bars", "curve"),
    "relative_to": ("line",),
    "ratio": ("line", "bars", "table", "cdf"),
}


def _figure_keys(item: Item, kind: str) -> None:
    for key, kinds in _OF_KINDS.items():
        if key in item.mapping() and kind not in kinds:
            raise item.error(f"goes with kind {' or '.join(kinds)}, not with {kind}", key)


def _figure_x(item: Item, kind: str, axes: dict[str, list[Any]], first: str, across: str) -> str:
    """The figure's x axis; for a curve a result field; "" for a table whose columns are the systems."""
    entries = item.mapping()
    if kind == "curve":
        if "x" not in entries:
            raise item.error("a curve needs x: with a result field, such as throughput_ops_s", "x")
        return field_of(entries["x"])
    x = text_of(entries["x"]) if "x" in entries else "" if across else first
    if kind == "bars" and (x == SYSTEMS or not axes):
        return SYSTEMS
    if kind != "cdf" and not across and x not in axes:
        raise item.error(f"{x or 'nothing'} is no axis of this experiment{did_you_mean(x, axes)}", "x")
    return x


def _an_axis(item: Item, key: str, axes: dict[str, list[Any]], default: str) -> str:
    name = text_of(item.mapping()[key]) if key in item.mapping() else default
    if name not in axes:
        raise item.error(f"{name or 'nothing'} is no axis of this experiment{did_you_mean(name, axes)}", key)
    return name


def _panels(item: Item | None, axes: dict[str, list[Any]], taken: tuple[str, ...]) -> tuple[str, dict[Any, str]]:
    """Reads `panels:`, the axis of the small multiples, and the labels of its values."""
    if item is None:
        return "", {}
    entries = {"axis": item} if item.entries is None else item.entries
    if item.entries is not None:
        known(item, ("axis", "labels"))
        if "axis" not in entries:
            raise item.error("missing; which axis has a panel for each of its values?", "axis")
    axis = text_of(entries["axis"])
    if axis not in axes or axis in taken:
        raise item.error(
            f"{axis}: expected an axis of this experiment other than {' and '.join(taken)}{did_you_mean(axis, axes)}"
        )
    labels: dict[Any, str] = {}
    for key, child in (entries["labels"].mapping() if "labels" in entries else {}).items():
        value = lookup.same(axes[axis], axis, option_of(axis).parse(key))
        if value is None:
            raise entries["labels"].error(f"not among the values of {axis}", key)
        labels[value] = text_of(child)
    return axis, labels


def _derive(item: Item | None) -> tuple[dict[str, Any], dict[str, str]]:
    trees: dict[str, Any] = {}
    texts: dict[str, str] = {}
    if item is None:
        return trees, texts
    for key, child in item.mapping().items():
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", key):
            raise item.error("expected a plain lower-case name", key)
        try:
            trees[key], texts[key] = expression.parse_arithmetic(text_of(child)), text_of(child)
        except expression.ExpressionError as error:
            raise child.error(f"expected an expression over result fields: {error}") from None
    return trees, texts
