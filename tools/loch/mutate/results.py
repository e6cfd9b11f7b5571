"""The results of judged edits, and the report made of them.

The results file has one JSON line for each edit, appended when the edit has been judged, so that an interrupted run can
be continued. If an edit was judged again, its last line counts. Edits that no test can detect are listed in
accepted.json, by file and change, each with a reason: it is equivalent to the original, or it changes only timing. The
report counts these edits separately.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from loch.mutate.edits import Edit
from loch.mutate.judge import Verdict

VERSION = 1
ACCEPTED = Path(__file__).with_name("accepted.json")
_KINDS = ("equivalent", "time alone")
_KEYS = {
    "version",
    "room",
    "id",
    "path",
    "line",
    "kind",
    "diff",
    "outcome",
    "by",
    "stage",
    "how",
    "seconds",
    "fuzz_seeds",
}


class ResultsError(Exception):
    """A results file that cannot be read or used; the message is one line."""


@dataclass(frozen=True)
class Accepted:
    """An edit that survives for a known reason: no test can be expected to detect it."""

    path: str
    diff: str
    kind: str  # "equivalent" to the original, or "time alone": the edit changes only timing
    why: str
    line: int = 0  # number of the edited line, if the same lines occur more than once in the file; 0: any place

    def is_of(self, row: dict) -> bool:
        return self.path == row["path"] and self.diff == row["diff"] and self.line in (0, row["line"])


def accepted(path: Path = ACCEPTED) -> list[Accepted]:
    try:
        rows = [Accepted(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ResultsError(
            f"{path}: expected a list of objects with path, diff, kind, why and perhaps line ({error})"
        ) from None
    for row in rows:
        if row.kind not in _KINDS:
            raise ResultsError(f'{path}: "{row.kind}" of {row.path}; expected one of {", ".join(_KINDS)}')
    return rows


class Results:
    """Stored verdicts on edits, by module, the edit's id and the number of fuzz seeds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[tuple[str, str, int], dict] = {}
        if path.exists():
            self._read()

    @property
    def rows(self) -> list[dict]:
        return list(self._rows.values())

    def _keep(self, row: dict) -> None:
        self._rows[row["room"], row["id"], row["fuzz_seeds"]] = row

    def _read(self) -> None:
        if not self.path.is_file():
            raise ResultsError(f"{self.path}: expected a file of results")
        text = self.path.read_bytes()
        # drops an incomplete last line, whose write was interrupted; the edit of that line is judged again
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
            except ValueError:
                raise ResultsError(f"{self.path}:{number}: expected a JSON object of a judged edit") from None
            if not isinstance(row, dict) or row.get("version") != VERSION:
                raise ResultsError(
                    f"{self.path}:{number}: not of version {VERSION}; another --results FILE begins anew"
                )
            if missing := _KEYS - row.keys():
                raise ResultsError(f'{self.path}:{number}: lacks "{sorted(missing)[0]}"')
            self._keep(row)
        if len(whole) != len(text):
            self.path.write_bytes(whole)

    def has(self, module: str, edit: Edit, fuzz_seeds: int) -> bool:
        return (module, edit.id, fuzz_seeds) in self._rows

    def is_in_doubt(self, module: str, edit: Edit, fuzz_seeds: int, again: list[str], excused: list[Accepted]) -> bool:
        """Whether a stored verdict should be judged again: `again` lists "survived" (unless excused) and "time-limit"
        (killed by the time limit)."""
        row = self._rows.get((module, edit.id, fuzz_seeds))
        if row is None:
            return False
        if row["outcome"] == "survived":
            return "survived" in again and not any(each.is_of(row) for each in excused)
        return row["how"] == "time limit" and "time-limit" in again

    def add(self, module: str, edit: Edit, diff: str, verdict: Verdict, fuzz_seeds: int) -> None:
        row = {
            "version": VERSION,
            "room": module,
            "id": edit.id,
            "path": edit.path,
            "line": edit.line,
            "kind": edit.kind,
            "diff": diff,
            **asdict(verdict),
            "fuzz_seeds": fuzz_seeds,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._keep(row)

    def report(self, modules: list[str], excused: list[Accepted]) -> str:
        """The report in Markdown: each module's kill rate, then every surviving edit, with the reason if it is
        accepted."""

        def reason(row: dict) -> str:
            return next((f"{each.kind}: {each.why}" for each in excused if each.is_of(row)), "")

        rows = [{**row, "reason": reason(row)} for row in self.rows if row["room"] in modules]
        lines = [
            (
                "| module | edits | not compiled | killed by unit tests | by fuzz | by explore | of these by a time limit"
                " | survived | of these equivalent, or time alone | killed of the others |"
            ),
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for module in [*modules, "all"]:
            mine = [row for row in rows if module in (row["room"], "all")]
            if mine:
                lines.append(_rate(module, mine))
        for row in rows:
            if row["outcome"] == "survived":
                why = row["reason"] or "nobody has said why"
                lines += [
                    "",
                    f"{row['room']} {row['path']}:{row['line']} ({row['kind']}, {row['id']}) survived; {why}",
                    row["diff"],
                ]
        return "\n".join(lines)


def _rate(module: str, rows: list[dict]) -> str:
    outcomes = Counter(row["outcome"] for row in rows)
    stages = Counter(row["stage"] for row in rows if row["outcome"] == "killed")
    limits = sum(row["how"] == "time limit" for row in rows)
    excused = sum(row["outcome"] == "survived" and bool(row["reason"]) for row in rows)
    others = len(rows) - outcomes["not compiled"] - excused
    rate = f"{outcomes['killed'] / others:.0%}" if others else ""
    return (
        f"| {module} | {len(rows)} | {outcomes['not compiled']} | {stages['unit tests']} | {stages['fuzz']} | "
        f"{stages['explore']} | {limits} | {outcomes['survived']} | {excused} | {rate} |"
    )
