"""./loch calibrate: the program's microbenchmarks, then every row of the published tables that are stored beside the
hardware profiles."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable

from loch import places
from loch.ending import CommandError, reason, status_of
from loch.measured_rows.formats import format_of
from loch.measured_rows.main import Outcome, Table, comparison, named_failures, read_table, run_all, published_rate
from loch.measured_rows.misses import listed, of_table
from loch.written import write_atomically


def main(words: list[str], setup: Callable[[], int], program: str) -> int:
    """Runs the command; `setup` builds the program if needed and returns an exit status."""
    return status_of(lambda: _run(words, setup, program), "loch calibrate")


def _run(words: list[str], setup: Callable[[], int], program: str) -> int:
    if words[-1:] == ["--json"]:
        raise CommandError("--json: expected a file")
    if status := setup():
        return status
    known = listed()
    hardware, to = value_of(words, "--hardware") or "all", value_of(words, "--json")
    constants = value_of(words, "--hardware-set")
    bench = [program, "bench", *(["--hardware-set", constants] if constants else [])]
    with tempfile.TemporaryDirectory(prefix="loch-calibrate-") as folder:
        made = os.path.join(folder, "rows.json")
        rest = [*without(words, "--json"), "--json", made]
        done = subprocess.run([program, "calibrate", *rest], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return done.returncode
        rows = json.loads(Path(made).read_text(encoding="utf-8"))
    if to != "-":
        print(done.stdout, end="", flush=True)
    failed = False
    for table in tables_of(hardware, program):
        outcomes = run_all(table, "" if hardware == "all" else hardware, bench, len(os.sched_getaffinity(0)))
        failed |= bool(named_failures(table, outcomes))
        rows += as_json(table, outcomes)
        if to != "-":
            print(comparison(table, outcomes, of_table(known, table.file)), end="", flush=True)
    if to:
        write_atomically(to, "[" + ",\n ".join(json.dumps(row, ensure_ascii=False) for row in rows) + "]\n")
    return 3 if failed else 0


def is_of_a_known_format(path: Path) -> bool:
    """Whether the columns of a table are those of one of the formats that `calibrate --rows` reads."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return format_of(next(csv.reader(stream), [])) is not None


def tables_of(hardware: str, program: str) -> list[Table]:
    """The published tables with the rows of one profile, or of all; a table without such rows is left out."""
    name = hardware if hardware == "all" else profile_name(hardware, program)
    found = []
    home = os.environ.get("LOCH_HOME") or places.SOURCE  # where loch-bench finds its profiles, too
    for path in sorted(Path(home, "experiments", "hardware", "data").glob("*.csv")):
        if not is_of_a_known_format(path):
            continue  # a table of a store's figures
        table = read_table(str(path))
        # rows that name no hardware profile are left out
        rows = [
            row
            for row in table.rows
            if row.get("hardware") and published_rate(table, row) and name in ("all", row["hardware"])
        ]
        if rows:
            found.append(Table(table.format, table.columns, rows, table.file))
    return found


def profile_name(hardware: str, program: str) -> str:
    """The name that a hardware profile gives itself; `hardware` is a profile's name or file."""
    words = [program, "describe", "--hardware", hardware]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError((done.stderr.strip().splitlines() or ["describe failed"])[-1])
    try:
        return str(json.loads(done.stdout)["name"])
    except (ValueError, KeyError) as error:
        raise CommandError(f"--hardware {hardware}: {reason(error)}") from None


def as_json(table: Table, outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The rows that were run, as JSON objects with the same keys as those of loch-bench's own microbenchmarks."""
    rows = []
    for row, outcome in zip(table.rows, outcomes):
        if outcome.rate is None:
            continue
        published = published_rate(table, row)
        rows.append(
            {
                "id": table.format.name,
                "hardware": row.get("hardware", ""),
                "what": table.format.title(row),
                "unit": "M/s",
                "published": published,
                "obtained": outcome.rate,
                "error": outcome.rate / published - 1,
                "claim": None,
                "holds": True,
            }
        )
    return rows


def value_of(words: list[str], flag: str) -> str:
    """The value of the last `--flag value` or `--flag=value`; "" if there is none."""
    found = ""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            found = value if equals else (words[at + 1] if at + 1 < len(words) else "")
    return found


def without(words: list[str], flag: str) -> list[str]:
    """The words without `--flag value` and `--flag=value`."""
    kept, is_value = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        elif name == flag:
            is_value = not equals
        else:
            kept.append(word)
    return kept
