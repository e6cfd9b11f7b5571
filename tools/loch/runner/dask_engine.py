"""Runs points (runs of loch-bench) as tasks of a Dask cluster, an existing one or one of processes on this machine;
uses dask_bridge.py."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from loch.ending import one_line

from .child import die_with_parent
from .engine import TASK, Engine, EngineLost, warn
from .errors import BadInput

BRIDGE = Path(__file__).resolve().parent / "dask_bridge.py"
START_S = 90.0  # longest time in seconds until the bridge (dask_bridge.py) is connected to a cluster
ANSWER_S = 45.0
END_S = 15.0
READ_BYTES = 1 << 16
ADDRESS = re.compile(r"([a-z][a-z0-9]*://)?[A-Za-z0-9\[][A-Za-z0-9.\[\]:_-]*:\d{1,5}")


@dataclass(frozen=True)
class _Bridge:
    """The child process dask_bridge.py: pipes for requests and answers, and the file of its error output."""

    process: subprocess.Popen[bytes]
    asked: IO[bytes]
    answers: IO[bytes]
    errors: IO[str]


class Dask(Engine):
    """Runs points on Dask. `address`: of an existing scheduler; without it, `jobs` worker processes start on this
    machine."""

    name = "dask"

    def __init__(self, address: str | None, flag: str, jobs: int) -> None:
        super().__init__()
        if address is not None and not ADDRESS.fullmatch(address):
            raise BadInput(f"{flag} {address}: expected the address of a scheduler, such as tcp://10.0.0.1:8786")
        self._address, self._flag, self._jobs = address, flag, jobs
        self.width = jobs
        self._bridge: _Bridge | None = None
        self._received = b""

    def check(self, binary: str) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise BadInput(
                "--on dask needs the package python3-distributed (as root: apt-get install python3-distributed)"
            )
        self._start()
        answer = self._answer(START_S)
        if "error" in answer:
            self._end()
            what = (
                f"{self._flag} {self._address}: no scheduler of Dask answers"
                if self._address
                else "--on dask: no cluster"
            )
            raise BadInput(f"{what}: {one_line(answer['error'])}")
        if answer["threads"] == 0:
            warn(f"{self._flag} {self._address}: it has no workers yet; points wait for them")
        self.width = max(1, answer["threads"])
        self._check_seen([binary, str(TASK), sys.executable])

    def _check_seen(self, paths: list[str]) -> None:
        """Refuses a cluster with workers that cannot read the files `paths`."""
        self._tell("see", paths)
        answer = self._answer(ANSWER_S)
        blind = answer.get("blind", [answer.get("error")])
        if blind:
            self._end()
            raise BadInput(
                f"--on dask: {one_line(blind[0])} cannot read {' or '.join(paths)}; all workers must have the "
                "result folder and this project in the same place"
            )

    def _start(self) -> None:
        where = [self._flag, self._address] if self._address else ["--processes", str(self._jobs)]
        errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        process = subprocess.Popen(
            [sys.executable, "-B", str(BRIDGE), *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("pipes were asked for")
        os.set_blocking(process.stdout.fileno(), False)
        self._bridge = _Bridge(process, process.stdin, process.stdout, errors)

    @property
    def _there(self) -> _Bridge:
        if self._bridge is None:
            raise EngineLost("--on dask: its client has ended; finished points are kept")
        return self._bridge

    def _opened(self) -> None:
        self._check_seen([str(self.folder)])

    def _submit(self, waiting: deque[int]) -> None:
        while waiting:
            number = waiting.popleft()
            self._tell(f"run {number}", [sys.executable, "-B", str(TASK), str(self.folder), str(number)])

    def _watch(self) -> None:
        for line in self._lines():
            if "error" in line:
                raise EngineLost(f"--on dask: {one_line(line['error'])}; finished points are kept")
            self._task_is_over((int(line["over"]),), f"Dask's task ended before its point: {one_line(line['why'])}")

    def _cancel(self) -> None:
        self._end()

    # ---- Requests to the bridge and its answers ----
    def _tell(self, verb: str, what: list[str]) -> None:
        try:
            self._there.asked.write(f"{verb} {json.dumps(what)}\n".encode())
            self._there.asked.flush()
        except BrokenPipeError:
            raise EngineLost(f"--on dask: {self._last_words()}; finished points are kept") from None

    def _lines(self) -> list[dict]:
        """The bridge's answers that have arrived since the last call."""
        try:
            while data := os.read(self._there.answers.fileno(), READ_BYTES):
                self._received += data
        except BlockingIOError:
            pass
        else:
            if b"\n" not in self._received:
                return [{"error": self._last_words()}]
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def _answer(self, patience_s: float) -> dict:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            for line in self._lines():
                return line
            time.sleep(0.02)
        return {"error": f"no answer within {patience_s:g} s"}

    def _last_words(self) -> str:
        self._there.errors.seek(0)
        said = self._there.errors.read().strip().splitlines()[-1:]
        return "its client ended" + "".join(f": {line}" for line in said)

    def _end(self) -> None:
        """Ends the bridge, which cancels its tasks and closes a cluster that it has started."""
        bridge = self._bridge
        if bridge is None:
            return
        try:
            bridge.asked.close()
        except BrokenPipeError:
            pass
        try:
            bridge.process.wait(END_S)
        except subprocess.TimeoutExpired:
            bridge.process.kill()
            bridge.process.wait()
        bridge.answers.close()
        bridge.errors.close()
        self._bridge = None
