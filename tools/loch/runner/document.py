"""The structure of an experiment file: its keys, and the kind of value of each. schema.py checks whether the values are
consistent. `./loch schema` prints the structure as JSON Schema for editors."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Optional

from . import kinds, options
from .compat import BaseModel, Extra, ValidationError, create_model, root_validator
from .errors import BadInput, did_you_mean
from .located import Item, found
from .model import AUTO, FIGURE_KINDS, POWER_SOURCES, PRELOADS, REPEATS, SYSTEMS, X_AS
from .options import BENCH, SEEDS, Option

RUN_LENGTH = ("warmup", "duration", "operations")
OVER_TIME = ("timeline", "probe_keys")
CLUSTER = ("nodes", "server_nodes", "processes")
_NOT_WORKLOAD = ("protocol", "fabric", "hardware", *CLUSTER, "workload_file", *RUN_LENGTH, *SEEDS, *OVER_TIME)


class Closed(BaseModel):
    """A mapping with a fixed set of keys; the error for an unknown key suggests the most similar known one."""

    belongs_elsewhere: ClassVar[dict[str, str]] = {}  # keys that users put here by mistake -> text of the error

    class Config:
        extra = Extra.forbid

    @root_validator(pre=True)
    def keys_are_known(cls: Any, values: dict[str, Any]) -> dict[str, Any]:
        names = tuple(cls.__fields__)
        problems: list[tuple[tuple[Any, ...], str]] = []
        for key, value in values.items():
            if key not in names:
                said = cls.belongs_elsewhere.get(key) or f"no such key{did_you_mean(key, names)}"
                problems.append(((key,), said))
            elif value is None:
                problems += _nothing(cls, key)
        if problems:
            raise kinds.wrong(problems)
        return values


class Watts(Closed):
    """The mapping `measure.power`: how power is read; a password in it is refused."""

    belongs_elsewhere: ClassVar[dict[str, str]] = {
        "password": "a password does not belong in a file: set IPMI_PASSWORD in the environment"
    }


class Open(BaseModel):
    """A mapping with a fixed set of keys and, in addition, options of protocols (nessie.filter-bits).

    Options that name a program are refused, since a file from somebody else must not start programs.
    """

    class Config:
        extra = Extra.allow

        @staticmethod
        def schema_extra(schema: dict[str, Any], model: type[BaseModel]) -> None:
            of_option = getattr(model, "of_protocol_option")
            schema["patternProperties"] = {kinds.PROTOCOL_OPTION: of_option.schema}
            schema["additionalProperties"] = False

    @root_validator(pre=True)
    def keys_are_known(cls: Any, values: dict[str, Any]) -> dict[str, Any]:
        names = tuple(cls.__fields__)
        problems: list[tuple[tuple[Any, ...], str]] = []
        for key, value in values.items():
            if options.names_program(key):
                problems.append(((key,), f"programs are named on the command line only, with loch bench --{key}"))
            elif options.is_protocol_option(key):
                problems += _below(key, getattr(cls, "of_protocol_option"), value)
            elif key not in names:
                problems.append(((key,), f"no such key{did_you_mean(key, names)}"))
            elif value is None:
                problems += _nothing(cls, key)
        if problems:
            raise kinds.wrong(problems)
        return values


def _nothing(model: type[BaseModel], key: str) -> list[tuple[tuple[Any, ...], str]]:
    """The problems with a key that has no value, which pydantic would treat as an absent key."""
    kind = model.__fields__[key].type_
    if issubclass(kind, kinds.Kind):
        return _below(key, kind, None)
    return [((key,), "expected a mapping of keys, found nothing")]


def _below(key: str, kind: type[kinds.Kind], value: Any) -> list[tuple[tuple[Any, ...], str]]:
    try:
        kind.check(value)
    except ValidationError as error:
        return [((key, *each["loc"]), each["msg"]) for each in error.errors()]
    except ValueError as error:
        return [((key,), str(error))]
    return []


def _options(names: tuple[str, ...], fixed: tuple[str, ...] = ()) -> dict[str, Any]:
    """Model fields for options of loch bench; options other than `fixed` may have different values by axis value."""
    return {name: (Optional[kinds.of_option(name, by_place=name not in fixed)], None) for name in names}


def _optional(**fields: Any) -> dict[str, Any]:
    return {name: (Optional[kind], None) for name, kind in fields.items()}


def _model(name: str, base: type[BaseModel], fields: dict[str, Any], needed: tuple[str, ...] = ()) -> type[BaseModel]:
    for each in needed:
        fields[each] = (fields[each][0].__args__[0], ...)
    return create_model(name, __base__=base, __module__=__name__, **fields)


_FIXED = ("protocol", "fabric", "hardware", "processes", "scale")
_EXPRESSION = {"type": ["string", "number"]}
_PER_AXIS = {"type": "object", "additionalProperties": True}


class _ByPlace(Open):
    of_protocol_option = kinds.of_option("protocol.option", by_place=True)


class _ByList(Open):
    of_protocol_option = kinds.list_of_option("protocol.option")


class _Tuned(Open):
    of_protocol_option = kinds.anything(
        "Tuned", {"anyOf": [{"type": "array", "minItems": 1, "items": kinds.SCALAR}, _EXPRESSION]}
    )


Cluster = _model("Cluster", Closed, _options(CLUSTER, _FIXED))
_WORKLOAD_KEYS = (*(key for key in BENCH if key not in _NOT_WORKLOAD), "data_per_node")
Workload = _model(
    "Workload",
    _ByPlace,
    {**_options(_WORKLOAD_KEYS), **_optional(file=kinds.of_option("workload_file", by_place=True))},
)
Tune = _model("Tune", _Tuned, {key: (Optional[_Tuned.of_protocol_option], None) for key in BENCH})
System = _model(
    "System",
    _ByPlace,
    {
        **_options((*kinds.BENCH_KEYS, "data_per_node", "scale"), _FIXED),
        **_optional(
            label=kinds.Text,
            published=kinds.anything("Published", {"type": ["string", "number"]}),
            cluster=Cluster,
            tune=Tune,
            maximize=kinds.Field,
            minimize=kinds.Field,
            hardened_of=kinds.Text,
            only=kinds.anything("Only", _PER_AXIS),
            drawn=kinds.Truth,
        ),
    },
    needed=("protocol",),
)
_AXES_KEYS = (*kinds.BENCH_KEYS, "data_per_node", "scale", "share_of_max")
Axes = _model("Axes", _ByList, {key: (Optional[kinds.list_of_option(key)], None) for key in _AXES_KEYS})
Paper = _model(
    "Paper", Closed, _optional(source=kinds.Text, item=kinds.Text, score=kinds.Truth), needed=("source", "item")
)


def _setting(name: str, option: Option) -> type[kinds.Kind]:
    def check(value: Any) -> Any:
        if not kinds.is_scalar(value) or option.parse(value) is None:
            raise ValueError(f"expected {option.expected()}, found {found(value)}")
        return value

    return kinds.kind(name, check, kinds.option_schema(option))


def _repeats(value: Any) -> Any:
    if value != AUTO and (not kinds.is_scalar(value) or REPEATS.parse(value) is None):
        raise ValueError(f"expected {REPEATS.expected()}, or {AUTO}, found {found(value)}")
    return value


_SOURCE = kinds.choice("PowerSource", *POWER_SOURCES)
Power = _model(
    "Power",
    Watts,
    _optional(
        source=_SOURCE,
        bmc=kinds.either("Bmcs", kinds.Bmc),
        port=_setting("Port", Option("count", 1, 65535)),
        user=kinds.Word,
        sensor=kinds.Word,
        trace=kinds.Word,
        rate=_setting("Rate", Option("real", 0.001, 100)),
        idle=_setting("Idle", Option("duration")),
    ),
    needed=("source",),
)
Measure = _model(
    "Measure",
    Closed,
    {
        **_options(RUN_LENGTH + OVER_TIME),
        **_optional(
            repeats=kinds.kind("Repeats", _repeats, {"anyOf": [kinds.option_schema(REPEATS), {"enum": [AUTO]}]}),
            preloads=_setting("Preloads", PRELOADS),
            seed=_setting("Seed", BENCH["seed"]),
            timeout=_setting("Timeout", Option("duration")),
            tune_duration=_setting("TuneDuration", Option("duration")),
            tune_at=kinds.anything("TuneAt", _PER_AXIS),
            power=Power,
        ),
    },
)
_FIELDS = kinds.either("Fields", kinds.Field)
Figure = _model(
    "Figure",
    Closed,
    _optional(
        kind=kinds.choice("FigureKind", *FIGURE_KINDS),
        x=kinds.Text,
        y=_FIELDS,
        rows=_FIELDS,
        along=kinds.Text,
        down=kinds.Text,
        across=kinds.choice("Across", SYSTEMS, expected=f"expected {SYSTEMS}"),
        panels=kinds.anything("Panels", {"type": ["string", "object"]}),
        published=kinds.Truth,
        ratio=kinds.Truth,
        source=kinds.Truth,
        log=kinds.Truth,
        x_log=kinds.Truth,
        x_as=kinds.choice("XAs", *X_AS),
        tail=kinds.Truth,
        together=kinds.Text,
        y_max=kinds.kind("Top", lambda value: value, {"type": "number", "exclusiveMinimum": 0}),
        relative_to=kinds.Text,
        width=kinds.choice("Width", "one", "two", expected="expected one or two (columns of a paper)"),
        note=kinds.Text,
    ),
)
_TARGET = {"type": "string", "pattern": r"^V\d+[a-z]*$"}
_TARGETS = {"anyOf": [_TARGET, {"type": "array", "items": _TARGET}]}
Claims = kinds.anything(
    "Claims",
    {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "required": ["claim"],
                    "properties": {
                        "claim": {"type": "string"},
                        "about": _TARGETS,
                        "why": {"type": "string", "pattern": r"^docs/[a-z-]+\.md#[a-z0-9-]+$"},
                        "id": {**_TARGETS, "description": "as about, which it was called before"},
                    },
                    "additionalProperties": False,
                },
            ]
        },
    },
)
_LISTS = {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "minItems": 2}}
_RULES = {"type": "array", "items": {"type": "object", "minProperties": 1}}
Experiment = _model(
    "Experiment",
    Closed,
    _optional(
        name=kinds.pattern(
            "Name", r"[A-Za-z0-9][A-Za-z0-9._-]*", "letters, digits, - and _ (it names the result folder)"
        ),
        title=kinds.Text,
        paper=Paper,
        notes=kinds.Text,
        fabric=kinds.of_option("fabric", by_place=False),
        hardware=kinds.of_option("hardware", by_place=False),
        cluster=Cluster,
        systems=dict[str, System],  # type: ignore[valid-type]
        workload=Workload,
        scale=kinds.of_option("scale", by_place=False),
        axes=Axes,
        zip=kinds.anything("Zip", _LISTS),
        exclude=kinds.anything("Exclude", _RULES),
        measure=Measure,
        figure=Figure,
        derive=kinds.anything("Derive", {"type": "object", "additionalProperties": _EXPRESSION}),
        claims=Claims,
        smoke=kinds.anything("Smoke", {"type": "object"}),
    ),
    needed=("name", "systems"),
)

_MISSING = {
    "name": "missing; every experiment has name:",
    "systems": "missing; every experiment has systems:",
    "protocol": "missing; which design is it? `./loch list protocols` names them",
    "source": "missing; a paper has source: and item:",
    "item": "missing; a paper has source: and item:",
}


def keys(model: Any) -> tuple[str, ...]:
    return tuple(model.__fields__)


def check(item: Item) -> None:
    """Refuses a document of another structure; the error names file, line and key of its first problem."""
    try:
        Experiment.parse_obj(item.plain())
    except ValidationError as error:
        problems = [_located(item, each) for each in error.errors()]
        raise min(problems, key=lambda pair: pair[0])[1] from None


def _located(item: Item, problem: Any) -> tuple[int, BadInput]:
    """The line of a problem that pydantic found, and the error that names file, line and key."""
    at: Item = item
    key: str | None = None
    for part in problem["loc"]:
        if part == "__root__":
            continue
        if key is not None:
            below = (at.entries or {}).get(key)
            if below is None:
                break
            at, key = below, None
        if at.entries is not None:
            key = str(part)
        elif at.items is not None and isinstance(part, int):
            at = at.items[part]
    child = at.entries.get(key) if key is not None and at.entries is not None else None
    said = _said(problem, child if key is not None else at)
    line = at.key_lines.get(key, at.line) if key is not None else at.line
    return line or 0, at.error(said, key)


def _said(problem: Any, child: Item | None) -> str:
    kind = problem["type"]
    if kind == "value_error.missing":
        if problem["loc"][-2:] == ("power", "source"):
            return f"missing; one of {', '.join(POWER_SOURCES)}"
        return _MISSING.get(str(problem["loc"][-1]), "missing")
    if kind in ("type_error.dict", "type_error.none.not_allowed"):
        return f"expected a mapping of keys, found {child.kind() if child is not None else 'nothing'}"
    return str(problem["msg"])


def json_schema() -> str:
    """The JSON Schema of an experiment file, for editors."""
    schema = Experiment.schema(ref_template="#/definitions/{model}")
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "An experiment of ./loch run",
        "description": "Made by ./loch schema from the options that the program has; see experiments/README.md.",
    }
    schema.pop("title", None)
    schema.pop("description", None)
    return json.dumps({**head, **_with_aliases(_plain(schema))}, indent=1) + "\n"


def _with_aliases(node: Any) -> Any:
    """The JSON Schema with the aliases of options added as further keys."""
    if isinstance(node, dict):
        out = {key: _with_aliases(each) for key, each in node.items()}
        known = out.get("properties")
        if isinstance(known, dict):
            known.update({alias: known[key] for alias, key in options.KEY_OF_ALIAS.items() if key in known})
        return out
    return [_with_aliases(each) for each in node] if isinstance(node, list) else node


def _plain(node: Any) -> Any:
    """The JSON Schema without titles that repeat a key's name, and without the descriptions of pydantic models."""
    if isinstance(node, dict):
        kept = {key: each for key, each in node.items() if key != "title" or not isinstance(each, str)}
        return {key: _plain(each) for key, each in kept.items() if key != "description" or not isinstance(each, str)}
    return [_plain(each) for each in node] if isinstance(node, list) else node
