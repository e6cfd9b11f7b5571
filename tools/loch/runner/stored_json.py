"""JSON files that a run left behind, read as hostile: whole, and every number finite. What a result must hold, result.py says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .errors import BadInput, reading

BYTES_MAX = 256 << 20
DIGITS_MAX = 25  # of a whole number; no count has more


def read_json(path: Path) -> Any:
    """The document; what is no JSON, or holds a number that is none or too large, is refused with the file's name."""
    with reading(str(path)):
        with open(path, "rb") as stream:
            data = stream.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise BadInput(f"{path}: larger than {BYTES_MAX >> 20} MiB")
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant, parse_float=_real, parse_int=_whole)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _whole(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)
