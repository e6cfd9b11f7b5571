"""Checks of what a paper concludes, over the medians of an experiment's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import expression, lookup
from .grid import show
from .model import ClaimText
from .tables import Results


@dataclass
class Verdict:
    """held is None when the claim could not be evaluated; `why` then says the reason, else the failing places."""

    text: str
    held: bool | None
    why: str
    places: int = 0  # combinations of axis values that were checked
    ids: tuple[str, ...] = ()
    explained: str = ""  # where a failed claim is explained


def judge(results: Results, claim_text: ClaimText) -> Verdict:
    """Evaluates one claim wherever its `where` holds; it is held only if it holds everywhere."""
    text, claim = claim_text.text, claim_text.claim

    def verdict(held: bool | None, why: str, places: int = 0) -> Verdict:
        return Verdict(text, held, why, places, ids=claim_text.ids, explained=claim_text.explained)

    checked, wrong, missing = 0, [], []
    for axes in _places(results, claim):
        try:
            if not all(expression.evaluate(condition, _axis_lookup(axes)) for condition in claim.where):
                continue
            left, right = (expression.evaluate(side, _lookup(results, axes)) for side in (claim.left, claim.right))
            holds = expression.compare(claim.sign, left, right)
        except lookup.Missing as error:
            missing.append(str(error))
            continue
        except expression.ExpressionError as error:
            return verdict(None, f"{error}")
        checked += 1
        if not holds:
            wrong.append(f"{_place(axes)}{_number(left)} {claim.sign} {_number(right)} is false")
    if not checked:
        return verdict(None, missing[0] if missing else "no point meets its where")
    if missing:
        reasons = "; ".join([*wrong, f"no value at {len(missing)} of {checked + len(missing)} places ({missing[0]})"])
        return verdict(False if wrong else None, reasons, checked)
    return verdict(not wrong, "; ".join(wrong), checked)


def judge_all(results: Results) -> list[Verdict]:
    """Every claim of the experiment, in order."""
    return [judge(results, claim) for claim in results.experiment.claims]


def _places(results: Results, claim: expression.Claim) -> list[dict[str, Any]]:
    """Where a claim is checked: the values of the axes that it leaves open, at which every system that it names runs.

    An axis that every name fixes in [...], and no `where` mentions, is not open.
    """
    names = [name for name in expression.names(claim) if lookup.system_of(name)]
    asked = {name.path for condition in claim.where for name in expression.names(condition)}
    asked |= {name.path for name in expression.names(claim) if not lookup.system_of(name)}
    is_open = [
        axis
        for axis in results.experiment.axes
        if axis in asked or not names or any(axis not in dict(name.at) for name in names)
    ]
    systems = list(dict.fromkeys(lookup.system_of(name) for name in names))
    systems = systems or [system.name for system in results.experiment.systems][:1]
    found: list[dict[str, Any]] = []
    for system in systems:
        for axes in results.axes_of(system):
            place = {axis: axes[axis] for axis in is_open}
            if place not in found and all(_runs(results, name, place) for name in names):
                found.append(place)
    return found


def _runs(results: Results, name: expression.Name, place: dict[str, Any]) -> bool:
    """Whether a name's system runs at a place, whatever the axes are that the name itself fixes."""
    fixed = dict(name.at)
    return any(
        all(axes[axis] == value for axis, value in place.items() if axis not in fixed)
        for axes in results.axes_of(lookup.system_of(name))
    )


def _axis_lookup(axes: dict[str, Any]):
    return lambda name: expression.comparable(axes[name.path])


def _lookup(results: Results, axes: dict[str, Any]):
    return lambda name: lookup.value(results, name, axes)


def _place(axes: dict[str, Any]) -> str:
    return ", ".join(f"{key} {show(key, value)}" for key, value in axes.items()) + ": " if axes else ""


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def summary(verdicts: list[Verdict]) -> str:
    """ "5 of 6 claims held, 1 not evaluated"."""
    held = sum(verdict.held is True for verdict in verdicts)
    judged = sum(verdict.held is not None for verdict in verdicts)
    out = f"{held} of {judged} claims held"
    return out + (f", {len(verdicts) - judged} not evaluated" if judged < len(verdicts) else "")
