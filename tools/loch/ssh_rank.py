"""Runs one rank of loch-bench on the host that ssh reached: the program that ssh_launch.py sends over the connection.

The rank exchanges messages with the others through files in a folder of its own, which this program carries: a file
for another rank goes out by standard output, one from another rank comes in by standard input. It needs nothing but
Python and the program, and listens nowhere. The list of points that rank 0 gets, and what ranks print of each point,
are files of memory without a name.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

# A frame: its kind, a rank, the lengths of a name and of data, which follow.
HEADER = struct.Struct(">cIHI")
START, BEGUN, ITEM, OUTPUT, FILE, POINT, END, FAULT = b"S", b"B", b"I", b"O", b"F", b"P", b"E", b"X"
LOOK_EVERY_S = 0.002  # between two looks for files to carry, in seconds
PRINTED_EVERY_S = 0.25  # between two looks for what has been printed of points, in seconds
FIRST_DESCRIPTOR = 100  # of the files for what is printed of points: the same number in every rank, above those in use
PIECE = 1 << 20  # most bytes of a frame's data
# Variables of another launcher, which a rank would take for its own.
OTHERS = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "MPI_LOCAL")


def memory_file() -> int:
    """The descriptor of a file without a name, in memory."""
    descriptor = int(ctypes.CDLL(None, use_errno=True).memfd_create(b"loch", 1))  # MFD_CLOEXEC
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "memfd_create")
    return descriptor


def ended_point(line: bytes) -> int | None:
    """The number of the point whose end a line of `loch-bench points` tells; None for another line."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    is_end = isinstance(said, dict) and isinstance(said.get("point"), int) and ("status" in said or "signal" in said)
    return said["point"] if is_end else None


