#!/usr/bin/env python3
"""Starts the ranks of loch-bench by ssh, without mpirun and without a folder that the hosts share.

usage: ssh_launch.py --host HOST:RANKS[,HOST:RANKS…] -- PROGRAM ARGUMENT…
       ssh_launch.py --host HOST:RANKS[,HOST:RANKS…] -- PROGRAM points LIST

What the ranks' launchers say to each other travels over the standard input and output of the ssh connections
(ssh_rank.py is at their other end), so that nothing listens; only its sender and its receiver can read it or make it
up, as in a shared folder. The files of --json and --history come back to where they were asked for. So do those of the
points of a LIST (`loch-bench points`): what they print as they print it, their results before the line that tells that
the point has ended.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loch import ssh_rank  # noqa: E402
from loch.hosts import is_host, is_this_machine  # noqa: E402

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")
BEGIN_WITHIN_S = 60.0  # seconds in which every rank has to have begun
END_WITHIN_S = 5.0  # seconds for a connection to end after it was closed
LEFT_WITHIN_S = 30.0  # seconds for the other ranks to end when the rank that writes the run's result has ended
RESULTS = ("--json", "--history")  # flags that name a file to be brought back
PRINTING = ("litmus", "ping")  # commands that print their result: --json has no value


@dataclass
class Points:
    """A list of points for `loch-bench points`, with names in the place of the files to be brought back."""

    text: str
    files: dict[str, str]  # where they belong, by name
    results: list[list[str]]  # of each point, names of the files that are complete when it has ended
    printed: list[str]  # names of the files for what points print

    def of(self, point: int) -> list[str]:
        """The names of all files of a point."""
        return [*self.results[point], *(name for name in self.printed if name == printed_of(point))]


@dataclass
class Seat:
    """A rank, its host, and the connection to it."""

    rank: int
    host: str
    rank_here: int
    ranks_here: int
    process: subprocess.Popen[bytes]
    outgoing: queue.SimpleQueue[tuple[bytes, int, str, bytes] | None] = field(default_factory=queue.SimpleQueue)
    said: list[str] = field(default_factory=list)  # what the connection said before the rank had begun
    has_begun: bool = False
    has_written: bool = False  # whether it has sent a file of --json or --history
    status: int | None = None
    is_over: bool = False

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.host}"


class Launch:
    """All ranks of a run; `fault` is why it cannot begin."""

    def __init__(
        self, hosts: list[tuple[str, int]], program: str, arguments: list[str], points: Points | None = None
    ) -> None:
        self.program, self.arguments, self.points = program, arguments, points
        if points is not None:
            self.files = points.files
        else:
            self.files = {} if arguments[:1] and arguments[0] in PRINTING else files_of(self.arguments)
        self.files_lock = threading.Lock()
        self.closed: set[str] = set()  # files of points that have ended
        self.is_unwritten = False  # whether a file could not be written
        self.changed = threading.Condition()
        self.fault = ""
        self.is_given_up = False  # whether ranks are being ended because of `fault`
        seats = [(host, here, ranks) for host, ranks in hosts for here in range(ranks)]
        self.seats = [Seat(rank, *seat, connect(seat[0])) for rank, seat in enumerate(seats)]

    def run(self) -> int:
        job = f"ssh{secrets.token_hex(8)}"
        code = Path(ssh_rank.__file__).read_bytes()
        for seat in self.seats:
            for target in (self.write, self.read, self.tell):
                threading.Thread(target=target, args=(seat,), daemon=True).start()
            seat.outgoing.put((b"", 0, "", code))
            seat.outgoing.put((ssh_rank.START, 0, "", json.dumps(self.start_of(seat, job)).encode()))
        late: list[Seat] = []
        with self.changed:
            if not self.changed.wait_for(self.is_under_way, BEGIN_WITHIN_S) and not self.fault:
                names = ", ".join(seat.name for seat in self.seats if not seat.has_begun)
                self.fault = f"not begun within {BEGIN_WITHIN_S:.0f} s: {names}"
            if not self.fault:
                late = self.await_end()
        self.close()
        if self.fault:
            print(f"ssh: {self.fault}", file=sys.stderr, flush=True)
            return 1
        ended = [seat.status for seat in self.seats if seat.status is not None and seat not in late]
        return next((status if status > 0 else 1 for status in ended if status), int(self.is_unwritten)) if ended else 1

    def await_end(self) -> list[Seat]:
        """Waits for every rank, but no longer than LEFT_WITHIN_S for those that outlive the run, which it returns: a
        rank that is stopped or out of reach may never end, and its connection may stay."""
        deadline = float("inf")
        while left := [seat for seat in self.seats if not seat.is_over]:
            if self.has_result(left):
                deadline = min(deadline, time.monotonic() + LEFT_WITHIN_S)
            if time.monotonic() > deadline:
                names = ", ".join(seat.name for seat in left)
                print(f"ssh: not ended {LEFT_WITHIN_S:.0f} s after the run: {names}", file=sys.stderr, flush=True)
                return left
            self.changed.wait(1.0)
        return []

    def has_result(self, left: list[Seat]) -> bool:
        """Whether the rank that writes the result has ended well. It is the lowest that is not lost."""
        ended = [seat for seat in self.seats if seat.is_over and seat.status == 0]
        return any(seat.has_written or all(seat.rank < other.rank for other in left) for seat in ended)

    def is_under_way(self) -> bool:
        return bool(self.fault) or all(seat.has_begun for seat in self.seats)

    def start_of(self, seat: Seat, job: str) -> dict[str, object]:
        names = [name for name in os.environ if name.startswith("LOCH_") and name not in ("LOCH_BIN", "LOCH_BUILD")]
        of_points: dict[str, object] = {}
        if self.points is not None:
            of_points = {"points": self.points.results, "printed": self.points.printed}
            if seat.rank == 0:
                of_points["list"] = self.points.text
        return {
            **of_points,
            "program": self.program,
            "arguments": self.arguments,
            "environment": {name: os.environ[name] for name in sorted(names)},
            "rank": seat.rank,
            "ranks": len(self.seats),
            "rank_here": seat.rank_here,
            "ranks_here": seat.ranks_here,
            "job": job,
            "files": [name for name in self.files if not self.is_printed(name)],
        }

    def is_printed(self, name: str) -> bool:
        """Whether a file is for what a point prints, which every rank may do; else it is a result."""
        return self.points is not None and name in self.points.printed

    def write(self, seat: Seat) -> None:
        """Sends what is for a rank: a connection that hangs holds up no other."""
        stream, lock = seat.process.stdin, threading.Lock()
        assert stream is not None
        try:
            while frame := seat.outgoing.get():
                if frame[0]:
                    ssh_rank.put(stream, lock, *frame)  # type: ignore[arg-type]
                else:
                    stream.write(frame[3])  # the program itself
            stream.close()
        except OSError:
            pass  # read() sees the connection's end

    def read(self, seat: Seat) -> None:
        """Takes what comes from a rank until its connection ends."""
        stream = seat.process.stdout
        assert stream is not None
        while seat.status is None and (frame := ssh_rank.get(stream)):  # type: ignore[arg-type]
            self.take(seat, *frame)
        if seat.status is None:
            ended = seat.process.wait()
            time.sleep(0.1)  # for tell() to have the last line
            why = seat.said[-1] if seat.said else f"the connection ended with status {ended}"
            with self.changed:
                if not all(each.has_begun for each in self.seats):
                    self.fault = self.fault or f"{seat.name}: {why}"
                else:
                    print(f"ssh: {seat.name}: the connection ended with status {ended}", file=sys.stderr, flush=True)
        with self.changed:
            seat.is_over = True
            self.changed.notify_all()

    def take(self, seat: Seat, kind: bytes, rank: int, name: str, data: bytes) -> None:
        if kind == ssh_rank.ITEM and rank < len(self.seats):
            self.seats[rank].outgoing.put((ssh_rank.ITEM, seat.rank, name, data))
        elif kind == ssh_rank.OUTPUT:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif kind == ssh_rank.FILE and name in self.files:
            self.keep(seat, name, data, bool(rank))
        elif kind == ssh_rank.POINT and self.points is not None and rank < len(self.points.results):
            with self.files_lock:
                self.closed.update(self.points.of(rank))
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            with self.changed:
                if kind == ssh_rank.BEGUN:
                    seat.has_begun = True
                elif kind == ssh_rank.FAULT:
                    self.fault = self.fault or f"{seat.name}: {name}"
                elif kind == ssh_rank.END:
                    seat.status = int(name)
                self.changed.notify_all()

    def keep(self, seat: Seat, name: str, data: bytes, is_more: bool) -> None:
        """Writes a piece of a file where it belongs. Once a point has ended, its files are left to the one who reads
        its line."""
        with self.files_lock:
            if name in self.closed:
                return
            seat.has_written = seat.has_written or not self.is_printed(name)
            try:
                with open(self.files[name], "ab" if is_more else "wb") as written:
                    written.write(data)
            except OSError as error:
                self.closed.add(name)
                self.is_unwritten = True
                print(f"ssh: {self.files[name]}: {error.strerror}", file=sys.stderr, flush=True)

    def tell(self, seat: Seat) -> None:
        """Passes on what a rank or its ssh says on standard error; until the rank has begun it is kept."""
        stream = seat.process.stderr
        assert stream is not None
        for line in stream:
            if self.is_given_up:
                continue  # it loses its launcher, of which `fault` has the reason
            if seat.has_begun:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
            elif line.strip():
                seat.said.append(line.decode(errors="replace").strip())

    def close(self) -> None:
        """Ends every connection, and with it the rank at its other end."""
        self.is_given_up = bool(self.fault)
        for seat in self.seats:
            seat.outgoing.put(None)
        deadline = time.monotonic() + (0.5 if self.fault else END_WITHIN_S)
        for seat in self.seats:
            try:
                seat.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                seat.process.terminate()


def connect(host: str) -> subprocess.Popen[bytes]:
    size = Path(ssh_rank.__file__).stat().st_size
    read = f"import sys; exec(compile(sys.stdin.buffer.read({size}), 'ssh_rank.py', 'exec'))"
    there = f"exec python3 -c {shlex.quote(read)}"
    command = ["sh", "-c", there] if is_this_machine(host) else [*SSH, host, there]
    pipe: int | IO[bytes] = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def files_of(arguments: list[str], before: str = "") -> dict[str, str]:
    """Replaces the files to be brought back, in place, by names in the rank's own folder, which begin with `before`;
    returns where they belong."""
    files = {}
    for at, word in enumerate(arguments):
        flag, is_joined, path = word.partition("=")
        if flag not in RESULTS or (not is_joined and at + 1 == len(arguments)):
            continue
        path = path if is_joined else arguments[at + 1]
        name = f"{before}{flag[2:]}-{Path(path).name}"
        files[name] = path
        arguments[at + (0 if is_joined else 1)] = f"{flag}={name}" if is_joined else name
    return files


def printed_of(point: int) -> str:
    return f"printed-{point}"


def points_of(path: str) -> Points:
    """Reads a list of points; ValueError with the reason if it is none."""
    listed = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(listed, list):
        raise ValueError("expected a list of points")
    points = Points("", {}, [], [])
    for at, each in enumerate(listed):
        arguments = each.get("arguments") if isinstance(each, dict) else None
        if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
            raise ValueError(f'point {at}: expected an object with "arguments"')
        files = files_of(arguments, f"{at}-")
        points.files.update(files)
        points.results.append(list(files))
        if isinstance(each.get("output"), str):
            name = printed_of(at)
            points.files[name] = each["output"]
            each["output"] = f"/dev/fd/{ssh_rank.FIRST_DESCRIPTOR + len(points.printed)}"
            points.printed.append(name)
    points.text = json.dumps(listed)
    return points


def main(words: list[str]) -> int:
    if words[:1] != ["--host"] or words[2:3] != ["--"] or len(words) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    hosts = []
    for word in words[1].split(","):
        host, _, ranks = word.rpartition(":")
        if not is_host(host) or not ranks.isdigit() or int(ranks) == 0:
            print(f"ssh: --host {word}: expected HOST:RANKS", file=sys.stderr)
            return 2
        hosts.append((host, int(ranks)))
    arguments, points = words[4:], None
    if arguments[:1] == ["points"] and len(arguments) == 2:
        try:
            points = points_of(arguments[1])
        except (OSError, ValueError, RecursionError) as error:
            print(f"ssh: {arguments[1]}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            return 2
        arguments = ["points", "/dev/stdin"]
    try:
        launch = Launch([(host, ranks) for host, ranks in hosts], words[3], arguments, points)
    except OSError as error:
        print(f"ssh: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1

    def end(number: int, _: FrameType | None) -> None:
        for seat in launch.seats:
            seat.process.terminate()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    return launch.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
