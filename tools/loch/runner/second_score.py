"""The score over the published numbers that do not follow from others (docs/runner.md): the papers' headline
conclusions, errors by a number's role and by whether it was known beforehand, intervals of sampled results, a
comparison with models that know nothing (null models), and claims judged over repeats or draws."""

from __future__ import annotations

import copy
import statistics
from dataclasses import dataclass, field
from typing import Any, Iterable

from . import band_report, bands, claims, factors, markup, null_models, orders, published, roles
from .grid import choice_key
from .model import ClaimText
from .published import Comparison
from .tables import Results

GOAL_MEDIAN, GOAL_P90, GOAL_INSIDE = 0.10, 0.30, 0.70
HELD, NOT_HELD, UNDECIDED, UNKNOWN = "held", "not held", "undecided", "not evaluated"


@dataclass
class Number:
    """One exact published number with what the score needs of it."""

    id: str
    paper: str
    what: str
    value: float
    obtained: float
    error: float
    role: roles.Role
    mark: str
    # whether the published value lies in the interval of results over random draws of hardware constants; None without
    # draws
    inside: bool | None = None
    # error of a simple model that interpolates between the neighbouring published values
    interpolated: float | None = None
    bandwidth: float | None = None  # error of a simple model that predicts from bandwidth and round trips alone

    @property
    def counts(self) -> bool:
        return self.role.name == "independent"


@dataclass
class Said:
    """A claim or a headline conclusion of a paper, with its verdict over repeats or draws (by_interval())."""

    paper: str
    experiment: str
    text: str
    verdict: str  # HELD, NOT_HELD, UNDECIDED or UNKNOWN
    why: str = ""
    role: str = ""  # empty: it counts


@dataclass
class Part:
    """What one result folder adds to the score."""

    numbers: list[Number] = field(default_factory=list)
    claims: list[Said] = field(default_factory=list)
    headlines: list[Said] = field(default_factory=list)
    pairs: list[orders.Pair] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """Statistics of the errors of some published numbers."""

    numbers: int
    median: float | None
    p90: float | None
    within_10: int
    inside: int
    banded: int

    def text(self) -> str:
        if self.median is None or self.p90 is None:
            return "no number"
        said = f"{self.numbers} numbers: median error {self.median:.1%}, 90th percentile {self.p90:.1%}"
        if self.banded:
            said += f", {self.inside} of {self.banded} in their bands"
        return said


def quantile(values: list[float], share: float) -> float:
    """The least value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-round(len(ordered) * share * 1e6) // 10**6) - 1)]


def summarise(numbers: Iterable[Number]) -> Summary:
    listed = list(numbers)
    sizes = [abs(each.error) for each in listed]
    with_band = [each for each in listed if each.inside is not None]
    return Summary(
        len(sizes),
        statistics.median(sizes) if sizes else None,
        quantile(sizes, 0.9) if sizes else None,
        sum(size <= 0.1 + 1e-12 for size in sizes),
        sum(each.inside is True for each in with_band),
        len(with_band),
    )


def of_results(results: Results, comparisons: list[Comparison], folder: Any = published.FOLDER) -> Part:
    """The numbers, claims and headlines of one experiment's results; `comparisons` are those that the score counts."""
    known = roles.load(folder)
    experiment = results.experiment
    paper = experiment.paper.source if experiment.paper else ""
    item = published.of(results)
    of_null = {_key(each): each for each in null_models.bandwidth(results)} if experiment.paper else {}
    part = Part()
    for each in comparisons:
        if not each.counts or each.obtained is None or each.cell.value is None:
            continue
        role = known.role(each.cell.id)
        number = Number(
            each.cell.id,
            paper,
            f"{each.cell.field} {each.system if not each.cell.is_single else ''} {published.place(each)}".strip(),
            each.cell.value,
            each.obtained,
            error_of(role, each.cell.value, each.obtained),
            role,
            known.mark(each.cell.id),
        )
        band = results.bands.of_number(each) if results.bands else None
        number.inside = None if band is None else bands.is_inside(band, each.cell.value)
        by_neighbours = null_models.interpolated(item, each.cell) if item else None
        if by_neighbours is not None:
            number.interpolated = error_of(role, each.cell.value, by_neighbours)
        if (alone := of_null.get(_key(each))) is not None and alone.obtained is not None:
            number.bandwidth = error_of(role, each.cell.value, alone.obtained)
        part.numbers.append(number)
    has_calibration = item is not None and all(cell.calibration for cell in item.cells)
    for claim in experiment.claims:
        entry = known.of_claim(experiment.name, claim.text)
        role_name = "calibration" if has_calibration else entry.name if entry else ""
        verdict, why = by_interval(results, claim)
        part.claims.append(Said(paper, experiment.name, claim.text, verdict, why, role_name))
    part.headlines += [said for _, said in headlines(results, folder)]
    part.pairs = orders.of_results(results)
    return part


