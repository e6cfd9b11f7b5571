"""Writing output files: a regular file is replaced as a whole or left unchanged, also through symbolic links; devices
and pipes are written to directly. loch-bench has the same rules (common/base/output_place.h)."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

_LINKS_MAX = 40
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|\d+))/fd/(\d+)")
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


@dataclass(frozen=True)
class Place:
    """Where an output goes: a regular file (existing or new), a device or pipe, or a file descriptor of this
    process."""

    path: str
    is_file: bool = True
    descriptor: int | None = None


def place_of(path: str | Path) -> Place:
    """The place that an output's name denotes, after following symbolic links; `-` is standard output.

    Raises OSError if it is a folder.
    """
    name = str(path)
    if name == "-":
        return Place(name, False, 1)
    for _ in range(_LINKS_MAX):
        descriptor = _descriptor_of(name)
        if descriptor is not None:
            return Place(name, False, descriptor)
        if not os.path.islink(name):
            break
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return Place(name)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a folder; expected a file", str(path))
    return Place(name, stat.S_ISREG(mode))


def _descriptor_of(name: str) -> int | None:
    """The file descriptor that a path such as /dev/stdout names, or None.

    Opening such a path again would write from the file's first byte on, over what is there.
    """
    whole = os.path.normpath(os.path.abspath(name))
    found = _DESCRIPTOR.fullmatch(whole)
    return int(found[1]) if found else _STREAMS.get(whole)


def why_not(path: str | Path) -> str:
    """Why the output `path` could not be written, as far as can be known before writing; "" if it can."""
    try:
        place = place_of(path)
    except OSError as error:
        return error.strerror or str(error)
    if place.descriptor is not None:
        return ""
    if not place.is_file:
        return "" if os.access(place.path, os.W_OK) else "it cannot be written to"
    folder = os.path.dirname(place.path) or "."
    return "" if os.access(folder, os.W_OK | os.X_OK) else "its folder cannot be written to"


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Replaces the file's content as a whole: after a failure the old file is unchanged, and no temporary file is
    left."""
    place = place_of(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    if not place.is_file:
        _write_directly(place, data)
        return
    folder, name = os.path.split(place.path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, place.path)
    except OSError as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _write_directly(place: Place, data: bytes) -> None:
    if place.descriptor == 1:
        sys.stdout.flush()
    try:
        descriptor = os.dup(place.descriptor) if place.descriptor is not None else os.open(place.path, os.O_WRONLY)
        with open(descriptor, "wb", buffering=0) as stream:
            view = memoryview(data)
            while view:
                view = view[stream.write(view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise type(error)(error.errno, error.strerror, place.path) from None
