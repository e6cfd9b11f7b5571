"""The expressions of `tune`, `derive`, `claims` and published `numbers`: numbers with units, names, + - * /, min(),
max(), argmin(), argmax() and comparisons.

  clients: 12 - servers
  gb_sent: payload_bytes.total / duration_s * 112 / 1e9
  CD.latency_us.all.mean < SD.latency_us.all.mean where value_size >= 16K and get == 0.5
  CD[value_size=2K].throughput_ops_s < 1.1 * SD[value_size=2K].throughput_ops_s
  max(CD[clients=*].throughput_ops_s) / max(SD[clients=*].throughput_ops_s)

Expressions are parsed here and never passed to Python's eval().
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, Callable

from .units import parse_duration, parse_size

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?:[KMGT]i?B?\b|ns\b|us\b|ms\b|s\b|%)?)
  | (?P<option>[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*\.[a-z][a-z0-9_]*(?:-[a-z0-9_]*[a-z][a-z0-9_]*)*(?![\w.]))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
  | (?P<text>"[^"]*")
  | (?P<sign><=|>=|==|!=|[-+*/()<>=\[\],.])
)""",
    re.VERBOSE,
)

TOKENS_MAX = 400  # largest number of tokens of an expression
DEPTH_MAX = 50  # largest depth of nested brackets and signs

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
FUNCTIONS = ("min", "max", "argmin", "argmax")
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


class ExpressionError(ValueError):
    """An expression that cannot be parsed or evaluated; the message says why."""


class Every:
    """The axis value `*`: all values of the axis, for an argument of min(), max(), argmin() or argmax()."""

    def __repr__(self) -> str:
        return "*"


EVERY = Every()


@dataclass(frozen=True)
class Name:
    """A name whose value is looked up: `path` is dotted; `at` has axis values in brackets
    (CD[value_size=2K].goodput_bytes_s)."""

    path: str
    at: tuple[tuple[str, Any], ...] = ()

    @property
    def is_many(self) -> bool:
        """Whether the name stands for a value at each value of some axis, as in CD[clients=*], rather than for one
        value."""
        return any(value is EVERY for _, value in self.at)


@dataclass(frozen=True)
class Call:
    """min() or max() of the arguments; or argmin() or argmax(): the value of the `*` axis at which the argument is
    extreme."""

    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Binary:
    sign: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Claim:
    """The comparison `left SIGN right`, to hold at every combination of axis values that meets the conditions
    `where`."""

    sign: str
    left: Any
    right: Any
    where: tuple[Binary, ...] = ()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.depth = 0
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if not match or match.end() == at:
                raise ExpressionError(f"cannot read {text[at:].strip()[:20]!r}")
            kind = (
                "name" if match.lastgroup == "option" else match.lastgroup or ""
            )  # herd.ud-qps is the name of one option, not a subtraction
            self.tokens.append((kind, match.group(match.lastgroup or 0)))
            at = match.end()
            if len(self.tokens) > TOKENS_MAX:
                raise ExpressionError(f"it has over {TOKENS_MAX} numbers, names and signs")
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str | None:
        if self.peek() in wanted and self.at < len(self.tokens):
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise ExpressionError(f"expected {wanted!r} before {self.peek() or 'the end'!r}")

    def sum(self) -> Any:
        left = self.product()
        while sign := self.take("+", "-"):
            left = Binary(sign, left, self.product())
        return left

    def product(self) -> Any:
        left = self.factor()
        while sign := self.take("*", "/"):
            left = Binary(sign, left, self.factor())
        return left

    def factor(self) -> Any:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ExpressionError(f"over {DEPTH_MAX} brackets or minus signs in each other")
        try:
            return self.operand()
        finally:
            self.depth -= 1

    def operand(self) -> Any:
        if self.take("-"):
            return Binary("-", 0.0, self.factor())
        if self.take("("):
            inside = self.sum()
            self.need(")")
            return inside
        if self.at >= len(self.tokens):
            raise ExpressionError("it ends where a number or a name was expected")
        kind, token = self.tokens[self.at]
        if kind == "sign" or token in ("where", "and"):
            raise ExpressionError(f"expected a number or a name, found {token!r}")
        self.at += 1
        if kind == "number":
            return number(token)
        if kind == "text":
            return token[1:-1]
        if token in FUNCTIONS and self.peek() == "(":
            return self.call(token)
        return self.name(token)

    def call(self, function: str) -> Call:
        self.need("(")
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        self.need(")")
        alone = arguments[0] if len(arguments) == 1 else None
        if function.startswith("arg") and not (isinstance(alone, Name) and sum(v is EVERY for _, v in alone.at) == 1):
            raise ExpressionError(
                f"{function}() needs one name with one axis at *, such as CD[clients=*].throughput_ops_s"
            )
        return Call(function, tuple(arguments))

    def name(self, first: str) -> Name:
        at: list[tuple[str, Any]] = []
        if self.take("["):
            while True:
                kind, key = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
                if kind != "name":
                    raise ExpressionError(f"expected an axis name in [...], found {key or 'the end'!r}")
                self.at += 1
                self.need("=")
                at.append((key, EVERY if self.take("*") else self.axis_value()))
                if not self.take(","):
                    break
            self.need("]")
            self.need(".")
            kind, rest = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
            if kind != "name":
                raise ExpressionError("expected a result field after ]")
            self.at += 1
            return Name(f"{first}.{rest}", tuple(at))
        return Name(first)

    def axis_value(self) -> Any:
        value = self.factor()
        if isinstance(value, Name) and not value.at:
            return value.path  # a single word on the right is text, as in distribution=uniform
        if isinstance(value, Binary) and value.left == 0.0 and isinstance(value.right, float):
            return -value.right
        if isinstance(value, (str, float)):
            return value
        raise ExpressionError("expected an axis value after =")

    def comparison(self) -> Binary:
        left = self.sum()
        sign = self.take(*COMPARISONS)
        if not sign:
            raise ExpressionError(f"expected a comparison (< <= > >= == !=), found {self.peek() or 'the end'!r}")
        return Binary(sign, left, self.sum())

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise ExpressionError(f"cannot read from {self.peek()!r} on")


