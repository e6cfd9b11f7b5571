"""The error for bad input, and suggestions for misspelled names."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterable, Iterator

from loch.ending import CommandError, reason

NAME_MAX = 60  # letters of the longest name that gets a suggestion


class BadInput(CommandError):
    """Bad input: a flag, a key or a file. The message is one line; the exit status is 2."""


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turns any exception of a parser or of the system into BadInput that names `place`, a file or a line of a file."""
    try:
        yield
    except CommandError:
        raise
    except (
        OSError,
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise BadInput(f"{place}: {reason(error)}") from None


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
    """The candidate closest to `name`, or None if none is similar."""
    if len(name) > NAME_MAX:
        return None
    best, best_distance = None, len(name) // 2 + 2
    for candidate in candidates:
        distance = edit_distance(name.lower().replace("-", "_"), candidate.lower().replace("-", "_"))
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The text "; did you mean X?" for the closest candidate; empty if none is similar."""
    near = nearest(name, candidates)
    return f"; did you mean {near}?" if near else ""
