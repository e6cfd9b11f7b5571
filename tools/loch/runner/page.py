"""report.html: report.md with its figure, for one result folder or for many, as one page that needs nothing else."""

from __future__ import annotations

import base64
import html
import re
import statistics
from pathlib import Path

from .errors import BadInput, reading
from .stored_json import read_json

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  max-width: 60rem; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 1.6rem 0 .4rem; border-bottom: 1px solid #ccc; }
figure { margin: 1rem 0; overflow-x: auto; }
figure img { display: block; width: 100%; height: auto; margin: 0 auto; }
figure.two img { min-width: 36rem; }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; }
td { max-width: 28rem; }
th { border-bottom: 1.5px solid #444; }
td.number { text-align: right; white-space: nowrap; }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; background: #f3f3f0; padding: 0 .2em; }
ul { padding-left: 1.2rem; }
.held::before { content: "\\2713\\00a0"; color: #00694d; font-weight: bold; }
.not-held::before { content: "\\2717\\00a0"; color: #b03a00; font-weight: bold; }
.close { background: #c9e4d4; } .near { background: #e3f0c9; } .fair { background: #fbe6bd; } .far { background: #f5c6b8; }
nav ul { columns: 18rem; }
section { border-top: 3px solid #444; margin-top: 2.5rem; }
summary { cursor: pointer; margin: 1rem 0; }
@media print {
  body { font-size: 9.5pt; max-width: none; padding: 0; }
  figure, .wide { overflow: visible; } figure.two img { min-width: 0; } table { font-size: 7.5pt; } td { max-width: none; }
  figure, tr, li { break-inside: avoid; } h2 { break-after: avoid; } section { break-before: page; }
}
"""
_CODE_OR_ESCAPED = re.compile(r"`[^`]*`|\\([!-/:-@\[-`{-~])")
_HIDDEN = 0xE000  # a place of Unicode that no text of ours uses
_SECTION = re.compile(r"<!--section-->(.*)<!--/section-->", re.DOTALL)
_NUMBER = re.compile(r"^[+−-]?[\d,.]+(e[+-]?\d+)?( ?%)?( \(x\))?$|^–$|^withheld$")


def of_folder(folder: Path) -> str:
    """The page of one result folder, from its report.md and figure.svg."""
    with reading(str(folder / "report.md")):
        text = (folder / "report.md").read_text(encoding="utf-8")
    title = _title(folder)
    return _page(title, f"<!--section-->{_figured(folder, text)}<!--/section-->")


def of_folders(root: Path, folders: list[Path]) -> str:
    """One page for all folders: a table of what came of each, then their sections."""
    rows, sections = [], []
    for folder in folders:
        path = folder / "report.html"
        found = _SECTION.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        if found is None:
            continue
        name = html.escape(folder.relative_to(root).as_posix(), quote=True)
        held, judged = _claims(folder)
        claims = f"{held} of {judged}" if judged else "–"
        mark = "" if held == judged else ' class="fair"'
        rows.append(f'<tr><td><a href="#{name}">{name}</a></td><td>{html.escape(_title(folder))}</td>'
                    f"<td{mark}>{claims}</td></tr>")
        sections.append(f'<section id="{name}">{_folded(found.group(1))}</section>')
    table = ('<div class="wide"><table><thead><tr><th>experiment</th><th>title</th><th>claims held</th></tr></thead>'
             f"<tbody>{''.join(rows)}</tbody></table></div>")
    head = f"<h1>{len(rows)} experiments</h1><p>{html.escape(_summary(folders))}</p><nav>{table}</nav>"
    return _page(f"{len(rows)} experiments", head + "".join(sections))


def _summary(folders: list[Path]) -> str:
    """How near the published numbers all of them came."""
    errors: dict[tuple[str, str], float] = {}
    held = judged = 0
    for folder in folders:
        path = folder / "manifest.json"
        document = read_json(path)
        with reading(str(path)):
            for source, identity, error in document.get("errors", []):
                errors.setdefault((source, identity), abs(error))
        mine = _claims(folder)
        held, judged = held + mine[0], judged + mine[1]
    parts = []
    if errors:
        near = [sum(error <= limit + 1e-12 for error in errors.values()) for limit in (0.05, 0.10, 0.25)]
        parts.append(f"{len(errors)} exact numbers: {near[0]} within 5 %, {near[1]} within 10 %, {near[2]} within 25 %; "
                     f"median absolute error {statistics.median(errors.values()):.1%}.")
    if judged:
        parts.append(f"{held} of {judged} claims held.")
    return " ".join(parts)


def _title(folder: Path) -> str:
    try:
        return str(read_json(folder / "manifest.json")["title"])
    except (BadInput, KeyError, TypeError):
        return folder.name


def _claims(folder: Path) -> tuple[int, int]:
    path = folder / "manifest.json"
    document = read_json(path)
    with reading(str(path)):
        return sum(each["held"] is True for each in document["claims"]), len(document["claims"])


def _page(title: str, body: str) -> str:
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n")


def _figured(folder: Path, text: str) -> str:
    """The report with its figure below the title."""
    body = of_markdown(text)
    head, sign, rest = body.partition("</h1>")
    return f"{head}{sign}{_figure(folder / 'figure.svg', _title(folder))}{rest}"


def _figure(path: Path, title: str) -> str:
    """The figure as a picture of its own inside the page, as wide as on paper and a half, or as the screen."""
    svg = path.read_text(encoding="utf-8")
    svg = re.sub(r"<!DOCTYPE[^>]*>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)
    points = float(width.group(1)) if width else 0.0
    wide = f' style="max-width: {points * 2:.0f}px"' if points else ""
    kind = ' class="two"' if points > 300 else ""
    data = base64.b64encode(svg.encode()).decode()
    return f'<figure{kind}><img alt="{html.escape(title, quote=True)}"{wide} src="data:image/svg+xml;base64,{data}"></figure>'


def _folded(section: str) -> str:
    """Of one of many: figure, numbers and claims are there to see, the rest opens on demand."""
    shown, sign, rest = section.partition("<h2>Obtained</h2>")
    return f"{shown}<details><summary>Details and provenance</summary>{sign}{rest}</details>" if sign else section


def of_markdown(text: str) -> str:
    """The subset of Markdown that report.md is written in: headings, paragraphs, lists, tables, bold, code."""
    out: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            out.append(f"<h{level}>{_inline(line[level:].strip())}</h{level}>")
            at += 1
        elif line.startswith("|"):
            last = _end(lines, at, lambda each: each.startswith("|"))
            out.append(_table(lines[at:last]))
            at = last
        elif line.startswith("* "):
            last = _end(lines, at, lambda each: each.startswith(("* ", "  ")) or not each.strip())
            out.append(_list(lines[at:last]))
            at = last
        else:
            last = _end(lines, at, lambda each: bool(each.strip()) and not each.startswith(("#", "|", "* ")))
            out.append(f"<p>{_inline(' '.join(lines[at:last]))}</p>")
            at = last
    return "\n".join(out)


def _end(lines: list[str], at: int, belongs) -> int:
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def _inline(text: str) -> str:
    # What stands behind a backslash is no markup: out of the way, until all markup is found.
    hidden = _CODE_OR_ESCAPED.sub(lambda found: chr(_HIDDEN + ord(found[1])) if found[1] else found[0], text)
    parts = re.split(r"(`[^`]*`)", hidden)
    shown = [f"<code>{html.escape(part[1:-1])}</code>" if part.startswith("`") and len(part) > 1
             else re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(part)) for part in parts]
    return re.sub(f"[{chr(_HIDDEN)}-{chr(_HIDDEN + 127)}]", lambda found: html.escape(chr(ord(found[0]) - _HIDDEN)),
                  "".join(shown))


def _list(lines: list[str]) -> str:
    items: list[str] = []
    for line in lines:
        if line.startswith("* "):
            items.append(line[2:])
        elif line.strip():
            items[-1] += " " + line.strip()
    shown = []
    for item in items:
        kind = ' class="held"' if item.startswith("held:") else ' class="not-held"' if item.startswith("**NOT held**") else ""
        shown.append(f"<li{kind}>{_inline(item)}</li>")
    return f"<ul>{''.join(shown)}</ul>"


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _table(lines: list[str]) -> str:
    head = _cells(lines[0])
    is_error = [name == "error" for name in head]
    rows = []
    for line in lines[2:]:
        cells = []
        for at, cell in enumerate(_cells(line)):
            kinds = ["number"] if _NUMBER.match(cell) else []
            kinds += [shade] if at < len(head) and is_error[at] and (shade := _shade(cell)) else []
            kind = f' class="{" ".join(kinds)}"' if kinds else ""
            cells.append(f"<td{kind}>{_inline(cell)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    top = "".join(f"<th>{_inline(name)}</th>" for name in head)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _shade(error: str) -> str:
    """The colour of an error, as in the figures."""
    found = re.match(r"^[+−-]?([\d.]+)%$", error)
    if not found:
        return ""
    size = float(found.group(1))
    return "close" if size <= 5 else "near" if size <= 10 else "fair" if size <= 25 else "far"
