"""Checks host names before they become part of a command line: they cannot be read as options of ssh or by a shell."""

from __future__ import annotations

import re
import socket

_USER = r"(?:[A-Za-z_][\w.-]*@)?"
_NAME = re.compile(_USER + r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]?", re.ASCII)
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
