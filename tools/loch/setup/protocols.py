"""LOCH_PROTOCOLS=DIR[:DIR…]: protocols whose folders lie outside the tree."""

from __future__ import annotations

import os

from loch.places import SOURCE
from loch.setup.outcome import SetUpError


def folders(value: str) -> str:
    """The folders as CMake takes them: absolute, separated by semicolons."""
    found: list[str] = []
    seen: set[str] = set()
    for folder in filter(None, value.split(":")):
        found.append(_checked(folder, seen))
    return ";".join(found)


def _checked(folder: str, seen: set[str]) -> str:
    def refuse(why: str) -> SetUpError:
        return SetUpError(f"LOCH_PROTOCOLS: {folder}: {why}")
    if not os.path.isdir(folder):
        raise refuse("no such folder")
    path = os.path.realpath(folder)
    for name in ("CMakeLists.txt", "module.h"):
        if not os.path.isfile(os.path.join(path, name)):
            raise refuse(f"no {name} there; ./loch new makes a folder that has one")
    if ";" in path:
        raise refuse("CMake takes no semicolon in a path")
    name = os.path.basename(path)
    if path == os.path.join(SOURCE, name):
        raise refuse("lies in the tree and is built in without being named")
    if os.path.lexists(os.path.join(SOURCE, name)):
        raise refuse("a folder of Loch has that name")
    if name in seen:
        raise refuse("named twice, or two folders of one name")
    seen.add(name)
    return path
