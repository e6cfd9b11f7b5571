"""Reads an experiment's YAML into a model.Experiment; refuses everything else in one line that says where."""

from __future__ import annotations

import math
import re
from pathlib import Path

from loch.places import SOURCE

from . import expression, grid, lookup, options, power
from .errors import did_you_mean
from .located import Item, cut
from .model import FIGURE_KINDS, SYSTEMS, ClaimText, Experiment, Figure, Measure, Paper, System
from .options import BENCH, DATA_PER_NODE, SCALE, SHARE_OF_MAX, Option

TOP = ("name", "title", "paper", "notes", "fabric", "hardware", "cluster", "systems", "workload", "scale", "axes",
       "zip", "exclude", "measure", "figure", "derive", "claims", "smoke")
CLUSTER = ("nodes", "server_nodes", "processes")
WORKLOAD = tuple(k for k in BENCH if k not in ("protocol", "fabric", "hardware", *CLUSTER, "workload_file", "warmup",
                                               "duration", "operations", "seed", "timeline", "probe_keys")) + ("data_per_node", "file")
RUN_LENGTH = ("warmup", "duration", "operations")
OVER_TIME = ("timeline", "probe_keys")
MEASURE = RUN_LENGTH + OVER_TIME + ("repeats", "seed", "timeout", "tune_duration", "tune_at", "power")
SYSTEM_ONLY = ("label", "published", "cluster", "tune", "maximize", "minimize", "data_per_node", "scale", "hardened_of",
               "only", "drawn")
FIGURE = ("kind", "x", "y", "rows", "along", "down", "across", "panels", "published", "ratio", "log", "x_log", "y_max",
          "relative_to", "width", "note")
# What a run can hold: more is a mistake, and would take hours before the first point runs.
SYSTEMS_MAX, AXIS_MAX, LIST_MAX = 100, 1000, 1000
COMBINATIONS_MAX = 100_000  # of axis values, before exclude
POINTS_MAX = 10_000
FIELD = re.compile(r"^[a-z_][a-z0-9_]*(\.[A-Za-z0-9_]+)*$")


def read(document: Item, overrides: list[str] | None = None) -> Experiment:
    """The experiment of one located YAML document."""
    top = document.mapping()
    _known(document, TOP)
    for needed in ("name", "systems"):
        if needed not in top:
            raise document.error(f"missing; every experiment has {needed}:", needed)
    name = _text(top["name"])
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise top["name"].error("expected letters, digits, - and _ (it names the result folder)")
    axes = _axes(document)
    figure = _figure(document, axes)
    derive, derive_text = _derive(top.get("derive"))
    base = _base_params(document)
    if len(top["systems"].mapping()) > SYSTEMS_MAX:
        raise document.error(f"expected at most {SYSTEMS_MAX} systems, found {len(top['systems'].mapping()):,}", "systems")
    systems = [_system(child, key, base, axes) for key, child in top["systems"].mapping().items()]
    if not systems:
        raise top["systems"].error("expected at least one system")
    _check_hardened(top["systems"], systems)
    if figure.relative_to and figure.relative_to not in top["systems"].mapping():
        raise top["figure"].error(f"no system of this experiment{did_you_mean(figure.relative_to, top['systems'].mapping())}",
                                  "relative_to")
    zips = _zips(top.get("zip"), axes)
    _check_combinations(document, axes, zips)
    measure = _measure(top.get("measure"), axes, zips, is_as_written=not overrides)
    for system in systems if measure.power else ():
        system.params["power"] = measure.power  # grid.resolve takes it from what is simulated
    experiment = Experiment(
        file=document.file, name=name, title=_text(top["title"]) if "title" in top else name,
        paper=_paper(top.get("paper")), notes=_text(top["notes"]) if "notes" in top else "",
        systems=systems, axes=axes, zips=zips,
        excludes=_excludes(top.get("exclude"), axes, [s.name for s in systems]),
        measure=measure, figure=figure,
        claims=_claims(top.get("claims"), axes, [s.name for s in systems], is_as_written=not overrides),
        derive=derive, derive_text=derive_text, overrides=list(overrides or []), document=document.plain())
    _check_points(document, experiment)
    return experiment


