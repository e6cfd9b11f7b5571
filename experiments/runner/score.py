"""`loch score`: every published number that stored results can answer, beside what they say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from . import claims, outputs, published, report
from .grid import show


@dataclass
class Scored:
    """The comparisons and claims of one result folder."""

    folder: Path
    name: str
    source: str
    axis: str
    comparisons: list[published.Comparison]
    verdicts: list[claims.Verdict]


def gather(root: Path) -> tuple[list[Scored], list[str]]:
    """All result folders below `root` whose paper asks to be scored, and notes on what was left out.

    A number that several folders answer is taken from the first of them by name.
    """
    out: list[Scored] = []
    notes: list[str] = []
    seen: set[tuple] = set()
    for folder in outputs.folders(root):
        results, _, _ = outputs.load(folder)
        paper = results.experiment.paper
        if not paper or not paper.score:
            continue
        if any(text.startswith("--smoke") for text in results.experiment.overrides):
            notes.append(f"{folder}: a smoke run, not scored")
            continue
        fresh = []
        for each in published.compare(results):
            key = (paper.source, each.cell.id)
            if each.obtained is not None and key in seen:
                notes.append(f"{each.cell.id} is also in {folder}; the first answer counts")
                continue
            if each.obtained is not None:
                seen.add(key)
            fresh.append(each)
        item = published.of(results)
        out.append(Scored(folder, results.experiment.name, paper.source, item.axis if item else "", fresh,
                          claims.judge_all(results)))
    return out, notes


def markdown(scored: list[Scored], notes: list[str], root: Path) -> str:
    """The score sheet."""
    if not scored:
        return f"No stored results of a paper's figure under {root}. Run ./loch run experiments/paper first.\n"
    parts = ["# Published against obtained\n"]
    for each in scored:
        parts.append(f"## {each.name} ({each.source})\n")
        rows = [[c.cell.id, c.cell.field, c.system, show(each.axis, c.cell.at),
                 "withheld" if c.cell.value is None else report.number(c.cell.value), report.number(c.obtained),
                 report.percent(c.error)] for c in each.comparisons]
        if rows:
            parts.append(report.markdown_table(report.COMPARISON_HEAD, rows))
        parts += [f"* {'not evaluated' if v.held is None else 'held' if v.held else '**NOT held**'}: `{v.text}`"
                  + (f": {v.why}" if v.why else "") for v in each.verdicts]
        parts.append("")
    parts += [f"* {note}" for note in notes]
    parts.append(summary(scored))
    return "\n".join(parts) + "\n"


def summary(scored: list[Scored]) -> str:
    """The one line that says how good it all is."""
    comparisons = [c for each in scored for c in each.comparisons]
    verdicts = [v for each in scored for v in each.verdicts]
    withheld = sum(c.cell.value is None and c.obtained is not None for c in comparisons)
    text = published.score(comparisons).text()
    if withheld:
        text += f"; {withheld} withheld numbers predicted"
    return text + (f"; {claims.summary(verdicts)}" if verdicts else "") + "."


def as_json(scored: list[Scored]) -> str:
    """The score sheet for programs."""
    comparisons = [c for each in scored for c in each.comparisons]
    total = published.score(comparisons)
    document = {
        "schema": 1,
        "summary": {"numbers": total.numbers, "within_5_percent": total.within_5, "within_10_percent": total.within_10,
                    "within_25_percent": total.within_25, "median_absolute_error": total.median_error,
                    "worst": total.worst.cell.id if total.worst else None,
                    "worst_error": total.worst.error if total.worst else None,
                    "claims_held": sum(v.held is True for each in scored for v in each.verdicts),
                    "claims_evaluated": sum(v.held is not None for each in scored for v in each.verdicts)},
        "numbers": [{"id": c.cell.id, "experiment": each.name, "source": each.source, "field": c.cell.field,
                     "system": c.system, "axis": each.axis, "at": c.cell.at, "published": c.cell.value,
                     "withheld": c.cell.value is None, "obtained": c.obtained, "error": c.error}
                    for each in scored for c in each.comparisons],
        "claims": [{"experiment": each.name, "claim": v.text, "held": v.held, "why": v.why}
                   for each in scored for v in each.verdicts],
    }
    return json.dumps(document, indent=1) + "\n"
