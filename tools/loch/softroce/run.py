"""One run of `loch softroce`: starts the machines, runs COMMAND on the first, and removes everything at the end."""

from __future__ import annotations

import fcntl
import os
import selectors
import shutil
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from loch.softroce import image as images
from loch.softroce.machine import Hardware, Machine, start
from loch.softroce.switch import Switch

HERE = Path(__file__).resolve().parent
BOOT_LIMIT_S = 120  # limit for booting: this many seconds times the number of machines, which share the host's cores
SYNC_LIMIT_S = 20
QUIET_S = 4  # seconds after which a slow start prints its progress
STATUS_TIMEOUT, STATUS_NO_MACHINE, STATUS_KILLED = 124, 125, 137
# Environment variables that COMMAND does not inherit, because they name folders of the host or belong to the host's
# session or MPI launcher.
NOT_PASSED = ("TMPDIR", "HOSTNAME", "SHLVL", "_", "OLDPWD", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
FOLDER_PREFIX = "loch-softroce-"
NOT_PASSED_PREFIXES = ("SSH_", "OMPI_COMM_", "PMIX_", "PMI_", "ORTE_", "SLURM_")


@dataclass(frozen=True)
class Request:
    command: list[str]
    hosts: int
    timeout_s: float
    cpus: int
    memory_mb: int
    kills: list[tuple[int, float]]  # (number of the machine to kill, seconds after COMMAND's start)
    verbose: bool
    cache: Path


class Failed(Exception):
    """The machines cannot continue; `status` is the exit status of `loch softroce`."""

    def __init__(self, message: str, status: int = STATUS_NO_MACHINE) -> None:
        super().__init__(message)
        self.status = status


def say(text: str) -> None:
    print(f"loch: softroce: {text}", file=sys.stderr, flush=True)


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class Progress:
    """A message while machines start slowly: on a terminal it is erased once they run; where standard error is no
    terminal it is printed only after a longer wait."""

    def __init__(self, text: str) -> None:
        self._text, self._since, self._shown = text, time.monotonic(), False
        self._rewrites = sys.stderr.isatty()

    def look(self) -> None:
        if not self._shown and time.monotonic() - self._since >= QUIET_S * (1 if self._rewrites else 4):
            self._shown = True
            print(f"loch: softroce: {self._text}", end="" if self._rewrites else "\n", file=sys.stderr, flush=True)

    def over(self) -> None:
        if self._shown and self._rewrites:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._shown = True


class Run:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.machines: list[Machine] = []
        self.selector = selectors.PollSelector()  # unlike epoll, poll accepts regular files
        _remove_abandoned()
        # The folder's path becomes a kernel argument, so it must not contain blanks.
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir="/tmp"))
        self.lock = _locked(self.folder)
        self.status: int | None = None
        self.started: float | None = None
        self.kills = sorted(request.kills, key=lambda kill: kill[1])

    # ---- The steps of a run ------------------------------------------------------------------
    def execute(self) -> int:
        try:
            made = images.image(self.request.cache)
            self._write_folder()
            accelerator = images.accelerator(self.request.cache, made)
            self._start(made, Hardware(accelerator, self.request.cpus, self.request.memory_mb))
            self._boot(accelerator)
            self._command()
            self._wind_up()
            assert self.status is not None
            return self.status
        finally:
            self._end()

    def _write_folder(self) -> None:
        """Writes the files that the machines read when they start: command, environment, settings."""
        feeds = _standard_input_is_for_us()
        passed = {
            name: value
            for name, value in os.environ.items()
            if name not in NOT_PASSED and not name.startswith(NOT_PASSED_PREFIXES)
        }
        shutil.copy(HERE / "guest", self.folder / "guest")
        (self.folder / "settings").write_text(f"hosts={self.request.hosts}\nstdin={int(feeds)}\n")
        (self.folder / "folder").write_text(os.getcwd())
        (self.folder / "command").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in self.request.command))
        (self.folder / "environment").write_bytes(
            b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in passed.items())
        )
        if self.request.hosts > 1:
            images.tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "softroce", "-f", self.folder / "key")
            (self.folder / "sshd").symlink_to(images.sshd(self.request.cache))

    def _start(self, made: images.Image, hardware: Hardware) -> None:
        switch = Switch() if self.request.hosts > 1 else None
        for number in range(1, self.request.hosts + 1):
            network = switch.port(number) if switch else None
            machine = start(number, made, hardware, self.folder, network)
            self.machines.append(machine)
            self.selector.register(os.pidfd_open(machine.process.pid), selectors.EVENT_READ, ("end", machine))
            for name, end in machine.ports.items():
                if name != "in":
                    self.selector.register(end, selectors.EVENT_READ, (name, machine))
        if switch:
            switch.start()

    def _boot(self, accelerator: str) -> None:
        count = self.request.hosts
        progress = Progress(
            f"starting {'a machine' if count == 1 else f'{count} machines'} with a Soft-RoCE NIC"
            f"{' (emulated: no KVM here)' if accelerator == 'tcg' else ''}…"
        )
        limit = time.monotonic() + BOOT_LIMIT_S * count
        try:
            while any(machine.state != "ready" for machine in self.machines):
                progress.look()
                self._step(0.5)
                if time.monotonic() > limit:
                    slow = [machine for machine in self.machines if machine.state != "ready"]
                    raise Failed(
                        f"machine {slow[0].number} did not start within {BOOT_LIMIT_S * count} s{_tail(slow[0])}"
                    )
        finally:
            progress.over()

    def _command(self) -> None:
        for machine in self.machines:
            machine.tell("go")
        self.started = time.monotonic()
        if "stdin=1" in (self.folder / "settings").read_text():
            threading.Thread(target=_feed, args=(self.machines[0].ports["in"],), daemon=True).start()
        while self.status is None:
            elapsed = time.monotonic() - self.started
            if elapsed > self.request.timeout_s:
                raise Failed(
                    f"{self.request.command[0]} did not end within {self.request.timeout_s:g} s (--timeout): "
                    f"the machine was stopped",
                    STATUS_TIMEOUT,
                )
            while self.kills and elapsed >= self.kills[0][1]:
                self._kill(self.kills.pop(0)[0])
            until = [self.request.timeout_s - elapsed, 60.0] + [when - elapsed for _, when in self.kills[:1]]
            self._step(max(0.0, min(until)))

    def _wind_up(self) -> None:
        """Passes on the remaining output of COMMAND, and waits until the other virtual machines have written changed
        files back to the host."""
        first, *others = self.machines
        for name in ("out", "err"):
            self._take(name, first)
        for machine in others:
            machine.tell("stop")
        limit = time.monotonic() + SYNC_LIMIT_S
        while any(machine.alive and machine.state != "synced" for machine in others):
            self._step(0.5)
            if time.monotonic() > limit:
                say("a machine did not write its files back in time")
                return

    def _end(self) -> None:
        for machine in self.machines:
            machine.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- Handling of messages and ends of machines -------------------------------------------
    def _step(self, seconds: float) -> None:
        ends = []
        for key, _ in self.selector.select(seconds):
            name, machine = key.data
            if name == "end":
                ends.append((key, machine))
            elif not self._take(name, machine):
                self.selector.unregister(key.fileobj)
        # machines that have ended are handled last, after the output that they wrote before
        for key, machine in ends:
            self.selector.unregister(key.fileobj)
            os.close(key.fd)
            self._ended(machine)

    def _take(self, name: str, machine: Machine) -> bool:
        """Reads what has arrived at a port (socket) of a machine; returns False once the port is closed."""
        while True:
            try:
                data = machine.ports[name].recv(1 << 18, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionResetError:
                return False
            if not data:
                return False
            if name in ("out", "err"):
                write_all(1 if name == "out" else 2, data)
            else:
                self._lines(name, machine, data)

    def _lines(self, name: str, machine: Machine, data: bytes) -> None:
        pending = machine.pending[name]
        pending += data
        *lines, rest = bytes(pending).split(b"\n")
        pending[:] = rest
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r")
            if name == "console":
                machine.console.append(text)
                if self.request.verbose:
                    print(f"loch{machine.number}| {text}", file=sys.stderr, flush=True)
            elif name == "control":
                self._heard(machine, text)
            else:
                self._asked(text)

    def _heard(self, machine: Machine, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word == "status":
            self.status = int(rest)
        elif word == "failed":
            raise Failed(f"machine {machine.number}: {rest}{_tail(machine)}")
        else:
            machine.state = word

    def _asked(self, text: str) -> None:
        """Handles a request, such as `kill 2`, that a program in a machine wrote to $LOCH_MACHINES."""
        word, _, rest = text.partition(" ")
        if word == "kill" and rest.isdigit() and 1 <= int(rest) <= len(self.machines):
            self._kill(int(rest))
        else:
            say(f"unknown request '{text}': expected 'kill K' with K in 1..{len(self.machines)}")

    def _kill(self, number: int) -> None:
        self.machines[number - 1].state = "killed"
        self.machines[number - 1].kill()

    def _ended(self, machine: Machine) -> None:
        machine.kill()  # waits for the ended process, so that no zombie is left
        running = self.started is not None
        if machine.state == "killed" and machine.number > 1:
            return
        if machine.state == "killed":
            raise Failed("machine 1, which ran the command, was killed", STATUS_KILLED)
        if self.status is not None:
            return
        if running and machine.number > 1:
            machine.state = "ended"
            say(f"machine {machine.number} ended by itself{_tail(machine)}")
            return
        log = (self.folder / f"qemu-{machine.number}.log").read_text(errors="replace").strip()
        raise Failed(f"machine {machine.number} ended by itself{': ' + log if log else ''}{_tail(machine)}")


def _locked(folder: Path) -> int:
    """Creates and locks the file whose lock shows that the run of `folder` is under way; it is never visible
    unlocked."""
    descriptor = os.open(folder / "lock.new", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / "lock")
    return descriptor


def _remove_abandoned() -> None:
    """Removes folders of earlier runs that were killed before they could remove their folders."""
    for lock in Path("/tmp").glob(f"{FOLDER_PREFIX}*/lock"):
        try:
            if lock.parent.lstat().st_uid != os.geteuid():
                continue
            with lock.open("r+") as opened:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # the folder's lock is held: its run is under way


def _tail(machine: Machine) -> str:
    """The last lines of a machine's console, for an error message."""
    lines = [line for line in machine.console if line.strip()][-8:]
    return "; its console said:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def _standard_input_is_for_us() -> bool:
    """Whether standard input may be read: a background job that reads from its terminal would be stopped."""
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _feed(port: socket.socket) -> None:
    """Copies standard input to COMMAND's; at the end only the sending side is closed, as a full close could lose
    data."""
    try:
        while data := os.read(0, 1 << 16):
            port.sendall(data)
        port.shutdown(socket.SHUT_WR)
    except OSError:
        pass
