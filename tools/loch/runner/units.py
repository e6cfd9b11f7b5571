"""Sizes (16K = 16,384 bytes) and durations (50ms), read and written as in C++ (common/base/units.h)."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"^(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]*)$")
_SIZE = re.compile(r"^([KMGT]?)i?B?$", re.IGNORECASE)
_MOST = 2**63 - 1  # the largest 64-bit integer, as in loch-bench
_NANOS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}


def parse_size(text: Any) -> int | None:
    """The number of bytes of 512, "16K", "1.5M" or "20G" (powers of 1024); None if it is not a size."""
    if isinstance(text, bool):
        return None
    if isinstance(text, int):
        return text if 0 <= text <= _MOST else None
    match = _NUMBER.match(str(text).strip())
    unit = _SIZE.match(match.group(2)) if match else None
    if match is None or unit is None:
        return None
    letter = unit.group(1).upper()
    value = float(match.group(1)) * 1024 ** (" KMGT".index(letter) if letter else 0)
    return int(value) if value <= _MOST and value == int(value) else None


def parse_duration(text: Any) -> int | None:
    """The nanoseconds of "5us", "50ms" or "10s"; None if it is not a duration (a unit is required)."""
    match = _NUMBER.match(str(text).strip())
    if not match or match.group(2) not in _NANOS:
        return None
    nanos = float(match.group(1)) * _NANOS[match.group(2)]
    return round(nanos) if nanos <= _MOST else None


def format_size(value: int | float) -> str:
    """A size as text: 16384 -> "16K"; a number that is no multiple of 1024 has no unit."""
    value = int(value)
    for letter in ("", "K", "M", "G"):
        if value == 0 or value % 1024:
            return f"{value}{letter}"
        value //= 1024
    return f"{value}T"


def format_duration(nanos: int) -> str:
    """Nanoseconds as text without rounding: 50000000 -> "50ms"."""
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanos and nanos % factor == 0:
            return f"{nanos // factor}{unit}"
    return f"{nanos}ns"


def about(seconds: float) -> str:
    """A rounded time span in words, such as "about 21 min"."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"
