"""`loch doctor`: parses flags, has this machine or the hosts of a hostfile probed, and prints the report."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from loch.doctor import judge, needs, pings, probe
from loch.doctor.judge import NO, OK, WARN, Line, Verdict
from loch.flags import Parser
from loch.hosts import hosts_of, is_this_machine
from loch.places import BINARY

SSH_LIMIT_S = 120
AT_ONCE = 16
MARKS = {OK: "ok  ", WARN: "warn", NO: "NO  "}
COLOURS = {OK: "\x1b[32m", WARN: "\x1b[33m", NO: "\x1b[31m"}
DESCRIPTION = """\
Is this machine, or each host of a hostfile, ready for the verbs fabric? Says what it found and, where
something is missing, what to do. What each line means: docs/cluster.md.
"""
EPILOG = """\
The program tells what the verbs fabric sees (./loch devices); it is not built for that, but has to be
there. Other hosts are asked over ssh, which must not ask for a password; they need python3, and the
program at the same path as here. Then mpirun, or ssh where that is missing, starts a process for each
line of the hostfile, and all pairs ping each other over RC, UC and UD (./loch ping), half a second for
each host.

example:
  ./loch doctor --hostfile hosts --protocol nessie

exit status: 0 ready (warnings do not count), 1 not ready, 2 bad flags or hostfile
"""


@dataclass
class Asked:
    """The facts that a host's probe printed, or why the host gave none."""

    host: str
    facts: dict | None
    fault: str = ""
    ahead_s: float = 0.0  # seconds that the host's clock is ahead of this machine's
    sure_s: float = 0.0


def ask(host: str, binary: str, device: str) -> Asked:
    """Returns the facts of `host`: runs probe.py there over ssh, with the script on ssh's standard input."""
    if is_this_machine(host):
        return Asked(host, probe.facts(binary=binary, device=device))
    remote = f"PATH=/usr/bin:$PATH python3 - / {shlex.quote(binary)} {shlex.quote(device)}"
    command = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "--", host, remote]
    before = time.time()
    try:
        done = subprocess.run(
            command, input=Path(probe.__file__).read_bytes(), capture_output=True, timeout=SSH_LIMIT_S, check=False
        )
        after = time.time()
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            return Asked(host, None, said[-1] if said else f"ssh ended with status {done.returncode}")
        facts = json.loads(done.stdout)
    except FileNotFoundError:
        return Asked(host, None, "ssh is missing here")
    except subprocess.TimeoutExpired:
        return Asked(host, None, f"no answer within {SSH_LIMIT_S} s")
    except ValueError:
        return Asked(
            host, None, "it printed something else than the probe's JSON (a login message on standard output?)"
        )
    # facts["time"] is the host's clock just before its probe ended, so the clock difference is uncertain by at most the
    # time that ssh took in all.
    return Asked(host, facts, "", facts["time"] - after, after - before)


def verdict_of(asked: Asked) -> Verdict:
    if asked.facts is None:
        line = Line(
            "ssh", NO, asked.fault, f"ssh {asked.host} true must work without a password: ssh-copy-id {asked.host}"
        )
        return Verdict(asked.host, [line], None, {"launchers": {}})
    return judge.judge(asked.facts, asked.host)


def show(title: str, lines: list[Line], colour: bool) -> None:
    if title:
        print(title)
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        mark = f"{COLOURS[line.status]}{MARKS[line.status]}\x1b[0m" if colour else MARKS[line.status]
        print(f"  {mark}  {line.name:<{width}}  {line.text}")
        if line.mend:
            print(f"        {'':<{width}}  {'→' if line.status != OK else ' '} {line.mend}")


def ping(
    hosts: dict[str, int], verdicts: list[Verdict], binary: str, fabric: str, device: str
) -> tuple[dict | None, list[Line]]:
    """Has the hosts that can be used ping each other; returns the result of `loch-bench ping` and the report's lines."""
    usable = [v.host for v in verdicts if v.choice or (fabric != "verbs" and v.facts.get("devices") is not None)]
    left_out = [host for host in hosts if host not in usable]
    ranks = [(host, hosts[host]) for host in usable]
    if sum(count for _, count in ranks) < 2:
        return None, []
    result, why = pings.launch(ranks, binary, fabric, device)
    return result, pings.lines(result, why, left_out)


def report(verdicts: list[Verdict], common: list[Line], pinged: dict | None = None) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for verdict in verdicts:
        show(verdict.host, verdict.lines, colour)
    if pinged:
        print(pinged["table"], end="")
    if common:
        show("among the hosts", common, colour)
    every = [line for verdict in verdicts for line in verdict.lines] + common
    faults = sum(line.status == NO for line in every)
    print(
        "ready for verbs" if faults == 0 else f"not ready for verbs: {faults} thing{'s' if faults > 1 else ''} to fix"
    )


def answer(argv: list[str]) -> int:
    top = Parser(
        prog="loch doctor",
        usage="./loch doctor [--hostfile H [--fabric F] [--no-ping]] [--device D] [--protocol NAME]… [--json]",
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    top.add_argument("--hostfile", metavar="H", help="ask every host of this mpirun hostfile, over ssh")
    top.add_argument(
        "--protocol",
        metavar="NAME",
        action="append",
        default=[],
        help="also compare what this protocol needs with what the chosen device has (may be repeated; builds the program)",
    )
    top.add_argument(
        "--fabric", choices=("verbs", "ofi", "shm"), default="verbs", help="what carries the pings (default: verbs)"
    )
    top.add_argument(
        "--device",
        metavar="D",
        default="",
        help="RDMA devices to judge and to ping through, as bench --device has them",
    )
    top.add_argument("--no-ping", action="store_true", help="hosts of a hostfile do not ping each other")
    top.add_argument("--json", action="store_true", help="print verdicts, pings and facts as JSON")
    top.add_argument("--root", metavar="DIR", help="read /sys, /proc and /dev below DIR (for tests)")
    args = top.parse_args(argv)
    binary = os.environ.get("LOCH_BIN") or BINARY
    try:
        needs_of = needs.of_protocols(binary, args.protocol) if args.protocol else {}
    except needs.Unknown as error:
        top.error(str(error))
    if args.hostfile and args.root:
        top.error("--root goes without --hostfile")
    if args.root and not Path(args.root).is_dir():
        top.error(f"--root {args.root}: no such folder")
    common: list[Line] = []
    pinged: dict | None = None
    if args.hostfile:
        hosts = hosts_of(args.hostfile, "loch doctor")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda host: ask(host, binary, args.device), hosts))
        verdicts = [verdict_of(each) for each in answers]
        common = judge.compare(verdicts, {each.host: (each.ahead_s, each.sure_s) for each in answers if each.facts})
        if not args.no_ping:
            pinged, more = ping(hosts, verdicts, binary, args.fabric, args.device)
            common += more
    else:
        verdicts = [judge.judge(probe.facts(Path(args.root or "/"), binary, args.device))]
    for verdict in verdicts:
        verdict.lines.extend(needs.lines(needs_of, verdict) if verdict.facts.get("devices") is not None else [])
    ready = all(verdict.ready for verdict in verdicts) and all(line.status != NO for line in common)
    if args.json:
        json.dump(
            {
                "ready": ready,
                "hosts": [verdict.as_json() for verdict in verdicts],
                "among_hosts": [asdict(line) for line in common],
                "pings": pinged,
            },
            sys.stdout,
            indent=1,
        )
        print()
    else:
        report(verdicts, common, pinged)
    return 0 if ready else 1


def main(argv: list[str]) -> int:
    try:
        return answer(argv)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130
