"""The options of `loch bench` that an experiment may set: their kinds, ranges and flags."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from loch.places import BINARY, SOURCE

from .errors import BadInput
from .units import format_duration, format_size, parse_duration, parse_size

FABRICS = ("sim", "shm", "verbs", "ofi")


NUMBER_MAX = 2.0**63  # bound of loch-bench's 64-bit integers
TEXT_MAX = 4096  # largest number of letters of a text, such as a path
# a copy of loch-bench's description of its flags; tests/settings compares the two
COPY = Path(__file__).with_name("flags.json")


@dataclass(frozen=True)
class Option:
    """One option; `kind` is count, size, share, real, duration, choice, text or switch."""

    kind: str
    minimum: float = 0
    maximum: float = float("inf")
    choices: tuple[str, ...] = ()

    def expected(self) -> str:
        """A description of the option's valid values for error messages."""
        if self.kind == "count":
            least, most = int(self.minimum), self.maximum
            return (
                f"a whole number of at least {least}"
                if most > 2**53
                else f"a whole number from {least} to {int(most)}"
            )
        if self.kind == "size" and self.maximum <= 2**53:
            return f"bytes such as 512 or 16K, at most {format_size(self.maximum)}"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        return {
            "size": "bytes such as 512, 16K or 20G",
            "share": "a number from 0 to 1",
            "real": "a number above 0"
            if self.minimum == 0
            else f"a number of at least {self.minimum:g}"
            if self.maximum == float("inf")
            else f"a number from {self.minimum:g} to {self.maximum:g}",
            "duration": "a time with its unit, such as 5us, 50ms or 10s",
            "text": "a name",
            "switch": "true or false",
        }[self.kind]

    def parse(self, value: Any) -> Any | None:
        """The value in canonical form (bytes, nanoseconds, int, float, str, bool), or None if it is not valid."""
        if self.kind == "switch":
            return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
        if isinstance(value, (bool, list, dict)) or value is None:
            return None
        if self.kind == "text":
            return str(value) if str(value).isprintable() and len(str(value)) <= TEXT_MAX and str(value) else None
        if self.kind == "choice":
            return str(value) if str(value) in self.choices else None
        if self.kind == "duration":
            return parse_duration(value)
        if self.kind in ("count", "size"):
            whole = parse_size(value) if self.kind == "size" else _whole(value)
            return whole if whole is not None and self.minimum <= whole <= self.maximum else None
        number = _real(value)
        if number is None or not self.minimum <= number <= self.maximum or (self.kind == "real" and number == 0):
            return None
        return number

    def text(self, value: Any) -> str:
        """A canonical value as the text of a flag's argument."""
        if self.kind == "duration":
            return format_duration(int(value))
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"{value:g}" if isinstance(value, float) and value == round(value, 6) else str(value)


def _whole(value: Any) -> int | None:
    number = _real(value)
    if number is None:
        # loch-bench accepts counts with a unit, such as 1M, so they are accepted here
        return None if isinstance(value, (int, float)) else parse_size(value)
    return int(number) if number == int(number) else None


