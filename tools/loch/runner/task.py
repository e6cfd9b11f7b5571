"""Runs points (runs of loch-bench) on a node that an engine (Slurm, Dask) chose: `task.py FOLDER NUMBER…`, or `task.py
FOLDER --of BATCH INDEX`.

FOLDER is the engine's folder on a file system that all nodes share (engine.py). Point N is described by N.task.json.
Its run leaves N.output, N.result if loch-bench wrote one, and, last, N.ended.json with how it ended, so the other files
are complete once N.ended.json exists. A point with N.ended.json is not run again: a restarted task continues where it
was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the engine starts this file by its path on a node
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)  # the folder of the package loch

from loch.runner import child, provenance  # noqa: E402  (after the path is set)
from loch.written import write_atomically  # noqa: E402

TICK_S = 0.02
LEASE = "lease"
LEASE_LOOK_S = 1.0
# Seconds after which an unchanged lease means that the runner is dead; NFS may cache file attributes for a minute.
LEASE_DEAD_S = 180.0
NOT_VISIBLE = 74  # exit status: this node cannot read the engine's folder
ABANDONED = 75  # exit status: the runner is gone, so nobody waits for the result


class Lease:
    """Tells whether the runner still lives: the runner rewrites the lease file regularly, and removes it when it
    ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text, self._seen = path.read_text(encoding="utf-8"), time.monotonic()
        self._looked = self._seen

    def is_held(self) -> bool:
        """Whether the runner still lives; to be called often, but the lease file is read only once a second."""
        now = time.monotonic()
        if now - self._looked < LEASE_LOOK_S:
            return True
        self._looked = now
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        except OSError:
            # an unreadable lease does not mean that the runner is dead: the file server may be hanging or restarting
            text = self._text
        if text != self._text:
            self._text, self._seen = text, now
        return now - self._seen <= LEASE_DEAD_S


def run_point(folder: Path, number: str, lease: Lease) -> bool:
    """Runs one point; returns False if it was ended because the runner is gone."""
    task = json.loads((folder / f"{number}.task.json").read_text(encoding="utf-8"))
    (folder / f"{number}.began").touch()
    # the files' name has the point's number, the host and this process: another node may still run the same point,
    # although that node was taken for lost
    own = f"{number}.{os.uname().nodename}.{os.getpid()}"
    result, output = folder / f"{own}.result", folder / f"{own}.output"
    began = time.monotonic()
    record: dict[str, Any] = {"exit_status": None, "timed_out": False, "cannot_start": "", "host": provenance.host()}
    with open(output, "wb") as stream:
        try:
            process = subprocess.Popen(
                [*task["argv"], "--json", str(result)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                cwd=task["cwd"],
                env={**_own_environment(), **task["environment"]},
                start_new_session=True,
                preexec_fn=child.die_with_parent,
            )
        except OSError as error:
            record["cannot_start"] = f"cannot start {error.filename or task['argv'][0]}: {error.strerror}"
        else:
            if not _wait(process, began + task["timeout_s"], lease, record):
                return False
    record["elapsed_s"] = time.monotonic() - began
    if result.exists():
        os.replace(result, folder / f"{number}.result")
    os.replace(output, folder / f"{number}.output")
    write_atomically(folder / f"{number}.ended.json", json.dumps(record))
    return True


def _own_environment() -> dict[str, str]:
    """The node's environment without the variables that make an MPI program one of several processes."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "PMI", "OMPI_"))}


def _wait(process: subprocess.Popen, deadline: float, lease: Lease, record: dict) -> bool:
    """Waits for the process until its deadline; returns whether the lease is still held, so that the result is
    wanted."""
    is_held = True
    while process.poll() is None:
        is_held = lease.is_held()
        record["timed_out"] = time.monotonic() > deadline
        if not is_held or record["timed_out"]:
            break
        time.sleep(TICK_S)
    child.kill_group(process.pid)  # ends the measured command, and the processes that it started in its process group
    record["exit_status"] = process.wait()
    return is_held


def main(argv: list[str]) -> int:
    child.die_with_parent()
    # on SIGTERM this process exits, and the command that it runs is killed with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(argv[0])
    try:
        numbers = argv[1:]
        if numbers[:1] == ["--of"]:
            numbers = json.loads((folder / f"batch.{numbers[1]}.json").read_text(encoding="utf-8"))[int(numbers[2])]
        lease = Lease(folder / LEASE)
        for number in map(str, numbers):
            if not (folder / f"{number}.ended.json").exists() and not run_point(folder, number, lease):
                return ABANDONED
    except OSError as error:
        print(f"{error.filename or folder}: {error.strerror} on {os.uname().nodename}", file=sys.stderr)
        return ABANDONED if not folder.exists() else NOT_VISIBLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
