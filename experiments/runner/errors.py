"""The one error that people cause, and the suggestion that goes with it."""

from __future__ import annotations

from typing import Iterable

from ending import CommandError


class BadInput(CommandError):
    """Bad input from outside: a flag, a key, a file. The message is one line; the exit status is 2."""


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance between two short names."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            up = row[j]
            row[j] = min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
            diagonal = up
    return row[-1]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to `name`, or None when nothing is near."""
    best, best_distance = None, len(name) // 2 + 2
    for candidate in candidates:
        distance = edit_distance(name.lower().replace("-", "_"), candidate.lower().replace("-", "_"))
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """"; did you mean X?", or nothing."""
    near = nearest(name, candidates)
    return f"; did you mean {near}?" if near else ""
