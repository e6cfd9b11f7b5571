"""JSON files that a run left behind, read as hostile: whole, finite, and of the types that drawing and scoring rely on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .errors import BadInput, reading

BYTES_MAX = 256 << 20
DIGITS_MAX = 25  # of a whole number; no count has more
_SECTIONS = ("operations", "latency_us", "verbs", "wire_bytes", "cpu")  # of a result: numbers alone
_NUMBERS = ("throughput_ops_s", "goodput_bytes_s", "duration_s")
_MAPPINGS = ("loch", "config", "capabilities", "sim", "power_w")
_DEPTH_MAX = 8
BINS_MAX = 10_000  # as of the binary


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


def damage(document: Any, failed: bool) -> str:
    """What of a stored point is not as a run writes it; nothing if all is."""
    if not isinstance(document, dict):
        return "expected a mapping"
    runner = document.get("runner")
    if not isinstance(runner, dict):
        return "runner: expected a mapping"
    expected: dict[str, tuple[type, ...]] = {
        "host": (dict,),
        "stamp": (dict,),
        "elapsed_s": (int, float),
        "others_cpu_share": (int, float, type(None)),
    }
    for key, kinds in expected.items():
        if key in runner and not isinstance(runner[key], kinds):
            return f"runner.{key}: of the wrong type"
    if ("failure" in document) != failed:
        return "a result where a failure was expected" if failed else "a failure where a result was expected"
    return _damaged_failure(document["failure"]) if failed else _damaged_result(document)


def _damaged_failure(failure: Any) -> str:
    if not isinstance(failure, dict) or not isinstance(failure.get("reason"), str):
        return "failure.reason: expected text"
    return "" if isinstance(failure.get("stderr_tail", ""), str) else "failure.stderr_tail: expected text"


def _damaged_result(document: dict) -> str:
    for key in _NUMBERS:
        if (key in document or key == _NUMBERS[0]) and not _is_number(document.get(key)):
            return f"{key}: expected a number"
    for key in _MAPPINGS:
        if not isinstance(document.get(key), (dict, type(None))):
            return f"{key}: expected a mapping"
    for key in _SECTIONS:
        if key in document and not isinstance(document[key], dict):
            return f"{key}: expected a mapping"
        wrong = _not_numbers(document.get(key), key, 0)
        if wrong:
            return wrong
    return _damaged_timeline(document)


def _damaged_timeline(document: dict) -> str:
    """A time series and its events, where a result has them."""
    for key, kinds in (
        ("timeline", {"t_s": _is_number, "ops_s": _is_number}),
        ("events", {"t_s": _is_number, "event": lambda value: isinstance(value, str) and value.isidentifier()}),
    ):
        entries = document.get(key)
        if entries is None:
            continue
        if not isinstance(entries, list) or len(entries) > BINS_MAX:
            return f"{key}: expected a list of at most {BINS_MAX:,}"
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict) or not all(is_good(entry.get(name)) for name, is_good in kinds.items()):
                return f"{key}.{i}: expected {' and '.join(kinds)}"
            others = (value for name, value in entry.items() if name != "event")
            if not all(value is None or _is_number(value) for value in others):
                return f"{key}.{i}: expected numbers"
    return "" if _is_number(document.get("probed_keys", 0)) else "probed_keys: expected a number"


def _not_numbers(node: Any, path: str, depth: int) -> str:
    """Where below `node` something else than a number stands."""
    if depth > _DEPTH_MAX:
        return f"{path}: nested too deeply"
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        wrong = _not_numbers(child, f"{path}.{key}", depth + 1)
        if wrong:
            return wrong
    is_pair = path.rpartition(".")[2].isdigit() and isinstance(node, list)
    if is_pair and (len(node) != 2 or not all(_is_number(each) for each in node)):
        return f"{path}: expected two numbers"
    return "" if isinstance(node, (dict, list, type(None))) or _is_number(node) else f"{path}: expected a number"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
