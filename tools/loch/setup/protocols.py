"""LOCH_PROTOCOLS=DIR[:DIR…]: protocols outside the source tree. A DIR is the folder of a protocol, which has a
module.h, or holds such folders."""

from __future__ import annotations

import os
from glob import escape, glob

from loch.places import SOURCE
from loch.setup.outcome import SetUpError


def folders(value: str) -> str:
    """The protocols' folders in LOCH_PROTOCOLS as CMake takes them: absolute paths, separated by semicolons."""
    found: list[str] = []
    for given in filter(None, value.split(":")):
        for folder in _within(given):
            _check(given, folder, {os.path.basename(each) for each in found})
            found.append(folder)
    return ";".join(found)


def _within(given: str) -> list[str]:
    """The protocols' folders that one DIR of LOCH_PROTOCOLS names: DIR itself, or the folders in it that have a
    module.h."""
    if not os.path.isdir(given):
        raise SetUpError(f"LOCH_PROTOCOLS: {given}: no such folder")
    path = os.path.realpath(given)
    if os.path.isfile(os.path.join(path, "module.h")):
        return [path]
    found = sorted(
        os.path.dirname(each) for each in glob(os.path.join(escape(path), "*", "module.h")) if os.path.isfile(each)
    )
    if not found:
        raise SetUpError(
            f"LOCH_PROTOCOLS: {given}: no module.h there, nor in a folder there; ./loch new makes a folder that has one"
        )
    return found


def _check(given: str, folder: str, seen: set[str]) -> None:
    name = os.path.basename(folder)
    if not os.path.isfile(os.path.join(folder, "CMakeLists.txt")):
        raise SetUpError(f"LOCH_PROTOCOLS: {folder}: no CMakeLists.txt there; ./loch new makes a folder that has one")
    if ";" in folder:
        raise SetUpError(f"LOCH_PROTOCOLS: {given}: CMake takes no semicolon in a path")
    if folder == os.path.join(SOURCE, name):
        raise SetUpError(f"LOCH_PROTOCOLS: {given}: lies in the tree and is built in without being named")
    if os.path.lexists(os.path.join(SOURCE, name)):
        raise SetUpError(f"LOCH_PROTOCOLS: {folder}: a folder of Loch has that name")
    if name in seen:
        raise SetUpError(f"LOCH_PROTOCOLS: {folder}: named twice, or two folders of one name")
