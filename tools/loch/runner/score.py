"""`loch score`: compares every published number in the list of targets (targets.yaml) with stored results."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import claims, markup, outputs, predictions, published, report, second_score, targets
from .errors import BadInput
from .stored_json import read_json

# relative error above which a published number counts as missed and needs an explanation
MISS = 0.25
CALIBRATION = "calibration.json"  # name of the file in a folder of results with the output of `loch calibrate --json`


@dataclass
class Scored:
    """The comparisons and claims of one result folder."""

    folder: Path
    name: str
    source: str
    comparisons: list[published.Comparison]
    verdicts: list[claims.Verdict]
    part: second_score.Part = field(default_factory=second_score.Part)
    predictions: list[predictions.Prediction] = field(default_factory=list)


@dataclass
class Line:
    """One line of the score sheet: a published number with a result, a row of the calibration, or a published number of
    the list of targets that has neither."""

    id: str
    source: str
    what: str
    published: float | str | None  # a number, words, or None if the paper withholds it
    obtained: float | None
    error: float | None
    status: str  # "obtained", "withheld", "calibration", "claims", "elsewhere" or "no result stored"
    where: str = ""  # the experiment or document that covers the target
    kind: str = "E"
    counts: bool = False
    explained: str = ""


@dataclass
class Sheet:
    scored: list[Scored]
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)  # stored points that could not be read, with the reason

    @property
    def comparisons(self) -> list[published.Comparison]:
        return [each for scored in self.scored for each in scored.comparisons]

    @property
    def part(self) -> second_score.Part:
        """The score of all folders together, over the published numbers that do not follow from others
        (independent)."""
        return second_score.merged(scored.part for scored in self.scored)

    @property
    def predictions(self) -> list[predictions.Prediction]:
        return [each for scored in self.scored for each in scored.predictions]

    @property
    def verdicts(self) -> list[tuple[Scored, claims.Verdict]]:
        return [(scored, each) for scored in self.scored for each in scored.verdicts]


def gather(root: Path, with_calibration: bool = True) -> Sheet:
    """Collects all result folders below `root` that are to be scored, the calibration, and every target.

    If several folders have a number, the first folder by name counts.
    """
    scored: list[Scored] = []
    notes: list[str] = []
    damaged: list[str] = []
    seen: set[tuple] = set()
    for folder in outputs.folders(root):
        results, _, store = outputs.load(folder)
        damaged += store.damaged.values()
        paper = results.experiment.paper
        if not paper.score if paper else not any(claim.ids for claim in results.experiment.claims):
            continue
        if any(text.startswith("--smoke") for text in results.experiment.overrides):
            notes.append(f"{folder}: a smoke run, not scored")
            continue
        fresh = []
        compared = published.compare(results) if paper else []
        for each in compared:
            key = (paper.source if paper else "", each.cell.id)
            if each.obtained is not None and key in seen:
                notes.append(f"{each.cell.id} is also in {folder}; the first answer counts")
                continue
            if each.obtained is not None:
                seen.add(key)
            fresh.append(each)
        item = published.of(results)
        verdicts = [
            each if each.explained or item is None else replace(each, explained=item.explained)
            for each in claims.judge_all(results)
        ]
        part = second_score.of_results(results, fresh)
        asked = predictions.of_results(results, item, compared)
        if asked and any(each.predictions for each in scored if each.name == results.experiment.name):
            notes.append(f"{folder}: predictions of {results.experiment.name} are in another folder; the first counts")
            asked = []
        scored.append(
            Scored(folder, results.experiment.name, paper.source if paper else "", fresh, verdicts, part, asked)
        )
    rows, missing = calibration(root) if with_calibration else ([], [])
    return Sheet(scored, _lines(scored, rows), notes + missing, damaged)


def calibration(root: Path) -> tuple[list[dict], list[str]]:
    """The rows of `loch calibrate`, stored below `root` or computed now (takes seconds); and notes if there are
    none."""
    stored = root / CALIBRATION
    try:
        if stored.is_file():
            return _rows(stored), []
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / CALIBRATION
            done = subprocess.run(
                [os.environ.get("LOCH_BIN", ""), "calibrate", "--json", str(made)],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=600,
            )
            if made.is_file():
                return _rows(made), []
            return [], [f"loch calibrate gave no rows (exit status {done.returncode})"]
    except (BadInput, OSError, subprocess.TimeoutExpired) as error:
        return [], [f"no rows of loch calibrate: {error}"]


def _rows(path: Path) -> list[dict]:
    rows = read_json(path)
    needed = {"id", "hardware", "what", "published", "obtained", "error", "holds"}
    if not isinstance(rows, list) or not all(isinstance(row, dict) and needed <= row.keys() for row in rows):
        raise BadInput(f"{path}: expected the rows of loch calibrate --json")
    return rows


def _lines(scored: list[Scored], rows: list[dict]) -> list[Line]:
    """The score sheet's lines for all published numbers of the list of targets, in its order, then for numbers that are
    not in it."""
    by_id: dict[str, list[Line]] = {}
    for each in scored:
        for one in each.comparisons:
            by_id.setdefault(targets.base(one.cell.id), []).append(_of_comparison(each, one))
    for row in rows:
        if row["id"]:
            by_id.setdefault(row["id"], []).append(_of_calibration(row))
    judged: dict[str, list[str]] = {}
    for each in scored:
        for verdict in each.verdicts:
            for target_id in verdict.ids:
                judged.setdefault(target_id, []).append(f"{state(verdict)}: {markup.code(verdict.text)} ({each.name})")
    out: list[Line] = []
    for identity, target in targets.load(published.FOLDER).items():
        found = sorted(by_id.pop(identity, []), key=lambda line: (line.id, line.status))
        said = judged.get(identity, [])
        out += found
        if said:
            out.append(
                Line(
                    identity,
                    target.source,
                    target.what,
                    target.published,
                    None,
                    None,
                    "claims",
                    "; ".join(said),
                    target.kind,
                )
            )
        if not found and not said:
            status = "elsewhere" if target.elsewhere else "no result stored"
            out.append(
                Line(
                    identity,
                    target.source,
                    target.what,
                    None if target.withheld and target.published == "withheld" else target.published,
                    None,
                    None,
                    status,
                    target.elsewhere,
                    target.kind,
                )
            )
    for identity in sorted(by_id, key=targets.number):
        out += by_id[identity]
    return out


def _of_comparison(scored: Scored, one: published.Comparison) -> Line:
    cell = one.cell
    place = ", ".join(filter(None, [one.system, published.place(one)])) if not cell.is_single else ""
    what = f"{cell.field} ({place})" if place else cell.field
    status = "no result stored" if one.obtained is None else "withheld" if cell.value is None else "obtained"
    if status == "obtained" and cell.calibration:
        status = "calibration"
    where = scored.name + (f": {one.missing}" if one.missing else "")
    return Line(
        cell.id,
        scored.source,
        what,
        cell.value,
        one.obtained,
        one.error,
        status,
        where,
        cell.kind,
        one.counts,
        cell.explained,
    )


def _of_calibration(row: dict) -> Line:
    unit = f" [{row['unit']}]" if row.get("unit") and row["unit"] != "1" else ""
    value = (
        row["published"]
        if row.get("claim") is None
        else f"{row['claim']}: {'holds' if row['holds'] else 'does NOT hold'}"
    )
    return Line(
        row["id"],
        "",
        f"{row['what']}{unit}, {row['hardware']}",
        value,
        row["obtained"],
        row["error"],
        "calibration",
        "loch calibrate",
    )


def state(verdict: claims.Verdict) -> str:
    return "not evaluated" if verdict.held is None else "held" if verdict.held else "NOT held"


def markdown(sheet: Sheet, root: Path) -> str:
    """The score sheet in Markdown: summary, misses and their explanations, then every number and claim."""
    parts = ["# Published against obtained\n"]
    if sheet.scored:
        parts += second_score.markdown(sheet.part)
    parts += ["## Coverage of the list of published numbers\n", *(f"{line}\n" for line in summary(sheet))]
    if not sheet.scored:
        parts.append(f"No stored results of a paper's figure under {root}. Run ./loch run experiments/paper first.\n")
    wanting = to_explain(sheet)
    if wanting:
        parts.append("## Misses\n")
        parts += [f"* {what}: {where or '**no explanation named**'}" for what, where in wanting]
        parts.append("")
    parts.append("## Numbers\n")
    rows = [
        [identity, line.what, _published(line), report.number(line.obtained), report.percent(line.error), _status(line)]
        for identity, line in _joined(sheet.lines)
    ]
    parts.append(markup.table(["id", "what", "published", "obtained", "error", "from"], rows))
    parts += predictions.markdown(sheet.predictions)
    parts.append("## Claims\n")
    for scored in sheet.scored:
        if scored.verdicts:
            parts.append(f"### {scored.name}\n")
            parts += [claim_line(verdict) for verdict in scored.verdicts]
            parts.append("")
    parts += [f"* {markup.escape(note)}" for note in sheet.notes]
    return "\n".join(parts) + "\n"


def _joined(lines: list[Line]) -> list[tuple[str, Line]]:
    """Combines consecutive published numbers of one kind that have no result into one line, such as V1 to V84."""
    out: list[tuple[str, Line]] = []
    first = ""
    for line in lines:
        last = out[-1][1] if out else None
        if (
            last
            and line.status == last.status == "no result stored"
            and (line.what, line.source) == (last.what, last.source)
        ):
            out[-1] = (f"{first} to {line.id}", line)
        else:
            first = line.id
            out.append((line.id, line))
    return out


def claim_line(verdict: claims.Verdict) -> str:
    bold = "**" if verdict.held is False else ""
    pointer = f" ({verdict.explained})" if verdict.explained and verdict.held is not True else ""
    why = f": {markup.escape(verdict.why)}" if verdict.why else ""
    return f"* {bold}{state(verdict)}{bold}: {markup.code(verdict.text)}{why}{pointer}"


def _published(line: Line) -> str:
    if line.published is None:
        return "withheld"
    return line.published if isinstance(line.published, str) else report.number(line.published)


def _status(line: Line) -> str:
    words = {
        "obtained": line.where,
        "withheld": f"withheld: our prediction; {line.where}",
        "calibration": line.where,
        "claims": f"claims {line.where}",
        "elsewhere": f"not simulated: {line.where}",
        "no result stored": "no result stored" + (f"; {line.where}" if line.where else ""),
    }
    text = words[line.status]
    if line.status == "calibration" and not line.where.startswith("loch"):
        text += ", calibrated on"
    if line.kind in ("D", "T") and line.status == "obtained":
        text += f", {published.KINDS[line.kind]}"
    return text


def to_explain(sheet: Sheet) -> list[tuple[str, str]]:
    """Numbers more than 25 % off, and claims that do not hold, each with the section that explains it."""
    out = [
        (f"{line.id}, {line.what}: {report.percent(line.error)}", line.explained)
        for line in sheet.lines
        if line.status == "obtained" and line.kind != "T" and line.error is not None and abs(line.error) > MISS
    ]
    return out + [
        (f"{scored.name}: {markup.code(verdict.text)} is not held", verdict.explained)
        for scored, verdict in sheet.verdicts
        if verdict.held is False
    ]


def summary(sheet: Sheet) -> list[str]:
    """The summary: the accuracy of all published numbers with a result, and how much of the list of all they cover."""
    verdicts = [verdict for _, verdict in sheet.verdicts]
    withheld = sum(line.status == "withheld" for line in sheet.lines)
    text = published.score(sheet.comparisons).text()
    if withheld:
        text += f"; {withheld} withheld numbers predicted"
    lines = [text + (f"; {claims.summary(verdicts)}" if verdicts else "") + "."]
    counts = coverage(sheet)
    if counts:
        total = sum(counts.values())
        lines.append(
            f"{total} targets: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count) + "."
        )
    return lines


def coverage(sheet: Sheet) -> dict[str, int]:
    """Counts the targets by how they are covered; a target that is covered in several ways counts for the best."""
    words = {
        "obtained": "by numbers",
        "withheld": "withheld, predicted",
        "claims": "by claims alone",
        "calibration": "by the calibration",
        "elsewhere": "not simulated",
        "no result stored": "without a result",
    }
    listed = targets.load(published.FOLDER)
    best: dict[str, str] = {}
    for line in sheet.lines:
        identity = targets.base(line.id)
        if identity in listed and (
            identity not in best or list(words).index(line.status) < list(words).index(best[identity])
        ):
            best[identity] = line.status
    return {said: sum(each == status for each in best.values()) for status, said in words.items()} if best else {}


def as_json(sheet: Sheet) -> str:
    """The score sheet as JSON."""
    total = published.score(sheet.comparisons)
    verdicts = sheet.verdicts
    document = {
        "schema": 1,
        "summary": {
            "numbers": total.numbers,
            "within_5_percent": total.within_5,
            "within_10_percent": total.within_10,
            "within_25_percent": total.within_25,
            "median_absolute_error": total.median_error,
            "worst": total.worst.cell.id if total.worst else None,
            "worst_error": total.worst.error if total.worst else None,
            "claims_held": sum(v.held is True for _, v in verdicts),
            "claims_evaluated": sum(v.held is not None for _, v in verdicts),
            "targets": coverage(sheet),
        },
        "score": second_score.as_json(sheet.part),
        "numbers": [
            {
                "id": c.cell.id,
                "experiment": each.name,
                "source": each.source,
                "field": c.cell.field,
                "system": c.system,
                "axis": c.cell.axis,
                "at": c.cell.at,
                "kind": c.cell.kind,
                "calibration": c.cell.calibration,
                "published": c.cell.value,
                "withheld": c.cell.value is None,
                "obtained": c.obtained,
                "error": c.error,
                "counts": c.counts,
                "missing": c.missing,
                "explained": c.cell.explained,
            }
            for each in sheet.scored
            for c in each.comparisons
        ],
        "targets": [
            {
                "id": line.id,
                "source": line.source,
                "what": line.what,
                "published": line.published,
                "obtained": line.obtained,
                "error": line.error,
                "status": line.status,
                "from": line.where,
                "kind": line.kind,
            }
            for line in sheet.lines
        ],
        "predictions": predictions.as_json(sheet.predictions),
        "claims": [
            {
                "experiment": each.name,
                "claim": v.text,
                "held": v.held,
                "why": v.why,
                "ids": v.ids,
                "explained": v.explained,
            }
            for each, v in verdicts
        ],
    }
    return json.dumps(document, indent=1) + "\n"
