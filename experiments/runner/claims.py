"""Checks of what a paper concludes, over the medians of an experiment's results."""

from __future__ import annotations

from dataclasses import dataclass

from . import expression
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


class _Missing(Exception):
    """A name of the claim has no value; the message says why."""


def judge(results: Results, claim_text: ClaimText) -> Verdict:
    """Evaluates one claim wherever its `where` holds; it is held only if it holds everywhere."""
    text, claim = claim_text.text, claim_text.claim
    systems = {name.path.split(".")[0] for name in expression.names(claim) if "." in name.path}
    checked, wrong, missing = 0, [], []
    for axes in _places(results, systems):
        try:
            if not all(expression.evaluate(condition, _axis_lookup(axes)) for condition in claim.where):
                continue
            left, right = (expression.evaluate(side, _lookup(results, axes)) for side in (claim.left, claim.right))
            holds = expression.compare(claim.sign, left, right)
        except _Missing as error:
            missing.append(str(error))
            continue
        except expression.ExpressionError as error:
            return Verdict(text, None, f"{error}")
        checked += 1
        if not holds:
            wrong.append(f"{_place(axes)}{_number(left)} {claim.sign} {_number(right)} is false")
    if not checked:
        return Verdict(text, None, (missing[0] if missing else "no point meets its where"))
    if missing:
        reasons = "; ".join([*wrong, f"no value at {len(missing)} of {checked + len(missing)} places ({missing[0]})"])
        return Verdict(text, False if wrong else None, reasons, checked)
    return Verdict(text, not wrong, "; ".join(wrong), checked)


def judge_all(results: Results) -> list[Verdict]:
    """Every claim of the experiment, in order."""
    return [judge(results, claim) for claim in results.experiment.claims]


def _places(results: Results, systems: set[str]) -> list[dict[str, object]]:
    """Combinations of axis values at which every named system runs."""
    names = sorted(systems) or [system.name for system in results.experiment.systems][:1]
    common = results.axes_of(names[0])
    for name in names[1:]:
        own = results.axes_of(name)
        common = [axes for axes in common if axes in own]
    return common


def _axis_lookup(axes: dict[str, object]):
    def lookup(name: expression.Name) -> object:
        return axes[name.path]
    return lookup


def _lookup(results: Results, axes: dict[str, object]):
    def lookup(name: expression.Name) -> object:
        if "." not in name.path:
            return axes[name.path]
        system, _, field = name.path.partition(".")
        place = {**axes, **{key: _same_kind(value, axes[key]) for key, value in name.at}}
        value = results.median(system, place, field)
        if value is None:
            at = _place(place).rstrip(": ")
            raise _Missing(f"{system} has no {field}" + (f" at {at}" if at else ""))
        return value
    return lookup


def _same_kind(value: object, like: object) -> object:
    return int(value) if isinstance(like, int) and isinstance(value, float) and value == int(value) else value


def _place(axes: dict[str, object]) -> str:
    return ", ".join(f"{key} {show(key, value)}" for key, value in axes.items()) + ": " if axes else ""


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def summary(verdicts: list[Verdict]) -> str:
    """"5 of 6 claims held, 1 not evaluated"."""
    held = sum(verdict.held is True for verdict in verdicts)
    judged = sum(verdict.held is not None for verdict in verdicts)
    out = f"{held} of {judged} claims held"
    return out + (f", {len(verdicts) - judged} not evaluated" if judged < len(verdicts) else "")
