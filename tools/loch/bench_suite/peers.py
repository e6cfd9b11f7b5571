"""The other simulators (peers) with which `loch bench-suite` compares Loch's: a load of timers set again and again in
ns-3, SimGrid and simpy, as far as Debian's packages of them are installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from loch.ending import one_line
from loch.places import PACKAGE

SOURCES = os.path.join(PACKAGE, "bench_suite", "peers")
CHURN = 4_000_000  # events of a peer's turn
BUILD_S = 300.0  # seconds of real time that a peer's compilation may take


@dataclass
class Peer:
    """Another simulator: the command that executes as many events as its last argument says, or why there is none."""

    name: str
    slower: int  # divides the number of events, so that a turn lasts about as long as Loch's
    command: list[str] = field(default_factory=list)
    absence: str = ""


@dataclass(frozen=True)
class Library:
    """A simulator in C++: our program for it, Debian's package with its headers, and one of these headers."""

    name: str
    source: str
    package: str
    header: str
    flags: tuple[str, ...]
    slower: int


LIBRARIES = (
    Library("ns-3: timers", "churn_ns3.cc", "libns3-dev", "ns3/core-module.h", ("-lns3-core",), 2),
    Library("SimGrid: actors", "churn_simgrid.cc", "libsimgrid-dev", "simgrid/s4u.hpp", ("-lsimgrid",), 10),
)
INCLUDED = "/usr/include"


@contextlib.contextmanager
def built() -> Iterator[list[Peer]]:
    """The other simulators' programs; those in C++ are compiled into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="loch-peers-") as folder:
        yield [*(_compiled(library, folder) for library in LIBRARIES), _simpy()]


def _compiled(library: Library, folder: str) -> Peer:
    peer = Peer(library.name, library.slower)
    if not os.path.exists(os.path.join(INCLUDED, library.header)):
        peer.absence = f"absent: apt-get install {library.package}"
        return peer
    compiler = shutil.which("clang++-19") or shutil.which("c++")
    if compiler is None:
        peer.absence = "absent: there is no C++ compiler"
        return peer
    program = os.path.join(folder, library.source.removesuffix(".cc"))
    source = os.path.join(SOURCES, library.source)
    words: list[str] = [compiler, "-O3", "-std=c++17", "-w", source, "-o", program, *library.flags]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        peer.absence = f"not compiled within {BUILD_S:.0f} s"
        return peer
    if done.returncode:
        error = next((line for line in done.stderr.splitlines() if "error" in line), "without a word")
        peer.absence = one_line(f"does not compile: {error}")
        return peer
    peer.command = [program]
    return peer


def _simpy() -> Peer:
    command = ["/usr/bin/python3", os.path.join(SOURCES, "churn_simpy.py")]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", "import simpy; simpy.Environment"], capture_output=True, check=False
    )
    if done.returncode:
        return Peer(
            "simpy: processes", 20, absence="absent: apt-get install python3-simpy3 (python3-simpy from Debian 13)"
        )
    return Peer("simpy: processes", 20, command)
