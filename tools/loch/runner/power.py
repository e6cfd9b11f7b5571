"""Power of measured points: `measure: {power: …}` wraps `loch power` (loch.power) around a point's command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from loch.places import HAND_OVER

from . import launch as launching
from .errors import BadInput
from .grid import Point
from .launch import Launch
from .located import Item
from .model import Power
from .options import Option
from .units import format_duration
from .values import text_of

TOOL = [*HAND_OVER, "power"]
KEY = "power"
CHECK_TIMEOUT_S = 60
# Settings that `loch power` accepts with one source only.
_ONLY = (("bmc", "ipmi"), ("user", "ipmi"), ("sensor", "ipmi"), ("trace", "replay"))


def read(item: Item) -> Power:
    """Reads `measure.power`, whose keys and kinds document.py has checked."""
    entries = item.mapping()
    words = {key: text_of(entries[key]) for key in ("source", "user", "sensor", "trace") if key in entries}
    for key, source in _ONLY:
        if key in entries and words["source"] != source:
            raise item.error(f"goes with source: {source}, not {words['source']}", key)
    if words["source"] == "replay" and "trace" not in words:
        raise item.error("source: replay needs the file of its samples", "trace")
    port, rate, idle = (
        Option(kind).parse(entries[key].value) if key in entries else None
        for key, kind in (("port", "count"), ("rate", "real"), ("idle", "duration"))
    )
    return Power(
        bmc=tuple(text_of(each) for each in entries["bmc"].scalars()) if "bmc" in entries else (),
        port=port,
        rate_hz=rate,
        idle_ns=idle or 0,
        **words,
    )


def flags(power: Power) -> list[str]:
    """The arguments of `loch power`, in a fixed order, because the names of stored points depend on it."""
    given = [("source", power.source), *(("bmc", each) for each in power.bmc)]
    given += [
        (key, value)
        for key, value in (
            ("port", str(power.port or "")),
            ("user", power.user),
            ("sensor", power.sensor),
            ("trace", power.trace),
            ("rate", "" if power.rate_hz is None else f"{power.rate_hz:g}"),
            ("idle", format_duration(power.idle_ns) if power.idle_ns else ""),
        )
        if value
    ]
    return [word for key, value in given for word in (f"--{key}", value)]


def text(power: Power) -> str:
    """The settings as text, for messages and as part of a point's name."""
    return shlex.join(flags(power))


def wrapped(point: Point, launched: Launch | None, argv: list[str], result: Path, samples: Path) -> list[str]:
    """The command of a point that writes `result`; if the point asks for power, with `loch power` around it."""
    argv = [*argv, "--json", str(result)]
    if point.power is None:
        return argv
    return [
        *TOOL,
        *_flags_there(point, point.power, launched),
        "--result",
        str(result),
        "--into",
        str(result),
        "--samples",
        str(samples),
        "--",
        *argv,
    ]


def extra_seconds(point: Point) -> float:
    """Seconds by which the idle baselines lengthen a point."""
    return 2 * point.power.idle_ns / 1e9 if point.power is not None else 0.0


def check(document: Item, points: list[Point], launched: Launch | None, is_dry: bool) -> None:
    """Before anything runs, reads every power source that the points need once.

    A plan (`is_dry`) contacts no other host and no BMC; a source that is missing on this machine is only a warning,
    since the plan may be made on a machine that does not measure.
    """
    measure = document.mapping().get("measure")
    where = measure.mapping().get(KEY) if measure is not None else None
    if where is None:
        return
    try:
        try:
            needed = dict.fromkeys(
                tuple(_flags_there(point, point.power, launched)) for point in points if point.power is not None
            )
        except BadInput as error:
            raise where.error(str(error)) from None
        for words in needed:
            if not (is_dry and not {"--host", "--bmc"}.isdisjoint(words[::2])):
                _check_one(where, words)
    except BadInput as error:
        if not is_dry:
            raise
        print(f"warning: {error}", file=sys.stderr)


def _check_one(where: Item, words: tuple[str, ...]) -> None:
    called = f"loch power {shlex.join(words)} --check"
    try:
        done = subprocess.run(
            [*TOOL, *words, "--check"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=CHECK_TIMEOUT_S,
            check=False,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise where.error(f"{called} did not end within {CHECK_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise where.error(said[-1].removeprefix("loch power: ") if said else f"{called} failed")


def _flags_there(point: Point, power: Power, launched: Launch | None) -> list[str]:
    """The flags of `loch power` with the hosts of the point: a BMC for each host, or --host for each host's own
    source."""
    hosts = _hosts(point, launched)
    if power.source == "replay":
        return flags(power)
    if not power.bmc:
        return flags(power) + [word for host in hosts or () for word in ("--host", host)]
    asked: list[str] = []
    for bmc in power.bmc:
        if "{host}" not in bmc:
            asked.append(bmc)
        elif hosts is None:
            raise BadInput(f"bmc: {bmc}: {{host}} needs the names of the hosts: --hostfile")
        else:
            asked += [bmc.replace("{host}", host.split("@")[-1]) for host in hosts]
    return flags(replace(power, bmc=tuple(asked)))


def _hosts(point: Point, launched: Launch | None) -> list[str] | None:
    """The hosts on which a point runs; None: only this machine."""
    if launched is None or not launched.is_for(point):
        return None
    if not launched.hosts:
        raise BadInput("in a Slurm job it needs the names of the hosts: --hostfile")
    return [host.name for host in launching.used_hosts(launched, point)]
