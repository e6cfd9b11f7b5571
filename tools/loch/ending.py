"""How the commands that are written in Python end: each way with its exit status and at most one line."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Callable

LINE_MAX = 400  # letters of what somebody else said, in a line of ours
# Of an error without a file name: it was standard output that could not be written.
_NO_OUTPUT = (errno.ENOSPC, errno.EBADF, errno.EFBIG, errno.EIO, errno.EDQUOT)


class CommandError(Exception):
    """Something that whoever called can fix; one line."""

    status = 2


def one_line(text: object) -> str:
    """`text` without line breaks and control characters, and cut where it goes on for long."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())
    return line if len(line) <= LINE_MAX else line[:LINE_MAX] + "…"


def reason(error: BaseException) -> str:
    """In words what went wrong, for a line that already says where: of an OSError, a parser, a number too large …"""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "needs more memory than there is"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text: {error.reason} at byte {error.start}"
    if isinstance(error, OSError):
        return error.strerror or one_line(error) or type(error).__name__
    return one_line(error) or type(error).__name__


def without_value(words: list[str]) -> str:
    """The first of `words` that is a flag with the value --, which argparse takes for none; nothing if there is none."""
    return next((word for word in words if word.startswith("--") and word.endswith("=--")), "")


def status_of(command: Callable[[], int], name: str = "", interrupted: str = "interrupted") -> int:
    """Runs a command; its exit status, or that of how it ended. `name` goes before each line that says so.

    Whatever the surroundings do (a full disk, a closed output) and whatever a file holds is one line and status 2. What
    no reader has refused before is told with its place in our code, for it should have been."""
    prefix = f"{name}: " if name else ""
    have_streams = _open_closed_streams()
    try:
        try:
            status = command()
        except SystemExit as end:  # of argparse, which has said what there was to say
            status = end.code if isinstance(end.code, int) else 0
        if not have_streams:
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.flush()
        return status
    except CommandError as error:
        told, status = str(error), error.status
    except BrokenPipeError:  # the reader of the output has gone: end with the status of SIGPIPE
        told, status = "", 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        told, status = interrupted, 130
    except OSError as error:
        where = error.filename or ("standard output" if error.errno in _NO_OUTPUT else name or "loch")
        told, status = f"{where}: {reason(error)}", 2
    except (
        ArithmeticError,
        AttributeError,
        ImportError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        told, status = f"{reason(error)} ({type(error).__name__} at {_place(error)})", 2
    _end_output(prefix + told if told else "")
    return status


def _open_closed_streams() -> bool:
    """Gives closed standard streams something to stand for, or the next file opened would take their number.

    Whether standard output was open: what is written to a closed one is lost."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    is_open = sys.stdout is not None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    return is_open


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return f"{Path(last[0].filename).name}:{last[0].lineno}" if last else "?"


def _end_output(line: str) -> None:
    """Writes the line, and sees to it that nothing is said at exit about output that cannot be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the flush at exit must not fail either
    try:
        if line:
            print(one_line(line) if "\n" in line else line, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