def _check_combinations(document: Item, axes: dict[str, list[object]], zips: list[list[str]]) -> None:
    """Before anything is multiplied out."""
    total = math.prod(len(values) for axis, values in axes.items() if not any(axis in group[1:] for group in zips))
    if total > COMBINATIONS_MAX:
        raise document.error(f"{total:,} combinations of their values; at most {COMBINATIONS_MAX:,}", "axes")


def _check_points(document: Item, experiment: Experiment) -> None:
    """How many runs the figure and its tuning need."""
    here = {system.name: len(grid.combinations(experiment, system)) for system in experiment.systems}
    total = experiment.measure.repeats * sum(here.values())
    for system in experiment.systems:
        tried = math.prod(len(values) for values in system.tune.values() if isinstance(values, list)) if system.tune else 0
        total += tried * here[system.name]
    if total > POINTS_MAX:
        raise document.error(f"{total:,} points, the short runs to tune among them; at most {POINTS_MAX:,}", "axes")


def _known(item: Item, allowed: tuple[str, ...], protocol_options: bool = False) -> None:
    for key in item.mapping():
        if protocol_options:
            _no_program(item, key)
        if key not in allowed and not (protocol_options and options.is_protocol_option(key)):
            raise item.error(f"no such key{did_you_mean(key, allowed)}", key)


def _no_program(item: Item, key: str) -> None:
    """A file that somebody sends must not be able to start what it likes."""
    if options.names_program(key):
        raise item.error(f"programs are named on the command line only, with loch bench --{key}", key)


def _text(item: Item) -> str:
    if item.entries is not None or item.items is not None or item.value is None:
        raise item.error(f"expected text, found {item.kind()}")
    text = str(item.value).strip()
    if not all(letter.isprintable() or letter in "\n\t\u00a0\u202f" for letter in text):
        raise item.error(f"expected text without control characters, found {item.kind()}")
    return text


def _truth(item: Item) -> bool:
    if not isinstance(item.value, bool):
        raise item.error(f"expected true or false, found {item.kind()}")
    return item.value


def _field(item: Item) -> str:
    text = _text(item)
    if not FIELD.match(text):
        raise item.error(f"expected a result field such as latency_us.all.mean, found {text!r}")
    return text


def option_of(key: str) -> Option:
    """How the values of one option are read; protocol options stay text for the binary to judge."""
    own = {"data_per_node": DATA_PER_NODE, "scale": SCALE, "share_of_max": SHARE_OF_MAX}
    return own.get(key) or BENCH.get(key) or Option("text")


def value_of(item: Item, key: str) -> object:
    """One canonical value of option `key`."""
    option = option_of(key)
    if item.entries is not None or item.items is not None:
        raise item.error(f"expected {option.expected()}, found {item.kind()}")
    raw = item.value
    if options.is_protocol_option(key) and isinstance(raw, bool):
        raw = "true" if raw else "false"
    value = option.parse(raw)
    if value is None:
        near = did_you_mean(str(item.value), option.choices) if option.kind == "choice" else ""
        raise item.error(f"expected {option.expected()}, found {item.kind()}{near}")
    return value


def _base_params(document: Item) -> dict[str, object]:
    """What all systems share: fabric, hardware, cluster, workload, run length, scale."""
    top = document.mapping()
    params: dict[str, object] = {"fabric": "sim", "nodes": 1}
    for key in ("fabric", "hardware", "scale"):
        if key in top:
            params[key] = value_of(top[key], key)
    if "hardware" in params:
        check_hardware(document, str(params["hardware"]))
    if "cluster" in top:
        _known(top["cluster"], CLUSTER)
        params.update({k: value_of(child, k) for k, child in top["cluster"].mapping().items()})
    if "workload" in top:
        _known(top["workload"], WORKLOAD, protocol_options=True)
        for key, child in top["workload"].mapping().items():
            key = "workload_file" if key == "file" else key
            params[key] = value_of(child, key)
        if "keys" in params and "data_per_node" in params:
            raise top["workload"].error("give keys or data_per_node, not both", "keys")
    if "measure" in top:
        params.update({k: value_of(child, k) for k, child in top["measure"].mapping().items()
                       if k in RUN_LENGTH + OVER_TIME})
    return params


