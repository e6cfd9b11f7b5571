#!/usr/bin/python3
"""Checks that black would not reformat any Python file, and that flake8 and mypy report nothing (pyproject.toml,
.flake8).

  python_rules.py [black|flake8|mypy]…    without arguments, all three
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import house_rules

ROOT = house_rules.ROOT
TOOLS = ("black", "flake8", "mypy")
# Folders that are packages, which mypy checks as a whole. Modules of other folders import each other by bare names, and
# two folders may have modules of the same name (`support`), so each of these folders is checked separately.
PACKAGES = ("tools/loch", "plots")
PYTEST = re.compile(r"^import pytest", re.MULTILINE)


def tool(name: str) -> list[str]:
    """The path of Debian's program, even if another one comes first in PATH."""
    return [f"/usr/bin/{name}"] if os.access(f"/usr/bin/{name}", os.X_OK) else [shutil.which(name) or name]


def is_python(path: Path) -> bool:
    """Whether a file is Python, by its name or its #! line."""
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as opened:
        head = opened.readline(64)
    return head.startswith(b"#!") and b"python" in head


def folders(files: Sequence[Path], root: Path) -> list[Path]:
    """Folders with Python files outside the packages."""
    names = {path.parent for path in files}
    inside = [root / package for package in PACKAGES]
    return sorted(folder for folder in names if not any(each == folder or each in folder.parents for each in inside))


def commands(name: str, files: Sequence[Path], root: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The commands to run, each with its environment."""
    listed = [str(path) for path in files]
    config = str(ROOT / "pyproject.toml")
    if name == "black":
        yield [*tool("black"), "--check", "--quiet", "--diff", "--config", config, *listed], {}
    elif name == "flake8":
        yield [*tool("flake8"), "--config", str(ROOT / ".flake8"), *listed], {}
    else:
        cache = os.path.join(os.environ.get("LOCH_BUILD") or str(ROOT / "build"), "mypy")
        mypy = [*tool("mypy"), "--config-file", config, "--no-error-summary", "--scripts-are-modules"]
        path = [str(root / "tools"), str(root)]
        packages = [word for package in PACKAGES if (root / package).is_dir() for word in ("-p", Path(package).name)]
        if packages:
            yield [*mypy, "--cache-dir", cache, *packages], {"MYPYPATH": ":".join(path)}
        if any(PYTEST.search(each.read_text(encoding="utf-8", errors="replace")) for each in files):
            yield [*mypy, "--cache-dir", cache, "-c", "import pytest"], {"MYPYPATH": ":".join(path)}
        for folder in folders(files, root):
            own = [each for each in listed if Path(each).parent == folder]
            where = os.path.join(cache, folder.relative_to(root).as_posix().replace("/", "-") or "top")
            seed(Path(cache), Path(where))
            yield [*mypy, "--cache-dir", where, *own], {"MYPYPATH": ":".join([str(folder), *path])}


def seed(cache: Path, where: Path) -> None:
    """Makes the cache of one folder begin with what mypy knows of the packages, pytest and the standard library, which
    would take longer to check anew than the folder itself. Times are kept: mypy ignores a file whose time differs."""
    if where.exists():
        return
    for version in cache.glob("[0-9]*.[0-9]*"):
        shutil.copytree(version, where / version.name)


def faults(names: Sequence[str], files: Sequence[Path], root: Path = ROOT) -> Iterator[str]:
    for name in names:
        if not shutil.which(tool(name)[0]):
            yield f"{name} is not here: as root, apt-get install {name}"
            continue
        for command, environment in commands(name, files, root):
            done = subprocess.run(
                command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                yield f"{name}:\n{(done.stdout + done.stderr).strip()}"


def main() -> int:
    names = sys.argv[1:] or list(TOOLS)
    if not set(names) <= set(TOOLS):
        print(f"python_rules.py: expected {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    found = list(faults(names, [path for path in house_rules.files() if is_python(path)]))
    print("\n".join([*found, f"python rules: {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
