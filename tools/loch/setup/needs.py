"""Prepares what commands need before they run: packages and builds. Not called for bad flags or --help."""

from __future__ import annotations

import os
import shutil

from loch.places import is_softroce_machine
from loch.setup import building, current, packages
from loch.setup.outcome import SetUpError
from loch.setup.protocols import folders


def for_program() -> None:
    """Builds loch-bench, with the protocols that LOCH_PROTOCOLS names."""
    building.prepare(folders(os.environ.get("LOCH_PROTOCOLS", "")))


def for_bench_suite() -> None:
    """Builds loch-bench, and the benchmark of the event queue, which no other command needs."""
    for_program()
    if not is_softroce_machine():
        with building.locked():
            building.build("release", folders(os.environ.get("LOCH_PROTOCOLS", "")), "event_queue_bench")


def for_runner(words: list[str]) -> None:
    """Builds loch-bench for `loch run`, and installs Dask if points are to run on it (--on dask)."""
    for_program()
    own = " " + " ".join(words) + " "
    if (
        not (" --on dask " in own or " --on=dask " in own)
        or is_softroce_machine()
        or current.packages_are_current("dask")
    ):
        return
    with building.locked():
        packages.ensure("dask", packages.DASK)


def for_softroce(words: list[str]) -> None:
    """Prepares `loch softroce`: installs QEMU, and builds loch-bench if the command for the virtual machine is ./loch.

    The virtual machine does not build, so this happens before it starts.
    """
    if is_softroce_machine():
        raise SetUpError("softroce: this is such a machine already")
    if "/loch " in " ".join(words) + " ":
        for_program()
    if not current.packages_are_current("softroce"):
        with building.locked():
            packages.ensure("softroce", packages.SOFTROCE)


def for_power(words: list[str]) -> None:
    """Installs ipmitool if a BMC is to be read; RAPL and traces need no package."""
    own = " " + " ".join(words) + " "
    if (" --bmc" in own or "ipmi " in own) and not shutil.which("ipmitool"):
        with building.locked():
            packages.ensure("power", packages.POWER)


def for_mutate() -> None:
    """Installs what `loch mutate` needs: clang's Python bindings, which find the edits, and the packages for
    building."""
    if is_softroce_machine():
        raise SetUpError("mutate: a Soft-RoCE machine builds nothing; run it outside")
    with building.locked():
        packages.ensure("build", packages.TO_BUILD)
        packages.ensure("mutate", packages.MUTATE)
