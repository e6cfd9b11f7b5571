"""How set-up speaks, and how it ends: one line each."""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable

from loch.ending import CommandError, reason

INTERRUPTED = "interrupted; the next ./loch goes on where this one stopped"


class SetUpError(CommandError):
    """Why there is nothing to run; one line. Status 2: whoever called can fix it; 1: a build failed."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def say(text: str) -> None:
    print(f"loch: {text}", file=sys.stderr, flush=True)


def clear_line() -> None:
    """Takes the line of progress away, where there is one."""
    if os.isatty(2):
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def status_of(set_up: Callable[[], int | None]) -> int:
    """Runs it; 0, or the status of what it could not do, which has been said."""
    try:
        status = set_up() or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except CommandError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:  # the lock goes with the process
        clear_line()
        say(INTERRUPTED)
        return 130
    except OSError as error:
        say(f"{error.filename}: {reason(error)}" if error.filename else reason(error))
        return 2
