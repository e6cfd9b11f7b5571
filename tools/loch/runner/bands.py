"""`loch run --samples`: hardware constants are drawn at random from their ranges, and for each point, each published
number and each claim the draws give an interval of results (a band) and the constants that decide it; stored in
bands.json of the result folder."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loch.written import write_atomically

from . import claims, factors, grid, influence, intervals, published
from .errors import BadInput
from .factors import Samples
from .model import Experiment
from .points import PointSource, file_hash, point_hash
from .published import Comparison
from .stored_json import read_json
from .tables import Results, Row
from .units import format_duration

NAME = "bands.json"


@dataclass
class Band:
    """The interval of one result over the random draws of the hardware constants in which it has a value."""

    low: float
    middle: float
    high: float
    n: int
    # the hardware constants that decide the width of this interval (influence.Share)
    decided: list[dict[str, Any]] = field(default_factory=list)
    explained: float | None = None  # share of the variance that the surrogate (a model fitted to the draws) explains
    base: float | None = None  # the result with the constants of the profiles, measured for as long as the draws


@dataclass
class Bands:
    """What the random draws of the hardware constants gave for one experiment."""

    samples: int
    seed: int
    binary: str  # sha256 of the program loch-bench that simulated the draws
    # what reports call such an interval: "90 % band of N draws" from 19 draws on, otherwise "least to most of N, …"
    name: str
    factors: list[dict[str, Any]] = field(default_factory=list)
    # intervals of the results, by system and axis values (grid.choice_key()), then by result field
    points: dict[tuple, dict[str, Band]] = field(default_factory=dict)
    # intervals of what a figure with `relative_to:` draws, by the same keys: in each draw the result over that of the
    # named system at the same axis values
    relative: dict[tuple, dict[str, Band]] = field(default_factory=dict)
    published: dict[str, Band] = field(default_factory=dict)  # by the number's id and system
    # text of a claim -> number of draws in which the claim holds, and number of all draws
    claims: dict[str, tuple[int, int]] = field(default_factory=dict)
    failed: int = 0  # number of drawn runs that ended without a result
    window: str = ""  # how long each draw was measured, such as "8ms"; empty if that differs from point to point

    def of_point(self, system: str, axes: dict[str, Any], name: str) -> Band | None:
        return self.points.get(grid.choice_key(system, axes), {}).get(name)

    def of_ratio(self, system: str, axes: dict[str, Any], name: str) -> Band | None:
        return self.relative.get(grid.choice_key(system, axes), {}).get(name)

    def of_number(self, comparison: Comparison) -> Band | None:
        return self.published.get(number_key(comparison))

    @property
    def deciding(self) -> list[tuple[str, int, float]]:
        """The constants that decide the results of most points: name, number of results for which the constant is the
        strongest, and the mean absolute correlation with them."""
        first: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for by_field in self.points.values():
            for band in by_field.values():
                if band.decided:
                    first[band.decided[0]["factor"]] += 1
                    total[band.decided[0]["factor"]] += abs(band.decided[0]["correlation"])
        return [(name, count, total[name] / count) for name, count in first.most_common()]


def number_key(comparison: Comparison) -> str:
    return f"{comparison.cell.id} {comparison.system}".strip()


def is_inside(band: Band, value: float) -> bool:
    """Whether a published value lies in the interval; the paper's rounding is not taken into account."""
    return band.low <= value <= band.high


def window(experiment: Experiment) -> str:
    """How long the simulated points of an experiment are measured; empty if it depends on the point."""
    spans = {repr(each.params.get("duration")) for each in experiment.systems if not each.is_measured}
    span = spans.pop() if len(spans) == 1 else ""
    return format_duration(int(span)) if span.isdigit() else ""


def other_window(results: Results) -> str:
    """How long the draws of the results' bands were measured, if that is not as long as the results; else empty."""
    drawn = results.bands.window if results.bands is not None else ""
    return drawn if drawn != window(results.experiment) else ""


