"""YAML with the line of every key and value, so that an error can name it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import yaml

from loch.ending import one_line

from .errors import BadInput, reading

BYTES_MAX = 1 << 20   # of one file
DEPTH_MAX = 64        # mappings and lists in each other
VALUES_MAX = 50_000   # of one file
SHOWN_MAX = 60        # letters of a value in an error line
COMMENT_MAX = 100     # lines above an item


def cut(text: str) -> str:
    """A name or value of a file as an error line shows it."""
    return one_line(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…")


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
        return "nothing" if self.value is None else cut(repr(self.value))

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


def load(path: str | Path, ours: bool = False) -> Item:
    """Reads one YAML document whose top is a mapping. `ours`: a long list of the tree, read with the faster parser."""
    name = str(path)
    with reading(name), open(path, "rb") as stream:
        data = stream.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise BadInput(f"{name}: larger than {BYTES_MAX >> 20} MiB; expected an experiment")
        text = data.decode("utf-8")
    top = parse(text, name, ours)
    if top is None or top.entries is None:
        raise BadInput(f"{name}:1: expected a mapping of keys such as name, systems and axes")
    _attach_comments(top, text.splitlines())
    return top


def parse(text: str, name: str, ours: bool = False) -> Item | None:
    """The one document of a YAML text, None of an empty one. Nesting and the number of values are bounded."""
    loader = None
    try:
        loader = _FastLoader(text) if ours else _Loader(text)
        node = loader.get_single_node()
        with reading(name):  # a last resort: the values have their own lines
            return None if node is None else _Converter(loader, name).item(node, "", 0)
    except _TooMany as error:
        raise BadInput(f"{name}:{error.line}: over {VALUES_MAX:,} values, those of aliases counted each time") from None
    except _TooDeep as error:
        raise BadInput(f"{name}:{error.line}: nested too deeply: over {DEPTH_MAX} mappings and lists in each other") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInput(f"{name}:{line}: not YAML: a character that no text has, {error.character:#x}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise BadInput(f"{name}:{line}: not YAML: {one_line(error.problem or error.context)}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{name}: not YAML: {one_line(error)}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _attach_comments(item: Item, lines: list[str]) -> None:
    for child in (item.entries or {}).values():
        _attach_comments(child, lines)
    for child in item.items or []:
        at = (child.line or 1) - 2
        above = []
        while at >= 0 and len(above) < COMMENT_MAX and lines[at].lstrip().startswith("#"):
            above.append(lines[at].strip().lstrip("# "))
            at -= 1
        child.comment = " ".join(reversed(above))
        _attach_comments(child, lines)


class _TooDeep(Exception):
    """More levels than any experiment has."""

    def __init__(self, line: int) -> None:
        self.line = line


class _TooMany(_TooDeep):
    """More values than any experiment has, those of aliases counted each time."""


class _Bounded:
    """Composes nodes to a bounded depth: a bracket for each level is a few bytes, a level of Python's stack is not."""

    _depth = _count = 0

    def compose_node(self, parent: object, index: object) -> yaml.Node:
        self._depth += 1
        self._count += 1
        if self._depth > DEPTH_MAX:
            raise _TooDeep(self.peek_event().start_mark.line + 1)
        if self._count > VALUES_MAX:
            raise _TooMany(self.peek_event().start_mark.line + 1)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Loader(_Bounded, yaml.SafeLoader):
    """PyYAML's own parser."""


if yaml.__with_libyaml__:
    class _FastLoader(_Bounded, yaml.composer.Composer, yaml.CSafeLoader):
        """The parser of libyaml, several times as fast, under PyYAML's composer. It takes some texts that are no YAML."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            self.anchors = {}  # the composer's
else:
    _FastLoader = _Loader


class _Converter:
    """From nodes to Items. What an alias stands for is converted anew each time, so that it is counted each time."""

    def __init__(self, loader: yaml.SafeLoader, file: str) -> None:
        self._loader, self._file, self._count = loader, file, 0

    def item(self, node: yaml.Node, path: str, depth: int) -> Item:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > VALUES_MAX:
            raise _TooMany(line)
        if depth > DEPTH_MAX:  # by an alias inside of what it stands for
            raise _TooDeep(line)
        if isinstance(node, yaml.ScalarNode):
            return Item(self._file, line, path, value=self._scalar(node, path))
        if isinstance(node, yaml.SequenceNode):
            return Item(self._file, line, path, items=[self.item(child, path, depth + 1) for child in node.value])
        return self._mapping(node, path, depth)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> object:
        try:
            return self._loader.construct_object(node)
        except (ValueError, OverflowError):  # a date that is none, thousands of digits
            place = ": ".join(filter(None, [f"{self._file}:{node.start_mark.line + 1}", path]))
            raise BadInput(f"{place}: expected a value, found {cut(node.value)}; quote it if it is a text") from None

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> Item:
        item = Item(self._file, node.start_mark.line + 1, path, entries={})
        own: dict[str, Item] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadInput(f"{self._file}:{key_line}: a key must be a plain name")
            if key_node.tag == "tag:yaml.org,2002:merge":
                self._merge(value_node, item, path, depth)
                continue
            key = str(key_node.value)
            child_path = f"{path}.{cut(key)}" if path else cut(key)
            if key in own:
                raise BadInput(f"{self._file}:{key_line}: {child_path}: given twice (first on line {item.key_lines[key]})")
            own[key] = self.item(value_node, child_path, depth + 1)
            item.key_lines[key] = key_line
        item.entries.update(own)
        return item

    def _merge(self, node: yaml.Node, into: Item, path: str, depth: int) -> None:
        """`<<: *other`, or a list of such: keys of which the mapping has none of its own; the first mapping wins."""
        for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(each, yaml.MappingNode):
                raise BadInput(f"{self._file}:{each.start_mark.line + 1}: <<: expected a mapping, or a list of mappings")
            found = self.item(each, path, depth + 1)
            for key, child in found.entries.items():
                into.entries.setdefault(key, child)
                into.key_lines.setdefault(key, found.key_lines[key])
