"""The table of docs/simulator.md: what each stage (CPU, PCIe, NIC, link …) of a simulated request costs, from the
comments of the functions that compute it.

  tests/docs/stages.py --draw    writes the table into the page (tools/regenerate)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "common/fabric/sim"
PAGE = ROOT / "docs/simulator.md"
HEADERS = ("stage_costs.h", "scheduler_costs.h")
BEGIN, END = "<!-- stages: tests/docs/stages.py --draw -->\n", "<!-- end of stages -->"
HEADING = re.compile(r"^// -{4} (.*?) -{2,}$")
FUNCTION = re.compile(r"^\[\[nodiscard\]\] (?:constexpr|inline) [\w:]+ (\w+)\(")


class Function(NamedTuple):
    stage: str
    name: str
    what: str
    formula: str
    source: str


def functions(text: str) -> Iterator[Function]:
    """The free functions of a header. In a function's comment, indented lines are the formula; text after "Source:" is
    the source."""
    stage, comment = "", list[str]()
    for line in text.splitlines():
        if heading := HEADING.match(line):
            stage, comment = heading.group(1), []
        elif line.startswith("//"):
            comment.append(line[2:])
        else:
            if found := FUNCTION.match(line):
                yield function(stage, found.group(1), comment)
            comment = []


def function(stage: str, name: str, comment: list[str]) -> Function:
    what, _, source = "\n".join(each for each in comment if not each.startswith("   ")).partition("Source:")
    formula = "; ".join(each.strip() for each in comment if each.startswith("   "))
    return Function(stage, name, " ".join(what.split()), formula, " ".join(source.split()))


def all_functions() -> list[Function]:
    return [each for header in HEADERS for each in functions((SIM / header).read_text(encoding="utf-8"))]


def incomplete(found: list[Function]) -> list[str]:
    """Which parts (stage, description, formula, source) the comments of functions lack."""
    parts = ("stage", "what", "formula", "source")
    return [f"{each.name} has no {part}" for each in found for part in parts if not getattr(each, part)]


def table(found: list[Function]) -> str:
    lines = ["| stage | function | what it says | formula | source |", "|---|---|---|---|---|"]
    before = ""
    for each in found:
        what = each.what.rstrip(":.")
        source = each.source.rstrip(".")
        stage = each.stage if each.stage != before else ""
        lines.append(f"| {stage} | `{each.name}` | {what} | {each.formula} | {source} |")
        before = each.stage
    return "\n".join(lines) + "\n"


def drawn(page: str, found: list[Function]) -> str:
    """The page docs/simulator.md with its table replaced by the table of the functions `found`."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{PAGE.name} has no place for the table: {BEGIN.strip()} … {END}")
    return before + BEGIN + table(found) + END + after


if __name__ == "__main__":
    if sys.argv[1:] != ["--draw"]:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8"), all_functions()), encoding="utf-8")
