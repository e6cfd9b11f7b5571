"""Applies --set, --fabric and --smoke to an experiment before it is checked."""

from __future__ import annotations

import copy
import re
from typing import Any

from . import document as document_shape, options, other_names, schema, values
from .errors import BadInput, did_you_mean
from .located import Item, cut, from_plain, parse

SMOKE = {"measure.repeats": 1, "scale": 0.001, "measure.warmup": "1ms", "measure.duration": "2ms"}
# Run lengths in real time; the experiment file's lengths are for simulated time, in which 20 ms are thousands of
# operations.
REAL_TIME = {"warmup": "500ms", "duration": "5s"}
REAL_TIME_SMOKE = {"warmup": "100ms", "duration": "500ms"}
_MEASURE_KEYS = document_shape.keys(document_shape.Measure)


def apply(
    document: Item,
    sets: list[str],
    fabric: str | None,
    smoke: bool,
    nodes_max: int | None = None,
    cores: int | None = None,
) -> list[str]:
    """Applies the overrides to `document`; returns them, and changes that they required, as text.

    With `fabric`, systems are reduced to at most `nodes_max` nodes, and formerly simulated ones to at most as many
    workers on a node as it has `cores`, unless `sets` gives the number.
    """
    given: list[str] = []
    if smoke:
        _smoke(document)
        given.append("--smoke")
    if fabric:
        if fabric not in options.FABRICS:
            raise BadInput(
                f"--fabric {fabric}: expected one of {', '.join(options.FABRICS)}"
                f"{did_you_mean(fabric, options.FABRICS)}"
            )
        given += [
            f"--fabric {fabric}",
            *_move(
                document,
                fabric,
                smoke,
                None if _says(sets, "nodes") else nodes_max,
                None if _says(sets, "clients") else cores,
            ),
        ]
    for text in sets:
        key, sign, value = text.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise BadInput(f"--set {text}: expected key=value, such as value_size=16K or measure.repeats=1")
        _set(document, other_names.keys_in(key.strip()), _value(text, value), "--set")
        given.append(f"--set {text}")
    return given


def _says(sets: list[str], key: str) -> bool:
    return any(re.fullmatch(rf"(.*\.)?{key}", text.partition("=")[0].strip()) for text in sets)


def _move(document: Item, fabric: str, smoke: bool, nodes_max: int | None, cores: int | None) -> list[str]:
    """Changes every system's fabric; returns texts on the other changes that this required."""
    top = document.mapping()
    before = _plain(top, "fabric") or "sim"
    top["fabric"] = from_plain(fabric, "--fabric", "fabric")
    notes = []
    for name, system in top["systems"].mapping().items() if "systems" in top else []:
        entries = system.mapping()
        own = entries.pop("fabric", None)
        if fabric != "sim" and (own.value if own is not None else before) == "sim":
            _to_real_time(top, system, smoke)
            if cores is not None:
                notes += _fit_clients(top, name, system, cores)
        if nodes_max is not None:
            notes += _shrink(top, name, system, nodes_max)
    if fabric != "sim" and "measure" in top:
        top["measure"].mapping().pop("tune_duration", None)
    return notes


def _to_real_time(top: dict[str, Item], system: Item, smoke: bool) -> None:
    entries = system.mapping()
    shared = top["measure"].mapping() if "measure" in top else {}
    counts = "operations" in entries or ("operations" in shared and "duration" not in entries)
    for key, value in (REAL_TIME_SMOKE if smoke else REAL_TIME).items():
        is_swept = "axes" in top and key in top["axes"].mapping()
        if not is_swept and not (counts and key == "duration"):
            entries[key] = from_plain(value, "--fabric", key)


