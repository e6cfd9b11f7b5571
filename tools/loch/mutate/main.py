"""`loch mutate`: parses the flags. Imports only what is always installed, because setup installs clang's bindings
later."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from typing import Callable

from loch.flags import Parser
from loch.mutate.modules import MODULES

UNITS_S = {"s": 1, "m": 60, "h": 3600}
ENDS = """\
example:
  ./loch mutate --room nessie --edits 20 --time 30m

exit status: 0 judged, 2 bad input or a tree that does not pass unedited, 130 interrupted (what was judged is kept)"""


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found:
        raise argparse.ArgumentTypeError(f'"{text}" is no duration; expected 90s, 20m, 8h')
    return float(found.group(1)) * UNITS_S[found.group(2)]


def _whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number of at least 1')
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def parser() -> Parser:
    made = Parser(
        prog="loch mutate",
        description="Random single edits of the code, judged by unit tests, fuzz and explore.",
        epilog=ENDS,
    )
    made.add_argument(
        "--room",
        action="append",
        metavar="R",
        help=f"whose code is edited (all): {', '.join(MODULES)}; may be repeated",
    )
    made.add_argument("--edits", type=_whole, default=10, metavar="N", help="how many of each module (10)")
    made.add_argument(
        "--seed", type=_seed, default=1, metavar="S", help="which: the same seed draws the same of the same code (1)"
    )
    made.add_argument(
        "--fuzz-seeds", type=_whole, default=300, metavar="N", help="seeds of loch fuzz for each protocol (300)"
    )
    made.add_argument("--time", type=_duration, metavar="T", help="begin no edit after this much time: 20m, 8h")
    made.add_argument("--jobs", type=_whole, default=os.cpu_count() or 1, metavar="N", help="of the build (one a core)")
    made.add_argument(
        "--results",
        metavar="FILE",
        help="JSON lines; what is in there is not judged again " "(default mutate/results.jsonl in the build folder)",
    )
    made.add_argument(
        "--again",
        action="append",
        choices=("survived", "time-limit"),
        default=[],
        help="judge again, of those judged before, what survived for no reason that is known (tests were added) or "
        "was killed by a time limit (the machine was busy); may be repeated",
    )
    made.add_argument("--patience", type=_whole, default=1, metavar="N", help="times the usual time limits (1)")
    made.add_argument("--list", action="store_true", help="print the edits that would be judged, judge none")
    made.add_argument("--report", action="store_true", help="print the table of what was judged, judge none")
    return made


def main(argv: list[str], set_up: Callable[[], int]) -> int:
    args = parser().parse_args(argv)
    for name in args.room or []:
        if name not in MODULES:
            parser().error(f'--room: no module "{name}"; expected one of {", ".join(MODULES)}')
    status = set_up()
    if status:
        return status
    from loch.mutate import session

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return session.run(args)
    except (session.ScratchError, session.ResultsError, ValueError, OSError) as error:
        print(f"loch mutate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nloch mutate: interrupted; what was judged is kept", file=sys.stderr)
        return 130
