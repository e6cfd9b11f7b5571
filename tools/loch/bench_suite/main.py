"""./loch bench-suite: how fast the simulator is on this machine, as medians of several turns, beside other
simulators."""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any, Callable

from loch.bench_suite import peers, rows
from loch.ending import CommandError, status_of
from loch.flags import Parser
from loch.written import why_not, write_atomically

EPILOG = """All rows are measured once a turn, one after another, so that a machine that is busy for a while disturbs all of
them. Rates are of CPU time, without what a run needs before its first event. "to the queue" is a row's rate of
events over that of the bare queue. A peer makes the bare queue's churn: 1,000 timers, each set again when it fires.
Those that are not installed are named with the package that has them; loch installs none of them.

examples:
  ./loch bench-suite                         five turns, some five minutes
  ./loch bench-suite --only nodes --json a.json
exit status: 0; 1 a row failed; 2 bad input"""


def main(words: list[str], setup: Callable[[], int], program: str) -> int:
    """Runs the command; `setup` builds what is measured and returns an exit status."""
    return status_of(lambda: _run(words, setup, program), "loch bench-suite")


def _run(words: list[str], setup: Callable[[], int], program: str) -> int:
    parser = Parser(prog="loch bench-suite", description=__doc__, epilog=EPILOG)
    parser.add_argument("--repeats", metavar="N", type=int, default=5, help="turns, of which medians are taken")
    parser.add_argument(
        "--only", metavar="GROUP,…", default=",".join(rows.GROUPS), help=f"of {', '.join(rows.GROUPS)}; default: all"
    )
    parser.add_argument(
        "--brief", action="store_true", help="a hundredth of the load, set-up included: to try the command"
    )
    parser.add_argument("--json", metavar="FILE", default="", help="all turns of all rows; -: standard output")
    given = parser.parse_args(words)
    if not 1 <= given.repeats <= 100:
        raise CommandError(f"--repeats {given.repeats}: expected 1 to 100")
    groups = given.only.split(",")
    for group in groups:
        if group not in rows.GROUPS:
            raise CommandError(f"--only {group}: expected one or more of {', '.join(rows.GROUPS)}")
    if given.json and (fault := why_not(given.json)):
        raise CommandError(f"--json {given.json}: {fault}")
    if status := setup():
        return status
    measured = _measure(groups, given.repeats, rows.Suite(program, 100 if given.brief else 1))
    if given.json:
        write_atomically(given.json, json.dumps(document(measured), indent=1) + "\n")
    if given.json != "-":
        print(table(measured), end="")
    return 1 if any(row.failure and not row.is_optional for row in measured) else 0


def _measure(groups: list[str], repeats: int, suite: rows.Suite) -> list[rows.Row]:
    with peers.built() as programs:
        measured = rows.make(groups, suite, programs)
        for turn in range(repeats):
            for row in measured:
                if sys.stderr.isatty():
                    print(f"\r\033[Kturn {turn + 1} of {repeats}: {row.name}", end="", file=sys.stderr, flush=True)
                row.measure()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return measured


def ratios(measured: list[rows.Row]) -> dict[str, float]:
    """For each row of the table, by name: its rate of events divided by that of the bare event queue in the same turn;
    the median over the turns."""
    queue = next((row for row in measured if row.name == rows.BARE_QUEUE and not row.failure), None)
    if queue is None:
        return {}
    return {
        row.name: statistics.median(own / base for own, base in zip(row.events_s, queue.events_s))
        for row in measured
        if row.events_s
    }


def document(measured: list[rows.Row]) -> list[dict[str, Any]]:
    """What --json writes: for each row its medians, and the values of all turns."""
    to_queue = ratios(measured)
    return [
        {
            "row": row.name,
            "failure": row.failure,
            "to_queue": to_queue.get(row.name),
            "median": {name: statistics.median(values) for name, values in row.values.items() if values},
            "turns": row.values,
        }
        for row in measured
    ]


COLUMNS = (  # key of a row's values, title, what the value is divided by, format
    ("events_s", "M events/s", 1e6, "{:.2f}"),
    ("ns_an_event", "ns an event", 1, "{:.0f}"),
    ("operations_s", "k operations/s", 1e3, "{:.0f}"),
    ("events_an_operation", "events an operation", 1, "{:.1f}"),
    ("setup_s", "set-up, CPU s", 1, "{:.2f}"),
    ("kb_a_node", "KB a node", 1, "{:.0f}"),
)


def table(measured: list[rows.Row]) -> str:
    """The table that the command prints, in Markdown: medians, and how far the turns' rates of events lie apart."""
    to_queue = ratios(measured)
    titles = ["row", *(title for _, title, _, _ in COLUMNS), "to the queue", "fastest/slowest turn"]
    lines = [titles, ["---"] * len(titles)]
    for row in measured:
        if row.failure:
            lines.append([row.name, row.failure, *[""] * (len(titles) - 2)])
            continue
        cells = [row.name]
        for key, _, unit, form in COLUMNS:
            values = row.values.get(key)
            cells.append(form.format(statistics.median(values) / unit) if values else "")
        cells.append(f"{to_queue[row.name]:.3f}" if row.name in to_queue else "")
        cells.append(f"{max(row.events_s) / min(row.events_s):.2f}" if row.events_s else "")
        lines.append(cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
