"""The command line that starts processes of loch-bench on hosts: mpirun's, or where that is missing, that of plain ssh."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from loch import ssh_launch
from loch.mpirun import mpirun


def starting(hosts: Sequence[tuple[str, int]], *, outlives_ranks: bool = True) -> tuple[str, list[str]]:
    """What starts the processes, for messages, and the command line up to the program; the arguments are mpirun()'s."""
    if shutil.which("mpirun"):
        return "mpirun", mpirun(hosts, os.environ, outlives_ranks=outlives_ranks)
    listed = ",".join(f"{name}:{ranks}" for name, ranks in hosts)
    return "ssh", [sys.executable, ssh_launch.__file__, "--host", listed, "--"]
