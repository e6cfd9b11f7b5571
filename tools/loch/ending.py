"""How Python commands of Loch end: with an exit status, and at most one line on standard error."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Callable

LINE_MAX = 400  # letters of an error line; longer messages of other programs and libraries are cut
# An OSError that has one of these numbers and no file name means that writing to standard output has failed.
_NO_OUTPUT = (errno.ENOSPC, errno.EBADF, errno.EFBIG, errno.EIO, errno.EDQUOT)


class CommandError(Exception):
    """An error that the caller of the command can correct; the message is one line, the exit status 2."""

    status = 2


def one_line(text: object) -> str:
    """`text` on one line, without control characters, and cut after LINE_MAX letters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())
    return line if len(line) <= LINE_MAX else line[:LINE_MAX] + "…"


def reason(error: BaseException) -> str:
    """What went wrong, in words, without the place: for an OSError, a parser's error, an exhausted memory and
    others."""
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
    """The first of `words` that is a flag with the value `--`, which argparse mistakes for no value; "" if there is
    none."""
    return next((word for word in words if word.startswith("--") and word.endswith("=--")), "")


def status_of(command: Callable[[], int], name: str = "", interrupted: str = "interrupted") -> int:
    """Runs a command and returns its exit status, or the status of the exception that ended it.

    `name` precedes each error line. A full disk, a closed output and malformed files all end in one line and status 2.
    An exception that the command itself does not turn into a CommandError is printed with the file and line that raised
    it.
    """
    prefix = f"{name}: " if name else ""
    have_streams = _open_closed_streams()
    try:
        try:
            status = command()
        except SystemExit as end:  # argparse has printed its usage or error before raising this
            status = end.code if isinstance(end.code, int) else 0
        if not have_streams:
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.flush()
        return status
    except CommandError as error:
        told, status = str(error), error.status
    except BrokenPipeError:  # the reader of a pipe has closed it: end with the status of SIGPIPE
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
    """Opens /dev/null for each closed standard stream, since the next file opened would otherwise get the stream's
    number.

    Returns whether standard output was open: output to a closed one would be lost without an error.
    """
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
    """Prints the error line, and prevents a second error at exit if standard output or standard error cannot be
    written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        # Python flushes standard output again at exit, which must not fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        if line:
            print(one_line(line) if "\n" in line else line, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
