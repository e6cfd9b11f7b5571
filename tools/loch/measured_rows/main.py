"""./loch calibrate --rows FILE --out OUT: simulates each row of a table and writes the table with what was obtained."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Callable, Iterable, Sequence

from loch.ending import CommandError, one_line, reason, status_of
from loch.flags import Parser
from loch.measured_rows.formats import FORMATS, CannotRun, Format, Row, format_of
from loch.measured_rows.misses import Judged, Miss, name_of, text_of
from loch.written import why_not, write_atomically

EPILOG = """FILE has the columns of a table of public measurements, such as experiments/hardware/data/rc-swarm.csv; the
columns with results may be empty or missing. OUT has the same rows, and the column `obtained`: millions of operations
a second, of a machine where the table counts by machine. Where FILE has results, the errors are printed too.

example: ./loch calibrate --rows experiments/hardware/data/rc-swarm.csv --out /tmp/obtained.csv
exit status: 0; 2 bad input; 3 no row could be run"""
FILE_MAX = 64 << 20  # bytes
ROW_S = 600  # seconds of processor time after which a row is given up, so that other load does not matter
OBTAINED = "obtained"


@dataclass
class Table:
    """A table of measurements, in the order of the file."""

    format: Format
    columns: list[str]
    rows: list[dict[str, str]]
    file: str = ""  # its file's name, without folders


@dataclass
class Outcome:
    """What a row gave: a rate in the unit of the table, or the reason why it was not run."""

    rate: float | None = None
    reason: str = ""
    caveats: tuple[str, ...] = ()  # what the run says against its own rate
    more: dict[str, float] = field(default_factory=dict)  # further columns of the table that is written


def main(words: list[str], setup: Callable[[], int], program: str) -> int:
    """Runs the command; `setup` builds the program if needed and returns an exit status."""
    return status_of(lambda: _run(words, setup, program), "loch calibrate")


def _run(words: list[str], setup: Callable[[], int], program: str) -> int:
    parser = Parser(prog="loch calibrate --rows", description=__doc__, epilog=EPILOG)
    parser.add_argument("--rows", metavar="FILE", required=True, help="a table of microbenchmarks, as CSV")
    parser.add_argument("--out", metavar="FILE", required=True, help="where the table goes; -: standard output")
    parser.add_argument("--hardware", metavar="NAME|FILE", default="", help="the profile of all rows")
    parser.add_argument(
        "--hardware-set", metavar="KEY=VALUE,…", default="", help="other values of the profile's constants"
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=len(os.sched_getaffinity(0)), help="rows at once")
    given = parser.parse_args(words)
    if given.jobs < 1:
        raise CommandError(f"--jobs {given.jobs}: expected at least 1")
    table = read_table(given.rows)
    if fault := why_not(given.out):
        raise CommandError(f"--out {given.out}: {fault}")
    if status := setup():
        return status
    outcomes = run_all(table, given.hardware, [program, "bench", *_constants(given.hardware_set)], given.jobs)
    write_atomically(given.out, written(table, outcomes))
    tell_caveats(table, outcomes)
    failed = named_failures(table, outcomes)
    if given.out != "-":
        print(comparison(table, outcomes), end="")
    return 3 if failed == len(outcomes) else 0


def tell_caveats(table: Table, outcomes: list[Outcome]) -> None:
    """Says on standard error what runs say against their own rates: once for all rows of which it is said with other
    numbers."""
    said: dict[str, list[tuple[int, str]]] = {}
    for number, outcome in enumerate(outcomes, 1):
        for caveat in outcome.caveats:
            said.setdefault(re.sub(r"\d[\d.e+]*", "", caveat), []).append((number, caveat))
    for rows in said.values():
        number, caveat = rows[0]
        others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        print(f"note: row {number} ({table.format.title(table.rows[number - 1])}){others}: {caveat}", file=sys.stderr)


def named_failures(table: Table, outcomes: list[Outcome]) -> int:
    """Names the rows that could not be run on standard error, and returns how many they are."""
    failed = 0
    for number, (row, outcome) in enumerate(zip(table.rows, outcomes), 1):
        if outcome.reason:
            failed += 1
            print(f"row {number} ({table.format.title(row)}): {outcome.reason}", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(outcomes)} rows could not be run", file=sys.stderr)
    return failed


def read_table(path: str) -> Table:
    """Reads a table and finds its format; CommandError if the file is no table of a known format."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(FILE_MAX + 1)
        if len(data) > FILE_MAX:
            raise CommandError(f"--rows {path}: larger than {FILE_MAX >> 20} MiB")
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), restval="", strict=True)
        columns = list(reader.fieldnames or [])
        rows = []
        for row in reader:
            if None in row:
                raise CommandError(f"--rows {path}: line {reader.line_num} has more fields than the header")
            rows.append(row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"--rows {path}: {reason(error)}") from None
    found = format_of(columns)
    if found is None or len(set(columns)) != len(columns):
        known = "; ".join(f"{each.name}: {', '.join(sorted(each.columns))}" for each in FORMATS)
        raise CommandError(f"--rows {path}: no table of a known format (columns of {known})")
    if not rows:
        raise CommandError(f"--rows {path}: no rows")
    return Table(found, columns, rows, os.path.basename(path))


