"""The store of points (single runs of loch-bench): their names and files, and which points are done, failed or
stale."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Protocol

from loch.places import SOURCE
from loch.written import write_atomically

from . import power, result
from .errors import BadInput
from .grid import Point
from .options import FILE_OPTIONS, file_named
from .result import Failure, Result, Stored
from .stored_json import read_json

FAILED = ".failed.json"
KNOWN_MAX = 1000  # results that a store keeps in memory, of some 100 kB each


def point_hash(point: Point) -> str:
    """The name of a point (a run of loch-bench): a hash of its resolved parameters, the repeat's seed included."""
    params = point.params if point.power is None else {**point.params, "power": power.text(point.power)}
    identity = {"params": params, "tuning": point.tuning}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=None)
def file_hash(path: str) -> str:
    """sha256 of a file, or "missing"."""
    try:
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError:
        return "missing"


def stamp(point: Point, binary: str) -> dict[str, str]:
    """Inputs of a result other than its options: hashes of loch-bench and of the files that options name."""
    found = {"binary": file_hash(binary)}
    for key in FILE_OPTIONS:
        value = point.params.get(key)
        if value is None:
            continue
        profile = Path(SOURCE) / "experiments" / "hardware" / f"{value}.yaml"
        found[key] = file_hash(str(profile if key == "hardware" and profile.is_file() else file_named(value)))
    return found


class PointSource(Protocol):
    """A source of stored points: the points of a result folder, or a table of reference results."""

    damaged: dict[Path, str]  # damaged files, each with a description of the damage

    def of(self, point: Point) -> Stored | None:
        """The stored result of a point, else its stored failure, else None."""


class Store:
    """The stored points of a result folder (DIR/points), locked so that only one runner writes to it."""

    def __init__(self, folder: Path, binary: str) -> None:
        self.folder = folder
        self.binary = binary
        self.damaged: dict[Path, str] = {}  # damaged files that were read so far, each with a description of the damage
        self._lock: IO[str] | None = None
        # results that were read, each with what tells that its file is still the same
        self._known: dict[Path, tuple[tuple[int, int, int], Stored]] = {}

    def open(self) -> None:
        """Creates and locks the folder, and removes temporary files of an interrupted run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock = open(self.folder / ".lock", "w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                f"{self.folder.parent}: another run is writing to it; wait, or give --out another folder"
            ) from None
        for left in self.folder.glob(".*.tmp"):
            if left.is_dir() and not left.is_symlink():  # folder of an engine (Dask or Slurm) of an interrupted run
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def path(self, name: str, failed: bool = False) -> Path:
        return self.folder / (f"{name}{FAILED}" if failed else f"{name}.json")

    def find(self, name: str) -> Stored | None:
        """The stored result of a point, else its stored failure, else None. A damaged file is noted in `damaged`."""
        for failed in (False, True):
            path = self.path(name, failed)
            try:
                stored = self._read(path)
            except BadInput as error:
                self.damaged[path] = str(error)
                continue
            if stored is not None:
                return stored
        return None

    def _read(self, path: Path) -> Stored | None:
        """As read_point(), but a file that has not changed since is not read again."""
        try:
            found = path.stat()
        except OSError:
            return read_point(path)
        state = found.st_ino, found.st_mtime_ns, found.st_size
        if (known := self._known.get(path)) is not None and known[0] == state:
            return known[1]
        stored = read_point(path)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        if stored is not None:
            self._known[path] = state, stored
        return stored

    def let_go(self) -> None:
        """Frees the results that are kept in memory; what is asked for again is read again."""
        self._known.clear()

    def of(self, point: Point) -> Stored | None:
        """The stored result or failure of a point, or None."""
        return self.find(point_hash(point))

    def is_stale(self, stored: Stored, point: Point) -> bool:
        """Whether the result comes from another build of loch-bench, or from other contents of a file that an option
        names."""
        return stored.runner.stamp != stamp(point, self.binary)

    def keep(self, name: str, found: Result, runner: dict[str, Any]) -> None:
        """Stores a result, and removes a stored failure of the same point."""
        write_atomically(self.path(name), json.dumps({**found.document, "runner": runner}, indent=1) + "\n")
        self.damaged.pop(self.path(name), None)
        self.path(name, failed=True).unlink(missing_ok=True)

    def keep_failure(self, name: str, failure: Failure, runner: dict[str, Any]) -> None:
        """Stores the failure of a point, and removes a stored result of it."""
        document = {"failure": failure.dict(), "runner": runner}
        write_atomically(self.path(name, failed=True), json.dumps(document, indent=1) + "\n")
        self.path(name).unlink(missing_ok=True)
        self.damaged.pop(self.path(name), None)

    def forget_all(self) -> None:
        """For --fresh: removes every stored point."""
        for path in self.folder.glob("*.json"):
            path.unlink()


def read_point(path: Path) -> Stored | None:
    """Reads a stored point; None if the file does not exist. BadInput with file, key and damage if it is malformed."""
    if not path.exists():
        return None
    failed = path.name.endswith(FAILED)
    return result.of_file(path.name.removesuffix(FAILED).removesuffix(".json"), read_json(path), failed, str(path))
