#!/usr/bin/env python3
"""Starts the ranks of loch-bench by ssh, without mpirun and without a folder that the hosts share.

usage: ssh_launch.py --host HOST:RANKS[,HOST:RANKS…] -- PROGRAM ARGUMENT…

What the ranks' launchers say to each other travels over the standard input and output of the ssh connections
(ssh_rank.py is at their other end), so that nothing listens; only its sender and its receiver can read it or make it
up, as in a shared folder. The files of --json and --history come back to where they were asked for.
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

    def __init__(self, hosts: list[tuple[str, int]], program: str, arguments: list[str]) -> None:
        self.program, self.arguments = program, arguments
        self.files = files_of(self.arguments)
        self.changed = threading.Condition()
        self.fault = ""
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
        return next((status if status > 0 else 1 for status in ended if status), 0) if ended else 1

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
        return {
            "program": self.program,
            "arguments": self.arguments,
            "environment": {name: os.environ[name] for name in sorted(names)},
            "rank": seat.rank,
            "ranks": len(self.seats),
            "rank_here": seat.rank_here,
            "ranks_here": seat.ranks_here,
            "job": job,
            "files": list(self.files),
        }

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
            seat.has_written = True
            with open(self.files[name], "ab" if rank else "wb") as written:
                written.write(data)
        else:
            with self.changed:
                if kind == ssh_rank.BEGUN:
                    seat.has_begun = True
                elif kind == ssh_rank.FAULT:
                    self.fault = self.fault or f"{seat.name}: {name}"
                elif kind == ssh_rank.END:
                    seat.status = int(name)
                self.changed.notify_all()

    def tell(self, seat: Seat) -> None:
        """Passes on what a rank or its ssh says on standard error; until the rank has begun it is kept."""
        stream = seat.process.stderr
        assert stream is not None
        for line in stream:
            if seat.has_begun:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
            elif line.strip():
                seat.said.append(line.decode(errors="replace").strip())

    def close(self) -> None:
        """Ends every connection, and with it the rank at its other end."""
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


def files_of(arguments: list[str]) -> dict[str, str]:
    """Replaces the files to be brought back, in place, by names in the rank's own folder; returns where they belong."""
    files = {}
    for at, word in enumerate(arguments):
        flag, is_joined, path = word.partition("=")
        if flag not in RESULTS or (not is_joined and at + 1 == len(arguments)):
            continue
        path = path if is_joined else arguments[at + 1]
        name = f"{flag[2:]}-{Path(path).name}"
        files[name] = path
        arguments[at + (0 if is_joined else 1)] = f"{flag}={name}" if is_joined else name
    return files


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
    try:
        launch = Launch([(host, ranks) for host, ranks in hosts], words[3], words[4:])
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
