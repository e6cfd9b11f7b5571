"""Other names of options in an experiment: `background_workers` is read as `hogs`, of which it is an alias."""

from __future__ import annotations

import dataclasses
import re

from .located import Item
from .options import KEY_OF_ALIAS

# The parts of a document in which texts are made of names of options.
_OF_NAMES = ("figure", "figures", "claims", "derive", "exclude", "tune", "zip", "maximize", "minimize", "measure")
_ALIAS = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, KEY_OF_ALIAS))})(?![\w-])") if KEY_OF_ALIAS else None


def by_keys(document: Item) -> Item:
    """The same document with every alias of an option replaced by the option's key. An option that a mapping names by both
    is refused."""
    return document if _ALIAS is None else _renamed(document, False)


def keys_in(text: str) -> str:
    """A text made of names of options, with every alias replaced: `systems.CD.background_workers`, a claim."""
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
