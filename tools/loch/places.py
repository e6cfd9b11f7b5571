"""Where Loch's own files are: the tree, the build folder, the program. Imported at every start, so it imports little."""

import os

SOURCE = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
)  # the tree, or share/loch of a prefix
PACKAGE = os.path.join(SOURCE, "tools", "loch")
BUILD = os.path.abspath(os.environ.get("LOCH_BUILD") or os.path.join(SOURCE, "build"))
BINARY = os.path.join(BUILD, "release", "bin", "loch-bench")

# Of a command of this package in another process, which finds everything set up: add the command and its flags.
HAND_OVER = ["/usr/bin/python3", os.path.join(PACKAGE, "__main__.py"), "--no-setup"]


def is_softroce_machine() -> bool:
    """A Soft-RoCE machine sees this build: it runs what is there, and has neither a network nor the time to build."""
    return bool(os.environ.get("LOCH_MACHINES"))
