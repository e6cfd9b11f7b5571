"""Values of an option that depend on the axis values of a point:

  servers: {value_size <= 32K: 3, else: 2}
  window: {value_size < 4K and get >= 0.9: 8, get >= 0.9: 4, else: 1}

The first condition that holds determines the value. A condition compares axes with values, by == != < <= > >=, and may
join comparisons by `and`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator

from . import expression
from .errors import did_you_mean
from .located import Item, cut
from .values import value_of

ELSE = "else"
FIXED = (
    "protocol",
    "fabric",
    "hardware",
    "processes",
    "scale",
)  # options that have one value for the whole experiment, not one for each axis value


@dataclass(frozen=True)
class Case:
    """A value and the condition on axis values under which it applies."""

    text: str  # the text of the condition, as it is in the experiment file
    conditions: tuple[expression.Binary, ...]
    value: Any
    place: Item  # the position in the file, for error messages

    def holds(self, axes: dict[str, Any]) -> bool:
        return all(
            expression.evaluate(each, lambda name: expression.comparable(axes[name.path])) for each in self.conditions
        )


@dataclass(frozen=True)
class PerAxis:
    """The value of an option at each combination of axis values."""

    cases: tuple[Case, ...]
    otherwise: Any

    def case_at(self, axes: dict[str, Any]) -> Case | None:
        """The first case whose condition holds; None if `else` applies."""
        return next((case for case in self.cases if case.holds(axes)), None)

    def at(self, axes: dict[str, Any]) -> Any:
        case = self.case_at(axes)
        return self.otherwise if case is None else case.value

    def values(self) -> list[Any]:
        return [*(case.value for case in self.cases), self.otherwise]

    def text(self, shown: Callable[[Any], str]) -> str:
        """The value in words: "3 where value_size <= 32K, else 2"."""
        return ", ".join([*(f"{shown(case.value)} where {case.text}" for case in self.cases), ""]) + (
            f"else {shown(self.otherwise)}"
        )


def at(value: Any, axes: dict[str, Any]) -> Any:
    """The value of an option at given axis values; `value` itself if it does not depend on them."""
    return value.at(axes) if isinstance(value, PerAxis) else value


def among(value: Any) -> list[Any]:
    """All values that an option may take."""
    return value.values() if isinstance(value, PerAxis) else [value]


def of(params: dict[str, Any]) -> Iterator[tuple[str, PerAxis]]:
    """The options whose values depend on the axes, with those values."""
    for key, value in params.items():
        if isinstance(value, PerAxis):
            yield key, value


def read(item: Item, key: str, axes: dict[str, list[Any]]) -> Any:
    """Reads the value of an option; a mapping of conditions gives a PerAxis."""
    if item.entries is None or key in FIXED:
        return value_of(item, key)
    if ELSE not in item.entries:
        raise item.error(
            f"expected else: as well, with the value for where {' or '.join(map(cut, item.entries))} is not so"
        )
    cases = tuple(
        Case(text, _conditions(item, text, axes), value_of(child, key), Item(child.file, child.line, child.path))
        for text, child in item.entries.items()
        if text != ELSE
    )
    if not cases:
        raise item.error("expected a condition such as value_size <= 32K besides else:")
    return PerAxis(cases, value_of(item.entries[ELSE], key))


def _conditions(item: Item, text: str, axes: dict[str, list[Any]]) -> tuple[expression.Binary, ...]:
    try:
        parsed = expression.parse_conditions(text)
    except expression.ExpressionError as error:
        raise item.error(f"expected a condition such as value_size <= 32K, or else: {error}", text) from None
    out = []
    for each in parsed:
        named = each.left if isinstance(each.left, expression.Name) else None
        if named is None or named.path not in axes:
            what = named.path if named is not None else cut(text)
            raise item.error(f"{what} is no axis of this experiment{did_you_mean(what, axes)}", text)
        right = each.right
        # the right side of a condition may be text such as `uniform`, as may an axis value
        if isinstance(right, expression.Name) and right.path not in axes:
            right = right.path
        try:
            expression.compare(each.sign, expression.comparable(axes[named.path][0]), _sample(right, axes))
        except expression.ExpressionError as error:
            raise item.error(f"{named.path}: {error}", text) from None
        out.append(expression.Binary(each.sign, each.left, right))
    return tuple(out)


def _sample(right: Any, axes: dict[str, list[Any]]) -> Any:
    """The right side of a condition evaluated at the first value of each axis that it names, to tell its type."""
    sample = expression.evaluate(right, lambda name: _first(name, axes))
    return expression.comparable(sample)


def _first(name: expression.Name, axes: dict[str, list[Any]]) -> Any:
    if name.path not in axes:
        raise expression.ExpressionError(f"{name.path} is no axis of this experiment{did_you_mean(name.path, axes)}")
    return expression.comparable(axes[name.path][0])
