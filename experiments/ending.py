"""How the commands that are written in Python end: each way with its exit status and at most one line."""

from __future__ import annotations

import os
import sys
from typing import Callable


class CommandError(Exception):
    """Something that whoever called can mend; one line."""

    status = 2


def status_of(command: Callable[[], int], name: str = "", interrupted: str = "interrupted") -> int:
    """Runs a command; its exit status, or that of how it ended. `name` goes before each line that says so."""
    prefix = f"{name}: " if name else ""
    try:
        return command()
    except CommandError as error:
        print(f"{prefix}{error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:  # whoever read has read enough; the flush at exit must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"{prefix}{interrupted}", file=sys.stderr)
        return 130