def _system(item: Item, name: str, base: dict[str, object], axes: dict[str, list[object]]) -> System:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise item.error("expected a name of letters, digits and _ that starts with a letter; use label: for the legend")
    entries = item.mapping()
    bench = tuple(k for k in BENCH if k != "seed")
    _known(item, bench + SYSTEM_ONLY, protocol_options=True)
    own = {k: value_of(child, k) for k, child in entries.items() if k in bench or options.is_protocol_option(k)}
    for key in ("data_per_node", "scale"):
        if key in entries:
            own[key] = value_of(entries[key], key)
    if "cluster" in entries:
        _known(entries["cluster"], CLUSTER)
        own.update({k: value_of(child, k) for k, child in entries["cluster"].mapping().items()})
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
    return System(name=name, label=_text(entries["label"]) if "label" in entries else name,
                  published=_text(entries["published"]) if "published" in entries else name, params=params,
                  data_per_node=data, scale=float(scale), tune=tune, goal=goal, maximize=maximize,
                  hardened_of=_text(entries["hardened_of"]) if "hardened_of" in entries else "",
                  is_drawn=_truth(entries["drawn"]) if "drawn" in entries else True,
                  only=_only(entries.get("only"), axes),
                  where=item.file if item.line is None else f"{item.file}:{item.line}")


def _only(item: Item | None, axes: dict[str, list[object]]) -> dict[str, list[object]]:
    """The axis values that one system runs at, where they are not all."""
    out: dict[str, list[object]] = {}
    for key, child in (item.mapping() if item is not None else {}).items():
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
                f"expected another system of this file{did_you_mean(system.hardened_of, names)}", "hardened_of")


def _possible(item: Item, given: dict[str, object], params: dict[str, object]) -> None:
    """Refuses combinations that cannot run, before anything does."""
    if "protocol" not in given:
        raise item.error("missing; which design is it? `./loch list protocols` names them", "protocol")
    if params.get("get", 0) + params.get("delete", 0) > 1 + 1e-9:
        raise item.error(f"get {params['get']} and delete {params['delete']} add up to more than 1", "get")
    if "data_per_node" in params and "value_size" not in given and "workload_file" not in given:
        raise item.error("data_per_node needs a value_size to become a number of keys", "data_per_node")
    if "share_of_max" in given and "rate" in given:
        raise item.error("the axis share_of_max decides it", "rate")
    if "duration" in params and "operations" in params:
        raise item.error("give duration or operations, not both", "duration")
    if params.get("processes") and params["fabric"] == "sim":
        raise item.error("a simulation is one process; processes goes with fabric shm or verbs", "processes")
    if params["fabric"] == "sim" and "hardware" in item.mapping():
        check_hardware(item, str(params["hardware"]))


def check_hardware(item: Item, hardware: str) -> None:
    """A profile is a file, or the name of one in experiments/hardware/."""
    folder = Path(SOURCE) / "experiments" / "hardware"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if known and hardware not in known and not Path(hardware).is_file():
        raise item.error(f"no profile {hardware!r}; expected one of {', '.join(known)} or a file"
                         f"{did_you_mean(hardware, known)}", "hardware")


def _tune(item: Item, axes: dict[str, list[object]]) -> tuple[dict[str, object], str, bool]:
    entries = item.mapping()
    goals = [key for key in ("maximize", "minimize") if key in entries]
    if "tune" not in entries:
        if goals:
            raise item.error("there is no tune: to choose from", goals[0])
        return {}, "", True
    if len(goals) != 1:
        raise item.error("needs maximize: or minimize: with a result field beside it", "tune")
    tune: dict[str, object] = {}
    for key, child in entries["tune"].mapping().items():
        _no_program(entries["tune"], key)
        if key not in BENCH and not options.is_protocol_option(key):
            raise entries["tune"].error(f"no such option{did_you_mean(key, BENCH)}", key)
        if key in axes:
            raise entries["tune"].error(f"{key} is an axis of this experiment; it cannot be tuned", key)
        if child.items is not None:
            _at_most(child, AXIS_MAX)
            tune[key] = [value_of(each, key) for each in child.items]
            if not tune[key]:
                raise child.error("expected at least one value")
            continue
        try:
            tune[key] = expression.parse_arithmetic(str(child.value))
        except expression.ExpressionError as error:
            raise child.error(f"expected a list of values or an expression such as 12 - servers: {error}") from None
    _tune_order(entries["tune"], tune)
    return tune, _field(entries[goals[0]]), goals[0] == "maximize"