def _constants(text: str) -> list[str]:
    return ["--hardware-set", text] if text else []


def run_all(table: Table, hardware: str, bench: list[str], jobs: int) -> list[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        pending = [pool.submit(outcome_of, table.format, row, hardware, bench) for row in table.rows]
        try:
            return [each.result() for each in _shown(pending)]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _shown(pending: list[Future[Outcome]]) -> Iterable[Future[Outcome]]:
    """The rows in order, with a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        return pending
    from rich.console import Console
    from rich.progress import track

    return track(pending, "rows", console=Console(stderr=True), transient=True)


def outcome_of(table_format: Format, row: Row, hardware: str, bench: list[str]) -> Outcome:
    """Simulates one row; `bench` is the command line of `loch bench` to which the row's flags are appended."""
    try:
        flags = table_format.flags(row, hardware)
    except CannotRun as error:
        return Outcome(reason=one_line(error))
    words = ["prlimit", f"--cpu={ROW_S}:{ROW_S + 1}", "--", *bench, *flags, "--json", "-"]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == -signal.SIGXCPU:
        return Outcome(reason=f"not done after {ROW_S} s of processor time")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return Outcome(reason=one_line(lines[-1] if lines else f"loch bench ended with status {done.returncode}"))
    result = json.loads(done.stdout)
    return Outcome(
        table_format.rate(row, float(result["throughput_ops_s"])),
        caveats=tuple(one_line(each) for each in result.get("caveats", [])),
        more=table_format.more(result),
    )


def written(table: Table, outcomes: list[Outcome]) -> str:
    """The table as CSV with the column `obtained` and further columns of its format; empty where a row was not run."""
    made = list(dict.fromkeys([OBTAINED, *(name for outcome in outcomes for name in outcome.more)]))
    columns = [name for name in table.columns if name not in made] + made
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row, outcome in zip(table.rows, outcomes):
        obtained = {} if outcome.rate is None else {OBTAINED: outcome.rate, **outcome.more}
        writer.writerow({**row, **{name: f"{obtained[name]:.4g}" if name in obtained else "" for name in made}})
    return text.getvalue()


def comparison(table: Table, outcomes: list[Outcome], misses: Sequence[Miss] | None = None) -> str:
    """Published against obtained, row by row, and the median and the largest error; "" if no row has a result.

    `misses` are the mechanisms that are known to be missing from rows of this table: such a row has the mechanism's name,
    and what is known of it follows, with the rows of which the list is wrong.
    """
    lines, judged = [], []
    for row, outcome in zip(table.rows, outcomes):
        published = published_rate(table, row)
        if not published or outcome.rate is None:
            continue
        each = Judged(table.format.title(row), outcome.rate / published - 1, name_of(misses or [], row))
        judged.append(each)
        line = f"{each.title:<86} {published:>9.4g} {outcome.rate:>9.4g} {100 * each.error:>+7.1f} %  {each.name}"
        lines.append(line.rstrip())
    if not judged:
        return ""
    head = f"{'row':<86} {'published':>9} {'obtained':>9} {'error':>9}"
    sizes = [abs(each.error) for each in judged]
    within = sum(not each.is_miss for each in judged)
    end = (
        f"{len(sizes)} published rates (M/s): median error {100 * statistics.median(sizes):.1f} %,"
        f" largest {100 * max(sizes):.1f} %, {within} within 30 %"
    )
    return "\n".join([head, *lines, end, ""]) + ("" if misses is None else text_of(misses, judged))


def published_rate(table: Table, row: Row) -> float:
    """The published rate of a row; 0 if it has none."""
    try:
        return float(row.get(table.format.published, ""))
    except ValueError:
        return 0.0
