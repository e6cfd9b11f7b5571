#!/usr/bin/python3
"""The rules of the house that a compiler cannot see: who may include whom (docs/floors.txt), how long a file may be, shell
and Python syntax, links between pages, one version everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import floors

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 700  # a file is read in one sitting
SOURCES = {".cc", ".h", ".py", ".sh", ".cmake"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
VERSIONS = {  # where the version stands besides CMakeLists.txt
    "CITATION.cff": re.compile(r"^version: (\S+)$", re.M),
    "CHANGELOG.md": re.compile(r"^## (\d\S*)", re.M),
}


def files() -> list[Path]:
    """Tracked files; without git, all that are not output."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listing = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"],
                                 capture_output=True, check=True).stdout
        found = [ROOT / os.fsdecode(name) for name in listing.split(b"\0") if name]
    else:
        found = [p for p in ROOT.rglob("*") if not re.match(r"(build[^/]*|results|\.git)(/|$)", str(p.relative_to(ROOT)))]
    return [path for path in found if path.is_file()]


def source_faults(path: Path, name: str) -> Iterator[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > LINES_MAX:
        yield f"{name}: {len(lines)} lines; a file has at most {LINES_MAX}"


def includes() -> dict[str, list[str]]:
    """What each C++ file includes, by name."""
    found: dict[str, list[str]] = {}
    for path in files():
        if path.suffix in (".cc", ".h"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found[path.relative_to(ROOT).as_posix()] = [each.group(1) for each in map(floors.INCLUDE.match, lines) if each]
    return found


def python_faults(path: Path, name: str) -> Iterator[str]:
    try:
        compile(path.read_bytes(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        yield f"{name}:{getattr(error, 'lineno', 0)}: {error}"


def link_faults(path: Path, name: str) -> Iterator[str]:
    """Links of a page to files that are not there; code is no link."""
    text = re.sub(r"```.*?```|`[^`\n]*`", lambda code: re.sub(r"[^\n]", " ", code.group()), path.read_text(encoding="utf-8"),
                  flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(line):
            place = target.split("#")[0]
            if place and "://" not in place and not place.startswith("mailto:") and not (path.parent / place).exists():
                yield f"{name}:{number}: links to {target}, which is not there"


# Numbers by which code and pages name holes of the published designs, failures and published values. Each is explained
# where it stands in bold in a page, or is the number of a value in plots/published.
NUMBERED = re.compile(r"(?<![\w.#/'\"-])([AHPQRSV]\d{1,3})(?![\w.'\"]|-\w)")
SAID_IN_CODE = re.compile(r"//[^\n]*|^\s*#[^\n]*|\"\"\".*?\"\"\"", re.M | re.S)
OTHER_PAPERS = re.compile(r"\bPROTOCOLS\b(?! =)")


def explained() -> set[str]:
    found: set[str] = set()
    for page in (ROOT / "docs").glob("*.md"):
        for bold in re.findall(r"\*\*([A-Z]\d[^*]*)\*\*", page.read_text(encoding="utf-8")):
            found.update(NUMBERED.findall(bold))
    for values in (ROOT / "plots/published").glob("*.yaml"):
        text = values.read_text(encoding="utf-8")
        found.update(re.findall(r"\b(?:id|to): \"?(V\d+)", text))
        for first, last in re.findall(r"\bid: \"?V(\d+)\"?, to: \"?V(\d+)", text):
            found.update(f"V{number}" for number in range(int(first), int(last) + 1))
    return found


def number_faults(path: Path, name: str, known: set[str]) -> Iterator[str]:
    """Numbers that no page explains; those of tests' own figures and of experiments' systems are no such numbers."""
    text = path.read_text(encoding="utf-8")
    said = "\n".join(SAID_IN_CODE.findall(text)) if path.suffix != ".md" else re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for number in sorted(set(NUMBERED.findall(said)) - known):
        yield f"{name}: {number} is explained in no page: it stands nowhere in bold in docs/, and plots/published has no such value"
    if OTHER_PAPERS.search(said):
        yield f"{name}: refers to PROTOCOLS, which is no page of docs/"


def version_faults() -> Iterator[str]:
    found = re.search(r"project\(loch VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    version = found.group(1) if found else "none"
    for name, pattern in VERSIONS.items():
        said = pattern.search((ROOT / name).read_text(encoding="utf-8"))
        if said is None or said.group(1) != version:
            yield f"{name}: says version {said.group(1) if said else 'none'}; CMakeLists.txt says {version}"


def shell_faults(path: Path, name: str) -> Iterator[str]:
    checks = [["bash", "-n", str(path)]]
    if shutil.which("shellcheck"):
        checks.append(["shellcheck", "-f", "gcc", str(path)])
    for command in checks:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            yield f"{name}: {command[0]}:\n{done.stdout}{done.stderr}".rstrip()


def faults() -> Iterator[str]:
    yield from version_faults()
    yield from floors.faults(ROOT, includes())
    known = explained()
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".cc", ".h", ".md", ".py") and not name.startswith(("reference/", "tests/runner/", "tests/lint/")):
            yield from number_faults(path, name, known)
        if path.suffix in SOURCES:
            yield from source_faults(path, name)
        if path.suffix == ".py":
            yield from python_faults(path, name)
        if path.suffix == ".md" and not name.startswith("reference/"):  # those name figures that are drawn on demand
            yield from link_faults(path, name)
        with path.open("rb") as opened:
            head = opened.readline(64)
        if head.startswith(b"#!") and (b"bash" in head or head.rstrip().endswith(b"/sh")):
            yield from shell_faults(path, name)


def main() -> int:
    if sys.argv[1:] == ["--draw"]:
        plan, _ = floors.read(ROOT)
        (ROOT / "docs/map.svg").write_text(floors.draw(plan, floors.arrows(plan, includes())), encoding="utf-8")
        return 0
    found = list(faults())
    print("\n".join(found + [f"house rules: {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
