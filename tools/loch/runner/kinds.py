"""The kinds of values in an experiment file: how a value of each kind is checked, and its JSON Schema."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator

from loch.hosts import is_address

from . import options
from .compat import BaseModel, ErrorWrapper, ValidationError
from .errors import did_you_mean
from .located import found
from .options import BENCH, SEEDS, Option
from .values import FIELD, option_of

NUMBER = r"(\d+(\.\d+)?|\.\d+)"
SIZE = rf"^\s*{NUMBER}\s*([KkMmGgTt]?)[iI]?[bB]?\s*$"
REAL = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
DURATION = rf"^\s*{NUMBER}\s*(ns|us|ms|s|m|h)\s*$"
PROTOCOL_OPTION = r"^[a-z][a-z0-9-]*\.[a-z0-9_-]+$"
SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
Loc = tuple[Any, ...]


class Kind:
    """A pydantic type for one kind of value, with a check and a JSON Schema."""

    schema: dict[str, Any] = {}

    @classmethod
    def __get_validators__(cls) -> Iterator[Callable[[Any], Any]]:
        yield cls.check

    @classmethod
    def __modify_schema__(cls, schema: dict[str, Any]) -> None:
        schema.update(cls.schema)

    @classmethod
    def check(cls, value: Any) -> Any:
        """Returns the value, or raises ValueError that says what was expected."""
        raise NotImplementedError


class _Below(BaseModel):
    """Pydantic model under whose name several problems inside one mapping or list are raised."""


def wrong(problems: list[tuple[Loc, str]]) -> ValidationError:
    """One error for several problems inside a mapping or list, each with its location and text."""
    return ValidationError([ErrorWrapper(ValueError(said), loc=loc) for loc, said in problems], _Below)


def is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, (dict, list))


def kind(name: str, check: Callable[[Any], Any], schema: dict[str, Any]) -> type[Kind]:
    def checked(cls: type[Kind], value: Any) -> Any:
        return check(value)

    return type(name, (Kind,), {"check": classmethod(checked), "schema": schema})


def option_schema(option: Option) -> dict[str, Any]:
    """The JSON Schema of an option's value."""
    if option.kind in ("count", "size"):
        limits = {"minimum": int(option.minimum)}
        if option.maximum != float("inf"):
            limits["maximum"] = int(option.maximum)
        return {"anyOf": [{"type": "integer", **limits}, {"type": "string", "pattern": f"{SIZE}|{REAL}"}]}
    if option.kind in ("share", "real"):
        bounds: dict[str, Any] = {"minimum": option.minimum}
        if option.kind == "real" and option.minimum == 0:
            bounds = {"exclusiveMinimum": 0}
        if option.maximum != float("inf"):
            bounds["maximum"] = option.maximum
        return {"anyOf": [{"type": "number", **bounds}, {"type": "string", "pattern": REAL}]}
    if option.kind == "duration":
        return {"type": "string", "pattern": DURATION}
    if option.kind == "choice":
        return {"enum": list(option.choices)}
    if option.kind == "switch":
        return {"enum": [True, False, "true", "false"]}
    return {"type": ["string", "number"], "minLength": 1}


def parse(key: str, value: Any) -> Any:
    """Converts and returns a value of option `key`, or raises ValueError that says what was expected."""
    option = option_of(key)
    raw = ("true" if value else "false") if options.is_protocol_option(key) and isinstance(value, bool) else value
    read = option.parse(raw) if is_scalar(value) else None
    if read is None:
        near = did_you_mean(str(value), option.choices) if option.kind == "choice" else ""
        raise ValueError(f"expected {option.expected()}, found {found(value)}{near}")
    return read


def _check_option(key: str, value: Any, by_place: bool) -> Any:
    if not isinstance(value, dict) or not by_place:
        parse(key, value)
        return value
    problems: list[tuple[Loc, str]] = []
    for text, each in value.items():
        try:
            parse(key, each)
        except ValueError as error:
            problems.append(((text,), str(error)))
    if problems:
        raise wrong(problems)
    return value


