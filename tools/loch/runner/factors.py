"""What `loch run --samples` draws at random (factors), as a Latin hypercube: constants of hardware profiles that state
a range, options whose values a paper leaves open (readings, plots/published/readings.yaml), and options of which
nothing is known but a range (assumptions, plots/published/assumptions.yaml)."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from loch.places import SOURCE

from . import grid, located
from .errors import BadInput
from .grid import Point
from .model import Experiment, System
from .options import BENCH, file_named
from .readings import Reading, is_of, is_open, readings, takes

ASSUMPTIONS = Path(SOURCE) / "plots" / "published" / "assumptions.yaml"
DEFAULT_HARDWARE = "connectx3-10gbe"  # the default of bench's --hardware
_POWERS_OF_TWO = ("nic.atomic_buckets",)


@dataclass(frozen=True)
class Range:
    """The range from which one constant of one hardware profile is drawn, in the constant's unit."""

    low: float
    high: float
    is_log: bool
    is_whole: bool
    source: str

    def at(self, share: float, key: str) -> str:
        """The value at a share from 0 to 1 of the range, as text for --hardware-set."""
        if self.is_log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        if key in _POWERS_OF_TWO:
            return str(2 ** round(math.log2(max(1.0, value))))
        return str(round(value)) if self.is_whole else f"{value:.6g}"


@dataclass(frozen=True)
class Assumption:
    """An option of which nothing is known but a range. It is off (its default) in every result but those of
    `loch run --samples`, and so in the score."""

    option: str
    says: str  # what is assumed
    range: Range  # in `unit`
    unit: str
    papers: tuple[str, ...]  # ids of the papers in whose experiments it is drawn
    protocols: tuple[str, ...]  # the protocols that it is about


@dataclass(frozen=True)
class Factor:
    """One quantity that is drawn: a constant with its range in each hardware profile (`ranges`), what the paper leaves
    open with the names of its possible values (`reading`, `levels`), or an assumption (`assumed`)."""

    name: str
    ranges: tuple[tuple[str, Range], ...] = ()
    levels: tuple[str, ...] = ()
    source: str = ""
    assumed: Assumption | None = None
    reading: Reading | None = None

    def level(self, share: float) -> int:
        """Which of `levels` a share from 0 to 1 is."""
        return min(len(self.levels) - 1, int(share * len(self.levels)))

    def text(self, share: float, hardware: str | None = None) -> str | None:
        """The drawn value as text; None if the profile `hardware` gives the constant no range."""
        if self.levels:
            return self.levels[self.level(share)]
        if self.assumed is not None:
            return self.assumed.range.at(share, self.name) + self.assumed.unit
        found = dict(self.ranges).get(hardware or "")
        return found.at(share, self.name) if found else None


@dataclass
class Samples:
    """The random draws of one experiment: in draw i, factor j lies at the share `shares[i][j]` (0 to 1) of its
    range."""

    number: int
    seed: int
    binary: str  # path of loch-bench, which knows the options of each protocol
    factors: list[Factor] = field(default_factory=list)
    shares: list[list[float]] = field(default_factory=list)


