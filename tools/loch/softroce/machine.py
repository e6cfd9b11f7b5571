"""One virtual machine in QEMU: its command line, its sockets, its start and its end."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path

from loch.softroce.image import Image
from loch.softroce.switch import mac

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
CONSOLE_LINES_KEPT = 40
HUGE_PAGE_MB = 2
HUGE_SHARE = 8  # one byte in HUGE_SHARE of the machine's memory is in huge pages


@dataclass(frozen=True)
class Hardware:
    accelerator: str
    cpus: int
    memory_mb: int


@dataclass
class Machine:
    """A running QEMU. `ports` are this side's ends of socket pairs that QEMU inherited, so no socket files remain."""

    number: int
    process: subprocess.Popen[bytes]
    ports: dict[str, socket.socket]
    # by port, the bytes of a line whose end has not arrived
    pending: defaultdict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    console: deque[str] = field(default_factory=lambda: deque(maxlen=CONSOLE_LINES_KEPT))
    state: str = "starting"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def tell(self, line: str) -> None:
        try:
            self.ports["control"].sendall(line.encode() + b"\n")
        except OSError:
            pass  # QEMU has ended; the run finds that out by watching QEMU's process

    def kill(self) -> None:
        """Kills the machine at once, as a crash would: it writes no data back to the host."""
        if self.alive:
            self.process.kill()
        self.process.wait()


def die_with_parent() -> None:
    """Runs in the child before exec: has the kernel kill QEMU when the launcher ends for any reason."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(number: int, image: Image, hardware: Hardware, run: Path, network: socket.socket | None) -> Machine:
    """Starts machine `number`; machines after the first have only a console and a control port."""
    names = ["console", "control"] + (["out", "err", "in", "requests"] if number == 1 else [])
    ours: dict[str, socket.socket] = {}
    theirs: dict[str, socket.socket] = {}
    for name in names:
        ours[name], theirs[name] = socket.socketpair()
        ours[name].setblocking(name in ("control", "in"))
    numbers = {name: end.fileno() for name, end in theirs.items()}
    command = _command(number, image, hardware, run, numbers, network)
    with (run / f"qemu-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=[*numbers.values(), *([network.fileno()] if network else [])],
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    for end in theirs.values():
        end.close()
    if network:
        network.close()
    return Machine(number, process, ours)


# CPU features hidden from the guest. Soft-RoCE copies data with the kernel's memcpy, which on a processor with ERMS is
# `rep movsb`; QEMU emulates it byte by byte, so a READ could return half of an 8-byte word that is being written.
WHOLE_WORDS = "erms=off,fsrm=off"


def _command(
    number: int, image: Image, hardware: Hardware, run: Path, numbers: dict[str, int], network: socket.socket | None
) -> list[str]:
    kvm = hardware.accelerator == "kvm"
    kernel = [
        "console=ttyS0",
        "quiet",
        "panic=-1",
        "mitigations=off",
        "random.trust_cpu=on",
        f"hugepages={hardware.memory_mb // HUGE_PAGE_MB // HUGE_SHARE}",
        f"loch.run={run}",
        f"loch.machine={number}",
    ]
    if not kvm:  # an emulated guest cannot calibrate its time stamp counter, which is the host's and runs steadily
        kernel += ["tsc=reliable", "no_timer_check"]
    command = [
        "qemu-system-x86_64",
        "-name",
        f"loch{number}",
        "-accel",
        "kvm" if kvm else "tcg,thread=multi",
        "-cpu",
        f"{'host' if kvm else 'max'},{WHOLE_WORDS}",
        "-smp",
        str(hardware.cpus),
        "-m",
        str(hardware.memory_mb),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-kernel",
        str(image.kernel),
        "-initrd",
        str(image.initrd),
        "-append",
        " ".join(kernel),
        "-virtfs",
        "local,path=/,mount_tag=hostroot,security_model=none,multidevs=remap",
        "-device",
        "virtio-serial-pci,max_ports=8",
        "-chardev",
        f"socket,id=console,fd={numbers['console']}",
        "-serial",
        "chardev:console",
    ]
    for port, name in enumerate(("control", "out", "err", "in", "requests"), 1):
        if name in numbers:
            command += [
                "-chardev",
                f"socket,id={name},fd={numbers[name]}",
                "-device",
                f"virtserialport,chardev={name},nr={port},name=loch.{name}",
            ]
    if network:
        command += [
            "-netdev",
            f"dgram,id=net,local.type=fd,local.str={network.fileno()}",
            "-device",
            f"virtio-net-pci,netdev=net,mac={mac(number)},romfile=",
        ]
    return command
