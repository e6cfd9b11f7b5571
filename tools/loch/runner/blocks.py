"""The elements of a report, independent of Markdown and HTML: text that is code, strong or plain, tables, lists, verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from . import markup


@dataclass(frozen=True)
class Plain:
    text: str


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Strong:
    text: str


@dataclass(frozen=True)
class Lines:
    """Text of other people, whose line ends stay in Markdown."""

    text: str


Inline = Union[Plain, Code, Strong, Lines]


@dataclass(frozen=True)
class Heading:
    level: int
    inside: tuple[Inline, ...]


@dataclass(frozen=True)
class Paragraph:
    inside: tuple[Inline, ...]


@dataclass(frozen=True)
class Cell:
    """Of a table. `error`: how far an obtained value is from a published one, which its colour shows."""

    text: str
    is_number: bool = False
    error: float | None = None


@dataclass(frozen=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Point:
    """Of a list. `held`: the verdict that it is, None where it is none. `more`: on a line of its own."""

    inside: tuple[Inline, ...]
    held: bool | None = None
    more: tuple[Inline, ...] = ()


@dataclass(frozen=True)
class List:
    points: tuple[Point, ...]
    is_tight: bool = False  # in Markdown, without empty lines between its points


Block = Union[Heading, Paragraph, Table, List]


@dataclass(frozen=True)
class Report:
    """The whole, in order; what stands before `detail` is shown at once on a page of many."""

    blocks: tuple[Block, ...]
    detail: int = field(default=0)  # the first block of what opens on demand


def table(
    head: list[str], rows: list[list[str]], numbers: slice, errors: dict[int, list[float | None]] | None = None
) -> Table:
    """A table of texts, of which the columns `numbers` hold numbers; `errors`: of a column, how far each row is off."""
    numeric = set(range(len(head))[numbers])

    def cell(row: int, column: int, text: str) -> Cell:
        listed = (errors or {}).get(column)
        return Cell(text, column in numeric and text != "", listed[row] if listed is not None else None)

    made = (tuple(cell(i, j, str(text)) for j, text in enumerate(row)) for i, row in enumerate(rows))
    return Table(tuple(head), tuple(made))


def markdown(report: Report) -> str:
    """report.md."""
    return "\n".join(part.rstrip("\n") + "\n" for block in report.blocks for part in _parts(block))


def _parts(block: Block) -> list[str]:
    if isinstance(block, Heading):
        return ["#" * block.level + " " + _inline(block.inside)]
    if isinstance(block, Paragraph):
        return [_inline(block.inside)]
    if isinstance(block, Table):
        return [markup.table(block.head, [[cell.text for cell in row] for row in block.rows])]
    points = ["* " + _inline(each.inside) + ("\n  " + _inline(each.more) if each.more else "") for each in block.points]
    return ["\n".join(points)] if block.is_tight else points


def _inline(inside: tuple[Inline, ...]) -> str:
    return "".join(_one(each) for each in inside)


def _one(each: Any) -> str:
    if isinstance(each, Code):
        return markup.code(each.text)
    if isinstance(each, Strong):
        return f"**{_escaped(each.text)}**"
    return markup.paragraph(each.text) if isinstance(each, Lines) else _escaped(each.text)


def _escaped(text: str) -> str:
    """The blanks at the ends, where code or strong text is next, stay."""
    head, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :] if text.strip() else ""
    return head + markup.escape(text) + tail