def _real(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= NUMBER_MAX else None  # the comparison is false for nan


_KINDS = {
    "boolean": "switch",
    "integer": "count",
    "size": "size",
    "duration": "duration",
    "choice": "choice",
    "text": "text",
    "file": "text",
}


def _option(setting: dict[str, Any]) -> Option:
    """The Option for a setting in the JSON of `loch-bench describe`."""
    least, most = setting.get("minimum", 0), setting.get("maximum", float("inf"))
    if setting["type"] == "real":
        return Option("share" if (least, most) == (0, 1) else "real", least, most)
    return Option(_KINDS[setting["type"]], least, most, tuple(setting.get("choices", ())))


@lru_cache(maxsize=None)
def described(binary: str) -> dict[str, Any]:
    """The output of `loch-bench describe --json`, the definition of all settings: names, types, ranges and defaults.

    If loch-bench is not built (stored results can be drawn without it), the copy of its flags in this package is used.
    """
    if not os.access(binary, os.X_OK):
        return {"flags": json.loads(COPY.read_text(encoding="utf-8")), "protocols": []}
    try:
        done = subprocess.run(
            [binary, "describe", "--json"], capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BadInput(f"{binary} does not describe its settings ({error})") from error
    return found


def _bench() -> tuple[dict[str, Option], dict[str, str]]:
    """The options that an experiment may set, and the names of flags that differ from their option's key."""
    flags = [each for each in described(_binary())["flags"] if each["experiment_key"]]
    options = {each["experiment_key"]: _option(each) for each in flags}
    options["fabric"] = Option("choice", choices=FABRICS)
    options["processes"] = Option("switch")
    return options, {
        each["experiment_key"]: each["key"] for each in flags if each["experiment_key"].replace("_", "-") != each["key"]
    }


def _binary() -> str:
    return os.environ.get("LOCH_BIN") or BINARY


# Options that an experiment may set, by key; and flags whose names differ from the key by more than - and _.
BENCH, _FLAGS = _bench()
# Aliases of options ("background_workers" for "hogs", "nessie.fix-h2" for "nessie.mend-h2"), and the options' keys.
KEY_OF_ALIAS = {
    **{
        alias.replace("-", "_"): each["experiment_key"]
        for each in described(_binary())["flags"]
        if each["experiment_key"]
        for alias in each.get("aliases", ())
    },
    **{
        alias: each["key"]
        for protocol in described(_binary())["protocols"]
        for each in protocol["options"]
        for alias in each.get("aliases", ())
    },
}
# Options of the load alone (their flags have is_of_load): the preloaded cluster does not depend on them.
OF_LOAD = frozenset(
    each["experiment_key"]
    for each in described(_binary())["flags"]
    if each["experiment_key"] and each.get("is_of_load")
)
SEEDS = ("seed", "load_seed")  # options that the runner gives to each repeat
# Options of experiments that the runner converts into options of loch bench.
DATA_PER_NODE = Option("size", 1)
SCALE = Option("real", 0, 1)
SHARE_OF_MAX = Option("real", 0, 1)
# Options that the runner handles itself: `processes` puts mpirun before the command.
RUNNERS_OWN = ("processes",)
# Options that name a file whose contents affect the result.
FILE_OPTIONS = tuple(
    each["experiment_key"]
    for each in described(_binary())["flags"]
    if each["type"] == "file" and each["experiment_key"]
)


def runs_together() -> bool:
    """Whether this loch-bench runs several points in one call (`loch-bench points`)."""
    return any(each["name"] == "points" for each in described(_binary()).get("commands", ()))


def dies_with() -> str:
    """The environment variable by which this loch-bench ends with the process that has started it; empty if it knows
    none."""
    return str(described(_binary()).get("dies_with", ""))


def file_named(value: str) -> str:
    """The path of a file that an experiment names: relative to the current folder if it exists there, else to Loch's
    folder."""
    own = Path(SOURCE) / value
    return str(own) if not Path(value).exists() and own.is_file() else value


def is_protocol_option(key: str) -> bool:
    """Whether `key` has the form of a protocol's option, such as nessie.filter-bits; loch-bench knows which exist."""
    return bool(re.fullmatch(r"[a-z][a-z0-9-]*\.[a-z0-9_-]+", key))


def names_program(key: str) -> bool:
    """Whether an option such as redis.binary names a program to start; experiment files must not set such options."""
    return is_protocol_option(key) and key.endswith(".binary")


def flag(key: str) -> str:
    """The command-line flag of an option."""
    if is_protocol_option(key):
        return "--" + key
    return "--" + _FLAGS.get(key, key).replace("_", "-")


def key_of(name: str) -> str | None:
    """The key of the option for a flag's name without dashes, or None."""
    if is_protocol_option(name):
        return name
    key = name.replace("-", "_")
    spelled = {text: option for option, text in _FLAGS.items()}
    return key if key in BENCH else spelled.get(key)


def arguments(params: dict[str, Any]) -> list[str]:
    """The `loch bench` arguments for one point's parameters, in the order of BENCH."""
    order = {key: i for i, key in enumerate(BENCH)}
    out: list[str] = []
    for key in sorted(params, key=lambda k: (order.get(k, len(order)), k)):
        if key in RUNNERS_OWN:
            continue
        option = BENCH.get(key, Option("text"))
        value = params[key]
        if option.kind == "switch":
            out.append(flag(key) if value else flag(key) + "=false")
        else:
            text = option.text(value)
            out += [flag(key), file_named(text) if key in FILE_OPTIONS else text]
    return out


def protocol_options(binary: str, protocol: str) -> frozenset[str] | None:
    """The options of a protocol that loch-bench offers; None if it cannot list them."""
    try:
        protocols = described(binary)["protocols"]
    except BadInput:
        return None
    found = [each["options"] for each in protocols if each["name"] == protocol]
    return frozenset(name for each in found[0] for name in (each["key"], *each.get("aliases", ()))) if found else None