def number(token: str) -> float:
    """The value of a number with a unit: 16K -> 16384, 50ms -> 50000000 (nanoseconds), 5% -> 0.05."""
    if token.endswith("%"):
        return float(token[:-1]) / 100
    if token[-1].isdigit():
        if float(token) == float("inf"):
            raise ExpressionError(f"{token[:20]} is too large a number")
        return float(token)
    size = parse_size(token)
    value = size if size is not None else parse_duration(token)
    if value is None:
        raise ExpressionError(f"{token[:20]!r} is no number")
    return float(value)


def parse_arithmetic(text: str) -> Any:
    """Parses an expression whose value is a number."""
    parser = _Parser(text)
    tree = parser.sum()
    parser.end()
    _check_many(tree)
    return tree


def _check_many(tree: Any) -> None:
    """Refuses a name with `*` outside of a function, since it has no single value."""
    if isinstance(tree, Name) and tree.is_many:
        raise ExpressionError(f"{tree.path} at * is many values; put it into {', '.join(f'{f}()' for f in FUNCTIONS)}")
    if isinstance(tree, (Binary, Claim)):
        _check_many(tree.left)
        _check_many(tree.right)
    if isinstance(tree, Call):
        for each in tree.arguments:
            if not isinstance(each, Name):
                _check_many(each)


def parse_claim(text: str) -> Claim:
    """Parses a claim: a comparison with optional conditions after `where`."""
    parser = _Parser(text)
    head = parser.comparison()
    where: list[Binary] = []
    if parser.take("where"):
        where.append(parser.comparison())
        while parser.take("and"):
            where.append(parser.comparison())
    parser.end()
    claim = Claim(head.sign, head.left, head.right, tuple(where))
    _check_many(claim)
    return claim


def parse_conditions(text: str) -> tuple[Binary, ...]:
    """Parses conditions: comparisons joined by `and`."""
    parser = _Parser(text)
    found = [parser.comparison()]
    while parser.take("and"):
        found.append(parser.comparison())
    parser.end()
    for each in found:
        _check_many(each)
    return tuple(found)


def comparable(value: Any) -> Any:
    """An axis value in the form that expressions compare: text of a protocol option that reads as a number becomes a
    number."""
    try:
        return number(value) if isinstance(value, str) and value[:1].isdigit() else value
    except ValueError:
        return value


def names(tree: Any) -> list[Name]:
    """Every name in an expression or a claim, left to right, except those in conditions after `where`."""
    if isinstance(tree, Name):
        return [tree]
    if isinstance(tree, (Binary, Claim)):
        return names(tree.left) + names(tree.right)
    if isinstance(tree, Call):
        return [name for each in tree.arguments for name in names(each)]
    return []


def evaluate(tree: Any, lookup: Callable[[Name], Any]) -> Any:
    """The value of an expression; `lookup` gives the value of a name and may raise. A division by zero gives nan.

    For a name with an axis at `*`, `lookup` returns a mapping from axis value to value.
    """
    if isinstance(tree, Name):
        return lookup(tree)
    if isinstance(tree, Call):
        return _call(tree, lookup)
    if isinstance(tree, Binary):
        left, right = evaluate(tree.left, lookup), evaluate(tree.right, lookup)
        if tree.sign in COMPARISONS:
            return compare(tree.sign, left, right)
        if isinstance(left, str) or isinstance(right, str):
            raise ExpressionError(f"cannot apply {tree.sign} to text")
        if tree.sign == "/" and right == 0:
            return float("nan")
        return _ARITHMETIC[tree.sign](left, right)
    return tree


def _call(tree: Call, lookup: Callable[[Name], Any]) -> Any:
    best = min if tree.function.endswith("min") else max
    values: list[Any] = []
    for each in tree.arguments:
        value = evaluate(each, lookup)
        if isinstance(value, dict):
            if tree.function.startswith("arg"):
                return best(value, key=lambda at: value[at])
            values += value.values()
        else:
            values.append(value)
    if any(isinstance(value, str) for value in values):
        raise ExpressionError(f"cannot apply {tree.function}() to text")
    return best(values)


def compare(sign: str, left: Any, right: Any) -> bool:
    """Compares two values; text and a number are unequal, and ordering them is an error."""
    if isinstance(left, str) != isinstance(right, str):
        if sign in ("==", "!="):
            return sign == "!="
        raise ExpressionError("cannot order text and a number")
    return COMPARISONS[sign](left, right)
