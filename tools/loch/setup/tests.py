"""./loch test: builds, runs the tests with ctest and lists the skipped ones; with --lint, runs the lints instead."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from glob import escape, glob

from loch.places import BINARY, BUILD, SOURCE, is_softroce_machine
from loch.setup import building, children, packages
from loch.setup.outcome import SetUpError, say
from loch.setup.protocols import folders

USAGE = """\
./loch test [--quick] [--filter REGEX] [--coverage] [--zoo] [--lint [--all]]
  (nothing)        every test of the release build, then those labelled `sanitize` under AddressSanitizer
                   with UBSan and those with threads under ThreadSanitizer, then the parsers' libFuzzer
                   targets for 60 s in all; one ctest summary, and before it what was skipped
  --quick          only the tests labelled `quick`, release build
  --filter REGEX   only the tests whose name matches, release build; `softroce`: what runs in Soft-RoCE
                   machines, in full (with CI set, the other forms run a short selection of that)
  --coverage       the tests of the release build, except those in Soft-RoCE machines, in a build that counts:
                   lines and branches reached, by folder, and as pages in coverage/html of the build folder;
                   with --quick or --filter only by those tests
  --zoo            every protocol and the fabric's suites on every machine of the zoo (docs/zoo.md): release, AddressSanitizer
                   and ThreadSanitizer builds, and some under valgrind; a table of each
  --lint           clang-format, clang-tidy on changed files (--all: on all), black, flake8, mypy, shell syntax and house rules;
                   with --quick or --filter the tests too
Each run tries seeds of ./loch fuzz that no run had before, for 60 s in all (with --quick, 15 s):
LOCH_FRESH_BASE=N begins with seed N. With CI set, a skip that tests/skips/known.txt does not list fails.

example:
  ./loch test --quick --filter '^nessie'

