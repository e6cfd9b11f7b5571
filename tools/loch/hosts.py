"""Reads hostfiles, and checks host names before they become part of a command line: they cannot be read as options of
ssh or by a shell."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

_USER = r"(?:[A-Za-z_][\w.-]*@)?"
_NAME = re.compile(_USER + r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]?", re.ASCII)
_SLOTS = re.compile(r"(slots|max[_-]slots)=(\d{1,4})", re.ASCII)
SLOTS_WANTED = "expected slots=N or max_slots=N, with N from 1 to 9999"
NAME_MAX = 255


def is_host(name: str) -> bool:
    """Whether `name` is a host name for ssh, optionally USER@HOST."""
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


def is_address(name: str) -> bool:
    """Whether `name` is a host name or IP address without a user, such as a BMC's."""
    return len(name) <= NAME_MAX and _ADDRESS.fullmatch(name) is not None


def is_this_machine(name: str) -> bool:
    """Whether `name` is this machine, as a launcher sees it without asking a name server."""
    return name in ("localhost", socket.gethostname())


def slots_of(rest: str) -> list[tuple[str, int]]:
    """What a hostfile's line says behind the host: `slots=N` and `max_slots=N`, as name and N. ValueError: the word that is
    neither."""
    found = []
    for word in re.sub(r"\s*=\s*", "=", rest).split():
        match = _SLOTS.fullmatch(word)
        if not match or int(match[2]) == 0:
            raise ValueError(word)
        found.append((match[1], int(match[2])))
    return found


def hosts_of(file: str, command: str) -> dict[str, int]:
    """The hosts of an mpirun hostfile with the number of their lines: `HOST [slots=N …]`, `#` begins a comment. Errors
    are a line that begins with the name of the command, and status 2."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fault = f"--hostfile {file}: {getattr(error, 'strerror', None) or 'not text'}"
        raise SystemExit(_bad(command, fault)) from error
    hosts: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if not is_host(words[0]):
            raise SystemExit(_bad(command, f"{file}:{number}: expected 'HOST' or 'HOST slots=N', got '{line.strip()}'"))
        try:
            slots_of(" ".join(words[1:]))
        except ValueError as error:
            raise SystemExit(_bad(command, f"{file}:{number}: {str(error)[:80]}: {SLOTS_WANTED}")) from None
        hosts[words[0]] = hosts.get(words[0], 0) + 1
    if not hosts:
        raise SystemExit(_bad(command, f"{file}: no host in it; expected a line such as 'node1 slots=1'"))
    return hosts


def _bad(command: str, message: str) -> int:
    print(f"{command}: {message}", file=sys.stderr)
    return 2