def _tune_order(item: Item, tune: dict[str, object]) -> None:
    lists = {key for key, value in tune.items() if isinstance(value, list)}
    if not lists:
        raise item.error("expected at least one option with a list of values to try")
    for key, tree in tune.items():
        if key in lists:
            continue
        for name in expression.names(tree):
            if name.path not in lists and name.path not in BENCH:
                raise item.error(f"{name.path} is no option{did_you_mean(name.path, [*lists, *BENCH])}", key)


def _axes(document: Item) -> dict[str, list[object]]:
    item = document.mapping().get("axes")
    if item is None:
        return {}
    allowed = tuple(k for k in BENCH if k != "seed") + ("data_per_node", "scale", "share_of_max")
    _known(item, allowed, protocol_options=True)
    axes: dict[str, list[object]] = {}
    for key, child in item.mapping().items():
        if child.items is None or not child.items:
            raise child.error("expected a list of at least one value, such as [2K, 4K]")
        _at_most(child, AXIS_MAX)
        axes[key] = [value_of(each, key) for each in child.items]
        if len(set(axes[key])) != len(axes[key]):
            raise child.error("the same value is there twice")
    return axes


def _zips(item: Item | None, axes: dict[str, list[object]]) -> list[list[str]]:
    groups: list[list[str]] = []
    used: set[str] = set()
    for group in _list(item, "a list of groups such as [[value_size, keys]]"):
        names = [_text(each) for each in _list(group, "a group of axes such as [value_size, keys]")]
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


def _excludes(item: Item | None, axes: dict[str, list[object]], systems: list[str]) -> list[dict[str, list[object]]]:
    out = []
    for rule in _list(item, "a list of rules such as [{system: SD, value_size: 128K}]"):
        parsed: dict[str, list[object]] = {}
        for key, child in rule.mapping("a rule such as {system: SD, value_size: 128K}").items():
            if key != "system" and key not in axes:
                raise rule.error(f"neither an axis nor system{did_you_mean(key, ['system', *axes])}", key)
            values = [_text(each) if key == "system" else value_of(each, key) for each in child.scalars()]
            for value in values:
                among = systems if key == "system" else axes[key]
                if value not in among:
                    raise rule.error(f"{value} is not among {', '.join(map(str, among))}", key)
            parsed[key] = values
        if not parsed:
            raise rule.error("an empty rule would exclude everything")
        out.append(parsed)
    return out


def _list(item: Item | None, what: str) -> list[Item]:
    if item is None:
        return []
    if item.items is None:
        raise item.error(f"expected {what}, found {item.kind()}")
    _at_most(item, LIST_MAX)
    return item.items


def _at_most(item: Item, most: int) -> None:
    if len(item.items or ()) > most:
        raise item.error(f"expected at most {most:,} values, found {len(item.items or ()):,}")


def _tune_at(item: Item | None, axes: dict[str, list[object]], zips: list[list[str]],
             is_as_written: bool) -> dict[str, object]:
    """Axis values at which candidates are tried for all; axes that advance together with a given one follow it.

    Where --set has taken the value from the axis, tuning happens at each place, as without tune_at.
    """
    out: dict[str, object] = {}
    for key, child in (item.mapping() if item is not None else {}).items():
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


def _measure(item: Item | None, axes: dict[str, list[object]], zips: list[list[str]], is_as_written: bool) -> Measure:
    if item is None:
        return Measure()
    _known(item, MEASURE)
    kinds = {"repeats": Option("count", 1, 1000), "seed": BENCH["seed"], "timeout": Option("duration"),
             "tune_duration": Option("duration")}
    found: dict[str, object] = {}
    for key, option in kinds.items():
        if key in item.mapping():
            child = item.mapping()[key]
            found[key] = option.parse(child.value)
            if found[key] is None:
                raise child.error(f"expected {option.expected()}, found {child.kind()}")
    timeout = found.get("timeout")
    settings = item.mapping().get("power")
    return Measure(power=power.read(settings) if settings is not None else None, repeats=int(found.get("repeats", 3)),
                   seed=int(found.get("seed", 1)), timeout_s=timeout / 1e9 if timeout else None,
                   tune_duration=found.get("tune_duration"),
                   tune_at=_tune_at(item.mapping().get("tune_at"), axes, zips, is_as_written))


