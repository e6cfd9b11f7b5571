"""Puts text from experiment files into Markdown so that no renderer reads it as markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Beginnings of HTML, links, images, code and emphasis. An underscore begins emphasis only at the edge of a word.
_SPECIAL = re.compile(r"[\\`*<\[]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")
_MARK_AT_START = re.compile(r"^([#>|~=+-])")
_NUMBER_AT_START = re.compile(r"^(\d+)([.)])")
_CODE = re.compile(r"(`[^`]*`)")


def escape(text: str) -> str:
    """One line of text, escaped so that Markdown shows it unchanged."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(text.split()))


def paragraph(text: str) -> str:
    """Several lines of text, escaped so that no line begins a heading, a list, a table or a quotation."""
    lines = (_MARK_AT_START.sub(r"\\\1", escape(line)) for line in text.splitlines())
    return "\n".join(_NUMBER_AT_START.sub(r"\1\\\2", line) for line in lines)


def code(text: str) -> str:
    """A Markdown code span; only the backquote, which would end it, is replaced."""
    return "`" + " ".join(text.split()).replace("`", "'") + "`"


def cell(text: str) -> str:
    """A cell of a Markdown table: the text is escaped, except for code spans in it."""
    parts = (part if i % 2 else escape(f"|{part}|")[1:-1] for i, part in enumerate(_CODE.split(text)))
    return "".join(parts).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of the texts `head` and `rows`."""
    lines = ["| " + " | ".join(map(cell, head)) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell(str(each)) for each in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
