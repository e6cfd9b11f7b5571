"""Configures and builds Loch, one ./loch at a time in a build folder, so that loch-bench is up to date with the
tree."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import Iterator

from loch.places import BINARY, BUILD, SOURCE, is_softroce_machine
from loch.setup import current, packages
from loch.setup.children import run_logged
from loch.setup.outcome import SetUpError, say

ERROR_LINES, ERROR_LETTERS = 40, 400
_NOT_TOLD = re.compile(rb"(\[\d+/\d+\]|: &&|/[^ ]*(ccache|clang\+\+)[^ ]*) ")
# The lock's descriptor; child processes inherit it, so the lock outlives this process until a running build ends.
_lock: list[int] = []


@contextmanager
def locked() -> Iterator[None]:
    """Holds a lock on the build folder: only one ./loch installs or builds in it at a time, the others wait."""
    try:
        os.makedirs(BUILD, exist_ok=True)
        descriptor = os.open(os.path.join(BUILD, "lock"), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SetUpError(
            f"the build folder {BUILD} cannot be made ({error.strerror}): set LOCH_BUILD to one that can"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another ./loch that builds in {BUILD}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _lock.append(descriptor)
        yield
    finally:
        _lock.clear()
        os.close(descriptor)


def configure(preset: str, protocol_folders: str) -> None:
    folder, log = os.path.join(BUILD, preset), os.path.join(BUILD, f"{preset}.configure.log")
    stamp = os.path.join(folder, "configured.stamp")
    want = f"{SOURCE} with {protocol_folders}" if protocol_folders else SOURCE
    if current.is_newer(stamp, os.path.join(SOURCE, "CMakePresets.json")) and current.text_of(stamp) == want:
        return  # a changed CMakeLists.txt needs no action here: ninja configures again by itself
    _remove(stamp)
    command = ["cmake", "--preset", preset, "-B", folder, f"-DLOCH_PROTOCOLS={protocol_folders}"]
    if not _configured(command, log):
        blame_protocol(log, protocol_folders)
        # The CMake cache may stem from an interrupted run, another compiler or another folder: configure again without
        # the cache.
        _remove(os.path.join(folder, "CMakeCache.txt"))
        shutil.rmtree(os.path.join(folder, "CMakeFiles"), ignore_errors=True)
        if not _configured(command, log):
            _show_last(_lines_of(log), 20)
            raise SetUpError(f"configuring failed ({log})", 1)
    with open(stamp, "w", encoding="utf-8", errors="surrogateescape") as written:
        written.write(want + "\n")


def _configured(command: list[str], log: str) -> bool:
    with open(log, "wb") as said:
        return (
            subprocess.run(command, cwd=SOURCE, stdout=said, stderr=said, pass_fds=_lock, check=False).returncode == 0
        )


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def blame_protocol(log: str, protocol_folders: str) -> None:
    """After a failed build with protocols from outside the tree: raises SetUpError with the first error in their files.

    Returns if no error is in their files. The loch-bench that was built before is left as it is.
    """
    lines = _lines_with_whole_paths(log)
    for folder in filter(None, protocol_folders.split(";")):
        found = _first_error(lines, folder + "/").partition(" Preset CMake variables")[0]
        if found:
            raise SetUpError(f"LOCH_PROTOCOLS: {found[:ERROR_LETTERS]} (all of it: {log})")


def _failure_within_the_tree(log: str) -> str:
    """The message if a build's first error is in a protocol's folder of this tree: the folder and the error; else
    ""."""
    error = re.compile(r"(?P<file>/.*?):\d+(:\d+)?: (fatal )?error: ")
    found = next(filter(None, map(error.match, _lines_with_whole_paths(log))), None)
    if not found or os.path.relpath(found["file"], SOURCE).startswith(".."):
        return ""
    folder = os.path.relpath(found["file"], SOURCE).split(os.sep)[0]
    if not os.path.isfile(os.path.join(SOURCE, folder, "module.h")):
        return ""
    text = (
        found.string[: found.start("file")] + os.path.relpath(found["file"], SOURCE) + found.string[found.end("file") :]
    )
    usable = "; ./loch --no-setup runs the program that was built before" if os.access(BINARY, os.X_OK) else ""
    return f"{folder} does not build: {text[:ERROR_LETTERS]} (all of it: {log}){usable}"


def _first_error(lines: list[str], folder: str) -> str:
    """The first error of the compiler, or of CMake with three more lines, if it names a file in `folder`; else ""."""
    compiler = next((line for line in lines if re.search(r": (fatal )?error: ", line)), "")
    if folder in compiler:
        return compiler
    for at, line in enumerate(lines):
        if "error: " in line or f"CMake Error at {folder}" in line:
            text = " ".join(" ".join(lines[at : at + 4]).split())
            return text if folder in text else ""
    return ""


def _lines_with_whole_paths(log: str) -> list[str]:
    """The lines of a build log (BUILD/PRESET.build.log) with absolute file names.

    With ccache shared between clones the compiler names files relative to the build folder.
    """
    folder = os.path.join(BUILD, os.path.basename(log).partition(".")[0])

    def whole(line: str) -> str:
        file = re.match(r"\.\.?/[^:]*", line)
        return os.path.normpath(os.path.join(folder, file[0])) + line[file.end() :] if file else line

    return [whole(os.fsdecode(line)) for line in _lines_of(log)]


def _lines_of(log: str) -> list[bytes]:
    with open(log, "rb") as opened:
        return opened.read().splitlines()


def _show_last(lines: list[bytes], count: int) -> None:
    for line in lines[-count:]:
        print(line.decode(errors="replace"), file=sys.stderr)


def build(preset: str, protocol_folders: str, *targets: str) -> None:
    configure(preset, protocol_folders)
    log = os.path.join(BUILD, f"{preset}.build.log")
    jobs = str(len(os.sched_getaffinity(0)))
    command = ["cmake", "--build", os.path.join(BUILD, preset), "--target", *targets, "-j", jobs]
    if not run_logged([command], f"building ({preset})", log, tuple(_lock), NINJA_STATUS="[%f/%t] "):
        blame_protocol(log, protocol_folders)
        _show_last([line for line in _lines_of(log) if not _NOT_TOLD.match(line)], ERROR_LINES)
        raise SetUpError(_failure_within_the_tree(log) or f"the build failed ({log})", 1)


def build_release(protocol_folders: str, *targets: str) -> None:
    """Builds the release preset, and writes release.stamp with the names of the protocols from outside the tree.

    The stamp's time is that of the build's start, so that a file edited during the build counts as newer.
    """
    coming = os.path.join(BUILD, "release.stamp.next")
    with open(coming, "w", encoding="utf-8", errors="surrogateescape") as written:
        written.write(protocol_folders + "\n")
    build("release", protocol_folders, *targets)
    os.replace(coming, os.path.join(BUILD, "release.stamp"))


def prepare(protocol_folders: str) -> None:
    """Builds loch-bench if the tree has changed since the last build. Without a change, only the files' times are
    checked."""
    if is_softroce_machine():
        if not os.access(BINARY, os.X_OK):
            raise SetUpError(
                f"{BINARY} is not built, and a Soft-RoCE machine builds nothing: first, outside, ./loch list fabrics"
            )
        return
    if current.nothing_to_do(protocol_folders):
        return
    with locked():
        packages.ensure("build", packages.TO_BUILD)
        packages.bring_memcached()
        if not current.release_is_current(protocol_folders):
            build_release(protocol_folders, "loch-bench")
