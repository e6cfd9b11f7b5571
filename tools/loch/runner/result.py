"""A point that has run: the result that loch-bench wrote, or the reason of its failure, and the runner's own record.

The file is not trusted: every key that the runner uses is checked and typed; other keys are kept and can be looked up
by dotted names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Generator, Iterator, NamedTuple, Optional

from . import kinds
from .compat import BaseModel, Extra, ValidationError
from .errors import BadInput

SCHEMA = 1
BINS_MAX = 10_000  # largest number of bins in a time series, equal to loch-bench's limit
_DEPTH_MAX = 8
# Error messages of pydantic that are replaced by the runner's own.
_SAID = {"value_error.missing": "missing", "type_error.none.not_allowed": "expected a value, found nothing"}


class Number(float):
    """A number of JSON: neither text nor a truth value."""

    @classmethod
    def __get_validators__(cls) -> Iterator[Any]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> Any:
        """Accepts an int or float and returns it unchanged."""
        if not is_number(value):
            raise ValueError("expected a number")
        return value


class Text(str):
    """A text of JSON."""

    @classmethod
    def __get_validators__(cls) -> Iterator[Any]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> Any:
        """Accepts a text and returns it unchanged."""
        if not isinstance(value, str):
            raise ValueError("expected text")
        return value


class Mapping(dict[str, Any]):
    """A mapping with any contents."""

    @classmethod
    def __get_validators__(cls) -> Iterator[Any]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> Any:
        """Accepts a mapping and returns it, not a copy."""
        if not isinstance(value, dict):
            raise ValueError("expected a mapping")
        return value


class Numbers(Mapping):
    """A mapping of numbers, which may be nested in mappings and in lists of pairs."""

    @classmethod
    def check(cls, value: Any) -> Any:
        """Accepts a mapping of numbers and returns it, not a copy."""
        super().check(value)
        wrong = _not_numbers(value, (), 0)
        if wrong:
            raise kinds.wrong([wrong])
        return value


class Bin(NamedTuple):
    """One bin of a time series. Rates are operations per second of the whole cluster."""

    t_s: float  # start of the bin in seconds after the start of the measured time
    ops_s: float
    failed_s: float
    unwritable_keys: float | None  # number of probed keys that could not be written in the bin; None: none was probed


class Event(NamedTuple):
    """A failure, repair or return of a node during a run."""

    t_s: float
    event: str
    node: float | None


class Bins(list[Bin]):
    @classmethod
    def __get_validators__(cls) -> Iterator[Any]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> list[Bin]:
        """Checks a result's `timeline` and converts it to bins."""
        return [
            Bin(each["t_s"], each["ops_s"], each.get("failed_s") or 0.0, each.get("unwritable_keys"))
            for each in _entries(value, ("t_s", "ops_s"))
        ]


class Events(list[Event]):
    @classmethod
    def __get_validators__(cls) -> Iterator[Any]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> list[Event]:
        """Checks a result's `events` and converts them."""
        return [Event(each["t_s"], each["event"], each.get("node")) for each in _entries(value, ("t_s", "event"))]


class Texts(list[str]):
    @classmethod
    def __get_validators__(cls) -> Iterator[Any]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> Any:
        """Accepts a list of texts."""
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError("expected a list of texts")
        return value


class Known(BaseModel):
    """A model with checked keys; further keys are allowed, as results of other releases may have them."""

    class Config:
        extra = Extra.ignore
        allow_mutation = False

    @classmethod
    def __get_validators__(cls) -> Generator[Callable[..., Any], None, None]:
        yield cls.check

    @classmethod
    def check(cls, value: Any) -> Any:
        """Accepts a mapping; pydantic by itself would also accept a list of pairs."""
        if not isinstance(value, (dict, cls)):
            raise ValueError("expected a mapping")
        return cls.parse_obj(value) if isinstance(value, dict) else value


class Build(Known):
    """The build of loch-bench that ran the point."""

    version: Optional[Text] = None
    commit: Optional[Text] = None
    dirty: Optional[bool] = None


class Host(Known):
    """The machine on which the point ran."""

    cpu: Optional[Text] = None
    cores: Optional[Number] = None
    kernel: Optional[Text] = None
    governor: Optional[Text] = None


class Runner(Known):
    """The runner's record, stored with a result or a failure."""

    host: Host = Host()
    stamp: Optional[Mapping] = None  # hashes of the binary and of the files on which the result depends
    elapsed_s: Optional[Number] = None
    others_cpu_share: Optional[Number] = None
    system: Optional[Text] = None
    tuning: bool = False


class Failure(Known):
    """The failure of a point, which has no result."""

    reason: Text
    exit_status: Optional[Number] = None
    stderr_tail: Text = Text()
    command: Text = Text()


class Capabilities(Known):
    device: Optional[Text] = None


class Simulated(Known):
    peak_memory_bytes: Optional[Number] = None


class _Fields(Known):
    """The keys of a result that the runner, its pages and its figures use."""

    throughput_ops_s: Optional[Number] = None
    goodput_bytes_s: Optional[Number] = None
    duration_s: Optional[Number] = None
    operations: Numbers = Numbers()
    latency_us: Numbers = Numbers()
    verbs: Numbers = Numbers()
    wire_bytes: Numbers = Numbers()
    cpu: Numbers = Numbers()
    loch: Optional[Build] = None
    config: Optional[Mapping] = None
    capabilities: Optional[Capabilities] = None
    sim: Optional[Simulated] = None
    power_w: Optional[Mapping] = None
    transport: Text = Text("verbs")
    timeline: Optional[Bins] = None
    events: Optional[Events] = None
    probed_keys: Optional[Number] = None
    caveats: Optional[Texts] = None
    departure: Text = Text("")