def of_option(key: str, by_place: bool) -> type[Kind]:
    """The type of an option's value; with `by_place` also a mapping whose keys are conditions on axes and `else`."""
    leaf = {**SCALAR} if options.is_protocol_option(key) else option_schema(option_of(key))
    cases = {"type": "object", "required": ["else"], "minProperties": 2, "additionalProperties": leaf}
    schema = {"anyOf": [*leaf.get("anyOf", [leaf]), cases]} if by_place else leaf
    return kind(f"Option_{key}", lambda value: _check_option(key, value, by_place), schema)


def list_of_option(key: str) -> type[Kind]:
    """The type of an axis: a list of values of option `key`."""
    leaf = {**SCALAR} if options.is_protocol_option(key) else option_schema(option_of(key))

    def check(value: Any) -> Any:
        if not isinstance(value, list) or not value:
            raise ValueError("expected a list of at least one value, such as [2K, 4K]")
        problems: list[tuple[Loc, str]] = []
        for i, each in enumerate(value):
            try:
                parse(key, each)
            except ValueError as error:
                problems.append(((i,), str(error)))
        if problems:
            raise wrong(problems)
        return value

    return kind(f"Axis_{key}", check, {"type": "array", "minItems": 1, "items": leaf})


def _text(value: Any) -> Any:
    if not is_scalar(value):
        raise ValueError(f"expected text, found {found(value)}")
    if not all(letter.isprintable() or letter in "\n\t\u00a0\u202f" for letter in str(value).strip()):
        raise ValueError(f"expected text without control characters, found {found(value)}")
    return value


def _truth(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {found(value)}")
    return value


def _field(value: Any) -> Any:
    _text(value)
    if not FIELD.match(str(value).strip()):
        raise ValueError(f"expected a result field such as latency_us.all.mean, found {str(value).strip()!r}")
    return value


def pattern(name: str, expression: str, expected: str) -> type[Kind]:
    """The type of text that matches the regular expression `expression`."""

    def check(value: Any) -> Any:
        _text(value)
        if not re.fullmatch(expression, str(value).strip()):
            raise ValueError(f"expected {expected}")
        return value

    return kind(name, check, {"type": "string", "pattern": f"^{expression}$"})


def choice(name: str, *words: str, expected: str = "") -> type[Kind]:
    def check(value: Any) -> Any:
        if str(value) not in words or not is_scalar(value):
            raise ValueError(expected or f"expected one of {', '.join(words)}{did_you_mean(str(value), words)}")
        return value

    return kind(name, check, {"enum": list(words)})


def either(name: str, one: type[Kind]) -> type[Kind]:
    """The type of one value of type `one`, or of a list of such values."""

    def check(value: Any) -> Any:
        problems: list[tuple[Loc, str]] = []
        for i, each in enumerate(value if isinstance(value, list) else [value]):
            try:
                one.check(each)
            except ValueError as error:
                problems.append(((i,) if isinstance(value, list) else ("__root__",), str(error)))
        if problems:
            raise wrong(problems)
        return value

    return kind(name, check, {"anyOf": [one.schema, {"type": "array", "items": one.schema}]})


def anything(name: str, schema: dict[str, Any]) -> type[Kind]:
    """A type that accepts every value, with a JSON Schema for editors; schema.py checks such values."""
    return kind(name, lambda value: value, schema)  # accepts any value, None too


def _word(value: Any) -> Any:
    """Checks an argument for a command line: it must not begin with -, so that no command takes it for a flag."""
    text = str(value).strip() if is_scalar(value) and not isinstance(value, bool) else ""
    if not text or text.startswith("-") or not text.isprintable() or len(text) > options.TEXT_MAX:
        raise ValueError(f"expected a name that does not begin with -, found {found(value)}")
    return value


def _bmc(value: Any) -> Any:
    if not is_scalar(value) or not is_address(str(value).strip().replace("{host}", "host")):
        raise ValueError(f"expected the name or address of a BMC, found {found(value)}")
    return value


Word = kind("Word", _word, {"type": ["string", "number"], "minLength": 1, "pattern": "^[^-]"})
Bmc = kind("Bmc", _bmc, {"type": "string", "minLength": 1})
Text = kind("Text", _text, {**SCALAR, "minLength": 1})
Truth = kind("Truth", _truth, {"type": "boolean"})
Field = kind("ResultField", _field, {"type": "string", "pattern": FIELD.pattern})
BENCH_KEYS = tuple(key for key in BENCH if key not in SEEDS)
