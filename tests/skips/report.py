#!/usr/bin/python3
"""Reports which tests of a run were skipped, and whether each skip was expected.

  report.py BUILD            counts the skipped tests by reason
  report.py --strict BUILD   also fails if CI is set and known.txt does not list a skip

BUILD holds the builds (release, asan, tsan …), each with Testing/ran/*.xml from the run.
"""

from __future__ import annotations

import collections
import fnmatch
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

KNOWN = Path(__file__).with_name("known.txt")


@dataclass(frozen=True)
class Skip:
    """One skipped test, named `entry:Suite.Case`, where `entry` is the name of the ctest test."""

    name: str
    reason: str


@dataclass(frozen=True)
class Known:
    """A line of known.txt: a pattern of tests that may be skipped, and of the reason that they print."""

    name: str
    reason: str

    def allows(self, skip: Skip) -> bool:
        return fnmatch.fnmatchcase(skip.name, self.name) and fnmatch.fnmatchcase(skip.reason, self.reason)


def read_known(path: Path) -> list[Known]:
    known = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not all(fields):
            raise SystemExit(f"{path}:{number}: expected TEST | REASON | WHY, not '{line}'")
        known.append(Known(fields[0], fields[1]))
    return known


def reason_of(message: str) -> str:
    """The reason in a skip message; GoogleTest puts file and line before it, and old versions `Skipped` if there is
    none."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and ":" in lines[0] and lines[0].rsplit(":", 1)[1].isdigit():
        lines = lines[1:]
    if len(lines) > 1 and lines[0] == "Skipped":
        lines = lines[1:]
    return " ".join(lines) or "no reason given"


def skips_of(path: Path) -> list[Skip]:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return []  # an incomplete file: the test that wrote it has failed, which ctest reports
    skips = []
    for case in root.iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
            skips.append(Skip(f"{path.stem}:{name}", reason_of(skipped.get("message") or "")))
    return skips


def read_skips(build: Path) -> list[Skip]:
    return [skip for path in sorted(build.glob("*/Testing/ran/**/*.xml")) for skip in skips_of(path)]


def describe(skips: list[Skip], known: list[Known]) -> tuple[list[str], list[Skip]]:
    """The lines of the report, and the skips that no line of known.txt allows."""
    unknown = [skip for skip in skips if not any(each.allows(skip) for each in known)]
    if not skips:
        return ["skipped: no test"], []
    lines = [f"skipped: {len(skips)} tests, {len(unknown)} of them for no reason in tests/skips/known.txt"]
    for reason, count in collections.Counter(skip.reason for skip in skips).most_common():
        lines.append(f"  {count:3} × {reason}")
    lines += [f"  not listed: {skip.name}: {skip.reason}" for skip in unknown]
    return lines, unknown


def main(arguments: list[str]) -> int:
    strict = arguments[:1] == ["--strict"]
    if len(arguments) != 1 + strict:
        print(f"usage: {Path(__file__).name} [--strict] BUILD", file=sys.stderr)
        return 2
    lines, unknown = describe(read_skips(Path(arguments[-1])), read_known(KNOWN))
    print("\n".join(lines))
    return 1 if strict and unknown and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
