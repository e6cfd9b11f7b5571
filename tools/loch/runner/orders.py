"""Which of two systems is ahead, published and obtained: the pairs of systems that an item of plots/published asks for
(`orders:`), at each place where both have a published number, with a verdict over repeats. Systems that are published
as level have to be level."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from . import intervals, published
from .grid import show
from .published import Comparison
from .tables import Results

# the fewest repeats over which a pair is judged: the interval of a median from 5 has a level of 94 %
LEAST_REPEATS = 5
HELD, NOT_HELD, UNDECIDED, UNKNOWN = "held", "not held", "undecided", "not evaluated"
VERDICTS = (HELD, NOT_HELD, UNDECIDED, UNKNOWN)


@dataclass(frozen=True)
class Pair:
    """Two systems at one place. Leads are those of `first` over `second`, as shares: 0.02 is 2 % ahead."""

    paper: str
    experiment: str
    field: str
    first: str
    second: str
    place: str
    published: float
    low: float  # ends of the interval of the median lead over repeats
    high: float
    ahead: int  # repeats in which `first` is ahead
    repeats: int
    alike: float  # two systems whose rates are less apart than this share are level

    @property
    def is_level(self) -> bool:
        """Whether the published lead is less than what repeats of a measurement differ by, so that it is no order."""
        return abs(_apart(self.published)) < self.alike

    @property
    def verdict(self) -> str:
        """Of a pair with a published order: held or not if all of the interval of the obtained lead is on one side.
        Of a pair that is published as level: held if all of the interval is level, not held if none of it is. Else
        undecided."""
        if self.repeats < LEAST_REPEATS:
            return UNKNOWN
        low, high = _apart(self.low), _apart(self.high)
        if self.is_level:
            if -self.alike < low and high < self.alike:
                return HELD
            return NOT_HELD if low >= self.alike or high <= -self.alike else UNDECIDED
        if low <= 0 <= high:
            return UNDECIDED
        return HELD if (self.published > 0) == (low > 0) else NOT_HELD

    @property
    def is_in_order(self) -> bool:
        """Whether most repeats have the published order, however near the two are."""
        ahead = self.ahead if self.published > 0 else self.repeats - self.ahead
        return 2 * ahead > self.repeats

    def text(self) -> str:
        """The pair with both leads, for a list of those that are not held."""
        said = f"{self.first} over {self.second}, {self.place}: published {_percent(self.published)}, obtained "
        said += f"{_percent(self.low)} to {_percent(self.high)}, ahead in {self.ahead} of {self.repeats} repeats"
        return said


def _apart(lead: float) -> float:
    """The lead of whichever is ahead, negative if that is the second: 5 % ahead and 5 % behind are as far apart."""
    return lead if lead >= 0 else 1 - 1 / (1 + lead)


def _percent(share: float) -> str:
    return f"{share:+.1%}".replace("-", "−").replace("%", " %")


def of_results(results: Results) -> list[Pair]:
    """The pairs of an experiment's results, in the order of the published numbers."""
    item = published.of(results)
    if item is None or not item.orders:
        return []
    at: dict[tuple, dict[str, Comparison]] = {}
    for each in published.compare(results):
        cell = each.cell
        if cell.series in item.orders and cell.value and each.obtained is not None:
            at.setdefault((cell.field, each.axes), {}).setdefault(cell.series, each)
    out = []
    for (field, axes), found in at.items():
        named = [found[series] for series in item.orders if series in found]
        for first, second in combinations(named, 2):
            leads = _leads(results, field, first, second)
            if not leads or first.cell.value is None or second.cell.value is None:
                continue
            median = intervals.median(leads)
            out.append(
                Pair(
                    item.source,
                    results.experiment.name,
                    field,
                    first.cell.series,
                    second.cell.series,
                    ", ".join(f"{axis} {show(axis, value)}" for axis, value in axes),
                    first.cell.value / second.cell.value - 1,
                    median.low,
                    median.high,
                    sum(lead > 0 for lead in leads),
                    len(leads),
                    item.alike,
                )
            )
    return out


def _leads(results: Results, field: str, first: Comparison, second: Comparison) -> list[float]:
    """The lead of the first system in each repeat that both have; a repeat has one seed for all systems."""
    values = []
    for each in (first, second):
        rows = results.at(each.system, dict(each.axes))
        values.append({row.point.repeat: row.fields[field] for row in rows if row.ok and row.fields.get(field)})
    return [values[0][repeat] / values[1][repeat] - 1 for repeat in sorted(values[0].keys() & values[1].keys())]


def markdown(pairs: list[Pair]) -> list[str]:
    """The section of the score: how many pairs are in the published order, each that is not held, and each that is level
    as published but the other way round in most repeats."""
    out = []
    for paper in dict.fromkeys(pair.paper for pair in pairs):
        mine = [pair for pair in pairs if pair.paper == paper]
        named = {verdict: verdict for verdict in VERDICTS}
        count = {verdict: sum(pair.verdict == verdict for pair in mine) for verdict in VERDICTS}
        level = [pair for pair in mine if pair.is_level and pair.verdict == HELD]
        turned = [pair for pair in level if not pair.is_in_order]
        if level:
            other = f", {len(turned)} of these with the other one ahead in most repeats" if turned else ""
            named[HELD] = f"{HELD} ({len(level)} of them level, as published{other})"
        said = f"{paper}: {len(mine)} pairs: " + ", ".join(f"{n} {named[verdict]}" for verdict, n in count.items() if n)
        said += f". Most repeats have the published order in {sum(pair.is_in_order for pair in mine)}."
        wrong = [f"* {_bold(pair.verdict)}: {pair.text()}" for pair in mine if pair.verdict != HELD]
        backward = [f"* level, the other one ahead: {pair.text()}" for pair in turned]
        out += [said + "\n", *wrong, *backward, ""]
    return ["## Who is ahead\n", *out] if out else []


def _bold(verdict: str) -> str:
    return f"**{verdict}**" if verdict == NOT_HELD else verdict


def as_json(pairs: list[Pair]) -> list[dict]:
    """The pairs for `loch score --json`."""
    return [
        {**vars(pair), "verdict": pair.verdict, "is_level": pair.is_level, "in_order": pair.is_in_order}
        for pair in pairs
    ]