@dataclass(frozen=True)
class Result:
    """One result: `known` has the checked keys, `document` all keys as they were read, unknown ones included."""

    document: dict[str, Any]
    known: _Fields

    def inside(self, path: list[str]) -> Any:
        """A value of the whole document; a number in the path is an index of a list: nodes.0.counters.link_tx_busy."""
        node: Any = self.document
        for part in path:
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            else:
                return None
        return node

    def node(self, name: str) -> Any:
        """The value with a dotted name: a number, a distribution or a mapping; None if it does not exist."""
        return self.inside(name.split("."))


@dataclass(frozen=True)
class Stored:
    """A stored point: its name, its result or its failure, and the runner's record."""

    hash: str
    runner: Runner
    result: Result | None = None
    failure: Failure | None = None

    @property
    def failed(self) -> bool:
        return self.failure is not None


@dataclass
class _Wrong(Exception):
    """A document is not a valid result; the message is the reason."""

    said: str = field(default="")


def of_file(name: str, document: Any, failed: bool, place: str) -> Stored:
    """Checks a stored point's document; raises BadInput with file and key if it is malformed."""
    try:
        if not isinstance(document, dict):
            raise _Wrong("expected a mapping")
        if not isinstance(document.get("runner"), dict):
            raise _Wrong("runner: expected a mapping")
        runner = _read(Runner, document["runner"], "runner")
        if ("failure" in document) != failed:
            raise _Wrong("a result where a failure was expected" if failed else "a failure where a result was expected")
        if failed:
            return Stored(name, runner, failure=_read(Failure, document["failure"], "failure"))
        return Stored(name, runner, result=_result(document, has_throughput=True))
    except _Wrong as wrong:
        raise BadInput(f"{place}: {wrong.said}") from None


def of_table(name: str, document: dict[str, Any], runner: dict[str, Any], place: str) -> Stored:
    """Checks a point of reference results, whose table may omit any field; raises BadInput if it is malformed."""
    try:
        record = _read(Runner, runner, "runner")
        if "failure" in document:
            return Stored(name, record, failure=_read(Failure, document["failure"], "failure"))
        return Stored(name, record, result=_result(document, has_throughput=False))
    except _Wrong as wrong:
        raise BadInput(f"{place}: {name}: {wrong.said}") from None


def of_program(document: Any) -> Result:
    """Checks the result that loch-bench has just written; raises BadInput with key and reason if it is malformed."""
    try:
        if not isinstance(document, dict):
            raise _Wrong("the result is no JSON object")
        if document.get("schema") != SCHEMA:
            raise _Wrong(f"schema: expected {SCHEMA}, found {document.get('schema')!r}")
        found = _result(document, has_throughput=True)
        corrupt = found.known.operations.get("corrupt", 0)
        if corrupt:
            raise _Wrong(f"{corrupt} values read were corrupt")
        return found
    except _Wrong as wrong:
        raise BadInput(wrong.said) from None


def _result(document: dict[str, Any], has_throughput: bool) -> Result:
    known = _read(_Fields, document, "")
    if has_throughput and known.throughput_ops_s is None:
        raise _Wrong("throughput_ops_s: expected a number")
    return Result(document, known)


def _read(model: Any, value: Any, path: str) -> Any:
    try:
        return model.check(value)
    except ValidationError as error:
        first = error.errors()[0]
        at = [path, *map(str, first["loc"])]
        said = _SAID.get(first["type"], first["msg"])
        raise _Wrong(f"{'.'.join(part for part in at if part and part != '__root__')}: {said}") from None
    except ValueError as error:
        raise _Wrong(f"{path}: {error}") from None


def is_number(value: Any) -> bool:
    """Whether a value is a number in JSON's sense: truth values, which are int in Python, are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _not_numbers(node: Any, path: tuple[Any, ...], depth: int) -> tuple[tuple[Any, ...], str] | None:
    """The path of the first value below a mapping or list that is not a number, and what is wrong; None if all are
    numbers."""
    if depth > _DEPTH_MAX:
        return path, "nested too deeply"
    for key, child in node.items() if isinstance(node, dict) else enumerate(node):
        kind = type(child)
        if kind is float or kind is int or child is None:
            continue
        at = (*path, key)
        if kind is not dict and kind is not list:
            return at, "expected a number"
        is_pair = kind is list and type(node) is list
        if is_pair and (len(child) != 2 or not all(map(is_number, child))):
            return at, "expected two numbers"
        wrong = _not_numbers(child, at, depth + 1)
        if wrong:
            return wrong
    return None


def _entries(value: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Checks the entries of a time series: each has the keys `names`, and all other values are numbers or None."""
    if not isinstance(value, list) or len(value) > BINS_MAX:
        raise ValueError(f"expected a list of at most {BINS_MAX:,}")
    for i, entry in enumerate(value):
        if not isinstance(entry, dict) or not all(_is_good(name, entry.get(name)) for name in names):
            raise kinds.wrong([((i,), f"expected {' and '.join(names)}")])
        if not all(each is None or is_number(each) for name, each in entry.items() if name != "event"):
            raise kinds.wrong([((i,), "expected numbers")])
    return value


def _is_good(name: str, value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier() if name == "event" else is_number(value)
