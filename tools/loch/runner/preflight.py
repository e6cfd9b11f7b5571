"""Checks that only loch-bench can make, before anything runs: protocols, fabrics, and the flags of every point."""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from . import grid, options, together
from .errors import BadInput, did_you_mean
from .launch import Launch
from .located import Item
from .model import Experiment, System
from .values import value_of

TIMEOUT_S = 60
SIDE_BY_SIDE = 4


def check(document: Item, experiment: Experiment, binary: str, launched: Launch | None = None) -> None:
    """Refuses protocols, fabrics and options that this build of loch-bench cannot run, or cannot run as `launched`."""
    protocols = _listed(binary, "protocols")
    systems = document.mapping()["systems"].mapping()
    for system in experiment.systems:
        protocol = str(system.params["protocol"])
        if protocols is not None and protocol not in protocols:
            raise systems[system.name].error(
                f"{protocol} is no protocol of this build; expected one of "
                f"{', '.join(protocols)}{did_you_mean(protocol, protocols)}",
                "protocol",
            )
        if system.params["fabric"] == "verbs":
            require_fabric(f"{experiment.file}: systems.{system.name}.fabric", "verbs", binary)
    _check_option_names(document, experiment, binary)
    tried = grid.tuning_points(experiment)
    points = grid.points(experiment)
    if not points:
        raise document.error("nothing is left to run", "exclude")
    _check_points(document, experiment, [*tried, *points], binary, launched)


def require_fabric(where: str, fabric: str, binary: str) -> None:
    """Refuses a fabric that this build of loch-bench lacks."""
    known = _listed(binary, "fabrics")
    if fabric not in (known if known is not None else ["sim", "shm"]):
        raise BadInput(f"{where}: {fabric} is not in this build; it has {', '.join(known or ['sim', 'shm'])}")


def _listed(binary: str, what: str) -> list[str] | None:
    """The names that `loch-bench list WHAT --json` prints; None if it cannot be run."""
    try:
        done = subprocess.run(
            [binary, "list", what, "--json"],
            capture_output=True,
            text=True,
            timeout=20,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        entries = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if isinstance(entries, dict):
        entries = entries.get(what, list(entries))
    if not isinstance(entries, list):
        return None
    return [str(each.get("name")) if isinstance(each, dict) else str(each) for each in entries]


def _check_option_names(document: Item, experiment: Experiment, binary: str) -> None:
    """Refuses protocol options that loch-bench does not offer; if it cannot list them, it refuses them itself later."""
    for system in experiment.systems:
        offered = options.protocol_options(binary, str(system.params["protocol"]))
        if offered is None:
            continue
        wanted = [k for k in [*system.params, *system.tune, *experiment.axes] if options.is_protocol_option(k)]
        for key in wanted:
            if key not in offered:
                owner, own_key = _owner(document, system, key)
                raise owner.error(
                    f"{system.params['protocol']} has no such option{did_you_mean(key, offered)}", own_key
                )


def _check_points(
    document: Item, experiment: Experiment, points: list[grid.Point], binary: str, launched: Launch | None
) -> None:
    """Has loch-bench check the flags of every distinct point; the error for a refused point names the line in the
    file."""
    distinct: dict[str, grid.Point] = {}
    for point in points:
        asked = {key: value for key, value in point.params.items() if key not in options.SEEDS}
        distinct.setdefault(json.dumps([point.system, asked], sort_keys=True), point)

    def judge(point: grid.Point) -> str | None:
        return _refusal(binary, point, launched.of_a_rank(point) if launched else {})

    found = None
    if not launched:
        asked_at_once = [options.arguments(point.params) for point in distinct.values()]
        found = together.refusals(binary, asked_at_once, TIMEOUT_S + len(asked_at_once))
    if found is not None:
        for point, refusal in zip(distinct.values(), found):
            if refusal is not None:
                raise _located(document, experiment.system(point.system), point, refusal)
        return
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for point, refusal in zip(distinct.values(), pool.map(judge, distinct.values())):
            if refusal is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                raise _located(document, experiment.system(point.system), point, refusal)


def _refusal(binary: str, point: grid.Point, environment: dict[str, str]) -> str | None:
    """loch-bench's refusal of a point, in one line; None if it accepts the point, or cannot run."""
    try:
        done = subprocess.run(
            [binary, "bench", *options.arguments(point.params), "--dry-run"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
            env={**os.environ, **environment},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1].removeprefix("loch bench: ") if done.returncode == 2 and lines else None


def _located(document: Item, system: System, point: grid.Point, refusal: str) -> BadInput:
    """An error at the key that a refusal names, as in "--value-size: ..." or "nessie.filter-bits: ..."."""
    named = re.match(r"(?:--)?([a-z][A-Za-z0-9.-]*)[: ]+", refusal)
    key, rest = (options.key_of(named.group(1)), refusal[named.end() :]) if named else (None, refusal)
    own = document.mapping()["systems"].mapping()[system.name]
    if key is None or key not in point.params:
        return own.error(refusal + (f" ({point.title()})" if point.axes else ""))
    owner, own_key = _owner(document, system, key)
    child = owner.entries.get(own_key) if owner.entries else None
    # if an axis or `tune` lists several values of the option, the error names only the refused one
    for each in child.items or [] if child is not None else []:
        if value_of(each, key) == point.params[key]:
            return each.error(rest)
    return owner.error(rest, own_key)


def _owner(document: Item, system: System, key: str) -> tuple[Item, str]:
    """The mapping and the key that give a system its value of an option; the system itself if none does."""
    top = document.mapping()
    own = top["systems"].mapping()[system.name]
    spelled = {"workload_file": "file", "keys": "data_per_node"}
    places = [
        own,
        own.mapping().get("cluster"),
        own.mapping().get("tune"),
        top.get("axes"),
        top.get("workload"),
        top.get("cluster"),
        top.get("measure"),
        document,
    ]
    for name in (key, spelled.get(key)):
        for place in places:
            if name is not None and place is not None and place.entries and name in place.entries:
                return place, name
    return own, key