@lru_cache(maxsize=None)
def ranges(binary: str, hardware: str) -> dict[str, Range]:
    """The constants of a hardware profile that have a range, by key."""
    done = subprocess.run(
        [binary, "describe", "--hardware", file_named(hardware)],
        capture_output=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise BadInput((done.stderr.decode("utf-8", "replace").strip().splitlines() or ["describe failed"])[-1])
    return {
        each["key"]: Range(
            float(each["low"]),
            float(each["high"]),
            bool(each["log"]),
            bool(each["is_whole"]),
            str(each.get("range_source") or each["source"]),
        )
        for each in json.loads(done.stdout)["constants"]
        if "low" in each and each["low"] < each["high"]
    }


def assumptions(path: Path = ASSUMPTIONS) -> list[Assumption]:
    """The assumptions of a file; BadInput with file and line if one lacks its source or its range."""
    if not path.is_file():
        return []
    out = []
    for item in located.load(path, ours=True).mapping()["assumptions"].items or []:
        entries = item.mapping()
        for key in ("option", "says", "low", "high", "unit", "papers", "protocols", "source"):
            if key not in entries or entries[key].value == "":
                raise item.error(
                    "an assumption needs option, says, low, high, unit, papers, protocols and source; missing", key
                )
        low, high = (entries[key].value for key in ("low", "high"))
        if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or low >= high:
            raise item.error("expected two numbers, low below high", "low")
        papers, protocols = (
            tuple(str(each.value) for each in entries[key].items or []) for key in ("papers", "protocols")
        )
        found = Range(float(low), float(high), False, True, str(entries["source"].value))
        option, says, unit = (str(entries[key].value) for key in ("option", "says", "unit"))
        out.append(Assumption(option, says, found, unit, papers, protocols))
    return out


def hardware_of(params: dict[str, Any]) -> str:
    return str(params.get("hardware", DEFAULT_HARDWARE))


def of(
    experiment: Experiment,
    binary: str,
    chosen: list[Reading] | None = None,
    assumed: list[Assumption] | None = None,
) -> list[Factor]:
    """What is drawn in an experiment, sorted by name: every constant with a range in a hardware profile that the
    experiment simulates, every reading that its paper leaves open and that the experiment does not itself vary, and
    every assumption about one of its systems."""
    profiles = sorted(
        {hardware_of(point.params) for point in grid.points(experiment) if point.params.get("fabric") == "sim"}
    )
    by_key: dict[str, list[tuple[str, Range]]] = {}
    for profile in profiles:
        for key, found in ranges(binary, profile).items():
            by_key.setdefault(key, []).append((profile, found))
    out = [Factor(key, tuple(found), source=found[0][1].source) for key, found in by_key.items()]
    source = experiment.paper.source if experiment.paper else ""
    for reading in readings() if chosen is None else chosen:
        if reading.is_about(experiment.paper) and is_open(experiment, reading, binary):
            out.append(Factor(reading.name, levels=reading.levels(), source=reading.source, reading=reading))
    for each in assumptions() if assumed is None else assumed:
        is_about = any(is_assumed_of(each, system) for system in experiment.systems)
        reading = Reading(each.option, (), each.papers, each.range.source)
        if source in each.papers and is_about and is_open(experiment, reading, binary):
            out.append(Factor(each.option, source=each.range.source, assumed=each))
    return sorted(out, key=lambda factor: factor.name)


def is_assumed_of(assumption: Assumption, system: System) -> bool:
    return not system.is_measured and system.params.get("protocol") in assumption.protocols


def draw(factors: list[Factor], number: int, seed: int, binary: str) -> Samples:
    """A Latin hypercube of `number` draws: each factor takes each of `number` equal parts of its range once."""
    from scipy.stats import qmc  # imported here because it loads slowly, and few commands sample

    if not factors:
        return Samples(number, seed, binary)
    drawn = qmc.LatinHypercube(d=len(factors), seed=np.random.default_rng(seed)).random(number)
    return Samples(number, seed, binary, factors, [[round(float(share), 9) for share in row] for row in drawn])


def params_of(system: System, params: dict[str, Any], samples: Samples, index: int) -> dict[str, Any]:
    """The options of one run with the values of draw `index`, except for constants that the experiment sets itself by
    `hardware_set`."""
    out = dict(params)
    given = str(params.get("hardware_set", "") or "")
    fixed = {part.partition("=")[0] for part in given.split(",") if part}
    changes = [given] if given else []
    hardware = hardware_of(params)
    for factor, share in zip(samples.factors, samples.shares[index]):
        if factor.reading is not None:
            if is_of(factor.reading, system, samples.binary):
                out.update(factor.reading.options_of(params, factor.level(share)))
        elif factor.assumed is not None:
            if is_assumed_of(factor.assumed, system) and takes(system, factor.name, samples.binary):
                text = str(factor.text(share))
                option = BENCH.get(factor.name)
                out[factor.name] = option.parse(text) if option else text
        elif factor.name not in fixed and (value := factor.text(share, hardware)) is not None:
            changes.append(f"{factor.name}={value}")
    if changes:
        out["hardware_set"] = ",".join(changes)
    return out


def points(experiment: Experiment, choices: dict[tuple, dict[str, Any]], samples: Samples, index: int) -> list[Point]:
    """The simulated points with the values of draw `index`: one run of each, with a seed of its own and with the
    parameters that tuning chose with the profiles' own constants."""
    out = []
    for system in experiment.systems:
        if system.is_measured:
            continue
        for axes in grid.combinations(experiment, system):
            chosen = choices.get(grid.choice_key(system.name, axes), {})
            params = grid.resolve(system, axes, experiment.measure.seed + index, chosen)
            out.append(
                Point(system.name, axes, index, params_of(system, params, samples, index), chosen=chosen, draw=index)
            )
    return out


def all_points(experiment: Experiment, choices: dict[tuple, dict[str, Any]], samples: Samples) -> list[Point]:
    """The points of all draws, draw after draw."""
    return [point for index in range(samples.number) for point in points(experiment, choices, samples, index)]
