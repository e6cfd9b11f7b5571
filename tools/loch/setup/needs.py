"""Prepares commands that build nothing, or build copies of their own. Bad flags and --help install nothing."""

from __future__ import annotations

import os
import shutil

from loch.places import is_softroce_machine
from loch.setup import building, current, packages
from loch.setup.outcome import SetUpError
from loch.setup.protocols import folders


def for_program() -> None:
    """The program itself, with the protocols that LOCH_PROTOCOLS names."""
    building.prepare(folders(os.environ.get("LOCH_PROTOCOLS", "")))


def for_runner(words: list[str]) -> None:
    """The program; and Dask, where points are to run on it."""
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
    """No build, since the machine runs whatever it is given; but ./loch in there builds nothing, so what it will need is
    made here."""
    if is_softroce_machine():
        raise SetUpError("softroce: this is such a machine already")
    if "/loch " in " ".join(words) + " ":
        for_program()
    if not current.packages_are_current("softroce"):
        with building.locked():
            packages.ensure("softroce", packages.SOFTROCE)


def for_power(words: list[str]) -> None:
    """ipmitool, where a BMC is to be read. RAPL and traces need nothing."""
    own = " " + " ".join(words) + " "
    if (" --bmc" in own or "ipmi " in own) and not shutil.which("ipmitool"):
        with building.locked():
            packages.ensure("power", packages.POWER)


def for_mutate() -> None:
    """What finds the edits, and builds."""
    if is_softroce_machine():
        raise SetUpError("mutate: a Soft-RoCE machine builds nothing; run it outside")
    with building.locked():
        packages.ensure("build", packages.TO_BUILD)
        packages.ensure("mutate", packages.MUTATE)
