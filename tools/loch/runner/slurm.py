"""Runs points (runs of loch-bench) as tasks of Slurm job arrays: sbatch submits them, squeue tells which have ended,
scancel cancels them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import IO

from loch.ending import one_line
from loch.written import write_atomically

from .child import die_with_parent
from .engine import TASK, Engine, EngineLost, warn
from .errors import BadInput
from .task import NOT_VISIBLE

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
CALL_S = 60.0  # time limit of one call of a Slurm command, in seconds
ASK_S = 2.0  # seconds between two calls of squeue
# seconds without an answer of Slurm's controller, or with every submission refused, after which the run ends
SILENCE_S = 600.0
# without --slurm-points, the waiting points are divided into ROUNDS tasks for each task that may run at a time
ROUNDS = 4
PENDING_S = 60.0  # seconds of waiting after which the reason why no task runs is printed
ARRAY_MAX = 1001  # Slurm's default of MaxArraySize
# States of a task that is alive; in every other state Slurm will not run the task again by itself.
ALIVE = frozenset(
    "PENDING RUNNING COMPLETING CONFIGURING SUSPENDED REQUEUED REQUEUE_FED RESIZING SIGNALING STAGE_OUT STOPPED".split()
)
FIELDS = "ArrayJobID:|,ArrayTaskID:|,State:|,exit_code:|,Reason:|"  # the fields that squeue prints for each task
HELD = re.compile(r"launch.failed|requeued.held|never.satisfied|BadConstraints", re.IGNORECASE)


@dataclass
class _Array:
    """One job array: its tasks that have not ended, each with the numbers of its points, and how many may run at
    once."""

    batch: int
    at_once: int
    tasks: dict[int, tuple[int, ...]]


@dataclass
class _Question:
    """A running squeue, whose answer goes to a file because a pipe would fill up before the answer is read."""

    process: subprocess.Popen
    answer: IO[str]
    complaint: IO[str]
    asked: float
    arrays: tuple[str, ...]


class Slurm(Engine):
    """Runs points by Slurm. `options`: passed to sbatch; `points`: how many a task runs (None: derived from the number
    of points)."""

    name = "slurm"

    def __init__(self, options: str, points: int | None, at_once: int) -> None:
        super().__init__()
        try:
            self._options = shlex.split(options)
        except ValueError as error:
            raise BadInput(f"--slurm-options {options}: {error}") from None
        if any("\0" in option for option in self._options):
            raise BadInput("--slurm-options: holds a zero byte")
        self._points, self.width = points, at_once
        self._arrays: dict[str, _Array] = {}
        self._batches = 0
        self._array_max = ARRAY_MAX
        self._question: _Question | None = None
        self._asked = self._answered = time.monotonic()
        self._refused_since: float | None = None
        self._not_before = 0.0
        self._pending_since: float | None = None
        self._said: set[str] = set()

    def check(self, binary: str) -> None:
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise BadInput(
                    f"--on slurm: there is no {program} here; run this where jobs of your Slurm cluster are submitted"
                )
        if not self._options_fit():
            raise BadInput(
                "--slurm-options: expected options of sbatch such as --partition=short --time=10, without --wait and"
                " without a script"
            )
        done = _call(["sbatch", "--test-only", *self._options, "--array=0", "--wrap=true"])
        if done.returncode != 0:
            raise BadInput(f"--on slurm: sbatch refuses such jobs: {_complaint(done.stderr)}")
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _call(["scontrol", "show", "config"]).stdout, re.MULTILINE)
        self._array_max = int(found[1]) if found else ARRAY_MAX
        if self._array_max < 1:
            raise BadInput("--on slurm: this cluster allows no job arrays (MaxArraySize)")

    def _options_fit(self) -> bool:
        """Whether --slurm-options has only options; --wait is refused because sbatch would then block the runner."""
        return not self._options or (
            self._options[0].startswith("-") and {"--", "-W", "--wait"}.isdisjoint(self._options)
        )

    # ---- Submitting job arrays ----
    def _submit(self, waiting: deque[int]) -> None:
        now = time.monotonic()
        free = self.width - sum(min(array.at_once, len(array.tasks)) for array in self._arrays.values())
        if free <= 0 or now < self._not_before:
            return
        per_task = self._points or ceil(len(waiting) / (ROUNDS * self.width))
        numbers = list(waiting)[: per_task * self._array_max]
        tasks = [tuple(numbers[i : i + per_task]) for i in range(0, len(numbers), per_task)]
        batch = self._batches
        self._batches += 1
        write_atomically(self.folder / f"batch.{batch}.json", json.dumps(tasks))
        done = _call(self._command(batch, len(tasks), free))
        if done.returncode != 0:
            self._refused(now, _complaint(done.stderr))
            return
        job = done.stdout.strip().split(";")[0]
        if not job.isdigit():
            raise EngineLost(
                f"--on slurm: sbatch names no job: {_complaint(done.stdout + done.stderr)}; finished points are kept"
            )
        self._refused_since = None
        self._arrays[job] = _Array(batch, free, dict(enumerate(tasks)))
        self._asked = self._answered = now
        for _ in numbers:
            waiting.popleft()

    def _command(self, batch: int, tasks: int, at_once: int) -> list[str]:
        """The sbatch command line. The user's options come first, so that those the runner relies on take
        precedence."""
        words = [sys.executable, "-B", str(TASK), str(self.folder), "--of", str(batch)]
        own = shlex.quote(f"{self.folder}/batch.{batch}.")
        script = (
            f"test -r {shlex.quote(words[2])} && test -w {shlex.quote(words[3])} || exit {NOT_VISIBLE}\n"
            f'exec {shlex.join(words)} "$SLURM_ARRAY_TASK_ID" 2>{own}"$SLURM_ARRAY_TASK_ID".stderr'
        )
        return [
            "sbatch",
            "--job-name=loch",
            *self._options,
            "--parsable",
            f"--array=0-{tasks - 1}%{at_once}",
            "--nodes=1",
            "--ntasks=1",
            "--export=ALL",
            "--chdir=/",
            "--input=/dev/null",
            "--output=/dev/null",
            "--error=/dev/null",
            f"--wrap={script}",
        ]

    def _refused(self, now: float, why: str) -> None:
        """Handles a refusal by sbatch (a limit, or an unreachable controller): submits fewer tasks, and later."""
        self._refused_since = self._refused_since or now
        if now - self._refused_since > SILENCE_S and not self._arrays:
            raise EngineLost(f"--on slurm: sbatch refuses the points: {why}; finished points are kept")
        self._say(f"slurm: sbatch refuses {why}; it is asked again with fewer tasks")
        self._array_max = max(1, self._array_max // 2)
        self._not_before = now + ASK_S

    # ---- Watching submitted tasks ----
    def _watch(self) -> None:
        now = time.monotonic()
        for job, array in list(self._arrays.items()):
            array.tasks = {
                index: numbers
                for index, numbers in array.tasks.items()
                if any(number in self._tasks for number in numbers)
            }
            if not array.tasks:
                del self._arrays[job]
        if self._question is not None:
            self._hear(now)
        elif self._arrays and now - self._asked > ASK_S:
            self._ask(now)

    def _ask(self, now: float) -> None:
        answer, complaint = (tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") for _ in range(2))
        jobs = tuple(self._arrays)
        process = subprocess.Popen(
            ["squeue", "-h", "-r", "-t", "all", "-O", FIELDS, "-j", ",".join(jobs)],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=complaint,
            env=_environment(),
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._question = _Question(process, answer, complaint, now, jobs)

    def _hear(self, now: float) -> None:
        """Reads squeue's answer, if it has arrived. After SILENCE_S without an answer the controller is considered
        gone."""
        question = self._question
        if question is None:
            return
        if question.process.poll() is None and now - question.asked < CALL_S:
            return
        self._question, self._asked = None, now
        if question.process.poll() is None:
            question.process.kill()
            question.process.wait()
        question.answer.seek(0)
        question.complaint.seek(0)
        complaint = question.complaint.read()
        if question.process.returncode != 0 and "Invalid job id" not in complaint:
            if now - self._answered > SILENCE_S:
                raise EngineLost(
                    f"--on slurm: squeue has not answered for {SILENCE_S:g} s: {_complaint(complaint)}; "
                    "finished points are kept"
                )
            self._say(f"slurm: squeue: {_complaint(complaint)}; asked again")
            return
        self._answered = now
        self._compare(question, _states(question.answer.read()), now)

    def _compare(self, question: _Question, states: dict[tuple[str, int], _State], now: float) -> None:
        """Compares the states that squeue gave with the known tasks, and reports the tasks that have ended."""
        is_running = False
        reasons = set()
        for job in question.arrays:
            array = self._arrays.get(job)
            if array is None:
                continue
            for index in list(array.tasks):
                said = states.get((job, index), _FORGOTTEN)
                if said.is_alive:
                    is_running |= said.name != "PENDING"
                    reasons |= {said.reason} if said.name == "PENDING" else set()
                    continue
                if said.name == "PENDING":
                    _call(["scancel", f"{job}_{index}"])
                task = f"Slurm's task {job}_{index} ended before its points: {said.text()}"
                self._task_is_over(
                    array.tasks.pop(index), task + _last_line(self.folder / f"batch.{array.batch}.{index}.stderr")
                )
        if is_running or not reasons:
            self._pending_since = None
        elif self._pending_since is None:
            self._pending_since = now
        elif now - self._pending_since > PENDING_S:
            self._say(f"slurm: nothing runs: {', '.join(sorted(reasons))}")

    def _cancel(self) -> None:
        if self._question is not None:
            self._question.process.kill()
            self._question.process.wait()
        jobs = [job for job, array in self._arrays.items() if array.tasks]
        if jobs:
            done = _call(["scancel", "--quiet", *jobs])
            said = f" ({_complaint(done.stderr)})" if done.returncode != 0 else ""
            print(f"slurm: cancelled job {', '.join(jobs)}{said}", file=sys.stderr, flush=True)
        self._arrays.clear()

    def _say(self, text: str) -> None:
        """Prints a warning, each text only once."""
        if text not in self._said:
            self._said.add(text)
            warn(text)


@dataclass(frozen=True)
class _State:
    """The state of a task as squeue gives it."""

    name: str
    exit_status: int  # exit status of the task, or minus the number of the signal that killed it
    reason: str

    @property
    def is_alive(self) -> bool:
        """Whether the task runs, or will start without intervention."""
        return self.name in ALIVE and not (self.name == "PENDING" and HELD.search(self.reason))

    def text(self) -> str:
        if self.exit_status == NOT_VISIBLE:
            return "its node does not see the result folder or this project; both must be where all nodes have them"
        reason = self.reason if self.reason not in ("", "None", "NonZeroExitCode") else ""
        status = f"exit status {self.exit_status}" if self.exit_status else ""
        more = ", ".join(filter(None, (reason, status)))
        return self.name + (f" ({more})" if more else "")


_FORGOTTEN = _State("forgotten by Slurm", 0, "")


def _states(text: str) -> dict[tuple[str, int], _State]:
    """The states in squeue's output, by job and array index."""
    found = {}
    for line in text.splitlines():
        job, index, name, status, reason = (*line.strip().split("|"), "", "", "", "", "")[:5]
        if index.isdigit():
            found[job, int(index)] = _State(name, _exit_status(status), reason)
    return found


