"""Checks whether the build is up to date with the source tree; runs before every command, so it imports little."""

import os

from loch import places

PACKAGE_STATUS = "/var/lib/dpkg/status"
# Terms of `find` for inputs of the build: folders, whose times change when files are added or removed, and source
# files.
_INPUTS = (
    "-type",
    "d",
    *(
        word
        for name in ("*.cc", "*.h", "*.in", "*.cmake", "CMake*", "*.yaml", "*.py")
        for word in ("-o", "-name", name)
    ),
)
_NO_INPUTS = tuple(
    word for name in (".git", "build*", "results", "docs", "__pycache__") for word in ("-o", "-name", name)
)


def is_newer(path: str, than: str) -> bool:
    """Whether `path` exists and is newer than `than`, or `than` does not exist."""
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        return False
    try:
        return changed > os.stat(than).st_mtime_ns
    except OSError:
        return True


def text_of(path: str) -> str | None:
    """The text of a stamp file without the newline; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read().rstrip("\n")
    except OSError:
        return None


def changed_input(stamp: str, protocol_folders: str) -> str:
    """An input of the build (a file, a folder, or git's HEAD log) that is newer than the stamp; "" if there is none."""
    log = os.path.join(places.SOURCE, ".git", "logs", "HEAD")
    if is_newer(log, stamp):
        return log
    outside = protocol_folders.split(";") if protocol_folders else []
    words = [
        "find",
        places.SOURCE,
        *outside,
        "-mindepth",
        "1",
        "(",
        "-path",
        places.BUILD,
        *_NO_INPUTS,
        ")",
        "-prune",
        "-o",
        "(",
        *_INPUTS,
        ")",
        "-newer",
        stamp,
        "-print",
        "-quit",
    ]
    read_end, write_end = os.pipe()
    try:
        child = os.posix_spawnp("find", words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)])
    finally:
        os.close(write_end)
    with open(read_end, "rb") as pipe:
        found = os.fsdecode(pipe.read()).rstrip("\n")
    os.waitpid(child, 0)  # collects the exit status of `find`, which does not matter: an unreadable folder is no input
    return found


def release_is_current(protocol_folders: str) -> bool:
    """Whether loch-bench is built with the protocols from outside the tree in `protocol_folders`, and no input has
    changed since."""
    stamp = os.path.join(places.BUILD, "release.stamp")
    return (
        os.access(places.BINARY, os.X_OK)
        and text_of(stamp) == protocol_folders
        and not changed_input(stamp, protocol_folders)
    )


def packages_are_current(stamp: str) -> bool:
    """Whether no package was installed or removed since the packages of list `stamp` were checked."""
    path = os.path.join(places.BUILD, f"packages.{stamp}")
    return os.path.exists(path) and not is_newer(PACKAGE_STATUS, path)


def nothing_to_do(protocol_folders: str) -> bool:
    return packages_are_current("build") and release_is_current(protocol_folders)
