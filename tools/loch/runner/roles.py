"""Reads plots/published/roles.yaml: whether each published number counts in the score or only repeats others, whether
it was known before it was predicted, which claims count, and the papers' headline conclusions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from . import expression, located
from .located import Item
from .model import ClaimText

NAME = "roles"
ROLES = ("independent", "repeat", "follows", "bound")
MARKS = ("blind", "seen", "changed")
BOUNDS = ("least", "most")


@dataclass(frozen=True)
class Role:
    """How the score treats a published number, and why: it counts (independent), or repeats others, follows from
    definitions, or is a bound."""

    name: str = "independent"
    why: str = ""
    bound: str = ""  # of a bound: least or most
    above: float | None = None  # relative errors are those of the number's excess over this base (such as idle power)


@dataclass(frozen=True)
class ClaimRole:
    """Claims that do not count in the score: those of `experiment` (empty: of any) with the words `contains` in their
    text."""

    experiment: str
    contains: str
    name: str
    why: str


@dataclass(frozen=True)
class Headline:
    """A conclusion of a paper, as a claim on the results of one experiment."""

    paper: str
    says: str
    experiment: str
    claim: ClaimText


@dataclass
class Roles:
    of_number: dict[str, Role] = field(default_factory=dict)
    marks: dict[str, tuple[str, str]] = field(default_factory=dict)
    claims: list[ClaimRole] = field(default_factory=list)
    headlines: list[Headline] = field(default_factory=list)

    def role(self, identity: str) -> Role:
        return self.of_number.get(identity, Role())

    def mark(self, identity: str) -> str:
        """Whether the model was made without knowing a number (blind), knowing it (seen), or changed after its
        prediction had been compared with it (changed)."""
        return self.marks.get(identity, ("seen", ""))[0]

    def of_claim(self, experiment: str, text: str) -> ClaimRole | None:
        """The entry by which a claim does not count in the score, or None."""
        return next(
            (each for each in self.claims if each.experiment in ("", experiment) and each.contains in text), None
        )


@lru_cache(maxsize=None)
def load(folder: Path) -> Roles:
    """Reads roles.yaml of a folder; without that file every number counts in the score (is independent) and was known
    before its prediction (seen). BadInput names file and line of an error."""
    path = folder / f"{NAME}.yaml"
    out = Roles()
    if not path.is_file():
        return out
    top = located.load(path, ours=True).mapping()
    for item in _list(top, "roles"):
        role = _role(item)
        for identity in _ids(item):
            if identity in out.of_number:
                raise item.error(f"{identity} has a role already", "ids")
            out.of_number[identity] = role
    for item in _list(top, "marks"):
        mark, why = _one_of(item, "mark", MARKS), _text(item, "why")
        out.marks.update({identity: (mark, why) for identity in _ids(item)})
    for item in _list(top, "claims"):
        entries = item.mapping()
        some = [str(entries[key].value) if key in entries else "" for key in ("experiment", "contains")]
        if not any(some):
            raise item.error("expected experiment: or contains:")
        out.claims.append(ClaimRole(some[0], some[1], _text(item, "role"), _text(item, "why")))
    for paper, listed in (top["headlines"].mapping() if "headlines" in top else {}).items():
        for item in listed.items or []:
            text = _text(item, "claim")
            try:
                claim = ClaimText(text, expression.parse_claim(text))
            except expression.ExpressionError as error:
                raise item.error(f"cannot read the claim: {error}", "claim") from None
            out.headlines.append(Headline(paper, _text(item, "says"), _text(item, "experiment"), claim))
    return out


def _list(top: dict[str, Item], key: str) -> list[Item]:
    return (top[key].items or []) if key in top else []


def _text(item: Item, key: str) -> str:
    entries = item.mapping()
    if key not in entries or not str(entries[key].value or ""):
        raise item.error("missing", key)
    return str(entries[key].value)


def _one_of(item: Item, key: str, allowed: tuple[str, ...]) -> str:
    text = _text(item, key)
    if text not in allowed:
        raise item.error(f"expected one of {', '.join(allowed)}", key)
    return text


def _role(item: Item) -> Role:
    entries = item.mapping()
    name, why = _one_of(item, "role", ROLES), _text(item, "why")
    bound = _one_of(item, "bound", BOUNDS) if name == "bound" else ""
    above = entries["above"].value if "above" in entries else None
    if above is not None and not isinstance(above, (int, float)):
        raise item.error("expected a number", "above")
    return Role(name, why, bound, above)


def _ids(item: Item) -> list[str]:
    """The ids of published numbers that an entry of roles.yaml lists; V43-V63 is all from V43 to V63."""
    out: list[str] = []
    for each in item.mapping()["ids"].items or [] if "ids" in item.mapping() else []:
        found = re.fullmatch(r"V(\d+)(?:-V(\d+)|[a-z]*)", str(each.value))
        if not found:
            raise item.error(f"expected ids such as V85, V85b or V43-V63, found {each.value}", "ids")
        if found[2]:
            out += [f"V{number}" for number in range(int(found[1]), int(found[2]) + 1)]
        else:
            out.append(str(each.value))
    if not out:
        raise item.error("missing", "ids")
    return out
