"""Programs that set-up starts: their output goes to a log with one line of progress, and Ctrl-C ends them all."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator

from loch.setup.outcome import clear_line, say

QUIET_S = 1.0  # most calls are over by then
REPEAT_S = 15.0  # where a line cannot be rewritten
GRACE_S = 1.0  # a child of the same terminal has got its own Ctrl-C
SHOWN_MAX = 90
_STEPS = (b"[", b"Get:", b"Unpacking", b"Setting up")  # beginnings of progress lines of ninja and apt-get


class Progress:
    """One line: rewritten in place on a terminal, a fresh one every 15 seconds elsewhere. Says nothing in the first second."""

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
    """Runs the commands one after the other until one fails, with all that they say in the file `log`. Whether all ended
    well. They inherit the descriptors `keep`."""
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
    """Lines as they come, and b"" after a second without one."""
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
    """Ends a child and what it started, as Ctrl-C would: first those who have not ended by themselves are interrupted,
    then, if that does not help, killed."""
    family = _descriptors(child.pid)
    try:
        if not _all_ended(family, GRACE_S):
            for number in (signal.SIGINT, signal.SIGKILL):
                for each in family:
                    _send(each, number)
                if _all_ended(family, 5 * GRACE_S):
                    break
        child.wait()
    except KeyboardInterrupt:  # a second Ctrl-C ends the wait
        for each in family:
            _send(each, signal.SIGKILL)
        child.wait()
    finally:
        for each in family:
            os.close(each)


def _descriptors(process: int) -> list[int]:
    """A pidfd of the process, and of each of its descendants."""
    found = []
    for each in _and_descendants(process):
        try:
            found.append(os.pidfd_open(each))
        except OSError:
            pass  # ended meanwhile
    return found


def _and_descendants(process: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as opened:
                    parent = int(opened.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue  # ended meanwhile
            children.setdefault(parent, []).append(int(name))
    found = [process]
    for each in found:
        found.extend(children.get(each, []))
    return found


def _send(descriptor: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        pass  # ended meanwhile, or not ours


def _all_ended(family: list[int], seconds: float) -> bool:
    """Waits until each has ended; a child that nobody has waited for counts."""
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
