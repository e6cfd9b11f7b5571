"""Runs the programs of set-up: output goes to a log with a line of progress on the terminal; Ctrl-C ends them all."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator

from loch.setup.outcome import clear_line, say

QUIET_S = 1.0  # seconds before progress is shown; most programs end earlier
REPEAT_S = 15.0  # seconds between lines of progress where standard error is not a terminal
GRACE_S = 1.0  # seconds to wait before signalling a child, which after Ctrl-C on a terminal receives SIGINT itself
SHOWN_MAX = 90
_STEPS = (b"[", b"Get:", b"Unpacking", b"Setting up")  # beginnings of the progress lines that ninja and apt-get print


class Progress:
    """Progress of a program, shown after one second: one line rewritten on a terminal, else a new line every 15
    seconds."""

    def __init__(self, label: str) -> None:
        self._label, self._last = label, ""
        self._began = time.monotonic()
        self._shown: float | None = None
        self._on_terminal = os.isatty(2)

    def line(self, line: bytes) -> None:
        if line.startswith(_STEPS) and (line[:1] != b"[" or b"/" in line):
            self._last = line.decode(errors="replace").rstrip("\n")

    def look(self) -> None:
        now = time.monotonic()
        if now - self._began < QUIET_S:
            return
        if self._on_terminal:
            text = f"loch: {self._label} {self._last}"
            print(f"\r\x1b[K{text[:_columns() - 1]}", end="", file=sys.stderr, flush=True)
        elif self._shown is None or now - self._shown >= REPEAT_S:
            say(f"{self._label} {self._last[:SHOWN_MAX]}")
            self._shown = now


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def run_logged(commands: list[list[str]], label: str, log: str, keep: tuple[int, ...] = (), **env: str) -> bool:
    """Runs commands in order until one fails; returns whether all succeeded.

    Their output is written to the file `log`; `keep` lists file descriptors that the commands inherit.
    """
    progress = Progress(label)
    with open(log, "wb", buffering=0) as written:
        try:
            return all(_run_one(command, progress, written.write, keep, env) for command in commands)
        finally:
            clear_line()


def _run_one(
    command: list[str], progress: Progress, write: Callable[[bytes], object], keep: tuple[int, ...], env: dict[str, str]
) -> bool:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **env},
        pass_fds=keep,
    )
    try:
        assert child.stdout
        for line in _lines(child.stdout.fileno()):
            if line:
                write(line)
                progress.line(line)
            progress.look()
        return child.wait() == 0
    except BaseException:
        end(child)
        raise


def _lines(descriptor: int) -> Iterator[bytes]:
    """The lines read from `descriptor`; b"" after each second without new data."""
    pending = b""
    while True:
        if not select.select([descriptor], [], [], 1.0)[0]:
            yield b""
            continue
        data = os.read(descriptor, 1 << 16)
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if not data:
            if pending:
                yield pending
            return


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends a child and its descendants: waits a second, then interrupts them, and kills those that still run after 5
    seconds."""
    family = _descriptors(child.pid)
    try:
        if not _all_ended(family, GRACE_S):
            for number in (signal.SIGINT, signal.SIGKILL):
                for each in family:
                    _send(each, number)
                if _all_ended(family, 5 * GRACE_S):
                    break
        child.wait()
    except KeyboardInterrupt:  # a second Ctrl-C: kill the processes at once
        for each in family:
            _send(each, signal.SIGKILL)
        child.wait()
    finally:
        for each in family:
            os.close(each)


def _descriptors(process: int) -> list[int]:
    """A pidfd for the process and for each of its descendants."""
    found = []
    for each in _and_descendants(process):
        try:
            found.append(os.pidfd_open(each))
        except OSError:
            pass  # this process has ended in the meantime
    return found


def _and_descendants(process: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as opened:
                    parent = int(opened.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue  # this process has ended in the meantime
            children.setdefault(parent, []).append(int(name))
    found = [process]
    for each in found:
        found.extend(children.get(each, []))
    return found


def _send(descriptor: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        pass  # the process has ended, or belongs to another user


def _all_ended(family: list[int], seconds: float) -> bool:
    """Waits up to `seconds` until all processes have ended; returns whether they have. A zombie counts as ended."""
    limit = time.monotonic() + seconds
    poll = select.poll()
    left = set(family)
    for each in family:
        poll.register(each, select.POLLIN)
    while left and (rest := limit - time.monotonic()) > 0:
        for each, _ in poll.poll(rest * 1000):
            left.discard(each)
            poll.unregister(each)
    return not left
