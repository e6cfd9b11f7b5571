"""./loch calibrate --samples N: each row with its band, the interval of what is obtained over N draws of the constants."""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable

from loch.ending import CommandError, one_line, status_of
from loch.flags import Parser
from loch.measured_rows.main import outcome_of, published_rate
from loch.measured_rows.tables import profile_name, tables_of
from loch.written import why_not, write_atomically

EPILOG = """Each draw (a Latin hypercube, seeded) has other values for all constants of the profile that state a range.

example: ./loch calibrate --samples 64 --hardware connectx3-56g-ib
exit status: 0; 2 bad input; 3 a row could not be run"""
COLUMNS = ("id", "hardware", "what", "unit", "published", "obtained", "error", "low", "high", "in_band", "draws")
MICRO_S = 3600  # seconds after which the microbenchmarks of one draw are given up


@dataclass
class Row:
    """One published rate: what the profile's own constants give, and what each draw of its constants gives."""

    id: str
    what: str
    unit: str
    published: float
    obtained: float | None = None
    drawn: list[float] = field(default_factory=list)


def main(words: list[str], setup: Callable[[], int], program: str) -> int:
    """Runs the command; `setup` builds the program if needed and returns an exit status."""
    return status_of(lambda: _run(words, setup, program), "loch calibrate")


def _run(words: list[str], setup: Callable[[], int], program: str) -> int:
    parser = Parser(prog="loch calibrate --samples", description=__doc__, epilog=EPILOG)
    parser.add_argument("--samples", metavar="N", type=int, required=True, help="draws of the constants")
    parser.add_argument("--seed", metavar="S", type=int, default=1, help="seed of the draws (1)")
    parser.add_argument("--hardware", metavar="NAME|FILE", default="connectx3-10gbe", help="the profile")
    parser.add_argument("--out", metavar="FILE.csv", default="", help="write the rows here, too")
    parser.add_argument("--jobs", metavar="N", type=int, default=len(os.sched_getaffinity(0)), help="runs at once")
    given = parser.parse_args(words)
    for name in ("samples", "jobs"):
        if getattr(given, name) < 1:
            raise CommandError(f"--{name} {getattr(given, name)}: expected at least 1")
    if given.seed < 0:
        raise CommandError(f"--seed {given.seed}: expected at least 0")
    if given.out and (fault := why_not(given.out)):
        raise CommandError(f"--out {given.out}: {fault}")
    if status := setup():
        return status
    name = profile_name(given.hardware, program)
    sets = ["", *drawn_sets(given.hardware, given.samples, given.seed, program)]
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = micro_rows(given.hardware, sets, program, pool)
        more, failed = table_rows(given.hardware, sets, program, pool)
    rows += more
    if not rows:
        raise CommandError(f"--hardware {given.hardware}: no row of it is published")
    print(text_of(name, rows, given.samples), end="")
    if given.out:
        write_atomically(given.out, csv_of(name, rows))
    return 3 if failed else 0


def drawn_sets(hardware: str, samples: int, seed: int, program: str) -> list[str]:
    """For each draw, the values of all constants of the profile that have a range, as --hardware-set takes them."""
    from loch.runner import factors  # imported here because SciPy loads slowly

    found = [factors.Factor(key, ((hardware, each),)) for key, each in factors.ranges(program, hardware).items()]
    if not found:
        raise CommandError(f"--hardware {hardware}: no constant of this profile has a range")
    drawn = factors.draw(sorted(found, key=lambda each: each.name), samples, seed, program)
    return [
        ",".join(f"{each.name}={each.text(share, hardware)}" for each, share in zip(drawn.factors, shares))
        for shares in drawn.shares
    ]


def micro_rows(hardware: str, sets: list[str], program: str, pool: ThreadPoolExecutor) -> list[Row]:
    """The program's own microbenchmarks: their rows that have a published number."""

    def run(constants: str) -> list[dict[str, Any]]:
        words = [program, "calibrate", "--hardware", hardware, "--hardware-set", constants, "--json", "-"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=MICRO_S, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise CommandError(one_line(lines[-1] if lines else f"calibrate ended with status {done.returncode}"))
        return [row for row in json.loads(done.stdout) if row["published"]]

    rows: list[Row] = []
    for at, found in enumerate(pool.map(run, sets)):
        if at == 0:
            rows = [Row(row["id"], row["what"], row["unit"], row["published"]) for row in found]
        for mine, row in zip(rows, found):
            _add(mine, row["obtained"], at)
    return rows


def table_rows(hardware: str, sets: list[str], program: str, pool: ThreadPoolExecutor) -> tuple[list[Row], int]:
    """The rows of the published tables of this profile, and how many runs failed."""
    rows: list[Row] = []
    failed = 0
    for table in tables_of(hardware, program):
        for line in table.rows:
            mine = Row(table.format.name, table.format.title(line), "M/s", published_rate(table, line))
            benches = [[program, "bench", *(["--hardware-set", each] if each else [])] for each in sets]
            outcomes = pool.map(lambda bench: outcome_of(table.format, line, hardware, bench), benches)
            for at, outcome in enumerate(outcomes):
                if outcome.rate is None:
                    failed += 1
                else:
                    _add(mine, outcome.rate, at)
            rows.append(mine)
    return rows, failed


def _add(row: Row, value: float, at: int) -> None:
    if at == 0:
        row.obtained = value
    else:
        row.drawn.append(value)


def _in_band(row: Row) -> bool | None:
    from loch.runner import intervals

    if not row.drawn:
        return None
    band = intervals.band(row.drawn)
    return band.low <= row.published <= band.high


def text_of(name: str, rows: list[Row], samples: int) -> str:
    """The table for a terminal, and how many published numbers are in their bands."""
    from loch.runner import intervals

    lines = [f"{'id':<8} {'what':<86} {'published':>10} {'obtained':>9} {'error':>8}  band"]
    errors, inside, judged = [], 0, 0
    for row in rows:
        error = "-"
        if row.obtained is not None:
            errors.append(abs(row.obtained / row.published - 1))
            error = f"{100 * (row.obtained / row.published - 1):+.1f} %"
        band = "-"
        if row.drawn:
            found = intervals.band(row.drawn)
            judged += 1
            inside += bool(_in_band(row))
            band = f"{found.low:.4g} to {found.high:.4g} {'in' if _in_band(row) else 'OUT'}"
        obtained = "-" if row.obtained is None else f"{row.obtained:.4g}"
        lines.append(f"{row.id:<8} {row.what:<86} {row.published:>10.4g} {obtained:>9} {error:>8}  {band}")
    middle = f"median error {100 * statistics.median(errors):.1f} %, " if errors else ""
    lines.append(
        f"{name}: {len(rows)} published rates: {middle}{inside} of {judged} in their {intervals.band_name(samples)}"
    )
    return "\n".join([*lines, ""])


def csv_of(name: str, rows: list[Row]) -> str:
    from loch.runner import intervals

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        band = intervals.band(row.drawn) if row.drawn else None
        writer.writerow(
            [
                row.id,
                name,
                row.what,
                row.unit,
                row.published,
                "" if row.obtained is None else f"{row.obtained:.4g}",
                "" if row.obtained is None else f"{row.obtained / row.published - 1:.4f}",
                *(("", "", "") if band is None else (f"{band.low:.4g}", f"{band.high:.4g}", _in_band(row))),
                len(row.drawn),
            ]
        )
    return text.getvalue()
