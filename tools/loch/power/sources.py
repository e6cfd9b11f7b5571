"""Sources of power readings: a BMC (ipmi.py), the processors' energy counters (RAPL), and `loch power` on another
host."""

from __future__ import annotations

import csv
import os
import re
import shlex
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, Protocol

from .ipmi import Bmc, Ipmi
from .samples import PowerError, Sample, parse_row

# Folder of the kernel's RAPL counters; tests set LOCH_POWERCAP to a folder of their own.
POWERCAP = Path(os.environ.get("LOCH_POWERCAP", "/sys/class/powercap"))
_BASE_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Nanoseconds since 1970; continues evenly if the wall clock is set while the process runs."""
    return _BASE_NS + time.monotonic_ns()


class Source(Protocol):
    """A source of power readings: each call of sample() returns one sample or raises PowerError."""

    host: str

    def describe(self) -> dict[str, object]:
        ...

    def sample(self) -> Sample:
        ...

    def close(self) -> None:
        ...


class IpmiSource:
    """Samples the power that a BMC reads; the time of a sample is the middle of the call of ipmitool."""

    def __init__(self, bmc: Bmc, sensor: str | None) -> None:
        self._ipmi = Ipmi(bmc, sensor)
        self.host = self._ipmi.host

    def describe(self) -> dict[str, object]:
        return self._ipmi.describe()

    def sample(self) -> Sample:
        asked = now_ns()
        watts = self._ipmi.read()
        return Sample((asked + now_ns()) // 2, self.host, self._ipmi.name, watts)

    def close(self) -> None:
        self._ipmi.close()


class Rapl:
    """Samples the energy counters (RAPL) of this machine's processor packages and memory.

    NICs, disks, fans and losses in the power supply are not included. A sample is the mean power since the previous
    sample; its time is the middle between the two readings.
    """

    def __init__(self, root: Path = POWERCAP, clock: Callable[[], int] = now_ns) -> None:
        self.host = socket.gethostname()
        self._clock = clock
        self._zones = _zones(root)
        self._last = self._read()

    def describe(self) -> dict[str, object]:
        return {"kind": "rapl", "zones": [name for name, _, _ in self._zones]}

    def sample(self) -> Sample:
        (t0, before), (t1, after) = self._last, self._read()
        if t1 <= t0:
            raise PowerError("rapl: two readings at one instant")
        self._last = (t1, after)
        joules = 0.0
        for (_, _, wrap_uj), old, new in zip(self._zones, before, after):
            # after `wrap_uj` microjoules the counter starts again at 0
            joules += (new - old if new >= old else new - old + wrap_uj) / 1e6
        return Sample((t0 + t1) // 2, self.host, "rapl", joules / ((t1 - t0) / 1e9))

    def close(self) -> None:
        pass

    def _read(self) -> tuple[int, list[int]]:
        return self._clock(), [_counter(folder) for _, folder, _ in self._zones]


def _counter(folder: Path) -> int:
    """The energy counter of a RAPL zone in microjoules, since an arbitrary start."""
    try:
        return int((folder / "energy_uj").read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise PowerError(f"--source rapl: {folder / 'energy_uj'}: {error}") from None


def _zones(root: Path) -> list[tuple[str, Path, int]]:
    """The RAPL zones (name, folder, counter range in µJ) that add up to the machine: packages and their memory.

    A package's zone includes its cores, which are left out; it does not include its memory.
    """
    found = []
    for folder in sorted(root.glob("*:*")):
        # zones named intel-rapl-mmio count the same packages a second time
        if not re.fullmatch(r"intel-rapl(:\d+){1,2}", folder.name):
            continue
        try:
            name = (folder / "name").read_text(encoding="ascii").strip()
            if not name.startswith("package") and name != "dram":
                continue
            wrap = int((folder / "max_energy_range_uj").read_text(encoding="ascii"))
            (folder / "energy_uj").read_text(encoding="ascii")
        except PermissionError:
            raise PowerError(
                f"--source rapl: {folder}/energy_uj may be read by root alone (as since Linux 5.10)"
            ) from None
        except (OSError, ValueError) as error:
            raise PowerError(f"--source rapl: {folder}: {error}") from None
        found.append((f"{folder.name} {name}", folder, wrap))
    if not found:
        raise PowerError(
            f"--source rapl: no package in {root}: no such processor, a virtual machine, or the module "
            "intel_rapl_msr is not loaded"
        )
    return found


class Remote:
    """The power of another host: runs `loch power --stream` there by ssh, and reads a sample from each line.

    The clocks of the two hosts are assumed to agree.
    """

    def __init__(self, host: str, command: list[str]) -> None:
        self.host = host
        # ssh joins its words with blanks and gives the result to a shell on the other host, so the command is passed as
        # one word, quoted for that shell. After `--` ssh takes no word as an option.
        words = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, shlex.join(command)]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise PowerError(f"{host}: cannot start ssh: {error.strerror}") from None
        self._first = self._line()

    def describe(self) -> dict[str, object]:
        return {"kind": "remote", "host": self.host, "source": self._first.source}

    def sample(self) -> Sample:
        return self._line()

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()  # `loch power --stream` on the other host ends when its standard input ends
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()

    def _line(self) -> Sample:
        assert self._process.stdout and self._process.stderr
        text = self._process.stdout.readline()
        if not text:
            said = self._process.stderr.read().strip().splitlines()
            raise PowerError(f"{self.host}: {said[-1] if said else 'ssh ended without a word'}")
        try:
            row = next(csv.reader([text]))
        except csv.Error as error:
            raise PowerError(f"{self.host}: no sample: {error}") from None
        sample = parse_row(row, self.host)
        return Sample(sample.t_ns, self.host, sample.source, sample.watts)
