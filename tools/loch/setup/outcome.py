"""Messages and exit statuses of set-up; each message is one line."""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable

from loch.ending import CommandError, reason

INTERRUPTED = "interrupted; the next ./loch goes on where this one stopped"


class SetUpError(CommandError):
    """Set-up failed; the message is one line. Status 2: the caller can correct the cause; 1: a build failed."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def say(text: str) -> None:
    print(f"loch: {text}", file=sys.stderr, flush=True)


def clear_line() -> None:
    """Erases the line of progress if standard error is a terminal."""
    if os.isatty(2):
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def status_of(set_up: Callable[[], int | None]) -> int:
    """Runs a step of set-up; returns 0, the step's status, or the status of its error, which has been printed."""
    try:
        status = set_up() or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the process that read the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except CommandError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:  # the lock on the build folder is released when this process ends
        clear_line()
        say(INTERRUPTED)
        return 130
    except OSError as error:
        say(f"{error.filename}: {reason(error)}" if error.filename else reason(error))
        return 2
