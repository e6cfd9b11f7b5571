#!/usr/bin/python3
"""Rules for the source tree that a compiler does not check: which modules may include which (docs/floors.txt), lengths
of files, syntax of shell and Python, links between pages, one version number everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import floors
import hand_overs
import lengths

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 700  # longest file in lines, so that it can be read in one sitting
SOURCES = {".cc", ".h", ".py", ".sh", ".cmake"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
VERSIONS = {  # files other than CMakeLists.txt that have the version number
    "CITATION.cff": re.compile(r"^version: (\S+)$", re.M),
    "CHANGELOG.md": re.compile(r"^## (\d\S*)", re.M),
}


def files() -> list[Path]:
    """The tracked files; without git, all files that are not build output."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
        ).stdout
        found = [ROOT / os.fsdecode(name) for name in listing.split(b"\0") if name]
    else:
        found = [
            p for p in ROOT.rglob("*") if not re.match(r"(build[^/]*|results|\.git)(/|$)", str(p.relative_to(ROOT)))
        ]
    return [path for path in found if path.is_file()]


def source_faults(path: Path, name: str) -> Iterator[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > LINES_MAX:
        yield f"{name}: {len(lines)} lines; a file has at most {LINES_MAX}"
    if path.suffix in (".cc", ".h"):
        yield from lengths.faults(name, "\n".join(lines))


def opening_faults(path: Path, name: str) -> Iterator[str]:
    """Checks that a .cc file begins with a comment that is a sentence of at least four words."""
    said: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        said.append(line[2:].strip())
    text = " ".join(said)
    if not re.search(r"[.:?]( |$)", text) or len(text.split()) < 4:
        yield f"{name}:1: expected a sentence on what the file does, as a comment in its first line"


def includes() -> dict[str, list[str]]:
    """The names that each C++ file includes."""
    found: dict[str, list[str]] = {}
    for path in files():
        if path.suffix in (".cc", ".h"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found[path.relative_to(ROOT).as_posix()] = [
                each.group(1) for each in map(floors.INCLUDE.match, lines) if each
            ]
    return found


def python_faults(path: Path, name: str) -> Iterator[str]:
    try:
        compile(path.read_bytes(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        yield f"{name}:{getattr(error, 'lineno', 0)}: {error}"
        return
    yield from hand_overs.faults(name, path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them for links."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-{sum(each.rsplit('-', 1)[0] == slug for each in found) + 1}")
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def link_faults(path: Path, name: str) -> Iterator[str]:
    """Links of a page to missing files or headings; code is not searched."""
    text = re.sub(
        r"```.*?```|`[^`\n]*`",
        lambda code: re.sub(r"[^\n]", " ", code.group()),
        path.read_text(encoding="utf-8"),
        flags=re.S,
    )
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(line):
            place, _, heading = target.partition("#")
            if "://" in place or place.startswith("mailto:"):
                continue
            page = path.parent / place if place else path
            if not page.exists():
                yield f"{name}:{number}: links to {target}, which is not there"
            elif heading and page.suffix == ".md" and heading not in anchors(page):
                yield f"{name}:{number}: links to {target}; {page.name} has no such heading"


# Identifiers such as H1, A2 or V145, in code and pages, for known faults (holes) of published designs, for failures
# and for published values. Each must be explained in bold in a page of docs/, or be the id of a value in
# plots/published.
NUMBERED = re.compile(r"(?<![\w.#/'\"-])([AHPQRSV]\d{1,3})(?![\w.'\"]|-\w)")
SAID_IN_CODE = re.compile(r"//[^\n]*|^\s*#[^\n]*|\"\"\".*?\"\"\"", re.M | re.S)
OTHER_PAPERS = re.compile(r"\bPROTOCOLS\b(?! =)")


def explained() -> set[str]:
    found: set[str] = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for bold in re.findall(r"\*\*([A-Z]\d[^*]*)\*\*", page.read_text(encoding="utf-8")):
            found.update(NUMBERED.findall(bold))
    for values in (ROOT / "plots/published").glob("*.yaml"):
        text = values.read_text(encoding="utf-8")
        found.update(re.findall(r"\b(?:id|to): \"?(V\d+)", text))
        for first, last in re.findall(r"\bid: \"?V(\d+)\"?, to: \"?V(\d+)", text):
            found.update(f"V{number}" for number in range(int(first), int(last) + 1))
    return found


def number_faults(path: Path, name: str, known: set[str]) -> Iterator[str]:
    """Identifiers that no page explains; names of systems in experiments and in tests' figures do not count."""
    text = path.read_text(encoding="utf-8")
    said = (
        "\n".join(SAID_IN_CODE.findall(text))
        if path.suffix != ".md"
        else re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    )
    for number in sorted(set(NUMBERED.findall(said)) - known):
        yield (
            f"{name}: {number} is explained in no page: it stands nowhere in bold in docs/, and plots/published has no"
            " such value"
        )
    if OTHER_PAPERS.search(said):
        yield f"{name}: refers to PROTOCOLS, which is no page of docs/"


NAMED = re.compile(r"\[`([\w:~]+)`\]\(([^)\s#]+\.(?:cc|h|py))\)")


def named_faults(path: Path, name: str) -> Iterator[str]:
    """Links whose text is a name from code and whose target is a source file that does not contain the name."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for called, target in NAMED.findall(line):
            code = path.parent / target
            if code.exists() and not re.search(rf"\b{called.split('::')[-1]}\b", code.read_text(encoding="utf-8")):
                yield f"{name}:{number}: {target} has no {called}"


def decision_faults(root: Path) -> Iterator[str]:
    """Checks that decision records are numbered without gaps, dated, and listed in the index."""
    index = (root / "docs/decisions.md").read_text(encoding="utf-8")
    records = sorted((root / "docs/decisions").glob("*.md"))
    for number, path in enumerate(records, 1):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if not re.match(rf"{number:04d}-[a-z0-9-]+\.md$", path.name) or not text.startswith(f"# {number:04d}: "):
            yield f"{name}: expected the record of number {number:04d}, in its name and its title"
        missing = [each for each in ("Context", "Decision", "Consequences") if f"\n## {each}\n" not in text]
        if missing or not re.search(r"^\*\d{4}-\d\d-\d\d, ", text, re.M):
            yield f"{name}: a record has a date, a context, a decision and consequences"
        if f"(decisions/{path.name})" not in index:
            yield f"{name}: has no row in docs/decisions.md"


def retired_words(path: Path) -> dict[str, str]:
    """The words in tests/lint/words.txt that are no longer used, with their replacements."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            old, _, new = line.partition(":")
            found.update({word.strip(): new.strip() for word in old.split(",")})
    return found


def word_faults(path: Path, name: str, retired: dict[str, str]) -> Iterator[str]:
    """Finds retired words in comments, docstrings and pages.

    Names of options, files and keys are allowed: in backticks or quotes, or joined by a hyphen, dot or underscore.
    """
    if not retired:
        return
    text = path.read_text(encoding="utf-8")
    found = re.compile(
        r"(?<![\w.\-/`\"'=])(?<!loch )("
        + "|".join(map(re.escape, sorted(retired, key=len, reverse=True)))
        + r")(?![\w\-`\"':=])"
    )
    code = re.sub(r"```.*?```|`[^`\n]*`", lambda each: re.sub(r"[^\n]", " ", each.group()), text, flags=re.S)
    pieces = (
        [(0, code)] if path.suffix == ".md" else [(each.start(), each.group()) for each in SAID_IN_CODE.finditer(code)]
    )
    for start, piece in pieces:
        for each in found.finditer(piece):
            line = text.count("\n", 0, start + each.start()) + 1
            yield f"{name}:{line}: says {each.group(1)!r}; say {retired[each.group(1)]!r} (tests/lint/words.txt)"


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
    yield from decision_faults(ROOT)
    yield from floors.faults(ROOT, includes())
    known = explained()
    retired = retired_words(ROOT / "tests/lint/words.txt")
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".cc", ".h", ".md", ".py") and not name.startswith(
            ("reference/", "CHANGELOG", "docs/settings.md")
        ):
            yield from word_faults(path, name, retired)
        if path.suffix in (".cc", ".h", ".md", ".py") and not name.startswith(
            ("reference/", "tests/runner/", "tests/lint/")
        ):
            yield from number_faults(path, name, known)
        if path.suffix in SOURCES:
            yield from source_faults(path, name)
        if path.suffix == ".cc":
            yield from opening_faults(path, name)
        if path.suffix == ".py":
            yield from python_faults(path, name)
        if path.suffix == ".md" and not name.startswith(
            "reference/"
        ):  # the pages of reference results link to figures that are not stored
            yield from link_faults(path, name)
            yield from named_faults(path, name)
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
