"""YAML with the line of every key and value, so that an error can name it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import yaml

from .errors import BadInput


@dataclass
class Item:
    """One YAML value. Exactly one of `entries` (a mapping), `items` (a list), or neither (a scalar) is set."""

    file: str
    line: int | None  # 1-based; None for what came from the command line
    path: str         # "systems.CD.clients"; the origin ("--set clients") for what came from the command line
    value: object = None
    entries: dict[str, "Item"] | None = None
    items: list["Item"] | None = None
    key_lines: dict[str, int] = field(default_factory=dict)
    comment: str = ""  # of an item of a list: the comment lines right above it

    def error(self, expected: str, key: str | None = None) -> BadInput:
        """file:line: key: what was expected. `key` names a child by its own line."""
        line = self.key_lines.get(key, self.line) if key else self.line
        path = f"{self.path}.{key}" if key and self.path else key or self.path
        where = f"{self.file}:{line}" if line is not None else self.file
        child = self.entries.get(key) if self.entries and key else None
        if child is not None and child.line is None:
            where = child.file  # it came from the command line or from smoke:
        return BadInput(f"{where}: {path}: {expected}")

    def plain(self) -> object:
        """The value without its lines."""
        if self.entries is not None:
            return {key: child.plain() for key, child in self.entries.items()}
        if self.items is not None:
            return [child.plain() for child in self.items]
        return self.value

    def mapping(self, what: str = "a mapping of keys") -> dict[str, "Item"]:
        """The entries; refuses anything else."""
        if self.entries is None:
            raise self.error(f"expected {what}, found {self.kind()}")
        return self.entries

    def kind(self) -> str:
        """What it is, in words."""
        if self.entries is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        return "nothing" if self.value is None else repr(self.value)

    def scalars(self) -> Iterator["Item"]:
        """The item itself, or the items of a list."""
        yield from self.items if self.items is not None else [self]


def from_plain(value: object, file: str, path: str) -> Item:
    """An Item without lines, for values given on the command line."""
    if isinstance(value, dict):
        return Item(file, None, path, entries={k: from_plain(v, file, f"{path}.{k}") for k, v in value.items()})
    if isinstance(value, list):
        return Item(file, None, path, items=[from_plain(v, file, path) for v in value])
    return Item(file, None, path, value=value)


def load(path: str | Path) -> Item:
    """Reads one YAML document whose top is a mapping."""
    name = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{name}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None or not isinstance(node, yaml.MappingNode):
            raise BadInput(f"{name}:1: expected a mapping of keys such as name, systems and axes")
        top = _convert(loader, node, name, "")
        _attach_comments(top, text.splitlines())
        return top
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise BadInput(f"{name}:{line}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{name}: not YAML: {str(error).splitlines()[0]}") from None
    finally:
        loader.dispose()


def _attach_comments(item: Item, lines: list[str]) -> None:
    for child in (item.entries or {}).values():
        _attach_comments(child, lines)
    for child in item.items or []:
        at = (child.line or 1) - 2
        above = []
        while at >= 0 and lines[at].lstrip().startswith("#"):
            above.insert(0, lines[at].strip().lstrip("# "))
            at -= 1
        child.comment = " ".join(above)
        _attach_comments(child, lines)


def _convert(loader: yaml.SafeLoader, node: yaml.Node, file: str, path: str) -> Item:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Item(file, line, path, value=loader.construct_object(node))
    if isinstance(node, yaml.SequenceNode):
        return Item(file, line, path, items=[_convert(loader, child, file, path) for child in node.value])
    loader.flatten_mapping(node)
    item = Item(file, line, path, entries={})
    for key_node, value_node in node.value:
        key_line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise BadInput(f"{file}:{key_line}: a key must be a plain name")
        key = str(key_node.value)
        child_path = f"{path}.{key}" if path else key
        if key in item.entries and item.key_lines[key] != key_line:
            raise BadInput(f"{file}:{key_line}: {child_path}: given twice (first on line {item.key_lines[key]})")
        item.entries[key] = _convert(loader, value_node, file, child_path)
        item.key_lines[key] = key_line
    return item
