"""Is the build of what is in the tree? Asked before every command, so this imports little and starts one `find`."""

import os

from loch import places

PACKAGE_STATUS = "/var/lib/dpkg/status"
# The inputs of the build. Folders count (a file was added or removed); outputs that people write into the tree do not.
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
    """Whether `path` is there, and `than` is older or is not there."""
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
    """The first input of the build that is newer than the stamp, the commit among them; "" if none is."""
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
    os.waitpid(child, 0)  # a folder that may not be read is no input
    return found


def release_is_current(protocol_folders: str) -> bool:
    """The program is built, with these protocols from outside the tree, and no input has changed since."""
    stamp = os.path.join(places.BUILD, "release.stamp")
    return (
        os.access(places.BINARY, os.X_OK)
        and text_of(stamp) == protocol_folders
        and not changed_input(stamp, protocol_folders)
    )


def packages_are_current(stamp: str) -> bool:
    """No package was installed or removed since the stamp's list was looked at."""
    path = os.path.join(places.BUILD, f"packages.{stamp}")
    return os.path.exists(path) and not is_newer(PACKAGE_STATUS, path)


def nothing_to_do(protocol_folders: str) -> bool:
    return packages_are_current("build") and release_is_current(protocol_folders)
