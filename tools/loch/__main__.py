"""Runs a command of Loch: ./loch and an installed `loch` start this file.

`/usr/bin/python3 tools/loch` works too, but starts more slowly. The file is not run with -m, which would search the
current folder for modules first.
"""

import os
import sys


def keep_compiled_modules(tree: str) -> None:
    """Has Python store compiled modules in the build folder, so that running a command leaves the source tree
    unchanged.

    Without a build folder (an installed Loch) modules are stored only for commands with --no-setup. Inside a virtual
    machine of `loch softroce` stored modules are read and none are written.
    """
    if sys.pycache_prefix is not None or sys.dont_write_bytecode:
        return  # the caller's environment says where compiled modules go
    build = os.path.abspath(os.environ.get("LOCH_BUILD") or os.path.join(tree, "build"))
    compiled = os.path.join(build, "pycache")
    in_machine = bool(os.environ.get("LOCH_MACHINES"))
    sys.dont_write_bytecode = in_machine or not (os.path.isdir(build) or sys.argv[1:2] == ["--no-setup"])
    if not sys.dont_write_bytecode or in_machine and os.path.isdir(compiled):
        sys.pycache_prefix = compiled


_TOOLS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path[:1] = [_TOOLS, os.path.dirname(_TOOLS)]  # the folders of the packages loch and plots
keep_compiled_modules(os.path.dirname(_TOOLS))

from loch import command  # noqa: E402  (after the paths are set)

sys.exit(command.main(sys.argv[1:]))
