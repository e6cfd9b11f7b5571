"""Where watts come from: a BMC (ipmi.py), the processor's own counters (RAPL), a trace, or another host's `loch power`."""

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

# A test has its own tree of these.
POWERCAP = Path(os.environ.get("LOCH_POWERCAP", "/sys/class/powercap"))
_BASE_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Since 1970; goes on evenly when somebody sets the clock."""
    return _BASE_NS + time.monotonic_ns()


class Source(Protocol):
    """Gives one sample for each call. Raises PowerError when it cannot."""

    host: str

    def describe(self) -> dict[str, object]:
        ...

    def sample(self) -> Sample:
        ...

    def close(self) -> None:
        ...


class IpmiSource:
    """A BMC. A reading is dated half-way through the call that brought it."""

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
    """Packages and memory of this machine's processors. No NIC, no disks, no fans, no loss in the power supply.

    A sample is the mean since the one before, dated half-way between the two."""

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
            joules += (new - old if new >= old else new - old + wrap_uj) / 1e6  # the counter starts over after wrap_uj
        return Sample((t0 + t1) // 2, self.host, "rapl", joules / ((t1 - t0) / 1e9))

    def close(self) -> None:
        pass

    def _read(self) -> tuple[int, list[int]]:
        return self._clock(), [_counter(folder) for _, folder, _ in self._zones]


def _counter(folder: Path) -> int:
    """Microjoules, from wherever the counter began."""
    try:
        return int((folder / "energy_uj").read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise PowerError(f"--source rapl: {folder / 'energy_uj'}: {error}") from None


def _zones(root: Path) -> list[tuple[str, Path, int]]:
    """Zones that do not overlap: of every package, itself (its cores are in it) and its memory (which is not)."""
    found = []
    for folder in sorted(root.glob("*:*")):
        if not re.fullmatch(r"intel-rapl(:\d+){1,2}", folder.name):  # intel-rapl-mmio counts the packages again
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
    """Another host's source: `loch power --stream` there, by ssh, and its samples line by line. Clocks are taken to agree."""

    def __init__(self, host: str, command: list[str]) -> None:
        self.host = host
        # ssh joins its words with blanks, and a shell there reads them: it gets one word, quoted so that the shell
        # finds those of `command` again. What follows -- is no option.
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
            self._process.stdin.close()  # which ends the other end
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