exit status: 0 every test passed, 1 one failed or nothing could be built, 2 bad flags, 130 interrupted
"""
EXPECTED = "expected --quick, --filter REGEX, --coverage, --zoo, --lint or --all"
ZOO_TARGETS = ("loch-bench", "loch_zoo", "fabric_conformance_test")
_SUMMARY = re.compile(rb"[0-9]+% tests passed")


@dataclass
class Asked:
    """The flags of ./loch test."""

    lint: bool = False
    all: bool = False
    quick: bool = False
    coverage: bool = False
    zoo: bool = False
    help: bool = False
    filter: str = ""

    @property
    def selection(self) -> list[str]:
        """The arguments of ctest that select the tests."""
        return [*(["-L", "^quick$"] if self.quick else []), *(["-R", self.filter] if self.filter else [])]


def read(words: list[str]) -> Asked:
    asked, left = Asked(), list(words)
    while left:
        word = left.pop(0)
        if word in ("-h", "--help"):
            asked.help = True
            return asked
        if word in ("--lint", "--all", "--quick", "--coverage", "--zoo"):
            setattr(asked, word[2:], True)
        elif word == "--filter":
            if not left:
                raise SetUpError("test --filter: expected a regular expression")
            asked.filter = left.pop(0)
        elif word.startswith("--filter="):
            asked.filter = word.partition("=")[2]
        else:
            raise SetUpError(f"test: unknown argument '{word}': {EXPECTED}")
    if asked.all and not asked.lint:
        raise SetUpError("test --all goes with --lint")
    if asked.coverage and asked.lint:
        raise SetUpError("test --coverage and --lint are two runs")
    if asked.zoo and (asked.coverage or asked.lint or asked.quick or asked.filter):
        raise SetUpError("test --zoo is a run of its own")
    base = os.environ.get("LOCH_FRESH_BASE", "")
    if base and not re.fullmatch(r"[1-9][0-9]{0,18}", base):
        raise SetUpError(f"LOCH_FRESH_BASE={base}: expected the first seed, a number from 1")
    if is_softroce_machine():
        raise SetUpError("test: a Soft-RoCE machine builds nothing; run it outside, it starts such machines itself")
    return asked


def main(words: list[str]) -> int:
    protocol_folders = folders(os.environ.get("LOCH_PROTOCOLS", ""))
    asked = read(words)
    if asked.help:
        print(USAGE, end="")
        return 0
    with building.locked():
        _install(asked)
        if asked.zoo:
            return _zoo(protocol_folders)
        if asked.lint:
            status = _lint(asked, protocol_folders)
            if status or not (asked.quick or asked.filter):
                return status
        where = _build(asked, protocol_folders)
    return _run(asked, where)


def _install(asked: Asked) -> None:
    packages.ensure("build", packages.TO_BUILD)
    packages.ensure("softroce", packages.SOFTROCE)
    packages.ensure("power-tests", packages.POWER_TESTS)
    packages.ensure("mutate", packages.MUTATE)
    packages.ensure("python-tests", packages.PYTHON_TESTS)
    if not asked.quick:
        packages.ensure("page-tests", packages.PAGE_TESTS)
        packages.ensure("gdb-tests", packages.GDB_TESTS)
        packages.ensure("budget-tests", packages.BUDGET_TESTS)
    packages.bring_memcached()
    packages.bring_ipmi_sim()
    # the tests of Dask and Slurm take long, so they do not run where CI is set
    if not (asked.quick or os.environ.get("CI")):
        packages.ensure("engine-tests", [*packages.DASK, *packages.SLURM_TESTS])
        packages.bring_slurm()


def _lint(asked: Asked, protocol_folders: str) -> int:
    packages.ensure("lint", packages.LINT)
    building.configure(
        "lint", protocol_folders
    )  # only configures: after a build, clang-tidy would use the precompiled headers and check all that is in them
    command = [
        os.path.join(SOURCE, "tests", "lint", "run"),
        os.path.join(BUILD, "lint"),
        *(["--all"] if asked.all else []),
    ]
    return 1 if _end_with_us(subprocess.Popen(command)) else 0


def _zoo(protocol_folders: str) -> int:
    packages.ensure("sanitizer", packages.SANITIZER)
    packages.ensure("zoo", packages.ZOO)
    building.build_release(protocol_folders, *ZOO_TARGETS)
    building.build("asan", protocol_folders, *ZOO_TARGETS)
    building.build("tsan", protocol_folders, *ZOO_TARGETS)
    matrix = os.path.join(SOURCE, "tests", "zoo", "matrix.py")
    env = {**os.environ, "LOCH_RELEASE": os.path.join(BUILD, "release")}
    sys.stdout.flush()
    command = ["/usr/bin/python3", matrix, "--sanitizers", "--valgrind"]
    return 1 if _end_with_us(subprocess.Popen(command, env=env)) else 0


def _build(asked: Asked, protocol_folders: str) -> str:
    """Builds the requested targets and returns the folder in which ctest finds their tests."""
    targets = ("loch-bench", "loch_quick_tests") if asked.quick else ("all",)
    if asked.coverage:
        packages.ensure("coverage", packages.COVERAGE)
        building.build("coverage", protocol_folders, *targets)
        return os.path.join(BUILD, "coverage")
    building.build_release(protocol_folders, *targets)
    if asked.selection:
        return os.path.join(BUILD, "release")
    packages.ensure("sanitizer", packages.SANITIZER)
    building.build("asan", protocol_folders, "loch_sanitize_tests")
    building.build("tsan", protocol_folders, "loch_sanitize_tests")
    building.build("fuzz", protocol_folders, "loch_fuzzers")
    where = os.path.join(BUILD, "all-tests")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "CTestTestfile.cmake"), "w", encoding="utf-8", errors="surrogateescape") as written:
        written.write(
            "subdirs({})\n".format(" ".join(f'"{BUILD}/{preset}"' for preset in ("release", "asan", "tsan", "fuzz")))
        )
    return where


def _run(asked: Asked, where: str) -> int:
    selection = asked.selection
    env = {
        **os.environ,
        "LOCH_BIN": BINARY,
        "LOCH_BUILD": BUILD,
        "ASAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-19",
        "LOCH_FRESH_BASE": _fresh_base(),
    }
    if asked.coverage:
        # the tests in Soft-RoCE machines use the release build, which has no coverage counters
        selection += ["-LE", "^softroce$"]
        shutil.rmtree(os.path.join(where, "profiles"), ignore_errors=True)
        env["LLVM_PROFILE_FILE"] = os.path.join(where, "profiles", "%4m.profraw")
    elif os.environ.get("CI") and "softroce" not in asked.filter:
        # Where CI is set, only a part of the tests in Soft-RoCE machines runs, because all of them take minutes.
        env["LOCH_SOFTROCE"] = "short"
        selection += ["-LE", "^long$"]
    if asked.quick:
        env["LOCH_FRESH_SECONDS"] = os.environ.get("LOCH_FRESH_SECONDS") or "15"
    for left in glob(os.path.join(escape(BUILD), "*", "Testing", "ran")):
        shutil.rmtree(left, ignore_errors=True)
    jobs = str(len(os.sched_getaffinity(0)))
    command = ["ctest", "--test-dir", where, "-j", jobs, "--output-on-failure", "--no-tests=error", *selection]
    status = 1 if _with_skips(command, env) else 0
    if asked.coverage:
        report = ["/usr/bin/python3", os.path.join(SOURCE, "tests", "coverage", "coverage.py"), SOURCE, where]
        status = 1 if subprocess.run(report, env=env, check=False).returncode else status
    return status


def _with_skips(command: list[str], env: dict[str, str]) -> int:
    """Prints ctest's output and, before its summary, the skipped tests; returns ctest's exit status."""
    sys.stdout.flush()
    ctest = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    try:
        assert ctest.stdout
        for line in ctest.stdout:
            if _SUMMARY.match(line):
                subprocess.run(
                    ["/usr/bin/python3", os.path.join(SOURCE, "tests", "skips", "report.py"), BUILD],
                    env=env,
                    check=False,
                )
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except BrokenPipeError:  # the process that read the output has ended
        children.end(ctest)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except BaseException:
        children.end(ctest)
        raise
    return ctest.wait()


def _end_with_us(child: subprocess.Popen[bytes]) -> int:
    try:
        return child.wait()
    except BaseException:
        children.end(child)
        raise


def _fresh_base() -> str:
    """The first of the random seeds for fuzzing that only this run of the tests uses, from the commit and the time;
    printed so that the run can be repeated."""
    base = os.environ.get("LOCH_FRESH_BASE", "")
    if not base:
        try:
            commit = subprocess.run(
                ["git", "-c", "safe.directory=*", "-C", SOURCE, "rev-parse", "HEAD"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=False,
            ).stdout.strip()
        except FileNotFoundError:
            commit = ""
        drawn = hashlib.sha256(f"{commit} {int(time.time())}".encode()).hexdigest()[:8]
        base = f"{max(1, int(drawn, 16))}000000000"
    say(f"fresh seeds from LOCH_FRESH_BASE={base}")
    return base