def headlines(results: Results, folder: Any = published.FOLDER) -> list[tuple[roles.Headline, Said]]:
    """The headline conclusions that are about one experiment, each with its verdict over repeats or draws."""
    out = []
    for headline in roles.load(folder).headlines:
        if headline.experiment == results.experiment.name:
            verdict, why = by_interval(results, headline.claim)
            out.append((headline, Said(headline.paper, headline.experiment, headline.says, verdict, why)))
    return out


def _key(comparison: Comparison) -> tuple[str, str, Any]:
    return (comparison.cell.id, comparison.system, comparison.axes)


def error_of(role: roles.Role, value: float, obtained: float) -> float:
    """The error that the score counts: the relative error of the excess over the role's base (role.above, such as idle
    power). For a published bound it is 0 if the result meets the bound."""
    base = role.above or 0.0
    error = (obtained - base) / (value - base) - 1 if value != base else 0.0
    if role.bound == "least":
        return min(0.0, error)
    return max(0.0, error) if role.bound == "most" else error


def by_interval(results: Results, claim: ClaimText) -> tuple[str, str]:
    """A claim's verdict. It is evaluated for each random draw of the constants if there are draws, else for each repeat
    alone: decided if all repeats (95 % of the draws) agree, otherwise undecided."""
    of_median = claims.judge(results, claim)
    if of_median.held is None:
        return UNKNOWN, of_median.why
    if results.bands is not None and claim.text in results.bands.claims:
        held, of = results.bands.claims[claim.text]
        if of:
            return band_report.standing(held, of), f"in {held} of {of} draws"
    each = [claims.judge(_of_repeat(results, repeat), claim).held for repeat in range(_repeats(results))]
    found = [verdict for verdict in each if verdict is not None]
    if not found or all(verdict == of_median.held for verdict in found):
        return (HELD if of_median.held else NOT_HELD), of_median.why
    return UNDECIDED, f"in {sum(found)} of {len(found)} repeats"


def _repeats(results: Results) -> int:
    return max((row.point.repeat for row in results.rows), default=-1) + 1


def _of_repeat(results: Results, repeat: int) -> Results:
    """The results of one repeat of every point."""
    out = copy.copy(results)
    out.rows = [row for row in results.rows if row.point.repeat == repeat]
    out._by_place = {}
    for row in out.rows:
        out._by_place.setdefault(choice_key(row.point.system, row.point.axes), []).append(row)
    return out


def merged(parts: Iterable[Part]) -> Part:
    out = Part()
    for part in parts:
        out.numbers += part.numbers
        out.claims += part.claims
        out.headlines += part.headlines
        out.pairs += part.pairs
    return out


def verdict(part: Part) -> str:
    """The first line of the score: headline conclusions that hold, errors of the independent numbers, and whether the
    goal is met."""
    counted = [each for each in part.numbers if each.counts]
    found = summarise(counted)
    evaluated = [each for each in part.headlines if each.verdict != UNKNOWN]
    survive = sum(each.verdict == HELD for each in evaluated)
    undecided = sum(each.verdict == UNDECIDED for each in evaluated)
    said = f"{survive} of {len(evaluated)} headline conclusions survive"
    said += f" ({undecided} undecided)" if undecided else ""
    said += f"; {found.text()} (independent)"
    return f"{said}; goal {'met' if is_met(found) else 'missed'} (median 10 %, 90th percentile 30 %, 70 % in bands)."


def is_met(found: Summary) -> bool:
    return (
        found.median is not None
        and found.p90 is not None
        and found.median <= GOAL_MEDIAN
        and found.p90 <= GOAL_P90
        and found.banded > 0
        and found.inside >= GOAL_INSIDE * found.banded
    )


def markdown(part: Part) -> list[str]:
    """The sections of the score sheet before its long tables; they begin with the line of verdict()."""
    counted = [each for each in part.numbers if each.counts]
    named = [each.paper for each in part.headlines] + [each.paper for each in part.numbers]
    papers = [paper for paper in dict.fromkeys(named) if paper]
    rows = []
    for paper in papers:
        said = [each for each in part.headlines if each.paper == paper and each.verdict != UNKNOWN]
        found = summarise(each for each in counted if each.paper == paper)
        rows.append([paper, f"{sum(each.verdict == HELD for each in said)} of {len(said)}", *_cells(found)])
    rows.append(["all", "", *_cells(summarise(counted))])
    out = [verdict(part) + "\n"]
    out.append(markup.table(["", "conclusions that survive", "independent numbers", *_HEAD], rows))
    out += ["## Headline conclusions\n", *(_said(each, markup.escape(each.text)) for each in part.headlines), ""]
    out += _by_knowledge(counted)
    out += _null(counted)
    out += _left_out(part.numbers)
    out += _assumed()
    out += _claims(part)
    out += orders.markdown(part.pairs)
    return out


_HEAD = ["median", "90th percentile", "within 10 %", "in band"]


def _cells(found: Summary) -> list[str]:
    if found.median is None or found.p90 is None:
        return ["0", "–", "–", "–", "–"]
    inside = f"{found.inside} of {found.banded}" if found.banded else "–"
    return [str(found.numbers), f"{found.median:.1%}", f"{found.p90:.1%}", str(found.within_10), inside]


