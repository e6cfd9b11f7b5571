"""The elements of a report, independent of Markdown and HTML: paragraphs, tables and lists of plain, strong or code
text."""

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
    """Text from an experiment's author, whose line breaks are kept in Markdown."""

    text: str


@dataclass(frozen=True)
class Place:
    """A section of docs/, such as docs/fidelity.md#nessie-2017. A page holds its text and links to it."""

    text: str


Inline = Union[Plain, Code, Strong, Lines, Place]


@dataclass(frozen=True)
class Heading:
    level: int
    inside: tuple[Inline, ...]


@dataclass(frozen=True)
class Paragraph:
    inside: tuple[Inline, ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a table. `error`: relative error of the obtained value against the published one, shown by the cell's
    colour."""

    text: str
    is_number: bool = False
    error: float | None = None


@dataclass(frozen=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Point:
    """An item of a list. `held`: for a claim, whether it held; None for other items. `more`: further text on its own
    line."""

    inside: tuple[Inline, ...]
    held: bool | None = None
    more: tuple[Inline, ...] = ()


@dataclass(frozen=True)
class List:
    points: tuple[Point, ...]
    is_tight: bool = False  # whether Markdown has no empty lines between the list's items


Block = Union[Heading, Paragraph, Table, List]


@dataclass(frozen=True)
class Report:
    """A report as a sequence of blocks; on a page of many reports only the blocks before `detail` are visible at
    first."""

    blocks: tuple[Block, ...]
    # index in `blocks` of the first block that a page of several reports hides until the reader unfolds the details
    detail: int = field(default=0)


def table(
    head: list[str], rows: list[list[str]], numbers: slice, errors: dict[int, list[float | None]] | None = None
) -> Table:
    """A table from texts. `numbers`: the columns that hold numbers; `errors`: by column, the relative error of each
    row."""
    numeric = set(range(len(head))[numbers])

    def cell(row: int, column: int, text: str) -> Cell:
        listed = (errors or {}).get(column)
        return Cell(text, column in numeric and text != "", listed[row] if listed is not None else None)

    made = (tuple(cell(i, j, str(text)) for j, text in enumerate(row)) for i, row in enumerate(rows))
    return Table(tuple(head), tuple(made))


def markdown(report: Report) -> str:
    """The text of report.md."""
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
    """Escapes Markdown's special characters, and keeps blanks at the ends, which separate the text from code or strong
    text."""
    head, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :] if text.strip() else ""
    return head + markup.escape(text) + tail
