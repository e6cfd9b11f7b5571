"""Reads JSON files of earlier runs without trusting them: complete documents with finite numbers. result.py checks the
keys."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .errors import BadInput, reading

BYTES_MAX = 256 << 20
DIGITS_MAX = 25  # digits of the largest whole number that is accepted


def read_json(path: Path) -> Any:
    """The document in a JSON file; BadInput with the file's name if it is malformed or has a number that is not
    finite."""
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
