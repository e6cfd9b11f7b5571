"""YAML with the line number of every key and value, for error messages."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Iterator

import ruamel.yaml
from ruamel.yaml import events, nodes

from loch.ending import one_line

from .errors import BadInput, reading

BYTES_MAX = 1 << 20  # size limit of a file, in bytes
DEPTH_MAX = 64  # largest depth of nested mappings and lists
VALUES_MAX = 50_000  # largest number of values in a file
SHOWN_MAX = 60  # letters of a value that an error line shows


def cut(text: str) -> str:
    """A name or value of a file as an error line shows it: on one line, and cut after SHOWN_MAX letters."""
    return one_line(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…")


def found(value: Any) -> str:
    """Describes a value by its type for error messages, such as "a mapping"."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else cut(repr(value))


@dataclass
class Item:
    """One YAML value. Exactly one of `entries` (a mapping), `items` (a list), or neither (a scalar) is set."""

    file: str
    line: int | None  # line number from 1; None for a value from the command line
    path: str  # "systems.CD.clients"; for a value from the command line its flag ("--set clients")
    value: Any = None
    entries: dict[str, "Item"] | None = None
    items: list["Item"] | None = None
    key_lines: dict[str, int] = field(default_factory=dict)

    def error(self, expected: str, key: str | None = None) -> BadInput:
        """An error with file, line, key and what was expected. `key` names an entry of this mapping, whose line is
        given."""
        line = self.key_lines.get(key, self.line) if key else self.line
        path = f"{self.path}.{key}" if key and self.path else key or self.path
        where = f"{self.file}:{line}" if line is not None else self.file
        child = self.entries.get(key) if self.entries and key else None
        if child is not None and child.line is None:
            where = child.file  # a value from the command line or from `smoke:` names its origin in `file`
        return BadInput(f"{where}: {path}: {expected}")

    def plain(self) -> Any:
        """The value as Python's dict, list or scalar, without line numbers."""
        if self.entries is not None:
            return {key: child.plain() for key, child in self.entries.items()}
        if self.items is not None:
            return [child.plain() for child in self.items]
        return self.value

    def mapping(self, what: str = "a mapping of keys") -> dict[str, "Item"]:
        """The entries of a mapping; BadInput if the value is none."""
        if self.entries is None:
            raise self.error(f"expected {what}, found {self.kind()}")
        return self.entries

    def kind(self) -> str:
        """The type of the value for error messages, such as "a list"."""
        return found(
            self.entries or {} if self.entries is not None else self.items if self.items is not None else self.value
        )

    def scalars(self) -> Iterator["Item"]:
        """The items of a list, or the item itself if it is not a list."""
        yield from self.items if self.items is not None else [self]


def from_plain(value: Any, file: str, path: str) -> Item:
    """An Item without line numbers, for a value from the command line."""
    if isinstance(value, dict):
        return Item(file, None, path, entries={k: from_plain(v, file, f"{path}.{k}") for k, v in value.items()})
    if isinstance(value, list):
        return Item(file, None, path, items=[from_plain(v, file, path) for v in value])
    return Item(file, None, path, value=value)


def load(path: str | Path, ours: bool = False) -> Item:
    """Reads a YAML file with one document, a mapping. `ours`: a file of Loch's tree, parsed by the faster parser."""
    name = str(path)
    with reading(name), open(path, "rb") as stream:
        data = stream.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise BadInput(f"{name}: larger than {BYTES_MAX >> 20} MiB; expected an experiment")
        text = data.decode("utf-8")
    top = parse(text, name, ours)
    if top is None or top.entries is None:
        raise BadInput(f"{name}:1: expected a mapping of keys such as name, systems and axes")
    return top


def parse(text: str, name: str, ours: bool = False) -> Item | None:
    """The only document of a YAML text, or None if it is empty. The depth and the number of values are limited."""
    # libyaml's parser is several times as fast as the one in Python, but accepts some texts that are not valid YAML.
    reader = ruamel.yaml.YAML(typ="safe", pure=not ours)
    try:
        node = _Composer(reader).document(reader.parse(text))
        with reading(name):  # adds the file's name to errors about values without a line
            return None if node is None else _Converter(reader, name).item(node, "", 0)
    except _TooMany as error:
        raise BadInput(f"{name}:{error.line}: over {VALUES_MAX:,} values, those of aliases counted each time") from None
    except _TooDeep as error:
        raise BadInput(
            f"{name}:{error.line}: nested too deeply: over {DEPTH_MAX} mappings and lists in each other"
        ) from None
    except ruamel.yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInput(f"{name}:{line}: not YAML: a character that no text has, {error.character:#x}") from None
    except ruamel.yaml.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise BadInput(f"{name}:{line}: not YAML: {one_line(error.problem or error.context)}") from None
    except ruamel.yaml.error.YAMLError as error:
        raise BadInput(f"{name}: not YAML: {one_line(error)}") from None


def dump(document: dict[str, Any]) -> str:
    """A document as YAML text, with its keys in their order."""
    writer: Any = ruamel.yaml.YAML(typ="safe", pure=True)
    writer.default_flow_style, writer.width = False, 118
    writer.sort_base_mapping_type_on_output = False
    stream = io.StringIO()
    writer.dump(document, stream)
    return stream.getvalue()


class _TooDeep(Exception):
    """A file with more nesting levels than DEPTH_MAX."""

    def __init__(self, line: int) -> None:
        self.line = line


class _TooMany(_TooDeep):
    """A file with more values than VALUES_MAX; each use of a YAML alias counts all values that it stands for."""