def compute(
    experiment: Experiment,
    store: PointSource,
    choices: dict[tuple, dict[str, Any]],
    samples: Samples,
    binary: str,
    undrawn: Results | None = None,
) -> Bands:
    """The intervals of an experiment's results from the stored results of its draws; `undrawn`: the results with the
    profiles' own constants."""
    out = Bands(samples.number, samples.seed, file_hash(binary), intervals.band_name(samples.number))
    out.window = window(experiment)
    out.factors = [_factor(each) for each in samples.factors]
    fields = dict.fromkeys((*experiment.figure.y, *experiment.figure.rows))
    drawn: dict[tuple, dict[str, dict[int, float]]] = {}
    numbers: dict[str, dict[int, float]] = {}
    for index in range(samples.number):
        results = of_draw(experiment, store, choices, samples, index)
        out.failed += sum(not row.ok for row in results.rows)
        for row in results.rows:
            for name in fields if row.ok else ():
                for value in results.values(row.point.system, row.point.axes, name):
                    key = grid.choice_key(row.point.system, row.point.axes)
                    drawn.setdefault(key, {}).setdefault(name, {})[index] = value
        for each in published.compare(results) if experiment.paper else []:
            if each.obtained is not None:
                numbers.setdefault(number_key(each), {})[index] = each.obtained
        for verdict in claims.judge_all(results):
            held, of = out.claims.get(verdict.text, (0, 0))
            if verdict.held is not None:
                out.claims[verdict.text] = (held + verdict.held, of + 1)
    out.points = _bands(drawn, samples)
    out.relative = _bands(_ratios(drawn, experiment), samples)
    out.published = {key: _band(found, samples) for key, found in numbers.items()}
    if undrawn is not None:
        add_base(out, undrawn)
    return out


def _bands(drawn: dict[tuple, dict[str, dict[int, float]]], samples: Samples) -> dict[tuple, dict[str, Band]]:
    return {key: {name: _band(found, samples) for name, found in each.items()} for key, each in drawn.items()}


def _ratios(
    drawn: dict[tuple, dict[str, dict[int, float]]], experiment: Experiment
) -> dict[tuple, dict[str, dict[int, float]]]:
    """The drawn fields of a figure with `relative_to:`, each over the named system's value of the same draw; nothing
    for the named system itself and for places where it has no value above 0."""
    figure = experiment.figure
    out: dict[tuple, dict[str, dict[int, float]]] = {}
    for key, by_field in drawn.items() if figure.relative_to else ():
        base = drawn.get(grid.choice_key(figure.relative_to, dict(key[1:])), {})
        for name in figure.y if key[0] != figure.relative_to else ():
            both = {i: value for i, value in by_field.get(name, {}).items() if base.get(name, {}).get(i, 0) > 0}
            if both:
                out.setdefault(key, {})[name] = {i: value / base[name][i] for i, value in both.items()}
    return out


def add_base(bands: Bands, undrawn: Results) -> None:
    """Notes beside each band the result with the profiles' own constants, from a run whose points were measured for as
    long as the draws; BadInput if they were not."""
    if window(undrawn.experiment) != bands.window:
        raise BadInput(
            f"{undrawn.experiment.name}: measured for {window(undrawn.experiment) or 'several times'}, "
            f"its bands for {bands.window or 'several times'}"
        )
    for row in undrawn.rows:
        key = grid.choice_key(row.point.system, row.point.axes)
        for name, band in bands.points.get(key, {}).items():
            values = undrawn.values(row.point.system, row.point.axes, name)
            band.base = statistics.median(values) if values else None
        for name, band in bands.relative.get(key, {}).items():
            own = undrawn.median(row.point.system, row.point.axes, name)
            other = undrawn.median(undrawn.experiment.figure.relative_to, row.point.axes, name)
            band.base = own / other if own is not None and other else None
    for each in published.compare(undrawn) if undrawn.experiment.paper else []:
        if (found := bands.of_number(each)) is not None:
            found.base = each.obtained


