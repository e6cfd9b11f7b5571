"""Raw samples of power, and the energy between two instants. Samples are stored as they were read, never resampled."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, TextIO

from loch.ending import CommandError, one_line, reason

BYTES_MAX = 64 << 20
HEADER = ("t_ns", "host", "source", "watts")


class PowerError(CommandError):
    """An error of `loch power` that its caller can correct; the message is one line."""


class Failed(PowerError):
    """The measurement failed after it had begun, for example because samples are missing."""

    status = 1


@dataclass(frozen=True)
class Sample:
    t_ns: int  # time of the sample, in nanoseconds since 1970
    host: str  # host whose power was sampled
    source: str  # origin of the reading: "ipmi dcmi", "ipmi sensor NAME" or "rapl"
    watts: float


@dataclass(frozen=True)
class Span:
    """A time span with its begin and end in nanoseconds since 1970."""

    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(frozen=True)
class Energy:
    """Energy and mean power of a host over a time span."""

    joules: float
    seconds: float
    samples: int  # number of samples inside the span
    longest_gap_s: float  # longest time in the span without a sample, in seconds

    @property
    def mean_w(self) -> float:
        return self.joules / self.seconds


def integrate(samples: list[Sample], span: Span) -> Energy:
    """Energy of one host over `span`: the integral of straight lines between samples.

    Before the first sample and after the last one, power is taken as constant.
    """
    if not samples:
        raise PowerError("no sample of power was taken")
    if span.end_ns <= span.begin_ns:
        raise PowerError("the span to integrate over is empty")
    ordered = sorted(samples, key=lambda each: each.t_ns)
    inside = [each for each in ordered if span.begin_ns <= each.t_ns <= span.end_ns]
    corners = [
        (span.begin_ns, _at(ordered, span.begin_ns)),
        *((each.t_ns, each.watts) for each in inside),
        (span.end_ns, _at(ordered, span.end_ns)),
    ]
    pairs = list(zip(corners, corners[1:]))
    joules = math.fsum((t1 - t0) / 1e9 * (w0 + w1) / 2 for (t0, w0), (t1, w1) in pairs)
    return Energy(joules, span.seconds, len(inside), max((t1 - t0) / 1e9 for (t0, _), (t1, _) in pairs))


def _at(ordered: list[Sample], t_ns: int) -> float:
    """Watts at the instant `t_ns`, by linear interpolation between the samples before and after it."""
    before = [each for each in ordered if each.t_ns <= t_ns][-1:]
    after = [each for each in ordered if each.t_ns >= t_ns][:1]
    if not before or not after:
        return (before or after)[0].watts
    (left,), (right,) = before, after
    if left.t_ns == right.t_ns:
        return left.watts
    share = (t_ns - left.t_ns) / (right.t_ns - left.t_ns)
    return left.watts + share * (right.watts - left.watts)


def by_host(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """The samples of each host; hosts are in the order in which they first appear."""
    out: dict[str, list[Sample]] = {}
    for each in samples:
        out.setdefault(each.host, []).append(each)
    return out


def write(stream: TextIO, samples: Iterable[Sample]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((each.t_ns, each.host, each.source, f"{each.watts:g}") for each in samples)


def read(path: Path) -> list[Sample]:
    """Reads a trace file of samples; raises PowerError with file and line if it is malformed."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise PowerError(f"{path}: larger than {BYTES_MAX >> 20} MiB")
        rows = list(csv.reader(data.decode("utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PowerError(f"{path}: cannot be read ({reason(error)})") from None
    if not rows or tuple(rows[0]) != HEADER:
        raise PowerError(f"{path}:1: expected the header line {','.join(HEADER)}")
    samples = [parse_row(row, f"{path}:{number}") for number, row in enumerate(rows[1:], 2)]
    if not samples:
        raise PowerError(f"{path}: holds no sample")
    for host, own in by_host(samples).items():
        for earlier, later in zip(own, own[1:]):
            if later.t_ns <= earlier.t_ns:
                raise PowerError(f"{path}: the samples of {host} do not go forward in time at t_ns {later.t_ns}")
    return samples


def parse_row(row: list[str], where: str) -> Sample:
    """Parses one row of a trace; `where` is the file and line for an error message."""
    if len(row) != len(HEADER):
        raise PowerError(f"{where}: expected {len(HEADER)} fields, {','.join(HEADER)}; found {len(row)}")
    try:
        sample = Sample(int(row[0]), row[1], row[2], float(row[3]))
        if sample.t_ns >= 2**63:
            raise ValueError
    except ValueError:
        raise PowerError(
            f"{where}: expected a whole t_ns and a number of watts, found {one_line(','.join(row)[:80])}"
        ) from None
    if not sample.host or not math.isfinite(sample.watts) or sample.watts < 0 or sample.t_ns < 0:
        raise PowerError(
            f"{where}: expected a host, and t_ns and watts of at least 0, found {one_line(','.join(row)[:80])}"
        )
    return sample
