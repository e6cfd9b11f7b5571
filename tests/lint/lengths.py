"""Checks the length of C++ functions, so that each can be read without scrolling. Finds bodies by braces in formatted
code."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINES_MAX = 70
# Comments and literals, whose braces must not be counted.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)
# Text before an opening brace that begins no function body: a namespace, a type, an initializer.
NO_BODY = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$|=\s*$")
NAME = re.compile(r"([~\w:]+(?:\s*operator\W{1,3})?)\s*\(")


def blank(text: str) -> str:
    """The text with comments and literals replaced by blanks, so that lines keep their numbers."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines (name to closing brace) of each function.

    Lambdas and local classes count towards the function that contains them.
    """
    code = "\n" + blank(text)
    begin = 0  # where the text before the next opening brace begins
    scopes: list[bool] = []  # for each open brace: whether it opens a scope, rather than an initializer
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
    """Whether `before` is the head of a function: it has parameters, and a blank before the brace, unlike an
    initializer."""
    return "(" in before and before[-1].isspace() and not NO_BODY.search(before)


def name_of(before: str) -> str:
    found = NAME.search(before)
    return found.group(1) if found else before.strip().splitlines()[0]


# A function with more control flow than CONTROL_MAX is no table. Tables, which list entries, may be longer than other
# functions, because splitting them does not make them easier to read.
CONTROL = re.compile(r"\b(if|for|while|switch|case|catch|co_await|co_return)\b")
CONTROL_MAX = 1  # keywords of control flow in a table: one, for the condition of an optional entry


def is_table(code: str) -> bool:
    return len(CONTROL.findall(code)) <= CONTROL_MAX


def faults(name: str, text: str) -> Iterator[str]:
    code = blank(text).splitlines()
    for function, line, lines in functions(text):
        if lines > LINES_MAX and not is_table("\n".join(code[line - 1 : line - 1 + lines])):
            yield f"{name}:{line}: {function} has {lines} lines; a function has at most {LINES_MAX}, tables apart"