def _paper(item: Item | None) -> Paper | None:
    if item is None:
        return None
    _known(item, ("source", "item", "score"))
    entries = item.mapping()
    for key in ("source", "item"):
        if key not in entries:
            raise item.error("missing; a paper has source: and item:", key)
    return Paper(_text(entries["source"]), _text(entries["item"]),
                 _truth(entries["score"]) if "score" in entries else True)


def _figure(document: Item, axes: dict[str, list[object]]) -> Figure:
    item = document.mapping().get("figure")
    first = next(iter(axes), "")
    if item is None:
        return Figure("line", first, ("throughput_ops_s",))
    _known(item, FIGURE)
    entries = item.mapping()
    kind = _text(entries["kind"]) if "kind" in entries else "line"
    if kind not in FIGURE_KINDS:
        raise item.error(f"expected one of {', '.join(FIGURE_KINDS)}{did_you_mean(kind, FIGURE_KINDS)}", "kind")
    _figure_keys(item, kind)
    across = _text(entries["across"]) if "across" in entries else ""
    if across not in ("", SYSTEMS):
        raise item.error(f"expected {SYSTEMS}", "across")
    x = "" if kind == "timeline" else _figure_x(item, kind, axes, first, across)
    fields = {key: tuple(_field(each) for each in entries[key].scalars()) for key in ("y", "rows") if key in entries}
    if kind == "table" and not fields.get("rows"):
        raise item.error("a table needs rows: with the result fields to show", "rows")
    width = _text(entries["width"]) if "width" in entries else "one"
    if width not in ("one", "two"):
        raise item.error("expected one or two (columns of a paper)", "width")
    flags = {key: _truth(entries[key]) for key in ("published", "ratio", "log", "x_log") if key in entries}
    y_max = options.Option("real").parse(entries["y_max"].value) if "y_max" in entries else None
    if "y_max" in entries and y_max is None:
        raise item.error("expected a number above 0, in the unit of the result field", "y_max")
    panels, labels = _panels(entries.get("panels"), axes, (x,))
    default_y = ("latency_us.all",) if kind == "cdf" else ("throughput_ops_s",)
    return Figure(kind=kind, x=x, y=fields.get("y", default_y), rows=fields.get("rows", ()), width=width, across=across,
                  along=_an_axis(item, "along", axes, first) if kind == "curve" else "",
                  down=_an_axis(item, "down", axes, next((axis for axis in axes if axis not in (x, panels)), ""))
                  if kind == "map" else "",
                  panels=panels, panel_labels=labels, y_max=y_max,
                  relative_to=_text(entries["relative_to"]) if "relative_to" in entries else "",
                  note=_text(entries["note"]) if "note" in entries else "", **flags)


# Keys of figure: that only some kinds have.
_DRAWN_BY_FIELD = ("line", "bars", "table", "cdf", "curve", "map")
_OF_KINDS = {"x": _DRAWN_BY_FIELD, "y": _DRAWN_BY_FIELD, "along": ("curve",), "down": ("map",), "across": ("table",), "rows": ("table",),
             "panels": ("line", "bars", "curve", "cdf", "map"), "x_log": ("line", "curve", "cdf"),
             "y_max": ("line", "bars", "curve"), "relative_to": ("line",), "ratio": ("line", "bars", "table", "cdf")}


def _figure_keys(item: Item, kind: str) -> None:
    for key, kinds in _OF_KINDS.items():
        if key in item.mapping() and kind not in kinds:
            raise item.error(f"goes with kind {' or '.join(kinds)}, not with {kind}", key)