def _shrink(top: dict[str, Item], name: str, system: Item, nodes_max: int) -> list[str]:
    """Reduces a system to `nodes_max` nodes. Its label says so, and it is no longer compared with the paper's
    numbers."""
    if "axes" in top and "nodes" in top["axes"].mapping():
        return []
    entries = system.mapping()
    nodes = None
    for place in (top, entries):
        cluster = place["cluster"].mapping() if "cluster" in place else {}
        nodes = _plain(cluster, "nodes") or nodes
    nodes = _plain(entries, "nodes") or nodes
    if not isinstance(nodes, int) or nodes <= nodes_max:
        return []
    if "cluster" in entries:
        entries["cluster"].mapping().pop("nodes", None)
    label = str(_plain(entries, "label") or name)
    fewer = f"{nodes_max} node{'s' if nodes_max != 1 else ''}"
    renamed = re.sub(rf"\b{nodes} nodes\b", fewer, label)
    changed = {"nodes": nodes_max, "label": renamed if renamed != label else f"{label}, {fewer}", "published": ""}
    entries.update({key: from_plain(value, "--fabric", key) for key, value in changed.items()})
    return [f"({name}: {nodes_max} of {nodes} nodes, which is how many hosts there are)"]


def _fit_clients(top: dict[str, Item], name: str, system: Item, cores: int) -> list[str]:
    """Reduces a system's clients to the free cores: clients poll, and two on one core would wait for each other and
    time out."""
    entries = system.mapping()
    swept = [place.mapping() for place in (top.get("axes"), entries.get("tune")) if place is not None]
    if any("clients" in keys for keys in swept):
        return []
    clients, servers = _plain(entries, "clients"), _plain(entries, "servers") or 0
    most = max(1, cores - servers) if isinstance(servers, int) else cores
    if not isinstance(clients, int) or clients <= most:
        return []
    entries.update(
        {key: from_plain(value, "--fabric", key) for key, value in {"clients": most, "published": ""}.items()}
    )
    return [
        f"({name}: {most} of {clients} client workers a node, which is how many a host of {cores} "
        f"core{'s' if cores != 1 else ''} can run at once)"
    ]


def _plain(entries: dict[str, Item], key: str) -> Any:
    return entries[key].value if key in entries else None


def check_smoke(document: Item) -> None:
    """Refuses a bad `smoke:` mapping even in a run without --smoke."""
    if "smoke" in document.mapping():
        trial = copy.deepcopy(document)
        schema.read(trial, apply(trial, [], None, smoke=True))


def _value(text: str, value: str) -> Any:
    item = parse(value, f"--set {cut(text)}")
    parsed = item.plain() if item is not None else None
    return [part.strip() for part in value.split(",")] if isinstance(parsed, str) and "," in parsed else parsed


def _systems(document: Item) -> list[Item]:
    systems = document.mapping().get("systems")
    return list(systems.mapping().values()) if systems is not None else []


def _set(document: Item, key: str, value: Any, origin: str) -> None:
    """Sets a value at a path (systems.CD.clients), or an option by its name (clients), which then applies to every
    system."""
    head = key.split(".")[0]
    if head in schema.TOP and not (key == head and key in options.BENCH):
        _put(document, key.split("."), value, origin)
        return
    if key in _MEASURE_KEYS:
        _put(document, ["measure", key], value, origin)
        for system in _systems(document):
            system.mapping().pop(key, None)
        return
    if key in options.BENCH or key in ("data_per_node", "share_of_max"):
        _set_option(document, key, value, origin)
    elif options.is_protocol_option(key):
        _set_protocol_option(document, key, value, origin)
    else:
        valid = [*schema.TOP, *options.BENCH, *_MEASURE_KEYS]
        raise BadInput(f"{origin} {key}: no such key{did_you_mean(key, valid)}")


def _set_option(document: Item, key: str, value: Any, origin: str) -> None:
    top = document.mapping()
    axes = top.get("axes")
    if axes is not None and key in axes.mapping():
        _set_axis(document, key, value, origin)
        return
    if isinstance(value, list) and key == "hardware_set":
        value = ",".join(map(str, value))  # a list of KEY=VALUE in itself, and one value of the option
    if isinstance(value, list):
        raise BadInput(f"{origin} {key}: one value, please; it is no axis of this experiment")
    for system in _systems(document):
        entries = system.mapping()
        for place in (entries, entries["cluster"].mapping() if "cluster" in entries else {}):
            place.pop(key, None)
        if "tune" in entries and key in entries["tune"].mapping():
            raise BadInput(f"{origin} {key}: {system.path} tunes it; set {system.path}.tune instead")
        entries[key] = from_plain(value, origin, key)


