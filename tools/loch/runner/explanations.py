"""Sections of docs/ that explain why a claim does not hold, as HTML for a page that may be read anywhere."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from ..places import SOURCE

# in the source tree, or in PREFIX/share/doc/loch of an installation, whose SOURCE is PREFIX/share/loch
DOCS = next(filter(Path.is_dir, (Path(SOURCE) / "docs", Path(SOURCE).parent / "doc/loch/docs")), Path(SOURCE) / "docs")
_PLACE = re.compile(r"docs/([a-z-]+)\.md#([a-z0-9-]+)")
_ID = re.compile(r"why-([a-z-]+)\.([a-z0-9-]+)")
# A link that leads to another page of docs/ or to another section leads nowhere from the page that this text goes to.
_INNER_LINK = re.compile(r'<a href="(?!https?:)[^"]*">(.*?)</a>', re.DOTALL)


def identity(place: str) -> str:
    """The id in a page of a place such as docs/fidelity.md#nessie-2017; empty if there is no such section."""
    found = _PLACE.fullmatch(place)
    return f"why-{found[1]}.{found[2]}" if found and _section(found[1], found[2]) else ""


def html(name: str) -> tuple[str, str]:
    """The title and the text of the section with the given id (identity())."""
    found = _ID.fullmatch(name)
    section = _section(found[1], found[2]) if found else None
    if section is None:
        raise KeyError(name)
    return section


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and others make it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


@lru_cache(maxsize=None)
def _section(stem: str, wanted: str) -> tuple[str, str] | None:
    """The section of docs/STEM.md with an anchor, up to the next heading of its level: title and HTML."""
    from markdown_it import MarkdownIt  # not needed where no claim has a reason

    path = DOCS / f"{stem}.md"
    if not path.is_file():
        return None
    level, title = "", ""
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        heading = re.match(r"(#+) (.+)", line)
        if heading and level and len(heading[1]) <= len(level):
            break
        if level:
            kept.append(line)
        elif heading and anchor(heading[2]) == wanted:
            level, title = heading[1], heading[2]
    if not level:
        return None
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render("\n".join(kept))
    return title, _INNER_LINK.sub(r"\1", made)
