"""The one error that people cause, and the suggestion that goes with it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterable, Iterator

from loch.ending import CommandError, reason

NAME_MAX = 60  # letters of a name that is compared with the valid ones


class BadInput(CommandError):
    """Bad input from outside: a flag, a key, a file. The message is one line; the exit status is 2."""


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Whatever goes wrong inside is bad input of `place`, a file or a line of one: the one way from an exception of a
    parser or of the system to a line that people can use."""
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
    """The candidate closest to `name`, or None when nothing is near."""
    if len(name) > NAME_MAX:
        return None
    best, best_distance = None, len(name) // 2 + 2
    for candidate in candidates:
        distance = edit_distance(name.lower().replace("-", "_"), candidate.lower().replace("-", "_"))
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """ "; did you mean X?", or nothing."""
    near = nearest(name, candidates)
    return f"; did you mean {near}?" if near else ""
