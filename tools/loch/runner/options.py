"""The options of `loch bench` that an experiment may set: their kinds, ranges and flags."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from loch.places import SOURCE

from .units import format_duration, parse_duration, parse_size

FABRICS = ("sim", "shm", "verbs")
DISTRIBUTIONS = ("uniform", "zipfian", "zipfian-n", "latest", "hotspot", "exponential", "sequential", "locality")


NUMBER_MAX = 2.0**63   # what the binary's integers hold
TEXT_MAX = 4096        # letters, as of a path


@dataclass(frozen=True)
class Option:
    """One option: `kind` is count, size, share, real, duration, choice, text or switch."""

    kind: str
    minimum: float = 0
    maximum: float = float("inf")
    choices: tuple[str, ...] = ()

    def expected(self) -> str:
        """What a good value looks like, for the error line."""
        if self.kind == "count":
            return f"a whole number of at least {int(self.minimum)}"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        return {"size": "bytes such as 512, 16K or 20G", "share": "a number from 0 to 1",
                "real": "a number above 0" if self.minimum == 0 else f"a number of at least {self.minimum:g}",
                "duration": "a time with its unit, such as 5us, 50ms or 10s", "text": "a name",
                "switch": "true or false"}[self.kind]

    def parse(self, value: object) -> object | None:
        """The canonical value (bytes, nanoseconds, int, float, str, bool), or None when it is not one."""
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
            number = parse_size(value) if self.kind == "size" else _whole(value)
            return number if number is not None and self.minimum <= number <= self.maximum else None
        number = _real(value)
        if number is None or not self.minimum <= number <= self.maximum or (self.kind == "real" and number == 0):
            return None
        return number

    def text(self, value: object) -> str:
        """A canonical value as the flag's argument."""
        if self.kind == "duration":
            return format_duration(int(value))
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"{value:g}" if isinstance(value, float) and value == round(value, 6) else str(value)


def _whole(value: object) -> int | None:
    number = _real(value)
    if number is None:
        return None if isinstance(value, (int, float)) else parse_size(value)  # 1M, as the binary reads counts too
    return int(number) if number == int(number) else None


def _real(value: object) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= NUMBER_MAX else None  # which nan is not


BENCH: dict[str, Option] = {
    "protocol": Option("text"),  # which there are is the binary's to say: preflight
    "fabric": Option("choice", choices=FABRICS),
    "hardware": Option("text"),
    "nodes": Option("count", 1),
    "server_nodes": Option("count"),
    "clients": Option("count", 1),
    "servers": Option("count"),
    "window": Option("count", 1),
    "keys": Option("count", 1),
    "max_keys": Option("count", 1),
    "memory": Option("size", 1),
    "key_size": Option("size", 1),
    "value_size": Option("size", 1),
    "get": Option("share", 0, 1),
    "delete": Option("share", 0, 1),
    "distribution": Option("choice", choices=DISTRIBUTIONS),
    "zipf_theta": Option("real"),
    "locality": Option("share", 0, 1),
    "hotspot_data": Option("share", 0, 1),
    "hotspot_operations": Option("share", 0, 1),
    "workload_file": Option("text"),
    "rate": Option("real"),
    "think": Option("duration"),
    "arrivals": Option("choice", choices=("poisson", "fixed")),
    "warmup": Option("duration"),
    "duration": Option("duration"),
    "operations": Option("count", 1),
    "seed": Option("count"),
    "settle": Option("duration"),
    "hogs": Option("count"),
    "hog_pin": Option("choice", choices=("none", "shared", "separate", "clients")),
    "hog_nodes": Option("count"),
    "cores": Option("count"),
    "pin": Option("switch"),
    "device": Option("text"),
    "port": Option("count", 1, 255),
    "gid_index": Option("count", 0, 255),
    "verify": Option("switch"),
    "verify_full": Option("switch"),
    "scrub": Option("switch"),
    "repair_after": Option("duration"),
    "timeline": Option("duration"),
    "probe_keys": Option("count"),
    "processes": Option("switch"),
    "faults": Option("text"),
    "mutant": Option("text"),
}
# An experiment's key and the flag behind it, where they differ by more than - and _.
_FLAGS = {"workload_file": "workload"}
# What the runner itself turns into other options.
DATA_PER_NODE = Option("size", 1)
SCALE = Option("real", 0, 1)
SHARE_OF_MAX = Option("real", 0, 1)
# The runner's own: `loch power` around the command, and `mpirun` before it.
RUNNERS_OWN = ("power", "processes")
# Files whose contents decide a result, besides the binary.
FILE_OPTIONS = ("workload_file", "faults", "hardware")


def file_named(value: str) -> str:
    """A file that an experiment names: below the current folder, or else below the project's (experiments/faults/…)."""
    own = Path(SOURCE) / value
    return str(own) if not Path(value).exists() and own.is_file() else value


def is_protocol_option(key: str) -> bool:
    """nessie.filter-bits and the like; the binary knows which exist."""
    return bool(re.fullmatch(r"[a-z][a-z0-9-]*\.[a-z0-9_-]+", key))


def names_program(key: str) -> bool:
    """redis.binary and the like: such an option starts a program, and no file may say which."""
    return is_protocol_option(key) and key.endswith(".binary")


def flag(key: str) -> str:
    """The command-line flag of an option."""
    if is_protocol_option(key):
        return "--" + key
    return "--" + _FLAGS.get(key, key).replace("_", "-")


def key_of(name: str) -> str | None:
    """The option behind a flag's name without its dashes, or None."""
    if is_protocol_option(name):
        return name
    key = name.replace("-", "_")
    spelled = {text: option for option, text in _FLAGS.items()}
    return key if key in BENCH else spelled.get(key)


def arguments(params: dict[str, object]) -> list[str]:
    """The `loch bench` arguments of one point's parameters, in the order of the table above."""
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


@lru_cache(maxsize=None)
def protocol_options(binary: str, protocol: str) -> frozenset[str] | None:
    """The protocol options that the binary offers, from `bench --help PROTOCOL`; None if it cannot say."""
    try:
        done = subprocess.run([binary, "bench", "--help", protocol], capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = frozenset(re.findall(r"--([a-z][a-z0-9-]*\.[a-z0-9_-]+)", done.stdout))
    return found if done.returncode == 0 and found else None
