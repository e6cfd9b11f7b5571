"""Judges one edit in a copy of the source tree: does it compile, do the module's unit tests detect it, does fuzzing
with injected failures, does exhaustive exploration of interleavings.

The copy has its own build folder; the source tree itself is only read. Each command has a time limit, a multiple of its
time without an edit; a command that exceeds the limit is killed and counts as having detected the edit, which made the
program hang. On a busy machine the limit may be exceeded without a hang: such edits can be judged again with a longer
limit (patience).
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

# bytes of address space for each command, because an edit may make a program allocate without end
MEMORY_MAX = 12 << 30
BUILD_LIMIT_S = 900.0
FIRST_BUILD_LIMIT_S = 7200.0
BENCH = "bin/loch-bench"


class ScratchError(Exception):
    """The copy cannot be made, or its tests fail without an edit, so that no edit can be judged; the message is one
    line."""


@dataclass(frozen=True)
class Judge:
    """One command that may detect an edit: without an edit it ends with exit status `status`."""

    stage: str  # "unit tests", "fuzz" or "explore"
    name: str  # for messages and results: "nessie_put_test", "fuzz nessie" …
    argv: tuple[str, ...]
    target: str  # the build target of the program that the command runs
    status: int = 0


@dataclass(frozen=True)
class Verdict:
    outcome: str  # "killed" (a judge detected the edit), "survived" or "not compiled"
    by: str = ""  # name of the judge that detected the edit
    stage: str = ""
    how: str = ""  # how the judge's command ended: "status 1", "signal 6", "time limit"
    seconds: float = 0.0


def judges_of(module: Module, fuzz_seeds: int) -> list[Judge]:
    """The judges of a module in the order in which they run: its unit tests, fuzz, known-bad variants, explore."""
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
        # More seeds than the variant takes, as in mutants_test: which seed finds it first changes whenever the fuzzer
        # draws a scenario's values differently.
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
    """A copy of the source tree, with a build folder of its own."""

    def __init__(self, tree: Path, folder: Path, jobs: int) -> None:
        self.tree = tree
        self.copy = folder / "tree"
        # The copy's build folder is as deep as the tree's, so that relative paths agree and ccache reuses the tree's
        # objects.
        self.build = self.copy / "build" / "release"
        self._jobs = jobs
        self._log = folder / "last.log"

    def refresh(self) -> None:
        """Makes the copy equal to the source tree. Files that are equal keep their modification times, so little is
        rebuilt."""
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
        """Applies an edit to the copy; returns the file's bytes before the edit, for restore()."""
        path = self.copy / edit.path
        before = path.read_bytes()
        path.write_bytes(edit.apply(before))
        return before

    def restore(self, edit: Edit, before: bytes) -> None:
        (self.copy / edit.path).write_bytes(before)

    def program(self, judge: Judge) -> list[str]:
        """The command of a judge, with the path of its program in the copy's build folder."""
        name = judge.argv[0]
        found = [self.build / name] if "/" in name else sorted(self.build.glob(f"**/{name}"))
        programs = [path for path in found if path.is_file() and os.access(path, os.X_OK)]
        if not programs:
            raise ScratchError(f"{name} is not in {self.build}")
        return [str(programs[0]), *judge.argv[1:]]

    def judge(self, judge: Judge, limit_s: float) -> int | None:
        """Runs a judge; returns its exit status (below 0: killed by that signal), or None if it exceeded `limit_s`
        seconds."""
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
    """Kills the process and its children, which are in a session of their own, and waits for the process."""
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
    """Judges edits one after the other in a copy of the source tree."""

    def __init__(self, scratch: Scratch, say: Callable[[str], None], patience: float = 1) -> None:
        self._scratch = scratch
        self._patience = patience  # the usual time limits are multiplied by this number
        self.copy = scratch.copy
        self._say = say
        self._usual: dict[str, float] = {}

    def prepare(self, judges: list[Judge]) -> None:
        """Builds all judges' targets and runs every judge without an edit, for its usual time. ScratchError: one of
        them fails."""
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
                # One build command for all targets of the judge's stage (unit tests, fuzz or explore) is faster than a
                # build for each target.
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
