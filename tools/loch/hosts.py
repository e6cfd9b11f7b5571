"""Names of hosts, checked before they reach a command line: none is an option of ssh, a word of a shell, or two words."""

from __future__ import annotations

import re

_USER = r"(?:[A-Za-z_][\w.-]*@)?"
_NAME = re.compile(_USER + r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]?", re.ASCII)
NAME_MAX = 255


def is_host(name: str) -> bool:
    """A name for ssh, with its user or without."""
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


def is_address(name: str) -> bool:
    """A name or address of something on the network, such as a BMC; no user."""
    return len(name) <= NAME_MAX and _ADDRESS.fullmatch(name) is not None
