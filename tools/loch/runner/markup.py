"""Text of other people inside Markdown: no markup of theirs, whatever program shows the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What begins HTML, a link, an image, code or emphasis. An underscore does so only at the edge of a word.
_SPECIAL = re.compile(r"[\\`*<\[]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")
_MARK_AT_START = re.compile(r"^([#>|~=+-])")
_NUMBER_AT_START = re.compile(r"^(\d+)([.)])")
_CODE = re.compile(r"(`[^`]*`)")


def escape(text: str) -> str:
    """One line of text, which stays the text that it is."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(text.split()))


def paragraph(text: str) -> str:
    """Lines of text, none of which begins a heading, a list, a table or a quotation."""
    lines = (_MARK_AT_START.sub(r"\\\1", escape(line)) for line in text.splitlines())
    return "\n".join(_NUMBER_AT_START.sub(r"\1\\\2", line) for line in lines)


def code(text: str) -> str:
    """A code span. Nothing in it is markup but the sign that ends it."""
    return "`" + " ".join(text.split()).replace("`", "'") + "`"


def cell(text: str) -> str:
    """A cell of a table, in which code spans stay what they are."""
    parts = (part if i % 2 else escape(f"|{part}|")[1:-1] for i, part in enumerate(_CODE.split(text)))
    return "".join(parts).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts."""
    lines = ["| " + " | ".join(map(cell, head)) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell(str(each)) for each in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
