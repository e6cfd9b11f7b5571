"""Judges one edit in a scratch copy of the tree: does it compile, do the unit tests of its module see it, does fuzzing with
failures, does exploring every interleaving.

The copy has a build folder of its own and is only ever written by this program; the tree itself is read. Every stage has a
time limit from what it takes without an edit; whoever exceeds it is killed, which counts as seen (the edit made it hang). On
a machine that others load too, a limit says little: such kills can be judged again with more patience.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from loch.mutate.edits import Edit
from loch.mutate.modules import Module

MEMORY_MAX = 12 << 30  # bytes of address space: an edit may make a program allocate without end
BUILD_LIMIT_S = 900.0
FIRST_BUILD_LIMIT_S = 7200.0
BENCH = "bin/loch-bench"


class ScratchError(Exception):
    """The copy cannot be made, or does not pass unedited: nothing can be judged. One line."""


@dataclass(frozen=True)
class Judge:
    """One command; without an edit it ends with `status`, after `usual_s` seconds."""

    stage: str  # "unit tests", "fuzz", "explore"
    name: str  # "nessie_put_test", "fuzz nessie" …
    argv: tuple[str, ...]
    target: str  # the build target that the judge runs
    status: int = 0


@dataclass(frozen=True)
class Verdict:
    outcome: str  # "killed", "survived", "not compiled"
    by: str = ""  # the judge's name
    stage: str = ""
    how: str = ""  # "status 1", "signal 6", "time limit"
    seconds: float = 0.0


def judges_of(module: Module, fuzz_seeds: int) -> list[Judge]:
    """In the order in which they judge: unit tests of the module, fuzz, the known-bad variants, explore."""
    judges = [Judge("unit tests", test, (test,), test) for test in module.tests]
    for protocol in module.protocols:
        judges.append(
            Judge(
                "fuzz",
                f"fuzz {protocol}",
                (BENCH, "fuzz", "--protocol", protocol, "--seeds", str(fuzz_seeds), "--jobs", "1"),
                "loch-bench",
            )
        )
    for variant in module.variants:
        # As far as mutants_test looks: which seed is the first changes with what a scenario draws.
        argv = (
            BENCH,
            "fuzz",
            "--protocol",
            variant.protocol,
            "--mutant",
            variant.mutant,
            "--seeds",
            str(2 * variant.seed + 100),
            "--jobs",
            "1",
            "--no-shrink",
        )
        judges.append(Judge("fuzz", f"fuzz {variant.protocol} {variant.mutant}", argv, "loch-bench", status=1))
    for each in module.explores:
        judges.append(
            Judge(
                "explore", f"explore {' '.join(each.arguments())}", (BENCH, "explore", *each.arguments()), "loch-bench"
            )
        )
    return judges


class Scratch:
    """A copy of the tree's files, and a build of them."""

    def __init__(self, tree: Path, folder: Path, jobs: int) -> None:
        self.tree = tree
        self.copy = folder / "tree"
        # As deep as the tree's own: what ccache has of that build serves this one.
        self.build = self.copy / "build" / "release"
        self._jobs = jobs
        self._log = folder / "last.log"

    def refresh(self) -> None:
        """Makes the copy equal to the tree. Files that are equal already keep their times, so that little is built."""
        wanted = set(_files(self.tree))
        for name in wanted:
            source, target = self.tree / name, self.copy / name
            data = source.read_bytes()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            shutil.copymode(source, target)
        for folder, folders, names in os.walk(self.copy):
            if Path(folder) == self.copy and "build" in folders:
                folders.remove("build")
            for name in names:
                path = Path(folder) / name
                if path.relative_to(self.copy).as_posix() not in wanted:
                    path.unlink()

    def configure(self) -> None:
        done = self._run(["cmake", "--preset", "release", "-B", str(self.build)], FIRST_BUILD_LIMIT_S, cwd=self.copy)
        if done != 0:
            raise ScratchError(f"the copy {self.copy} cannot be configured ({self._log})")

    def make(self, targets: list[str], limit_s: float = BUILD_LIMIT_S) -> bool:
        return self._run(["ninja", "-C", str(self.build), "-j", str(self._jobs), *targets], limit_s) == 0

    def write(self, edit: Edit) -> bytes:
        """What stood there before, for restore()."""
        path = self.copy / edit.path
        before = path.read_bytes()
        path.write_bytes(edit.apply(before))
        return before

    def restore(self, edit: Edit, before: bytes) -> None:
        (self.copy / edit.path).write_bytes(before)

    def program(self, judge: Judge) -> list[str]:
        """The judge's command with the program's place in the build."""
        name = judge.argv[0]
        found = [self.build / name] if "/" in name else sorted(self.build.glob(f"**/{name}"))
        programs = [path for path in found if path.is_file() and os.access(path, os.X_OK)]
        if not programs:
            raise ScratchError(f"{name} is not in {self.build}")
        return [str(programs[0]), *judge.argv[1:]]

    def judge(self, judge: Judge, limit_s: float) -> int | None:
        """The exit status (below 0: a signal); None: it exceeded the limit."""
        return self._run(self.program(judge), limit_s)

    def _run(self, argv: list[str], limit_s: float, cwd: Path | None = None) -> int | None:
        environment = {**os.environ, "GTEST_FAIL_FAST": "1", "GTEST_BRIEF": "1", "LOCH_HOME": str(self.copy)}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                argv,
                cwd=cwd or self.build,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                preexec_fn=_limit_memory,
            )
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end(process)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end(process: subprocess.Popen) -> None:
    """The process and its children; the session was made for them."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _files(tree: Path) -> list[str]:
    listing = subprocess.run(
        [
            "git",
            "-c",
            "safe.directory=*",
            "-C",
            str(tree),
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        raise ScratchError(f"{tree}: git does not list its files: {listing.stderr.decode().strip()}")
    return [name for name in map(os.fsdecode, listing.stdout.split(b"\0")) if name and (tree / name).is_file()]


class Bench:
    """Judges edits, one after the other, in a scratch copy."""

    def __init__(self, scratch: Scratch, say: Callable[[str], None], patience: float = 1) -> None:
        self._scratch = scratch
        self._patience = patience  # times the usual limits
        self.copy = scratch.copy
        self._say = say
        self._usual: dict[str, float] = {}

    def prepare(self, judges: list[Judge]) -> None:
        """Builds what is needed and runs every judge without an edit. ScratchError: one does not pass."""
        self._say("building without an edit")
        targets = sorted({judge.target for judge in judges})
        if not self._scratch.make(targets, FIRST_BUILD_LIMIT_S):
            raise ScratchError("the tree does not build without an edit (last.log in the scratch folder)")
        for judge in judges:
            if judge.name in self._usual:
                continue
            self._say(f"without an edit: {judge.name}")
            began = time.monotonic()
            status = self._scratch.judge(judge, FIRST_BUILD_LIMIT_S)
            if status != judge.status:
                raise ScratchError(f"without an edit, {judge.name} ends with status {status}; expected {judge.status}")
            self._usual[judge.name] = time.monotonic() - began

    def limit_of(self, judge: Judge) -> float:
        return self._patience * (30 + 6 * self._usual[judge.name])

    def judge(self, edit: Edit, judges: list[Judge]) -> Verdict:
        began = time.monotonic()
        before = self._scratch.write(edit)
        try:
            return self._judge(judges, began)
        finally:
            self._scratch.restore(edit, before)

    def _judge(self, judges: list[Judge], began: float) -> Verdict:
        def after(outcome: str, judge: Judge | None = None, how: str = "") -> Verdict:
            return Verdict(
                outcome,
                judge.name if judge else "",
                judge.stage if judge else "",
                how,
                round(time.monotonic() - began, 1),
            )

        built: set[str] = set()
        for judge in judges:
            if judge.target not in built:
                # Builds all targets of a stage with one command.
                targets = sorted({each.target for each in judges if each.stage == judge.stage} - built)
                self._say(f"building {len(targets)} targets")
                if not self._scratch.make(targets):
                    return after("not compiled")
                built.update(targets)
            self._say(judge.name)
            status = self._scratch.judge(judge, self.limit_of(judge))
            if status is None:
                return after("killed", judge, "time limit")
            if status != judge.status:
                return after("killed", judge, f"signal {-status}" if status < 0 else f"status {status}")
        return after("survived")