def _exit_status(text: str) -> int:
    """The exit status from squeue's field, a status of wait(2); some versions print STATUS:SIGNAL instead."""
    status, _, by_signal = text.partition(":")
    if not status.isdigit():
        return 0
    if by_signal.isdigit():
        return -int(by_signal) if int(by_signal) else int(status)
    return os.waitstatus_to_exitcode(int(status) & 0xFFFF) if int(status) & 0xFF != 0x7F else 0


def _last_line(path: Path) -> str:
    """The last line of a task's error output, to be appended to a message."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f": {one_line(lines[-1])}" if lines else ""


def _environment() -> dict[str, str]:
    """The environment for Slurm's commands, which pass it on to tasks; variables of an enclosing Slurm job are left
    out."""
    kept = ("SLURM_CONF", "SLURM_JWT", "PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL")
    return {key: value for key, value in os.environ.items() if key in kept or key.startswith("SBATCH_")}


def _call(argv: list[str]) -> subprocess.CompletedProcess:
    """Runs a Slurm command; one that exceeds the time limit counts as failed."""
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=CALL_S,
            env=_environment(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"no answer within {CALL_S:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(argv, 1, "", f"{argv[0]}: {error.strerror}")


def _complaint(text: str) -> str:
    """The error output of a Slurm command in one line."""
    lines = [re.sub(r"^\w+: (error: )?", "", line) for line in text.strip().splitlines() if line.strip()]
    return one_line(": ".join(lines)) or "no reason given"
