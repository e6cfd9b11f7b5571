"""The paths of Loch's own files: source tree, build folder, loch-bench. Imports little, as every command imports it."""

import os

SOURCE = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
)  # the source tree, or PREFIX/share/loch of an installation
PACKAGE = os.path.join(SOURCE, "tools", "loch")
BUILD = os.path.abspath(os.environ.get("LOCH_BUILD") or os.path.join(SOURCE, "build"))
BINARY = os.path.join(BUILD, "release", "bin", "loch-bench")

# Runs another command of this package in a new process without setup: append the command's name and flags.
HAND_OVER = ["/usr/bin/python3", os.path.join(PACKAGE, "__main__.py"), "--no-setup"]


def is_softroce_machine() -> bool:
    """Whether this process is inside a virtual machine of `loch softroce`, which shares the host's build folder and
    must not build or install."""
    return bool(os.environ.get("LOCH_MACHINES"))