def of_draw(
    experiment: Experiment,
    store: PointSource,
    choices: dict[tuple, dict[str, Any]],
    samples: Samples,
    index: int,
) -> Results:
    """The results of one draw of the constants, in the form of an ordinary run's results."""
    rows = []
    for point in factors.points(experiment, choices, samples, index):
        stored = store.of(point)
        rows.append(Row(point, stored.hash if stored else point_hash(point), stored))
    return Results(experiment, rows)


def _band(found: dict[int, float], samples: Samples) -> Band:
    at = sorted(found)
    values = [found[index] for index in at]
    band = intervals.band(values)
    decided = influence.decide(
        [factor.name for factor in samples.factors],
        np.array([samples.shares[index] for index in at]),
        [len(factor.levels) for factor in samples.factors],
        np.array(values),
    )
    shares = [{key: value for key, value in asdict(each).items()} for each in decided.shares]
    return Band(band.low, band.middle, band.high, len(values), shares, decided.explained)


def _factor(factor: factors.Factor) -> dict[str, Any]:
    if factor.levels:
        return {"name": factor.name, "levels": list(factor.levels), "source": factor.source}
    if factor.assumed is not None:
        drawn = factor.assumed.range
        text = {key: f"{value:g}{factor.assumed.unit}" for key, value in (("low", drawn.low), ("high", drawn.high))}
        return {"name": factor.name, "assumed": text, "source": factor.source}
    return {
        "name": factor.name,
        "ranges": {
            hardware: {"low": each.low, "high": each.high, "log": each.is_log} for hardware, each in factor.ranges
        },
        "source": factor.source,
    }


def write(folder: Path, bands: Bands) -> None:
    """Writes bands.json."""

    def plain(band: Band) -> dict[str, Any]:
        return {key: _rounded(value) for key, value in asdict(band).items() if value not in ([], None)}

    document = {
        "schema": 1,
        **{key: getattr(bands, key) for key in ("samples", "seed", "binary", "name", "factors", "failed", "window")},
        "points": [
            {
                "system": key[0],
                "axes": dict(key[1:]),
                "fields": {name: plain(band) for name, band in each.items()},
                **({"relative": {name: plain(band) for name, band in found.items()}} if found else {}),
            }
            for key, each in bands.points.items()
            for found in (bands.relative.get(key),)
        ],
        "published": {key: plain(band) for key, band in bands.published.items()},
        "claims": [{"claim": text, "held": held, "of": of} for text, (held, of) in bands.claims.items()],
        "deciding": [
            {"factor": name, "points": count, "correlation": round(mean, 3)} for name, count, mean in bands.deciding
        ],
    }
    write_atomically(folder / NAME, json.dumps(document, indent=1) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [{key: _rounded(each) for key, each in entry.items() if each is not None} for entry in value]
    return value


def read(folder: Path) -> Bands | None:
    """What bands.json of a result folder holds; None if there is none, BadInput if it is malformed."""
    path = folder / NAME
    if not path.is_file():
        return None
    document = read_json(path)
    try:
        out = Bands(*(document[key] for key in ("samples", "seed", "binary", "name")))
        out.factors, out.failed = list(document["factors"]), int(document["failed"])
        out.window = str(document.get("window", ""))
        for entry in document["points"]:
            key = grid.choice_key(entry["system"], entry["axes"])
            out.points[key] = {name: Band(**each) for name, each in entry["fields"].items()}
            if "relative" in entry:
                out.relative[key] = {name: Band(**each) for name, each in entry["relative"].items()}
        out.published = {key: Band(**each) for key, each in document["published"].items()}
        out.claims = {entry["claim"]: (entry["held"], entry["of"]) for entry in document["claims"]}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: not the bands of `loch run --samples` ({error})") from None
    return out