def _said(each: Said, text: str) -> str:
    bold = "**" if each.verdict in (NOT_HELD, UNDECIDED) else ""
    why = f" ({markup.escape(each.why)})" if each.why else ""
    return f"* {bold}{each.verdict}{bold}: {each.paper}: {text}{why}"


def _by_knowledge(counted: list[Number]) -> list[str]:
    words = {
        "blind": "blind: withheld when the model was made",
        "seen": "seen: nothing was changed for it",
        "changed": "changed: something was changed after seeing it",
    }
    rows = [[said, *_cells(summarise(each for each in counted if each.mark == mark))] for mark, said in words.items()]
    return ["## By what was known\n", markup.table(["", "independent numbers", *_HEAD], rows)]


def _null(counted: list[Number]) -> list[str]:
    rows = []
    for name, said in (
        ("interpolated", "log-log interpolation of the published neighbours"),
        ("bandwidth", "bandwidth and round trips alone"),
    ):
        both = [(abs(each.error), abs(getattr(each, name))) for each in counted if getattr(each, name) is not None]
        if not both:
            continue
        ours, theirs = (statistics.median(column) for column in zip(*both))
        skill = 1 - ours / theirs if theirs else 0.0
        nearer = sum(mine < other for mine, other in both)
        rows.append(
            [said, str(len(both)), f"{theirs:.1%}", f"{ours:.1%}", f"{skill:+.2f}".replace("-", "−"), str(nearer)]
        )
    head = ["null model", "numbers", "its median error", "ours on them", "skill 1 − ours/its", "we are nearer at"]
    return ["## Against models that know nothing\n", markup.table(head, rows)] if rows else []


def _left_out(numbers: list[Number]) -> list[str]:
    rows = []
    for role in roles.ROLES[1:]:
        mine = [each for each in numbers if each.role.name == role]
        if not mine:
            continue
        met = f"; {sum(each.error == 0 for each in mine)} met" if role == "bound" else ""
        whys = "; ".join(dict.fromkeys(f"{each.role.why}" for each in mine))
        rows.append([role + met, *_cells(summarise(mine))[:3], whys])
    everything = summarise(numbers)
    rows.append(["with all of them", *_cells(everything)[:3], "every exact number, as the first score counted"])
    head = ["left out", "numbers", "median", "90th percentile", "why"]
    return ["## Numbers that are left out\n", markup.table(head, rows)]


def _assumed() -> list[str]:
    """The declared assumptions: of which the score knows nothing, because they are off in what it counts."""
    rows = [
        [
            each.says,
            markup.code(f"--{each.option.replace('_', '-')}"),
            f"{each.range.low:g} to {each.range.high:g} {each.unit}",
        ]
        for each in factors.assumptions()
    ]
    head = ["assumed in bands alone, off in every number above", "option", "range"]
    return ["## Declared assumptions\n", markup.table(head, rows)] if rows else []


def _claims(part: Part) -> list[str]:
    counted = [each for each in part.claims if not each.role]
    count = {each: sum(said.verdict == each for said in counted) for each in (HELD, NOT_HELD, UNDECIDED, UNKNOWN)}
    text = f"{len(counted)} claims that could fail: " + ", ".join(f"{n} {word}" for word, n in count.items() if n)
    apart = [each for each in part.claims if each.role]
    by_role = {role: [each for each in apart if each.role == role] for role in dict.fromkeys(s.role for s in apart)}
    text += ". Not counted: " + ", ".join(
        f"{len(said)} {role} ({sum(each.verdict == HELD for each in said)} held)" for role, said in by_role.items()
    )
    wrong = [_said(each, markup.code(each.text)) for each in counted if each.verdict in (NOT_HELD, UNDECIDED)]
    return ["## Claims by interval\n", text + ".\n", *wrong, ""]


def as_json(part: Part) -> dict[str, Any]:
    """The score as JSON."""
    counted = [each for each in part.numbers if each.counts]

    def of(numbers: Iterable[Number]) -> dict[str, Any]:
        found = summarise(numbers)
        return {
            "numbers": found.numbers,
            "median_absolute_error": found.median,
            "p90_absolute_error": found.p90,
            "in_band": found.inside,
            "with_band": found.banded,
        }

    return {
        "verdict": verdict(part),
        "goal_met": is_met(summarise(counted)),
        "independent": of(counted),
        "all": of(part.numbers),
        "by_mark": {mark: of(each for each in counted if each.mark == mark) for mark in roles.MARKS},
        "left_out": {role: of(e for e in part.numbers if e.role.name == role) for role in roles.ROLES[1:]},
        "headlines": [vars(each) for each in part.headlines],
        "claims": [vars(each) for each in part.claims],
        "orders": orders.as_json(part.pairs),
        "numbers": [
            {
                "id": each.id,
                "paper": each.paper,
                "published": each.value,
                "obtained": each.obtained,
                "error": each.error,
                "role": each.role.name,
                "why": each.role.why,
                "mark": each.mark,
                "in_band": each.inside,
                "error_of_interpolation": each.interpolated,
                "error_of_bandwidth": each.bandwidth,
            }
            for each in part.numbers
        ],
    }
