"""report.html: the report and its figure, for one result folder or for several, as one page without external files."""

from __future__ import annotations

import base64
import re
import statistics
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from . import blocks, explanations, inline_svg
from .errors import BadInput, reading
from .stored_json import read_json

_WHY = re.compile(r'href="#(why-[^"]+)"')
_SECTION = re.compile(r"<!--section-->(.*)<!--/section-->", re.DOTALL)
# limits of the relative error for the cells' colours, equal to those of plots/table.py
_SHADES = ((0.05, "close"), (0.10, "near"), (0.25, "fair"), (float("inf"), "far"))


@lru_cache(maxsize=None)
def _templates() -> jinja2.Environment:
    """Loads the page templates from the folder templates/; every inserted text is escaped as HTML."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render(report: blocks.Report, figure: dict[str, Any] | None = None) -> str:
    """The HTML section of one report, its figure below the title; on a page of several reports its details are
    folded."""
    template = _templates().get_template("report.html.jinja")
    return template.render(
        report=report,
        figure=figure,
        shade=shade,
        kind=lambda each: type(each).__name__,
        identity=explanations.identity,
    )


def _explained(body: str) -> str:
    """The texts of the sections of docs/ to which a page links, each once."""
    names = sorted(set(_WHY.findall(body)))
    told = [(name, *explanations.html(name)) for name in names]
    # HTML that explanations has made of our own pages, so it is not escaped again
    rows = [{"name": name, "title": title, "text": Markup(text)} for name, title, text in told]
    return _templates().get_template("why.html.jinja").render(rows=rows)


def shade(error: float | None) -> str:
    """The name of the colour for a relative error, with the same limits as in figures."""
    return "" if error is None else next(name for limit, name in _SHADES if abs(error) <= limit + 1e-12)


def of_folder(folder: Path, report: blocks.Report) -> str:
    """The HTML page of one result folder."""
    title = _title(folder)
    section = render(report, _figure(folder / "figure.svg", title))
    return _page(title, f"<!--section-->{section}<!--/section-->{_explained(section)}")


def of_folders(root: Path, folders: list[Path]) -> str:
    """One HTML page for several result folders: a table with the outcome of each, then their sections."""
    rows: list[dict[str, Any]] = []
    for folder in folders:
        path = folder / "report.html"
        found = _SECTION.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        if found is None:
            continue
        held, judged = _claims(folder)
        name = folder.relative_to(root).as_posix()
        # HTML from a report.html that this module has written, so it is not escaped again
        prefix = f"x{len(rows)}"
        section = Markup(inline_svg.renamed(found.group(1), prefix))
        figure = inline_svg.small(section)
        rows.append(
            {
                "name": name,
                "title": _title(folder),
                "held": held,
                "judged": judged,
                "section": section,
                "figure": figure,
            }
        )
    body = _templates().get_template("many.html.jinja").render(rows=rows, summary=_summary(folders))
    body = body.replace('<details class="detail" open>', '<details class="detail">')
    return _page(f"{len(rows)} experiments", body + _explained(body))


def _summary(folders: list[Path]) -> str:
    """A sentence on how close the results of all folders are to the published numbers."""
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
        parts.append(
            f"{len(errors)} exact numbers: {near[0]} within 5 %, {near[1]} within 10 %, {near[2]} within 25 %; "
            f"median absolute error {statistics.median(errors.values()):.1%}."
        )
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
    return _templates().get_template("page.html.jinja").render(title=title, body=Markup(body)) + "\n"


def _figure(path: Path, title: str) -> dict[str, Any]:
    """The figure as a part of the page, 1.5 times as wide as printed, at most as wide as the window; an embedded image
    where it cannot be one."""
    svg = path.read_text(encoding="utf-8")
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)
    points = float(width.group(1)) if width else 0.0
    shown = inline_svg.of(svg, title)
    data = "" if shown else base64.b64encode(svg.encode()).decode()
    # `shown` is SVG of known elements, whose texts are escaped
    return {"title": title, "width_px": round(points * 2), "is_two": points > 300, "svg": Markup(shown), "data": data}