def _set_axis(document: Item, key: str, value: Any, origin: str) -> None:
    """Replaces the values of an axis, and removes exclusions that name a removed value."""
    axes = document.mapping()["axes"]
    axes.mapping()[key] = from_plain(value if isinstance(value, list) else [value], origin, key)
    _trim(document, key)


def _trim(document: Item, key: str) -> None:
    """After an axis has lost values, removes them from `exclude`, `only` and panel labels."""
    left = [values.value_of(each, key) for each in document.mapping()["axes"].mapping()[key].scalars()]

    def kept_of(child: Item) -> list[Item]:
        return [each for each in child.scalars() if values.value_of(each, key) in left]

    rules = document.mapping().get("exclude")
    listed = rules.items if rules is not None and rules.items is not None else []
    for rule in list(listed):
        entries = rule.entries or {}
        child = entries.get(key)
        if child is None:
            continue
        if kept := kept_of(child):
            entries[key] = Item(child.file, child.line, child.path, items=kept)
        else:
            listed.remove(rule)
    for system in _systems(document):
        only = _below(system, "only")
        if key in only:
            only[key] = Item(only[key].file, only[key].line, only[key].path, items=kept_of(only[key]))
    panels = _below(document, "figure", "panels")
    labels = panels.get("labels")
    if labels is not None and labels.entries is not None and _plain(panels, "axis") == key:
        option = values.option_of(key)
        labels.entries = {each: child for each, child in labels.entries.items() if option.parse(each) in left}


def _below(item: Item, *path: str) -> dict[str, Item]:
    """The entries at a path of keys; empty if there is no mapping."""
    for key in path:
        item = (item.entries or {}).get(key) or Item("", None, "")
    return item.entries if item.entries is not None else {}


def _set_protocol_option(document: Item, key: str, value: Any, origin: str) -> None:
    prefix = key.split(".")[0]
    axes = document.mapping().get("axes")
    if axes is not None and key in axes.mapping():
        _set_axis(document, key, value, origin)
        return
    hits = [
        system
        for system in _systems(document)
        if "protocol" in system.mapping() and _belongs(prefix, str(system.mapping()["protocol"].value))
    ]
    if not hits:
        raise BadInput(f"{origin} {key}: no system of this experiment runs {prefix}")
    for system in hits:
        system.mapping()[key] = from_plain(value, origin, key)


def _belongs(prefix: str, protocol: str) -> bool:
    return protocol == prefix or protocol.startswith(prefix + "-")


def _put(item: Item, path: list[str], value: Any, origin: str) -> None:
    for i, part in enumerate(path[:-1]):
        rest = ".".join(path[i:])
        if options.is_protocol_option(rest) and item.path.startswith("systems."):
            path = [rest]
            break
        entries = item.mapping()
        if part not in entries:
            if i > 0:
                near = did_you_mean(part, entries)
                raise BadInput(f"{origin} {'.'.join(path)}: there is no {'.'.join(path[:i + 1])}{near}")
            entries[part] = Item(item.file, None, part, entries={})
        item = entries[part]
    item.mapping()[path[-1]] = from_plain(value, origin, ".".join(filter(None, [item.path, path[-1]])))
    item.key_lines.pop(path[-1], None)


def _smoke(document: Item) -> None:
    """Applies --smoke: the experiment's `smoke:` keys, or else one repeat, short runs and the ends of each axis."""
    top = document.mapping()
    own = top.get("smoke")
    if own is not None:
        for key, child in own.mapping().items():
            _set(document, key, child.plain(), f"{child.file}:{child.line}: smoke")
        return
    for system in _systems(document):
        for key in document_shape.RUN_LENGTH:
            system.mapping().pop(key, None)
    for key, value in SMOKE.items():
        _put(document, key.split("."), value, "--smoke")
    top["measure"].mapping().pop("operations", None)
    for key, axis in top["axes"].mapping().items() if "axes" in top else []:
        if axis.items is not None and len(axis.items) > 2:
            axis.items = [axis.items[0], axis.items[-1]]
            _trim(document, key)
