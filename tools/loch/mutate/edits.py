"""Finds the possible single edits (mutations) of a C++ file.

Clang's parser finds operators, constants, conditions, statements, and pairs of arguments that can be exchanged; each
edit replaces or removes one of these. Code that no test is meant to observe is left out by rule: see EXCLUDED_CALLS,
EXCLUDED_FUNCTIONS, EXCLUDED_STATEMENTS and EXCLUDED_MACROS. Code from macro expansions is left out as well, except for
the argument of LOCH_TRY.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

try:
    from clang import cindex
    from clang.cindex import CursorKind as Kind
except ModuleNotFoundError:
    print("loch mutate: needs clang's Python bindings (apt-get install python3-clang-19)", file=sys.stderr)
    raise SystemExit(2) from None

RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "&": "|", "|": "&"}
STEPS = {"++": "--", "--": "++"}

# Macros whose arguments are not edited: checks and assertions detect errors themselves, coverage probes change nothing.
EXCLUDED_MACROS = re.compile(r"^(LOCH_CHECK|LOCH_PROBE|assert)")
# Calls that are not edited: simulated CPU time affects only timing, text is for people, capacity changes no behaviour.
EXCLUDED_CALLS = re.compile(r"^(compute|format|print|reserve|shrink_to_fit)$")
SYMMETRIC_CALLS = re.compile(r"^(min|max|swap|midpoint|memcmp|equal|scale|operator.*|equal_to)$")
EXCLUDED_FUNCTIONS = re.compile(
    r"^(name|describe|to_string|summary|help|paper|notes|counters|specs|options|fuzz_options|draw_options|mutants|holes|"
    r"fixes|known_mutants|known_fixes|known_holes|open_holes|single_holes|probes|known_options|apply_mutant|operator<<)$"
)
EXCLUDED_AWAITS = re.compile(r"\.compute\(")
# Statements that are not edited: they count events for results and reports only.
EXCLUDED_STATEMENTS = re.compile(r"\b(counters?_?|counts_?|stats_?)\b\s*(\.|->)|\bstatistics\b")

_STATEMENTS = (
    Kind.CALL_EXPR,
    Kind.UNEXPOSED_EXPR,
    Kind.COMPOUND_ASSIGNMENT_OPERATOR,
    Kind.UNARY_OPERATOR,
    Kind.BINARY_OPERATOR,
    Kind.BREAK_STMT,
    Kind.CONTINUE_STMT,
)
_FUNCTIONS = (
    Kind.FUNCTION_DECL,
    Kind.CXX_METHOD,
    Kind.CONSTRUCTOR,
    Kind.DESTRUCTOR,
    Kind.FUNCTION_TEMPLATE,
    Kind.CONVERSION_FUNCTION,
)
_BODIES = (
    Kind.COMPOUND_STMT,
    Kind.IF_STMT,
    Kind.FOR_STMT,
    Kind.CXX_FOR_RANGE_STMT,
    Kind.WHILE_STMT,
    Kind.CASE_STMT,
    Kind.DEFAULT_STMT,
)
_EQUALITY = re.compile(r"^[^&|?]*[=!]=[^&|?]*$", re.S)
_LEAVES = re.compile(
    r"(?:.*[;{}]\s*)?(?:return|co_return|continue|break)\b[^;{}]*(?:\{[^{}]*\}[^;{}]*)*;\s*\}?\s*$", re.S
)


@dataclass(frozen=True)
class Edit:
    """One change of one file: the bytes from `start` up to `end`, `before`, are replaced by `after`."""

    path: str  # path of the edited file, relative to the source tree
    start: int
    end: int
    kind: str  # kind of edit: "relation", "constant" …
    before: str
    after: str
    line: int
    id: str  # hash of the file's text, the place and the change, so that it differs once the file's text has changed

    def apply(self, text: bytes) -> bytes:
        assert text[self.start : self.end].decode() == self.before, f"{self.path} is not the text that was parsed"
        return text[: self.start] + self.after.encode() + text[self.end :]

    def diff(self, text: bytes) -> str:
        """The edit as a diff without its header: the changed lines, with - and +."""
        lines = list(
            difflib.unified_diff(text.decode().splitlines(), self.apply(text).decode().splitlines(), lineterm="", n=0)
        )
        return "\n".join(line for line in lines[2:] if not line.startswith("@@"))


class _Finder:
    def __init__(self, path: str, file: Path, unit: cindex.TranslationUnit, skip: re.Pattern[str] | None) -> None:
        self._path = path
        self._name = str(file)
        self._text = file.read_bytes()
        self._hash = hashlib.sha256(self._text).hexdigest()
        self._skip = skip
        self._macros: list[tuple[int, int]] = []
        self._found: dict[tuple[int, int, str], Edit] = {}
        for cursor in unit.cursor.get_children():
            if cursor.kind == Kind.MACRO_INSTANTIATION and self._is_here(cursor):
                self._macros.append(_span(cursor))
                self._macro(cursor)
        for cursor in unit.cursor.get_children():
            if self._is_here(cursor) and not cursor.kind.is_preprocessing():
                self._walk(cursor, None)

    def edits(self) -> list[Edit]:
        return sorted(self._found.values(), key=lambda each: (each.start, each.end, each.kind))

    def _is_here(self, cursor: cindex.Cursor) -> bool:
        return cursor.location.file is not None and cursor.location.file.name == self._name

    def _source(self, start: int, end: int) -> str:
        return self._text[start:end].decode()

    def _add(self, kind: str, start: int, end: int, after: str) -> None:
        before = self._source(start, end)
        if before == after or any(first < end and start < last for first, last in self._macros):
            return
        self._put(kind, start, end, before, after)

    def _put(self, kind: str, start: int, end: int, before: str, after: str) -> None:
        first = self._text.rfind(b"\n", 0, start) + 1
        last = self._text.find(b"\n", end)
        around = self._source(first, last if last >= 0 else len(self._text))
        is_time = kind == "dropped await" and EXCLUDED_AWAITS.search(before)
        if is_time or EXCLUDED_STATEMENTS.search(around) or (self._skip and self._skip.search(around)):
            return
        identity = hashlib.sha256(f"{self._path} {self._hash} {start} {end} {kind} {after}".encode()).hexdigest()[:12]
        self._found[start, end, kind] = Edit(
            self._path, start, end, kind, before, after, self._text.count(b"\n", 0, start) + 1, identity
        )

    # LOCH_TRY(call) and LOCH_CO_TRY(step) return the error to the caller; this edit keeps the call and ignores its error.
    def _macro(self, cursor: cindex.Cursor) -> None:
        start, end = _span(cursor)
        if cursor.spelling in ("LOCH_TRY", "LOCH_CO_TRY"):
            inside = self._source(start, end)[len(cursor.spelling) :]
            after = inside if cursor.spelling == "LOCH_TRY" else f"(co_await {inside})"
            self._put("dropped check", start, end, self._source(start, end), f"static_cast<void>{after}")

    def _walk(self, cursor: cindex.Cursor, parent: cindex.Cursor | None) -> None:
        kind = cursor.kind
        if kind == Kind.STATIC_ASSERT or (kind in _FUNCTIONS and EXCLUDED_FUNCTIONS.match(cursor.spelling)):
            return
        if kind == Kind.CALL_EXPR and EXCLUDED_CALLS.match(cursor.spelling):
            return
        self._look(cursor, parent)
        for child in cursor.get_children():
            if child.location.file is None or self._is_here(child):
                self._walk(child, cursor)

    def _look(self, cursor: cindex.Cursor, parent: cindex.Cursor | None) -> None:
        kind = cursor.kind
        if parent is not None and parent.kind in _BODIES and kind in _STATEMENTS:
            self._statement(cursor, parent)
        if kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR):
            self._operator(cursor)
        elif kind == Kind.CALL_EXPR:
            self._call(cursor)
        elif kind == Kind.UNARY_OPERATOR:
            self._step(cursor)
        elif kind == Kind.INTEGER_LITERAL:
            self._constant(cursor)
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            start, end = _span(cursor)
            now = self._source(start, end)
            if now in ("true", "false"):
                self._add("constant", start, end, "false" if now == "true" else "true")
        elif kind == Kind.IF_STMT:
            self._if(cursor)
        elif kind == Kind.CONDITIONAL_OPERATOR:
            self._negate(*_span(next(cursor.get_children())))

    def _statement(self, cursor: cindex.Cursor, parent: cindex.Cursor) -> None:
        start, end = _span(cursor)
        rest = self._text[end : end + 40].lstrip()
        if not rest.startswith(b";") or not self._begins_statement(start, parent):
            return
        text = self._source(start, end)
        if text and not text.startswith("static_cast<void>"):
            self._add("dropped await" if text.startswith("co_await") else "dropped statement", start, end, "")

    # Tells a statement from an expression: a statement follows one of ; { } ) : or the keyword `else`.
    def _begins_statement(self, start: int, parent: cindex.Cursor) -> bool:
        before = re.sub(rb"//[^\n]*\n", b"\n", self._text[max(0, start - 400) : start]).rstrip()
        if parent.kind in (Kind.FOR_STMT,) and not before.endswith((b")", b"{")):
            return False
        return before.endswith((b";", b"{", b"}", b")", b":", b"else"))

    def _operator(self, cursor: cindex.Cursor) -> None:
        children = list(cursor.get_children())
        if len(children) != 2:
            return
        start, end = _span(children[0])[1], _span(children[1])[0]
        self._change_operator(start, end)

    def _change_operator(self, start: int, end: int) -> None:
        if not 0 < end - start < 200:
            return
        between = re.sub(r"//[^\n]*", lambda found: " " * len(found.group()), self._source(start, end))
        operator = between.strip()
        at = start + len(between[: len(between) - len(between.lstrip())].encode())
        for kind, table in (("relation", RELATIONS), ("logic", LOGIC), ("arithmetic", ARITHMETIC)):
            if operator in table:
                self._add(kind, at, at + len(operator), table[operator])

    def _call(self, cursor: cindex.Cursor) -> None:
        if cursor.spelling.startswith("operator"):
            children = list(cursor.get_children())
            if len(children) == 3:  # operands and operator of an overloaded operator: left, operator, right
                self._change_operator(_span(children[0])[1], _span(children[2])[0])
            return
        if SYMMETRIC_CALLS.match(cursor.spelling):
            return
        arguments = list(cursor.get_arguments())
        for one, other in zip(arguments, arguments[1:]):
            if one is None or other is None or one.type.get_canonical().spelling != other.type.get_canonical().spelling:
                continue
            (start, middle), (second, end) = _span(one), _span(other)
            if start < middle <= second < end:
                left, between, right = (
                    self._source(start, middle),
                    self._source(middle, second),
                    self._source(second, end),
                )
                if between.strip() == ",":
                    self._add("swapped arguments", start, end, right + between + left)

    def _step(self, cursor: cindex.Cursor) -> None:
        start, end = _span(cursor)
        for at in (start, end - 2):
            now = self._source(at, at + 2)
            if now in STEPS:
                self._add("arithmetic", at, at + 2, STEPS[now])
                return

    def _constant(self, cursor: cindex.Cursor) -> None:
        start, end = _span(cursor)
        found = re.fullmatch(r"(0[xX][0-9a-fA-F']+|[0-9][0-9']*)([uUlLzZ]*)", self._source(start, end))
        if not found:
            return
        digits = found.group(1).replace("'", "")
        is_octal = bool(re.fullmatch("0[0-7]+", digits))
        value = int(digits, 8 if is_octal else 0)
        # A constant is changed by +1 or -1, chosen by a hash of its place, about half of the constants each way.
        down = value > 0 and hashlib.sha256(f"{self._path} {start}".encode()).digest()[0] % 2 == 1
        changed = value - 1 if down else value + 1
        self._add(
            "constant",
            start,
            end,
            f"{changed:#o}".replace("o", "") + found.group(2) if is_octal else f"{changed}{found.group(2)}",
        )

    def _if(self, cursor: cindex.Cursor) -> None:
        start, end = _span(cursor)
        opened = self._text.find(b"(", start)
        closed = self._closing(opened)
        if closed < 0 or b"constexpr" in self._text[start:opened]:
            return
        condition, whole = self._source(opened + 1, closed), self._source(start, end)
        begin = opened + 1 + len(_up_to_last_semicolon(condition).encode())
        if not _declares(self._source(begin, closed)):
            self._negate(begin, closed)
        body = self._source(closed + 1, end)
        if not body.endswith((";", "}")):
            body += ";"
        if not re.search(r"\belse\b", body) and _LEAVES.match(body.strip()) and body.count(";") <= 3:
            self._add("dropped check", start, end, "{}" if whole.endswith("}") else ";" if whole.endswith(";") else "")

    def _closing(self, opened: int) -> int:
        depth = 0
        for at in range(opened, len(self._text)):
            letter = self._text[at : at + 1]
            depth += (letter == b"(") - (letter == b")")
            if depth == 0:
                return at
        return -1

    def _negate(self, start: int, end: int) -> None:
        text = self._source(start, end)
        stripped = text.strip()
        # a comparison by == or != needs no negation: the edit that exchanges the two operators has the same
        # effect
        if not stripped or _EQUALITY.match(stripped):
            return
        start += len(text[: len(text) - len(text.lstrip())].encode())
        self._add("negated condition", start, start + len(stripped.encode()), f"!({stripped})")


def _span(cursor: cindex.Cursor) -> tuple[int, int]:
    return cursor.extent.start.offset, cursor.extent.end.offset


def _up_to_last_semicolon(text: str) -> str:
    return text[: text.rfind(";") + 1]


def _declares(text: str) -> bool:
    return bool(re.match(r"\s*(const\s+)?(auto|[\w:<>]+[&*]?)\s*[&*]?\s*\w+\s*=[^=]", text))


def find(tree: Path, path: str, skip: re.Pattern[str] | None = None, cache: Path | None = None) -> list[Edit]:
    """Every edit of the file `path`, by its place in the file.

    Parsing takes seconds, so the edits are stored in the folder `cache` and reused while the texts of the file and of
    this script are unchanged. Raises ValueError if the file does not parse.
    """
    file = tree / path
    state = hashlib.sha256(Path(__file__).read_bytes() + file.read_bytes() + f"{path} {skip}".encode()).hexdigest()[:16]
    kept = cache / f"{state}.json" if cache else None
    if kept and kept.is_file():
        return [Edit(**each) for each in json.loads(kept.read_text(encoding="utf-8"))]
    unit = cindex.Index.create().parse(
        str(file), args=compiler_arguments(tree), options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
    )
    errors = [str(each) for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
    if errors:
        raise ValueError(f"{path} does not parse: {errors[0]}")
    found = _Finder(path, file, unit, skip).edits()
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        next_one = kept.with_suffix(".next")
        next_one.write_text(json.dumps([asdict(each) for each in found]), encoding="utf-8")
        next_one.replace(kept)
    return found


def compiler_arguments(tree: Path) -> list[str]:
    """The compiler arguments with which clang parses any file of the tree: language, standard, include folder."""
    standard = re.search(r"CMAKE_CXX_STANDARD (\d+)", (tree / "cmake" / "Compiler.cmake").read_text(encoding="utf-8"))
    return [
        "-x",
        "c++",
        f"-std=c++{standard.group(1) if standard else '23'}",
        f"-I{tree}",
        "-DFMT_SHARED",
        "-Wno-pragma-once-outside-header",
    ]
