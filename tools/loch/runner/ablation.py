"""`loch score --ablation`: what each mechanism of the simulator buys. The same experiments are run without it, and the
errors of the published numbers that count in the score are set beside those with it. A table that was kept
(`--keep`, ablation.json) is printed without running anything."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loch.written import write_atomically

from . import located, markup, outputs, published, score
from .errors import BadInput
from .second_score import Number, Part, summarise
from .stored_json import read_json

NAME = "ablation.json"
MECHANISMS = published.FOLDER / "mechanisms.yaml"
POINT = 0.01  # an error that changes by more than this is said to be worse or better


@dataclass(frozen=True)
class Mechanism:
    """A mechanism of the simulator, and the change (as for --set) of an experiment that is without it; of one that is
    off in all profiles (`is_off`) the change that switches it on."""

    name: str
    change: str
    is_off: bool = False
    needs: str = ""  # a constant of a hardware profile without which (0) the change has no effect
    protocols: tuple[str, ...] = ()  # the protocols that the change has an effect on; empty: all


@dataclass
class Row:
    """The errors with and without one mechanism, over the numbers that both runs have."""

    change: str
    numbers: int = 0
    median_with: float | None = None
    median_without: float | None = None
    p90_with: float | None = None
    p90_without: float | None = None
    worse: int = 0  # numbers whose error is larger without the mechanism by more than POINT
    better: int = 0
    papers: dict[str, int] = field(default_factory=dict)  # paper -> its numbers among these
    commit: str = ""  # of the program of this row's runs, with and without, if it is not the table's


@dataclass
class Table:
    rows: list[Row]
    experiments: list[str]  # what was run
    commit: str = ""  # of the program that ran the experiments with all mechanisms


def mechanisms(path: Path = MECHANISMS) -> list[Mechanism]:
    """The mechanisms that an ablation is to leave out one by one; BadInput names the line of an error."""
    out = []
    for item in located.load(path, ours=True).mapping()["mechanisms"].items or []:
        entries = item.mapping()
        if "name" not in entries or ("without" in entries) == ("with" in entries):
            raise item.error("a mechanism needs name, and either without or with")
        is_off = "with" in entries
        change = str(entries["with" if is_off else "without"].value)
        needs = str(entries["needs"].value) if "needs" in entries else ""
        protocols = (
            tuple(str(each.value) for each in entries["protocols"].items or []) if "protocols" in entries else ()
        )
        out.append(Mechanism(str(entries["name"].value), change, is_off, needs, protocols))
    return out


def of_folders(root: Path, base: Part, without: list[Path]) -> Table:
    """The table of results in `root`, whose part of the score is `base`, and of the same experiments without a
    mechanism."""
    manifests = [read_json(folder / "manifest.json") for folder in outputs.folders(root)]
    common = {override for manifest in manifests for override in manifest.get("overrides", [])}
    changes = [_change(folder, common) for folder in without]
    rows = [
        row(change, base, score.gather(folder, with_calibration=False).part) for change, folder in zip(changes, without)
    ]
    found = (read_json(folder / "manifest.json") for each in without for folder in outputs.folders(each))
    ran = sorted({str(manifest.get("name")) for manifest in found})
    commits = {str(each.get("commit") or "") for each in manifests if each.get("name") in ran}
    return Table(rows, ran, commits.pop() if len(commits) == 1 else "")


def row(change: str, base: Part, without: Part) -> Row:
    found = {(each.paper, each.id): each for each in without.numbers if each.counts}
    both: list[tuple[Number, Number]] = [
        (each, found[each.paper, each.id]) for each in base.numbers if each.counts and (each.paper, each.id) in found
    ]
    if not both:
        return Row(change)
    ours, theirs = (summarise(column) for column in zip(*both))
    return Row(
        change,
        len(both),
        ours.median,
        theirs.median,
        ours.p90,
        theirs.p90,
        sum(abs(b.error) > abs(a.error) + POINT for a, b in both),
        sum(abs(b.error) < abs(a.error) - POINT for a, b in both),
        dict(sorted(Counter(a.paper for a, _ in both).items())),
    )


def _change(folder: Path, common: set[str]) -> str:
    """What was changed in a run: the overrides of its experiments that the runs with all mechanisms do not have."""
    found = outputs.folders(folder) if folder.is_dir() else []
    if not found:
        raise BadInput(f"--ablation {folder}: no results in or below it; expected a folder that `loch run` wrote")
    given = read_json(found[0] / "manifest.json").get("overrides", [])
    changes = [str(each).removeprefix("--set ") for each in given if each not in common]
    return ", ".join(changes) or str(folder)


def markdown(table: Table, known: list[Mechanism]) -> str:
    """The table, what it was made of, and which mechanisms no run was without (or, of those that are off, with)."""
    names = {each.change: each for each in known}
    rows = []
    for each in table.rows:
        mechanism = names.get(each.change)
        said = f"{mechanism.name} ({each.change})" if mechanism else each.change
        errors = [each.median_with, each.median_without, each.p90_with, each.p90_without]
        worse, better = each.worse, each.better
        if mechanism and mechanism.is_off:  # the runs with all that the profiles have are those without it
            said += ", off in the profiles"
            errors = [errors[1], errors[0], errors[3], errors[2]]
            worse, better = better, worse
        if each.commit:
            said += f", both by commit {each.commit[:12]}"
        cells = ["–" if error is None else f"{error:.1%}" for error in errors]
        judged = f"{worse} worse, {better} better" if each.numbers else "–"
        rows.append([said, str(each.numbers), *cells, judged])
    head = ["without", "numbers", "median with", "without", "90th percentile with", "without", "by more than a point"]
    parts = ["## What each mechanism buys\n", markup.table(head, rows)]
    papers: dict[str, int] = {}
    for each in table.rows:
        for paper, count in each.papers.items():
            papers[paper] = max(papers.get(paper, 0), count)
    if papers:
        counted = ", ".join(f"{count} of {paper}" for paper, count in sorted(papers.items()))
        at = f" Program of commit {table.commit[:12]}." if table.commit else ""
        parts.append(f"Independent numbers: {counted}; from {', '.join(table.experiments)}.{at}\n")
    ran = {each.change for each in table.rows}
    for is_off, word in ((False, "without"), (True, "with")):
        left = [f"{each.name} ({each.change})" for each in known if each.change not in ran and each.is_off == is_off]
        if left:
            parts.append(f"No run was {word}: {'; '.join(left)}.\n")
    return "\n".join(parts)


def keep(path: Path, table: Table) -> None:
    document = {"schema": 1, **asdict(table)}
    write_atomically(path, json.dumps(document, indent=1) + "\n")


def kept(root: Path) -> Table:
    """The table that was kept in a folder of results; BadInput if there is none or it is malformed."""
    path = root / NAME
    if not path.is_file():
        raise BadInput(
            f"--ablation: {path} does not exist; run experiments without a mechanism, and name their folders: "
            f"./loch run experiments/paper --set hardware_set=link.port_buffer=0 --out without/port_buffer, "
            f"./loch score {root} --ablation without/port_buffer --keep {path}"
        )
    document: Any = read_json(path)
    try:
        rows = [Row(**each) for each in document["rows"]]
        return Table(rows, [str(each) for each in document["experiments"]], str(document["commit"]))
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path}: not a table that `loch score --ablation --keep` wrote ({error})") from None
