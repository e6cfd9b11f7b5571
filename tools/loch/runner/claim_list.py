"""Reads the claims of an experiment: conclusions of a paper, written as comparisons of results."""

from __future__ import annotations

import re
from typing import Any

from . import expression, lookup
from .errors import did_you_mean
from .located import Item, cut
from .model import ClaimText
from .values import known, listed, text_of


def read(item: Item | None, axes: dict[str, list[Any]], systems: list[str], is_as_written: bool) -> list[ClaimText]:
    """Reads the list `claims:`. With `is_as_written` (no --set was given) a claim that names an axis value which the
    experiment lacks is refused.

    With --set it is accepted, since --set may have removed the value from the axis.
    """
    out = []
    for child in listed(item, "a list of checks such as [CD.throughput_ops_s > SD.throughput_ops_s]"):
        explained = ""
        about: tuple[str, ...] = ()
        if child.entries is not None:
            known(child, ("claim", "why", "about", "id"))
            if "claim" not in child.entries:
                raise child.error("missing", "claim")
            explained = pointer(child.entries.get("why"))
            named = child.entries.get("about") or child.entries.get("id")  # `id` is the former name of the key `about`
            about = tuple(_target(each) for each in named.scalars()) if named is not None else ()
        said = child.entries["claim"] if child.entries is not None else child
        text = text_of(said)
        try:
            claim = expression.parse_claim(text)
        except expression.ExpressionError as error:
            raise said.error(f"cannot read the claim {cut(text)!r}: {error}") from None
        for name in expression.names(claim):
            wrong = lookup.wrong_name(axes, systems, name, is_as_written)
            if wrong:
                raise said.error(wrong)
        for condition in claim.where:
            for name in expression.names(condition):
                if name.path not in axes:
                    raise said.error(f"where {name.path}: no axis of this experiment{did_you_mean(name.path, axes)}")
        out.append(ClaimText(text, claim, explained, about))
    return out


def _target(item: Item) -> str:
    """Reads the id of a published value or sentence, such as V88, that a claim is about."""
    text = text_of(item)
    if not re.fullmatch(r"V\d+[a-z]*", text):
        raise item.error(f"expected the number of a published value such as V88, found {item.kind()}")
    return text


def pointer(item: Item | None) -> str:
    """Reads `why:` of a claim or a published number: the section in docs/ that explains why it is missed."""
    if item is None:
        return ""
    text = text_of(item)
    if not re.fullmatch(r"docs/[a-z-]+\.md#[a-z0-9-]+", text):
        raise item.error(f"expected a place such as docs/fidelity.md#known-misses, found {text!r}")
    return text
