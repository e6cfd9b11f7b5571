"""The list of all published numbers and trends (plots/published/targets.yaml), so that a score omits none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from . import located

NAME = "targets"
_KEYS = ("id", "to", "source", "place", "what", "published", "kind", "calibration", "withheld", "elsewhere")
KINDS = ("E", "T", "F", "E/T")


@dataclass(frozen=True)
class Target:
    """One published number or trend by its id; several numbers may share an id (V85a, V85b)."""

    id: str
    source: str
    place: str
    what: str
    published: str  # the published value or statement in words
    kind: str
    calibration: bool
    withheld: bool
    elsewhere: str  # which test or page covers the target, if no simulation covers it


def base(identity: str) -> str:
    """An id without its letter: V85b -> V85."""
    found = re.match(r"V\d+", identity)
    return found.group() if found else identity


def number(identity: str) -> int:
    """The number in an id, for sorting; ids without a number come last."""
    found = re.match(r"V(\d+)", identity)
    return int(found.group(1)) if found else 10**9


@lru_cache(maxsize=None)
def load(folder: Path) -> dict[str, Target]:
    """All published numbers and trends by id; empty if the folder has no list."""
    path = folder / f"{NAME}.yaml"
    if not path.is_file():
        return {}
    out: dict[str, Target] = {}
    for item in located.load(path, ours=True).mapping()["targets"].items or []:
        entries = item.mapping()
        for key in entries:
            if key not in _KEYS:
                raise item.error("no such key", key)
        for key in ("id", "source", "what", "published", "kind"):
            if key not in entries:
                raise item.error("missing", key)
        if entries["kind"].value not in KINDS:
            raise entries["kind"].error(f"expected one of {', '.join(KINDS)}")

        def text(key: str) -> str:
            return str(entries[key].value) if key in entries else ""

        first, last = number(text("id")), number(text("to") or text("id"))
        for each in range(first, last + 1):
            if f"V{each}" in out:
                raise item.error(f"V{each} is there twice", "id")
            out[f"V{each}"] = Target(
                f"V{each}",
                text("source"),
                text("place"),
                text("what"),
                text("published"),
                text("kind"),
                text("calibration") == "True",
                text("withheld") == "True",
                text("elsewhere"),
            )
    return out
