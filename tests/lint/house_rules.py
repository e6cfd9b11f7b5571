#!/usr/bin/python3
"""The rules of the house that a compiler cannot see: who may include whom, how long a file may be, shell syntax."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 700  # a file is read in one sitting
PROTOCOLS = ("nessie", "nessie_sd", "nessie_hy", "pilaf_em", "herd_em", "farm_em", "drtm_em", "sequencer", "baselines")
FABRICS = ("common/fabric/sim/", "common/fabric/shm/", "common/fabric/verbs/", "common/fabric/fault/",
           "common/fabric/trace/", "common/fabric/count/", "common/fabric/step/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
SOURCES = {".cc", ".h", ".py", ".sh", ".cmake"}


def files() -> list[Path]:
    """Tracked files; without git, all that are not output."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listing = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"],
                                 capture_output=True, check=True).stdout
        found = [ROOT / os.fsdecode(name) for name in listing.split(b"\0") if name]
    else:
        found = [p for p in ROOT.rglob("*") if not re.match(r"(build[^/]*|results|\.git)(/|$)", str(p.relative_to(ROOT)))]
    return [path for path in found if path.is_file()]


def is_test(name: str) -> bool:
    """Tests of a protocol may open any fabric."""
    return bool(re.search(r"(_test|_bench|_fuzz|_main|_costs)\.cc$|(^|/)test_[^/]*$", name))


def include_fault(name: str, target: str) -> str | None:
    """Why file `name` may not include `target`; None if it may."""
    room = name.split("/")[0]
    if target.startswith("infiniband/") and not name.startswith("common/fabric/verbs/"):
        return "only common/fabric/verbs knows <infiniband/…>"
    if room in PROTOCOLS:
        if target.split("/")[0] in PROTOCOLS and target.split("/")[0] != room:
            return "a protocol includes no other protocol"
        if target.startswith(FABRICS) and not is_test(name):
            return "a protocol knows the contract, not a fabric"
        if target.startswith(("workloads/", "common/cli/", "common/fuzz/")) and not is_test(name):
            return "a protocol knows no load generator and no command line"
    if name.startswith("common/cuckoo/") and target.startswith("common/fabric"):
        return "common/cuckoo is pure memory and knows no fabric"
    if name.startswith(("common/base/", "common/coro/")) and target.startswith("common/fabric"):
        return "base and coro lie below the fabric"
    if room == "common" and target.split("/")[0] in PROTOCOLS and name != "common/cli/registry.cc" and not is_test(name):
        return "only the registry of common/cli knows the protocols by name"
    return None


def source_faults(path: Path, name: str) -> Iterator[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > LINES_MAX:
        yield f"{name}: {len(lines)} lines; a file has at most {LINES_MAX}"
    if path.suffix not in (".cc", ".h"):
        return
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        fault = include_fault(name, include.group(1)) if include else None
        if fault:
            yield f"{name}:{number}: includes {include.group(1)}: {fault}"


def shell_faults(path: Path, name: str) -> Iterator[str]:
    checks = [["bash", "-n", str(path)]]
    if shutil.which("shellcheck"):
        checks.append(["shellcheck", "-f", "gcc", str(path)])
    for command in checks:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            yield f"{name}: {command[0]}:\n{done.stdout}{done.stderr}".rstrip()


def faults() -> Iterator[str]:
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in SOURCES:
            yield from source_faults(path, name)
        with path.open("rb") as opened:
            head = opened.readline(64)
        if head.startswith(b"#!") and (b"bash" in head or head.rstrip().endswith(b"/sh")):
            yield from shell_faults(path, name)


def main() -> int:
    found = list(faults())
    print("\n".join(found + [f"house rules: {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
