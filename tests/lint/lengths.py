"""How long functions of C++ are: a function is read without scrolling. Bodies are found by their braces, of formatted code."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINES_MAX = 70
# Comments, strings and characters hold braces that are none.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)
# What stands before the brace of a scope that is no function's.
NO_BODY = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$|=\s*$")
NAME = re.compile(r"([~\w:]+(?:\s*operator\W{1,3})?)\s*\(")


def blank(text: str) -> str:
    """The code alone, on the same lines."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines (from the name to the closing brace) of each function's body; what is in it,
    lambdas and local classes, counts for it."""
    code = "\n" + blank(text)
    begin = 0  # where the head of the next scope begins
    scopes: list[bool] = []  # the open braces: is each a scope's, and no initialiser's?
    inside: int | None = None  # number of open braces at the beginning of the current function body; None outside
    name, line = "", 0
    for found in re.finditer(r"[{};]|\n[ \t]*#(?:[^\n\\]|\\.|\\\n)*", code):
        mark, at = found.group(), found.start()
        if mark == "{":
            before = code[begin:at]
            if inside is None and is_body(before):
                first = begin + len(before) - len(before.lstrip())
                inside, name, line = len(scopes), name_of(before), code.count("\n", 0, first)
            scopes.append(before[-1:].isspace() or not before)
        elif mark == "}" and scopes:
            is_scope = scopes.pop()
            if inside == len(scopes):
                yield name, line, code.count("\n", 0, at) + 1 - line
                inside = None
            if not is_scope:
                continue
        if inside is None and (mark != "{" or scopes[-1]):
            begin = found.end()


def is_body(before: str) -> bool:
    """Does this head belong to a function? Then it has parameters; an initialiser's brace follows its name closely."""
    return "(" in before and before[-1].isspace() and not NO_BODY.search(before)


def name_of(before: str) -> str:
    found = NAME.search(before)
    return found.group(1) if found else before.strip().splitlines()[0]


# What branches, loops or waits is no table. A table lists entries, one after the other; cutting it makes it no easier to read.
CONTROL = re.compile(r"\b(if|for|while|switch|case|catch|co_await|co_return)\b")
CONTROL_MAX = 1  # an entry that is there or not


def is_table(code: str) -> bool:
    return len(CONTROL.findall(code)) <= CONTROL_MAX


def faults(name: str, text: str) -> Iterator[str]:
    code = blank(text).splitlines()
    for function, line, lines in functions(text):
        if lines > LINES_MAX and not is_table("\n".join(code[line - 1 : line - 1 + lines])):
            yield f"{name}:{line}: {function} has {lines} lines; a function has at most {LINES_MAX}, tables apart"
