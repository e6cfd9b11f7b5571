"""Evaluates claims, the conclusions of a paper, over the medians of an experiment's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import expression, lookup
from .grid import show
from .model import ClaimText
from .tables import Results


@dataclass
class Verdict:
    """Whether a claim (a paper's conclusion) held; None if it could not be evaluated. `why`: the reason, or the axis
    values at which it failed."""

    text: str
    held: bool | None
    why: str
    places: int = 0  # number of combinations of axis values at which the claim was checked
    ids: tuple[str, ...] = ()
    explained: str = ""  # section in docs/ that explains why the claim fails


def judge(results: Results, claim_text: ClaimText) -> Verdict:
    """Evaluates one claim at all axis values that meet its `where`; the claim holds only if it holds at each of
    them."""
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
    """The verdicts on all claims of the experiment, in the order of its file."""
    return [judge(results, claim) for claim in results.experiment.claims]


def _places(results: Results, claim: expression.Claim) -> list[dict[str, Any]]:
    """The combinations of axis values at which a claim is checked.

    The claim leaves open each axis that its `where` mentions, or that some name in it does not fix in [...]. Only
    combinations at which every named system runs are checked.
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
    """Whether a name's system runs at the axis values `place`, ignoring axes that the name itself fixes in [...]."""
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
    """The verdicts in a line, such as "5 of 6 claims held, 1 not evaluated"."""
    held = sum(verdict.held is True for verdict in verdicts)
    judged = sum(verdict.held is not None for verdict in verdicts)
    out = f"{held} of {judged} claims held"
    return out + (f", {len(verdicts) - judged} not evaluated" if judged < len(verdicts) else "")