def _line_of(thing: Any) -> int:
    """The line of a parser's event or node, counted from 1."""
    return int(thing.start_mark.line) + 1


class _Composer:
    """Builds nodes from the parser's events, with limits on depth and number of values.

    A few bytes of brackets could otherwise exhaust Python's stack.
    """

    def __init__(self, reader: ruamel.yaml.YAML) -> None:
        self._resolver = reader.resolver
        self._anchors: dict[str, nodes.Node] = {}
        self._count = 0

    def document(self, found: Iterable[events.Event]) -> nodes.Node | None:
        """The top node of the only document; None if there is no document."""
        stream = iter(found)
        top = None
        for event in stream:
            if not isinstance(event, events.DocumentStartEvent):
                continue  # the start of the stream, or the end of a document
            if top is not None:
                raise ruamel.yaml.composer.ComposerError(
                    "expected a single document in the stream", None, "but found another document", event.start_mark
                )
            top = self._node(next(stream), stream, 1)
        return top

    def _node(self, event: Any, stream: Iterator[events.Event], depth: int) -> nodes.Node:
        line = _line_of(event)
        self._count += 1
        if self._count > VALUES_MAX:
            raise _TooMany(line)
        if depth > DEPTH_MAX:
            raise _TooDeep(line)
        if isinstance(event, events.AliasEvent):
            if event.anchor not in self._anchors:
                problem = f"found undefined alias {event.anchor!r}"
                raise ruamel.yaml.composer.ComposerError(None, None, problem, event.start_mark)
            return self._anchors[event.anchor]
        node = self._begun(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(node, nodes.SequenceNode):
            while not isinstance(child := next(stream), events.SequenceEndEvent):
                node.value.append(self._node(child, stream, depth + 1))
        elif isinstance(node, nodes.MappingNode):
            while not isinstance(child := next(stream), events.MappingEndEvent):
                key = self._node(child, stream, depth + 1)
                node.value.append((key, self._node(next(stream), stream, depth + 1)))
        return node

    def _begun(self, event: Any) -> nodes.Node:
        """The node for a start event; the children of a sequence or mapping are added later."""
        if isinstance(event, events.ScalarEvent):
            tag = event.tag
            if tag is None or tag == "!":
                tag = self._resolver.resolve(nodes.ScalarNode, event.value, event.implicit)
            return nodes.ScalarNode(tag, event.value, event.start_mark, event.end_mark, style=event.style)
        kind = nodes.SequenceNode if isinstance(event, events.SequenceStartEvent) else nodes.MappingNode
        return kind(event.tag, [], event.start_mark, event.end_mark)


class _Converter:
    """Converts nodes to Items. The target of an alias is converted at each use, so that its values are counted each
    time."""

    def __init__(self, reader: ruamel.yaml.YAML, file: str) -> None:
        self._constructor, self._file, self._count = reader.constructor, file, 0

    def item(self, node: nodes.Node, path: str, depth: int) -> Item:
        line = _line_of(node)
        self._count += 1
        if self._count > VALUES_MAX:
            raise _TooMany(line)
        if depth > DEPTH_MAX:  # an alias inside its own target nests without end
            raise _TooDeep(line)
        if isinstance(node, nodes.ScalarNode):
            return Item(self._file, line, path, value=self._scalar(node, path))
        if isinstance(node, nodes.SequenceNode):
            return Item(self._file, line, path, items=[self.item(child, path, depth + 1) for child in node.value])
        return self._mapping(node, path, depth)

    def _scalar(self, node: nodes.ScalarNode, path: str) -> Any:
        try:
            return self._constructor.construct_object(node)
        except (ValueError, OverflowError):  # a malformed date, or a number with thousands of digits
            place = ": ".join(filter(None, [f"{self._file}:{_line_of(node)}", path]))
            raise BadInput(f"{place}: expected a value, found {cut(node.value)}; quote it if it is a text") from None

    def _mapping(self, node: nodes.Node, path: str, depth: int) -> Item:
        entries: dict[str, Item] = {}  # entries merged by `<<` come first
        lines: dict[str, int] = {}
        own: dict[str, Item] = {}
        for key_node, value_node in node.value:
            key_line = _line_of(key_node)
            if not isinstance(key_node, nodes.ScalarNode):
                raise BadInput(f"{self._file}:{key_line}: a key must be a plain name")
            if key_node.tag == "tag:yaml.org,2002:merge":
                self._merge(value_node, entries, lines, path, depth)
                continue
            key = str(key_node.value)
            child_path = f"{path}.{cut(key)}" if path else cut(key)
            if key in own:
                raise BadInput(f"{self._file}:{key_line}: {child_path}: given twice (first on line {lines[key]})")
            own[key] = self.item(value_node, child_path, depth + 1)
            lines[key] = key_line
        return Item(self._file, _line_of(node), path, entries={**entries, **own}, key_lines=lines)

    def _merge(self, node: nodes.Node, entries: dict[str, Item], lines: dict[str, int], path: str, depth: int) -> None:
        """Merges `<<: *other`, or a list of such: adds the keys that the mapping lacks; of several mappings the first
        one wins."""
        for each in node.value if isinstance(node, nodes.SequenceNode) else [node]:
            if not isinstance(each, nodes.MappingNode):
                raise BadInput(f"{self._file}:{_line_of(each)}: <<: expected a mapping, or a list of mappings")
            found = self.item(each, path, depth + 1)
            for key, child in found.mapping().items():
                entries.setdefault(key, child)
                lines.setdefault(key, found.key_lines[key])
