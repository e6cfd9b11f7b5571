"""Watts of a measured point: `measure: {power: …}` puts `loch power` (loch.power) around its command."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from loch.hosts import is_address
from loch.places import HAND_OVER

from . import launch as launching
from .errors import BadInput, did_you_mean
from .grid import Point
from .launch import Launch
from .located import Item
from .units import format_duration, parse_duration

TOOL = [*HAND_OVER, "power"]
KEY = "power"  # of a point's params: the flags of `loch power`, so that they are part of its name
SOURCES = ("ipmi", "rapl", "replay")
KEYS = ("source", "bmc", "port", "user", "sensor", "trace", "rate", "idle")
CHECK_TIMEOUT_S = 60


def read(item: Item) -> str:
    """The flags of `loch power` that a mapping asks for, as one text. `{host}` in bmc: stays for each host's name."""
    entries = item.mapping('power settings such as {source: ipmi, bmc: "{host}-ipmi", user: admin}')
    for key in entries:
        if key not in KEYS:
            raise item.error(
                f"no such key{did_you_mean(key, KEYS)}"
                if key != "password"
                else "a password does not belong in a file: set IPMI_PASSWORD in the environment",
                key,
            )
    if "source" not in entries:
        raise item.error(f"missing; one of {', '.join(SOURCES)}", "source")
    out: list[str] = []
    for key in KEYS:
        for child in entries[key].scalars() if key in entries else []:
            out += [f"--{key}", _value(child, key)]
    return shlex.join(out)


def _value(item: Item, key: str) -> str:
    text = "" if item.value is None else str(item.value).strip()
    if key == "source" and text not in SOURCES:
        raise item.error(f"expected one of {', '.join(SOURCES)}{did_you_mean(text, SOURCES)}")
    if key == "idle":
        span = parse_duration(text)
        if span is None:
            raise item.error("expected a time with its unit, such as 10s")
        return format_duration(int(span))
    if key == "rate" and not re.fullmatch(r"\d+(\.\d+)?", text):
        raise item.error("expected a number of samples a second, such as 1")
    if key == "bmc" and not is_address(text.replace("{host}", "host")):
        raise item.error(f"expected the name or address of a BMC, found {item.kind()}")
    if not text or text.startswith("-") or not text.isprintable():
        raise item.error(f"expected a value for {key}, found {text or 'nothing'}")
    return text


def wrapped(point: Point, launched: Launch | None, argv: list[str], result: Path, samples: Path) -> list[str]:
    """The command of a point, which writes `result`; where it asks for power, `loch power` around it."""
    argv = [*argv, "--json", str(result)]
    if KEY not in point.params:
        return argv
    return [
        *TOOL,
        *_flags(point, launched),
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
    """By how much its baselines lengthen a point."""
    words = shlex.split(str(point.params.get(KEY, "")))
    idle = words[words.index("--idle") + 1] if "--idle" in words else "0s"
    return 2 * (parse_duration(idle) or 0) / 1e9


def check(document: Item, points: list[Point], launched: Launch | None, is_dry: bool) -> None:
    """Reads every source that the points need once, before anything is run.

    A plan (`is_dry`) asks no other machine, neither a host by ssh nor a BMC, and a source that is missing here is a
    warning: it may be made where nothing can be measured."""
    measure = document.mapping().get("measure")
    where = measure.mapping().get(KEY) if measure is not None else None
    if where is None:
        return
    try:
        try:
            needed = dict.fromkeys(shlex.join(_flags(point, launched)) for point in points if KEY in point.params)
        except BadInput as error:
            raise where.error(str(error)) from None
        for flags in needed:
            if not (is_dry and _is_elsewhere(flags)):
                _check_one(where, flags)
    except BadInput as error:
        if not is_dry:
            raise
        print(f"warning: {error}", file=sys.stderr)


def _is_elsewhere(flags: str) -> bool:
    return not {"--host", "--bmc"}.isdisjoint(shlex.split(flags))


def _check_one(where: Item, flags: str) -> None:
    try:
        done = subprocess.run(
            [*TOOL, *shlex.split(flags), "--check"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=CHECK_TIMEOUT_S,
            check=False,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise where.error(f"loch power {flags} --check did not end within {CHECK_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise where.error(said[-1].removeprefix("loch power: ") if said else f"loch power {flags} --check failed")


def _flags(point: Point, launched: Launch | None) -> list[str]:
    """With the hosts of the point: a BMC each, or another host's own source."""
    words = shlex.split(str(point.params[KEY]))
    hosts = _hosts(point, launched)
    if "replay" in words[:2]:
        return words
    if "--bmc" not in words:
        return words + [word for host in hosts or () for word in ("--host", host)]
    out: list[str] = []
    for flag, value in zip(words[::2], words[1::2]):
        if flag == "--bmc" and "{host}" in value:
            if hosts is None:
                raise BadInput(f"bmc: {value}: {{host}} needs the names of the hosts: --hostfile")
            out += [word for host in hosts for word in (flag, value.replace("{host}", host.split("@")[-1]))]
        else:
            out += [flag, value]
    return out


def _hosts(point: Point, launched: Launch | None) -> list[str] | None:
    """The hosts that a point runs on; None: only this machine."""
    if launched is None or not launched.is_for(point):
        return None
    if not launched.hosts:
        raise BadInput("in a Slurm job it needs the names of the hosts: --hostfile")
    return [host.name for host in launching.used_hosts(launched, point)]
