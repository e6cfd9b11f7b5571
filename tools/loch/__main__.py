"""Entry of ./loch and of an installed `loch`, which run this file; /usr/bin/python3 tools/loch does too, but takes longer to
start. It is not run with -m, which would look for modules in the current folder first."""

import os
import sys


def keep_compiled_modules(tree: str) -> None:
    """Compiled modules go to the build folder, so that running leaves the tree as it is. It is made for them only where
    nothing is set up (an installed Loch, whose build folder holds nothing else); a Soft-RoCE machine reads those that are
    there."""
    if sys.pycache_prefix is not None or sys.dont_write_bytecode:
        return  # as the caller has it
    build = os.path.abspath(os.environ.get("LOCH_BUILD") or os.path.join(tree, "build"))
    compiled = os.path.join(build, "pycache")
    in_machine = bool(os.environ.get("LOCH_MACHINES"))
    sys.dont_write_bytecode = in_machine or not (os.path.isdir(build) or sys.argv[1:2] == ["--no-setup"])
    if not sys.dont_write_bytecode or in_machine and os.path.isdir(compiled):
        sys.pycache_prefix = compiled


_TOOLS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path[:1] = [_TOOLS, os.path.dirname(_TOOLS)]  # this package, and plots
keep_compiled_modules(os.path.dirname(_TOOLS))

from loch import command  # noqa: E402  (after the paths are set)

sys.exit(command.main(sys.argv[1:]))
