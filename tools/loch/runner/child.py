"""Child processes that are killed when the process that started them ends."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Runs in the child before exec: has the kernel kill the child when its parent ends, even by SIGKILL."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def tie(command: list[str], program: str, variable: str, environment: dict[str, str]) -> dict[str, Any]:
    """What subprocess.Popen needs, beside `environment`, so that `command` is killed when this process ends. `program` is
    our own, which asks the kernel itself for the process that the environment's `variable` names; any other command, such
    as a launcher, and a program without such a variable (""), gets a copy of this process that asks before it becomes
    the command. Such a copy takes the more CPU time the more this process holds (docs/performance.md)."""
    if variable and command[0] == program:
        environment[variable] = str(os.getpid())
        return {}
    return {"preexec_fn": die_with_parent}


def kill_group(pid: int) -> None:
    """Sends SIGKILL to a process group; a group that has ended already is no error."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
