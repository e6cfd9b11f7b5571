"""Reads single values of an experiment file; errors name file, line and key."""

from __future__ import annotations

import re
from typing import Any

from . import options
from .errors import did_you_mean
from .located import Item
from .options import BENCH, DATA_PER_NODE, SCALE, SHARE_OF_MAX, Option

LIST_MAX = 1000  # largest number of values in a list
FIELD = re.compile(r"^[a-z_][a-z0-9_]*(\.[A-Za-z0-9_]+)*$")


def known(item: Item, allowed: tuple[str, ...], protocol_options: bool = False) -> None:
    for key in item.mapping():
        if protocol_options:
            no_program(item, key)
        if key not in allowed and not (protocol_options and options.is_protocol_option(key)):
            raise item.error(f"no such key{did_you_mean(key, allowed)}", key)


def no_program(item: Item, key: str) -> None:
    """Refuses an option that names a program, since a file from somebody else must not start programs."""
    if options.names_program(key):
        raise item.error(f"programs are named on the command line only, with loch bench --{key}", key)


def text_of(item: Item) -> str:
    if item.entries is not None or item.items is not None or item.value is None:
        raise item.error(f"expected text, found {item.kind()}")
    text = str(item.value).strip()
    if not all(letter.isprintable() or letter in "\n\t\u00a0\u202f" for letter in text):
        raise item.error(f"expected text without control characters, found {item.kind()}")
    return text


def truth_of(item: Item) -> bool:
    if not isinstance(item.value, bool):
        raise item.error(f"expected true or false, found {item.kind()}")
    return item.value


def field_of(item: Item) -> str:
    text = text_of(item)
    if not FIELD.match(text):
        raise item.error(f"expected a result field such as latency_us.all.mean, found {text!r}")
    return text


def option_of(key: str) -> Option:
    """How the values of an option are read; values of protocol options stay text, which loch-bench checks."""
    own = {"data_per_node": DATA_PER_NODE, "scale": SCALE, "share_of_max": SHARE_OF_MAX}
    return own.get(key) or BENCH.get(key) or Option("text")


def value_of(item: Item, key: str) -> Any:
    """The value of option `key` in canonical form; BadInput if it is not valid."""
    option = option_of(key)
    if item.entries is not None or item.items is not None:
        raise item.error(f"expected {option.expected()}, found {item.kind()}")
    raw = item.value
    if options.is_protocol_option(key) and isinstance(raw, bool):
        raw = "true" if raw else "false"
    value = option.parse(raw)
    if value is None:
        near = did_you_mean(str(item.value), option.choices) if option.kind == "choice" else ""
        raise item.error(f"expected {option.expected()}, found {item.kind()}{near}")
    return value


def listed(item: Item | None, what: str) -> list[Item]:
    if item is None:
        return []
    if item.items is None:
        raise item.error(f"expected {what}, found {item.kind()}")
    at_most(item, LIST_MAX)
    return item.items


def at_most(item: Item, most: int) -> None:
    if len(item.items or ()) > most:
        raise item.error(f"expected at most {most:,} values, found {len(item.items or ()):,}")
