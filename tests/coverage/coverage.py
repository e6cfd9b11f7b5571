#!/usr/bin/python3
"""Test coverage: coverage.py SOURCE BUILD prints covered lines and branches by folder and writes pages to BUILD/html.

BUILD is a build of the coverage preset in which the tests have run, with their counters in BUILD/profiles. Tests and
code that only tests link are left out. Code that ran in a killed process is not counted, as the process wrote no
counters.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

LEFT_OUT = r"(_test|_bench|_fuzz|_main|toy_main)\.cc$|/tests/|/build[^/]*/|^/usr/"
COUNTS = ("lines", "branches")


def programs(build: Path) -> list[Path]:
    """The executables of the build, loch-bench first."""
    found = [
        path
        for path in build.rglob("*")
        if path.is_file()
        and path.stat().st_mode & 0o111
        and "CMakeFiles" not in path.parts
        and path.read_bytes()[:4] == b"\x7fELF"
    ]
    return sorted(found, key=lambda path: (path.name != "loch-bench", path))


def run(*command: str) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[:2000]}")
    return done.stdout


def by_module(summary: dict, source: Path) -> dict[str, dict[str, list[int]]]:
    """For each folder of sources, by llvm-cov's counters: [covered, total] lines and branches."""
    modules: dict[str, dict[str, list[int]]] = defaultdict(lambda: {count: [0, 0] for count in COUNTS})
    for file in summary["data"][0]["files"]:
        if re.search(LEFT_OUT, file["filename"]):
            continue
        path = Path(file["filename"])
        module = str(path.parent.relative_to(source)) if path.is_relative_to(source) else str(path.parent)
        for count in COUNTS:
            for name in (module, "total"):
                modules[name][count][0] += file["summary"][count]["covered"]
                modules[name][count][1] += file["summary"][count]["count"]
    return modules


def table(modules: dict[str, dict[str, list[int]]]) -> list[str]:
    lines = [f"{'folder':<26} {'lines':>16} {'':>6} {'branches':>16}"]
    for module in sorted(modules, key=lambda module: (module == "total", module)):
        cells = []
        for covered, count in (modules[module][name] for name in COUNTS):
            share = f"{100 * covered / count:5.1f}%" if count else "     –"
            cells.append(f"{covered:>7} of {count:>6} {share:>6}")
        lines.append(f"{module:<26} {' '.join(cells)}")
    return lines


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: coverage.py SOURCE BUILD", file=sys.stderr)
        return 2
    source, build = (Path(each).resolve() for each in arguments)
    profiles = sorted(build.glob("profiles/*.profraw"))
    if not profiles:
        print(f"coverage: no test left its counts in {build}/profiles", file=sys.stderr)
        return 1
    counts = build / "tests.profdata"
    run("llvm-profdata-19", "merge", "-sparse", "--failure-mode=all", *map(str, profiles), "-o", str(counts))
    first, *others = map(str, programs(build))
    common = [
        first,
        *(f"-object={other}" for other in others),
        f"-instr-profile={counts}",
        f"-ignore-filename-regex={LEFT_OUT}",
    ]
    modules = by_module(json.loads(run("llvm-cov-19", "export", "-summary-only", *common)), source)
    print("\n".join(table(modules)))
    html = build / "html"
    run(
        "llvm-cov-19",
        "show",
        "-format=html",
        f"-output-dir={html}",
        "-show-branches=count",
        "-project-title=Loch",
        *common,
    )
    print(f"coverage: {html}/index.html has every line")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