class Printed:
    """What a rank prints of one point: a file of memory at a descriptor that the rank inherits."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name, self.descriptor, self.sent = name, descriptor, 0
        made = memory_file()
        os.dup2(made, descriptor, inheritable=False)
        os.close(made)

    def news(self) -> bytes:
        """What has been printed since the last call, at most PIECE bytes of it."""
        data = os.pread(self.descriptor, PIECE, self.sent)
        self.sent += len(data)
        return data


def put(stream: BinaryIO, lock: threading.Lock, kind: bytes, rank: int, name: str, data: bytes) -> None:
    encoded = name.encode()
    with lock:
        stream.write(HEADER.pack(kind, rank, len(encoded), len(data)) + encoded + data)
        stream.flush()


def get(stream: BinaryIO) -> tuple[bytes, int, str, bytes] | None:
    """The next frame; None at the end of the stream, also within a frame."""
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    kind, rank, name_length, length = HEADER.unpack(head)
    rest = stream.read(name_length + length)
    if len(rest) < name_length + length:
        return None
    return kind, rank, rest[:name_length].decode(), rest[name_length:]


class Rank:
    """A rank's program, its folder, and the connection to the launcher."""

    def __init__(self, folder: Path, start: dict[str, Any], incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self.folder, self.start, self.incoming, self.outgoing = folder, start, incoming, outgoing
        self.rank = int(start["rank"])
        self.board = folder / f".loch-pmi-{os.getuid()}-{start['job']}"
        self.lock = threading.Lock()
        self.folder_lock = threading.Lock()  # held while anything is put into the folder
        self.has_ended = False
        self.is_told_to_end = threading.Event()
        self.child: subprocess.Popen[bytes] | None = None
        self.printed = [Printed(name, FIRST_DESCRIPTOR + at) for at, name in enumerate(start.get("printed", ()))]
        self.printed_lock = threading.Lock()
        self.printed_looked = 0.0  # time of the last look for what has been printed

    def say(self, kind: bytes, rank: int = 0, name: str = "", data: bytes = b"") -> None:
        put(self.outgoing, self.lock, kind, rank, name, data)

    def run(self) -> None:
        program = self.start["program"]
        if not os.access(program, os.X_OK):
            self.say(FAULT, name=f"{program} is not there: Loch has to be built at the same path on every host")
            return
        environment = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        environment |= self.start["environment"]
        environment |= {
            "LOCH_RENDEZVOUS": str(self.folder),
            "PMI_RANK": str(self.rank),
            "PMI_SIZE": str(self.start["ranks"]),
            "PMI_JOBID": self.start["job"],
            "MPI_LOCALNRANKS": str(self.start["ranks_here"]),
            "MPI_LOCALRANKID": str(self.start["rank_here"]),
        }
        work = self.folder / "work"
        work.mkdir()
        listed = self.listed()
        library = ctypes.CDLL(None)
        self.child = child = subprocess.Popen(
            [program, *self.start["arguments"]],
            cwd=work,
            env=environment,
            stdin=listed,
            stdout=subprocess.PIPE,
            pass_fds=[each.descriptor for each in self.printed],
            preexec_fn=lambda: library.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG: it does not outlive this program
        )
        if listed >= 0:
            os.close(listed)
        self.say(BEGUN)
        threading.Thread(target=self.take, args=(child,), daemon=True).start()
        printing = threading.Thread(target=self.print_of, args=(child, work), daemon=True)
        printing.start()
        while child.poll() is None:
            if self.is_told_to_end.is_set():
                return
            self.carry()
            time.sleep(LOOK_EVERY_S)
        self.carry()
        printing.join(5)
        self.send_printed()
        for name in self.start["files"]:
            self.send_file(work / name, name)
        self.say(END, name=str(child.returncode))

    def listed(self) -> int:
        """The rank's standard input: the list of points, if it is the one that reads it."""
        if "list" not in self.start:
            return subprocess.DEVNULL
        descriptor = memory_file()
        with os.fdopen(os.dup(descriptor), "wb") as stream:
            stream.write(self.start["list"].encode())
        return descriptor

    def end(self) -> None:
        """Kills the rank; nothing is put into its folder from now on."""
        with self.folder_lock:
            self.has_ended = True
        if self.child is not None:
            self.child.kill()
            self.child.wait()

    def remove_folder(self) -> None:
        """Removes the folder once nothing writes into it: the kernel ends the rank's worker a little after the rank."""
        for _ in range(100):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.05)

    def take(self, child: subprocess.Popen[bytes]) -> None:
        """Puts what comes from other ranks into the rank's own folder; when the launcher is gone, ends the rank."""
        inbox = self.board / str(self.rank)
        while frame := get(self.incoming):
            kind, _, name, data = frame
            if kind != ITEM or "/" in name:
                continue
            with self.folder_lock:
                if self.has_ended:
                    break
                inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
                partial = self.folder / "arriving"
                partial.write_bytes(data)
                os.replace(partial, inbox / name)
        child.kill()

    def print_of(self, child: subprocess.Popen[bytes], work: Path) -> None:
        assert child.stdout is not None
        if self.rank == 0 and self.start.get("points"):
            for line in child.stdout:
                self.pass_on(line, work)
        while data := os.read(child.stdout.fileno(), 65536):
            self.say(OUTPUT, data=data)

    def pass_on(self, line: bytes, work: Path) -> None:
        """Sends a line of rank 0, and before the one that tells a point's end what the point has left."""
        point = ended_point(line)
        if point is None or not 0 <= point < len(self.start["points"]):
            self.say(OUTPUT, data=line)
            return
        self.send_printed()
        for name in self.start["points"][point]:
            self.send_file(work / name, name)
            (work / name).unlink(missing_ok=True)
        self.say(POINT, point, data=line)

    def send_printed(self) -> None:
        """Sends what has been printed of points since the last call."""
        with self.printed_lock:
            self.printed_looked = time.monotonic()
            for each in self.printed:
                while data := each.news():
                    self.say(FILE, 1, each.name, data)

    def carry(self) -> None:
        """Sends every complete file for another rank, and removes it. What the rank has printed before goes first: when the
        ranks have agreed that a point is over, the launcher has what each of them has printed of it."""
        if time.monotonic() - self.printed_looked > PRINTED_EVERY_S:
            self.send_printed()
        try:
            boxes = [entry for entry in os.scandir(self.board) if entry.name != str(self.rank)]
        except FileNotFoundError:
            return
        for box in boxes:
            try:
                items = [entry for entry in os.scandir(box) if not entry.name.endswith(".part")]
                if items:
                    self.send_printed()
                for item in items:
                    data = Path(item).read_bytes()
                    os.unlink(item)
                    self.say(ITEM, int(box.name), item.name, data)
            except FileNotFoundError:
                continue  # the rank itself has removed what it had left for one that is lost

    def send_file(self, path: Path, name: str) -> None:
        if not path.is_file():
            return
        with path.open("rb") as stream:
            data = stream.read(PIECE)
            self.say(FILE, 0, name, data)  # the first piece, also of an empty file, begins it
            while data := stream.read(PIECE):
                self.say(FILE, 1, name, data)


def main() -> None:
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but frames goes to the launcher
    frame = get(incoming)
    if frame is None:
        return
    start = json.loads(frame[3])
    is_told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_told.set())  # the folder is removed then too
    try:
        rank = Rank(Path(tempfile.mkdtemp(prefix="loch-ssh-")), start, incoming, outgoing)
        rank.is_told_to_end = is_told
        try:
            rank.run()
        finally:
            rank.end()
            rank.remove_folder()
    except BrokenPipeError:
        pass  # the launcher is gone
    finally:
        sys.stderr.flush()
        os._exit(0)  # a thread may still be reading standard input, which Python would wait for


if __name__ == "__main__":
    main()
