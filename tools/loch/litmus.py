"""./loch litmus --hostfile FILE: starts the litmus suite as a process on each of two hosts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Callable

from loch.ending import CommandError, status_of
from loch.hosts import hosts_of
from loch.starting import starting

FLAG = "--hostfile"
NAME = "loch litmus"
PROCESSES = 2


def has_hostfile(words: list[str]) -> bool:
    """Whether the processes are to be started on hosts; without that, or for --help, loch-bench runs the command."""
    is_help = bool({"-h", "--help"} & set(words))
    return not is_help and any(word.partition("=")[0] == FLAG for word in words)


def main(words: list[str], setup: Callable[[], int], program: str) -> int:
    """Runs the command; `setup` builds the program if needed and returns an exit status."""
    return status_of(lambda: _run(words, setup, program), NAME)


def _run(words: list[str], setup: Callable[[], int], program: str) -> int:
    file, rest = _without_hostfile(words)
    hosts = list(hosts_of(file, NAME).items())
    count = sum(lines for _, lines in hosts)
    if count != PROCESSES:
        raise CommandError(f"{FLAG} {file}: {count} lines with hosts; expected two, as the races are between two nodes")
    if status := setup():
        return status
    by, command = starting(hosts, outlives_ranks=False)
    with tempfile.TemporaryFile() as err:
        started = subprocess.Popen(
            [*command, program, "litmus", *rest],
            stdin=subprocess.DEVNULL,
            stderr=err,
        )
        try:
            status = started.wait()
        except KeyboardInterrupt:
            started.terminate()
            started.wait()
            raise
        err.seek(0)
        said = err.read().decode(errors="replace").splitlines()
    own = list(dict.fromkeys(line for line in said if line.startswith(f"{NAME}: ")))
    if by == "ssh" and not own:  # whose status 1 is not told from that of a violation
        own = [f"{NAME}: {line}" for line in said if line.startswith("ssh: ")]
    for line in own:
        print(line, file=sys.stderr)
    if status in (0, 1, 2, 130) and (status != 2 or own):
        return status
    if not own:
        print(f"{NAME}: {_reason(by, said, status)}", file=sys.stderr)
    return 1


def _reason(by: str, said: list[str], status: int) -> str:
    told = next((line.strip() for line in said if line.strip(" -")), "")
    return f"{by} ended with status {status}{f': {told}' if told else ''}"


def _without_hostfile(words: list[str]) -> tuple[str, list[str]]:
    """The value of the last --hostfile, and the other words."""
    file, rest = "", []
    following = iter(words)
    for word in following:
        flag, equals, value = word.partition("=")
        if flag != FLAG:
            rest.append(word)
            continue
        file = value if equals else next(following, "")
        if not file:
            raise CommandError(f"{FLAG}: expected a file")
    return file, rest