def _figure_x(item: Item, kind: str, axes: dict[str, list[object]], first: str, across: str) -> str:
    """The x axis; a result field of a curve; nothing where the systems are the columns."""
    entries = item.mapping()
    if kind == "curve":
        if "x" not in entries:
            raise item.error("a curve needs x: with a result field, such as throughput_ops_s", "x")
        return _field(entries["x"])
    x = _text(entries["x"]) if "x" in entries else "" if across else first
    if kind == "bars" and (x == SYSTEMS or not axes):
        return SYSTEMS
    if kind != "cdf" and not across and x not in axes:
        raise item.error(f"{x or 'nothing'} is no axis of this experiment{did_you_mean(x, axes)}", "x")
    return x


def _an_axis(item: Item, key: str, axes: dict[str, list[object]], default: str) -> str:
    name = _text(item.mapping()[key]) if key in item.mapping() else default
    if name not in axes:
        raise item.error(f"{name or 'nothing'} is no axis of this experiment{did_you_mean(name, axes)}", key)
    return name


def _panels(item: Item | None, axes: dict[str, list[object]], taken: tuple[str, ...]) -> tuple[str, dict[object, str]]:
    """The axis that panels stand for, and what they are called."""
    if item is None:
        return "", {}
    entries = {"axis": item} if item.entries is None else item.entries
    if item.entries is not None:
        _known(item, ("axis", "labels"))
        if "axis" not in entries:
            raise item.error("missing; which axis has a panel for each of its values?", "axis")
    axis = _text(entries["axis"])
    if axis not in axes or axis in taken:
        raise item.error(f"{axis}: expected an axis of this experiment other than {' and '.join(taken)}"
                         f"{did_you_mean(axis, axes)}")
    labels: dict[object, str] = {}
    for key, child in (entries["labels"].mapping() if "labels" in entries else {}).items():
        value = lookup.same(axes[axis], axis, option_of(axis).parse(key))
        if value is None:
            raise entries["labels"].error(f"not among the values of {axis}", key)
        labels[value] = _text(child)
    return axis, labels


def _derive(item: Item | None) -> tuple[dict[str, object], dict[str, str]]:
    trees: dict[str, object] = {}
    texts: dict[str, str] = {}
    for key, child in (item.mapping() if item is not None else {}).items():
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", key):
            raise item.error("expected a plain lower-case name", key)
        try:
            trees[key], texts[key] = expression.parse_arithmetic(_text(child)), _text(child)
        except expression.ExpressionError as error:
            raise child.error(f"expected an expression over result fields: {error}") from None
    return trees, texts


def _claims(item: Item | None, axes: dict[str, list[object]], systems: list[str], is_as_written: bool) -> list[ClaimText]:
    """The checks. With axes as they are written, they may name only values that are there; --set may have taken some."""
    out = []
    ids: tuple[str, ...] = ()
    for child in _list(item, "a list of checks such as [CD.throughput_ops_s > SD.throughput_ops_s]"):
        explained = ""
        if child.comment:  # it is about this claim, and those below it that have no comment of their own
            ids = tuple(dict.fromkeys(re.findall(r"\bV\d+\b", child.comment)))
        own = ids
        if child.entries is not None:
            _known(child, ("claim", "why", "id"))
            if "claim" not in child.entries:
                raise child.error("missing", "claim")
            explained = pointer(child.entries.get("why"))
            if "id" in child.entries:
                own = tuple(_text(each) for each in child.entries["id"].scalars())
        said = child.entries["claim"] if child.entries is not None else child
        text = _text(said)
        try:
            claim = expression.parse_claim(text)
        except expression.ExpressionError as error:
            raise said.error(f"cannot read the claim {cut(text)!r}: {error}") from None
        for name in expression.names(claim):
            wrong = lookup.wrong_name(axes, systems, name, is_as_written)
            if wrong:
                raise said.error(wrong)
        for condition in claim.where:
            for name in expression.names(condition):
                if name.path not in axes:
                    raise said.error(f"where {name.path}: no axis of this experiment{did_you_mean(name.path, axes)}")
        out.append(ClaimText(text, claim, explained, own))
    return out


def pointer(item: Item | None) -> str:
    """`why:` of a claim or a published number: the place in docs/ that explains a miss."""
    if item is None:
        return ""
    text = _text(item)
    if not re.fullmatch(r"docs/[a-z-]+\.md#[a-z0-9-]+", text):
        raise item.error(f"expected a place such as docs/fidelity.md#known-misses, found {text!r}")
    return text
