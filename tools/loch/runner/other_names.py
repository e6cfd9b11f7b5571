"""Replaces aliases of options in an experiment: `background_workers` is an alias of `hogs`."""

from __future__ import annotations

import dataclasses
import re

from .located import Item
from .options import KEY_OF_ALIAS

# Keys of an experiment. Texts in their values, at any depth, may contain names of options.
_OF_NAMES = ("figure", "figures", "claims", "derive", "exclude", "tune", "zip", "maximize", "minimize", "measure")
_ALIAS = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, KEY_OF_ALIAS))})(?![\w-])") if KEY_OF_ALIAS else None


def by_keys(document: Item) -> Item:
    """The document with every alias replaced by the option's key; a mapping with both an option's key and its alias is
    refused."""
    return document if _ALIAS is None else _renamed(document, False)


def keys_in(text: str) -> str:
    """A text that contains names of options, such as a claim or `systems.CD.background_workers`, with aliases
    replaced."""
    return _ALIAS.sub(lambda found: KEY_OF_ALIAS[found[1]], text) if _ALIAS else text


def _renamed(item: Item, is_of_names: bool) -> Item:
    if item.items is not None:
        return dataclasses.replace(item, items=[_renamed(child, is_of_names) for child in item.items])
    if item.entries is None:
        text = item.value
        return dataclasses.replace(item, value=keys_in(text)) if is_of_names and isinstance(text, str) else item
    entries: dict[str, Item] = {}
    for name, child in item.entries.items():
        key = KEY_OF_ALIAS.get(name, name)
        if key != name and key in item.entries:
            raise item.error(f"is another name of {key}, which is given as well", name)
        entries[key] = _renamed(child, is_of_names or name in _OF_NAMES)
    lines = {KEY_OF_ALIAS.get(name, name): line for name, line in item.key_lines.items()}
    return dataclasses.replace(item, entries=entries, key_lines=lines)
