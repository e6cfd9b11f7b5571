"""The figure of a page: figure.svg as a part of the HTML, in which text can be selected and points say what they are.

Matplotlib draws letters as outlines, so that a figure looks the same everywhere. Here each text becomes text again, with
every letter in the place where its outline was; that also makes the page smaller.
"""

from __future__ import annotations

import html
import re

# What a page does not need: the global style, and texts that are empty lines.
_LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--\s*-->\s*<g[^>]*/>", re.DOTALL)
# A text as Matplotlib writes it: the text in a comment, then a group of the outlines of its letters.
_TEXT = re.compile(
    r'<!-- (?P<said>[^\n]*?) -->\s*<g(?P<look> style="[^"]*")? transform="(?P<place>[^"]*)">(?P<letters>.*?)</g>',
    re.DOTALL,
)
_LETTER = re.compile(
    r'<use xlink:href="#(?P<font>[\w-]+)-(?P<code>[0-9a-f]+)"(?: x="(?P<x>[\d.]+)"| transform="translate\((?P<t>[\d.]+) 0\)")?/>'
)
_OUTLINE = re.compile(r'<path id="DejaVu[\w-]+"[^>]*/>')
_FONTS = {
    "DejaVuSans": "",
    "DejaVuSans-Bold": ' font-weight="bold"',
    "DejaVuSans-Oblique": ' font-style="italic"',
    "DejaVuSans-BoldOblique": ' font-weight="bold" font-style="italic"',
}
_KNOWN = {"svg", "g", "path", "use", "defs", "clipPath", "rect", "pattern", "text", "title"}
_LONG = re.compile(r"(?<![\w.])-?\d+\.\d{3,}")
_REFERENCE = re.compile(r'(?:href="#|url\(#)([^")]+)')
_PREFIX = "f-"


def of(svg: str, title: str) -> str:
    """The SVG of a figure to put into HTML; empty if it is not as Matplotlib writes one, and then an image has to do."""
    root = re.search(r'<svg[^>]* viewBox="([\d. -]+)"[^>]*>', svg)
    texts = [_text(found) for found in _TEXT.finditer(svg)]
    if root is None or not all(texts):
        return ""
    written = iter(texts)
    body = _TEXT.sub(lambda _: next(written), _LEFT_OUT.sub("", svg[root.end() :]))
    body = re.sub(r"<defs>\s*</defs>", "", _OUTLINE.sub("", body))
    if not {name for name in re.findall(r"<\s*([^\s/>]*)", body) if name} <= _KNOWN or re.search(r"\son\w+=", body):
        return ""
    body = (
        re.sub(r"\s*\n\s*", " ", re.sub(r"<[^>]+>", _shorter, body)).replace("> <", "><").replace("xlink:href", "href")
    )
    head = f'<svg viewBox="{root[1]}" style="stroke-linejoin: round; stroke-linecap: butt" aria-label="{html.escape(title)}">'
    return head + f'<g id="{_PREFIX}all">' + _own_ids(body.strip()).removesuffix("</svg>") + "</g></svg>"


def renamed(section: str, prefix: str) -> str:
    """A page's part with a figure, whose ids begin with `prefix` so that a page may have several of them."""
    return re.sub(rf'( id="|href="#|url\(#){_PREFIX}', rf"\g<1>{prefix}-{_PREFIX}", section)


def small(section: str) -> dict[str, str]:
    """The size and the id of the figure in a page's part, of which a thumbnail is drawn; empty without one."""
    found = re.search(rf'<svg viewBox="([\d. -]+)"[^>]*><g id="([^"]*{_PREFIX}all)">', section)
    return {"box": found[1], "id": found[2]} if found else {}


def _text(found: re.Match[str]) -> str:
    """A text element in the place of outlines of letters; empty if they are not the letters of what the comment says."""
    letters = list(_LETTER.finditer(found["letters"]))
    said = "".join(chr(int(each["code"], 16)) for each in letters)
    fonts = {each["font"] for each in letters}
    place, flips = re.subn(r"scale\(([\d.]+) -\1\)", r"scale(\1)", found["place"])
    # in a comment a second hyphen in a row has a space before it
    if html.unescape(found["said"]).replace("- -", "--") != said.replace("- -", "--") or len(fonts) > 1 or not flips:
        return ""
    font = _FONTS.get(fonts.pop()) if fonts else ""
    if font is None:
        return ""
    x = " ".join(f"{float(each['x'] or each['t'] or 0):.0f}" for each in letters)
    return f'<text transform="{place}" x="{x}"{font}{found["look"] or ""}>{html.escape(said, quote=False)}</text>'


def _shorter(tag: re.Match[str]) -> str:
    """A tag with numbers of two decimals: hundredths of a point."""
    return _LONG.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag[0])


def _own_ids(body: str) -> str:
    """The SVG with those ids alone that it refers to, and these with the prefix."""
    used = set(_REFERENCE.findall(body))
    body = re.sub(r' id="([^"]*)"', lambda found: f' id="{_PREFIX}{found[1]}"' if found[1] in used else "", body)
    return _REFERENCE.sub(lambda found: found[0].replace("#", f"#{_PREFIX}", 1), body)
