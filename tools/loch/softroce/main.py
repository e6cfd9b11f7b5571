"""`loch softroce`: parses the flags, runs the command, and returns its exit status."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from pathlib import Path
from typing import Callable

from loch import places
from loch.flags import Parser
from loch.softroce.image import Unavailable
from loch.softroce.run import Failed, Request, Run, say

HOSTS_MAX = 32
TIMEOUT_DEFAULT_S = 3600.0
DESCRIPTION = """\
Runs COMMAND in a machine with a Soft-RoCE NIC (device rxe0), started for it in QEMU. The machine sees
this file system: COMMAND runs in the current folder, with this environment, as root of the machine but
with no more rights to files than you have, and what it writes stays. Its standard output, standard
error and exit status are those of ./loch softroce; Ctrl-C ends the machine at once. Works without
KVM (emulated, slow) and without root.
"""
EPILOG = """\
In the machine
  rxe0              10.77.0.1/24, GID index 1 is RoCE v2 over IPv4; memlock is unlimited, 1/8 of memory is huge pages
  /run, /dev/shm    the machine's own, and so is TMPDIR (/run/loch/tmp); /tmp is this computer's
With --hosts N      COMMAND runs on loch1; loch1 … lochN are 10.77.0.1 … 10.77.0.N, each with its rxe0
  LOCH_HOSTFILE     hostfile of the machines: mpirun --hostfile $LOCH_HOSTFILE -n N PROGRAM works as it is,
                    and so does `ssh loch2 PROGRAM`; both give PROGRAM COMMAND's environment and folder
  LOCH_MACHINES     echo kill 3 >$LOCH_MACHINES crashes loch3, from a program in loch1
Files               Machines read ahead and do not look again: what this computer or another machine
                    changes during a run, in a file already read, may not be seen.

examples:
  ./loch softroce -- ibv_devinfo -v
  ./loch softroce --hosts 3 -- sh -c 'mpirun --hostfile $LOCH_HOSTFILE -n 3 hostname'

Exit status: COMMAND's; 2 bad flags, 124 time-out, 125 the machine does not start, 137 loch1 was killed
"""


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    value = float(found.group(1)) * {"ms": 1e-3, None: 1, "s": 1, "m": 60, "h": 3600}[found.group(2)] if found else 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': expected a time above 0, such as 90, 90s or 5m")
    return value


def megabytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([MG])i?B?", text)
    value = int(found.group(1)) * (1024 if found.group(2) == "G" else 1) if found else 0
    if not 256 <= value <= 1 << 20:
        raise argparse.ArgumentTypeError(f"'{text}': expected at least 256M, such as 1G")
    return value


def whole(low: int, high: int):
    def read(text: str) -> int:
        if not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}': expected a whole number in {low}..{high}")
        return int(text)

    return read


def kill(text: str) -> tuple[int, float]:
    number, at, when = text.partition("@")
    if not at or not number.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}': expected MACHINE@TIME, such as 3@10s")
    return int(number), seconds(when)


def parser() -> Parser:
    top = Parser(
        prog="loch softroce",
        usage="./loch softroce [flags] -- COMMAND…",
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    top.add_argument(
        "--hosts", type=whole(1, HOSTS_MAX), default=1, metavar="N", help="N machines on one network (default 1)"
    )
    top.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_DEFAULT_S,
        metavar="S",
        help="end COMMAND after S seconds (or 5m, 2h), status 124 (default 1h)",
    )
    top.add_argument(
        "--cpus", type=whole(1, 64), metavar="N", help="cores of each machine (default 2; 1 with several machines)"
    )
    top.add_argument("--memory", type=megabytes, metavar="SIZE", help="memory of each machine (default 2G)")
    top.add_argument(
        "--kill",
        type=kill,
        action="append",
        default=[],
        metavar="K@S",
        help="crash machine K, S seconds after COMMAND's start; may be repeated",
    )
    top.add_argument("--verbose", action="store_true", help="show the machines' consoles on standard error")
    top.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return top


def request(argv: list[str]) -> Request:
    top = parser()
    args = top.parse_args(argv)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        top.error("expected a command after --, such as: ./loch softroce -- ibv_devinfo")
    for number, _ in args.kill:
        if not 1 <= number <= args.hosts:
            top.error(f"--kill {number}@…: there are machines 1..{args.hosts} (--hosts)")
    folder = os.getcwd()
    if folder.split("/")[1] in ("proc", "sys", "dev", "run"):
        top.error(f"the current folder {folder} is not there in the machine, which has its own /{folder.split('/')[1]}")
    one = args.hosts == 1
    return Request(
        command,
        args.hosts,
        args.timeout,
        args.cpus or (2 if one else 1),
        args.memory or 2048,
        args.kill,
        args.verbose,
        Path(places.BUILD) / "softroce",
    )


class Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def interrupt(number: int, _frame: object) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # the machines are being shut down, which a second signal must not interrupt
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def main(argv: list[str], set_up: Callable[[list[str]], int]) -> int:
    """Runs `loch softroce`. `set_up` receives COMMAND's words; it is called after the flags have been checked."""
    wanted = request(argv)
    status = set_up(wanted.command)
    if status:
        return status
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupt)
    status = _run(wanted)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    os._exit(status)  # ends without waiting for the thread that reads standard input


def _run(wanted: Request) -> int:
    try:
        return Run(wanted).execute()
    except (Failed, Unavailable) as error:
        say(str(error))
        return error.status if isinstance(error, Failed) else 125
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except Interrupted as interrupted:
        return 128 + interrupted.number
