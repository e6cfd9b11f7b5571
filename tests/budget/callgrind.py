"""Instructions that a program executes, by the layer of Loch that they belong to.

callgrind counts the executions of every instruction of a program and of every call. Functions of several source files
may be inlined around an instruction; it counts for the layer of the innermost file that LAYERS lists. Instructions
without such a file (the C library, the standard library's templates, common/base) count for the layers that called
them, in proportion to what each spent there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]

# Beginnings of source paths, each with the layer of Loch that their instructions count for; the first match decides.
# "": the layer of the caller.
LAYERS = [
    ("workloads/", "driver"),
    ("common/measure/", "measure"),
    ("common/fabric/region.h", ""),
    ("common/fabric/memory.h", ""),
    ("common/fabric/capabilities.h", ""),
    ("common/fabric/realtime/", "fabric"),
    ("common/fabric/shm/", "fabric"),
    ("common/fabric/verbs/", "fabric"),
    ("common/fabric/", "wrapping"),  # decorators, awaitables, copies of work requests
    ("common/coro/", "coroutines"),
    ("common/rpc/", "rpc"),
    ("common/base/", ""),
    ("common/settings/", ""),
    ("common/", "protocol"),  # common/kv, cuckoo, onesided and coupled, which protocols share
    ("app/", "program"),
]


def by_chance(clock_source: str) -> dict[str, str]:
    """Functions whose instructions do not belong to the data path, and the layers for which they count, which are not in ORDER,
    the layers that are reported. TscClock::compare runs once a millisecond, however slow valgrind makes the milliseconds;
    Histogram::add_octave runs once for each octave (of at most 54) that any latency of the run falls into. Where the kernel does
    not keep time by the time-stamp counter ("tsc"; kvm-clock on many virtual machines), each reading of the time goes through
    RealtimeWorker::now_by_comparison."""
    functions = {"TscClock::compare": "clock", "Histogram::add_octave": "octaves"}
    return functions if clock_source == "tsc" else {**functions, "RealtimeWorker::now_by_comparison": "clock"}


def clock_source() -> str:
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


BY_CHANCE = by_chance(clock_source())
ORDER = ["driver", "measure", "wrapping", "coroutines", "protocol", "rpc", "fabric", "device", "program", "other"]


@cache
def layer_of_path(path: str) -> str:
    """The layer of a source file; "" if the layer of its caller counts. Only the path's end is compared, because an
    object from the compiler's cache may name a file of another copy of the tree."""
    parts = Path(os.path.normpath(path)).parts
    for first in range(len(parts)):
        inside = "/".join(parts[first:])
        if first > 0 and (TREE / inside).is_file():
            return next((layer for start, layer in LAYERS if inside.startswith(start)), "protocol")
    return ""


@dataclass
class Function:
    """Instructions that one function executed, by address: its own, and those of the functions that it called."""

    own: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    calls: dict[int, dict[tuple[str, str], int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))


@dataclass
class Profile:
    """The functions that one thread executed, by object file and name."""

    functions: dict[tuple[str, str], Function] = field(default_factory=lambda: defaultdict(Function))


class _Names:
    """Resolves callgrind's abbreviated names: the first occurrence is "(7) name", later ones are "(7)"."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def read(self, text: str) -> str:
        number, _, name = text.partition(" ")
        if name:
            self.known[number] = name
        return self.known[number]


def read_profile(path: Path) -> Profile:
    """Reads a profile that callgrind wrote with --dump-instr=yes."""
    profile = Profile()
    objects, names = _Names(), _Names()
    here = callee_object = callee = ""
    at, is_call = 0, False
    function = Function()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line[:1] in ("0", "+", "-", "*"):
            words = line.split()
            if words[0] != "*":
                at = int(words[0], 16) if words[0][0] == "0" else at + int(words[0])
            if is_call:
                function.calls[at][(callee_object, callee)] += int(words[2])
            else:
                function.own[at] += int(words[2])
            is_call, callee_object = False, here
        elif line.startswith("ob="):
            here = callee_object = objects.read(line[3:])
        elif line.startswith("fn="):
            function = profile.functions[(here, names.read(line[3:]))]
        elif line.startswith("cob="):
            callee_object = objects.read(line[4:])
        elif line.startswith("cfn="):
            callee = names.read(line[4:])
        elif line.startswith("calls="):
            is_call = True
    return profile


@dataclass(frozen=True)
class Place:
    """The layer and the source function of an instruction."""

    layer: str
    function: str


class Sources:
    """Maps a program's instructions to layers and functions by its debug information."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.places: dict[int, Place] = {}

    def look_up(self, addresses: set[int]) -> None:
        wanted = sorted(addresses - self.places.keys())
        if not wanted:
            return
        said = subprocess.run(
            ["llvm-symbolizer-19", f"--obj={self.program}", "--inlines", "--output-style=JSON"],
            input="\n".join(hex(address) for address in wanted),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for address, line in zip(wanted, said.splitlines(), strict=True):
            self.places[address] = _place(json.loads(line)["Symbol"])


def _place(frames: list[dict[str, object]]) -> Place:
    for frame in frames:  # from the innermost inlined function outwards
        layer = layer_of_path(str(frame["FileName"]))
        if layer:
            return Place(layer, _short(str(frame["FunctionName"])))
    return Place("", _short(str(frames[-1]["FunctionName"])) if frames else "")


def _short(name: str) -> str:
    """A function's name without parameters and return type; a coroutine's name keeps its part (resume or destroy)."""
    part = re.search(r"\[clone \.(\w+)\]|\(\.(\w+)\)", name)
    name = re.sub(r" ?\[clone [^]]*\]| ?\(\.\w+\)", "", name)
    name = name.replace("(anonymous namespace)::", "")
    name = re.sub(r"\(.*", "", name).replace("loch::", "")
    return name + (f" [{part.group(1) or part.group(2)}]" if part else "")


Costs = dict[tuple[str, str], float]  # instructions by layer and function


def attribute(profile: Profile, program: str, sources: Sources, device: str | None = None) -> Costs:
    """The thread's instructions by layer and function. `program` is the name of the object
    that `sources` knows, `device` that of the stand-in for a NIC."""
    sources.look_up(
        {
            address
            for (obj, _), function in profile.functions.items()
            if obj == program
            for address in (*function.own, *function.calls)
        }
    )
    return _Attribution(profile, program, sources, device).run()


class _Attribution:
    def __init__(self, profile: Profile, program: str, sources: Sources, device: str | None) -> None:
        self.profile, self.program, self.sources, self.device = profile, program, sources, device
        self.callers: dict[tuple[str, str], list[tuple[tuple[str, str], int, int]]] = defaultdict(list)
        for caller, function in profile.functions.items():
            for address, called in function.calls.items():
                for callee, cost in called.items():
                    if callee != caller:
                        self.callers[callee].append((caller, address, cost))
        self.shares: dict[tuple[str, str], dict[tuple[str, str], float]] = {}

    def run(self) -> Costs:
        costs: Costs = defaultdict(float)
        for key, function in self.profile.functions.items():
            for address, cost in function.own.items():
                for where, share in self.place(key, address).items():
                    costs[where] += cost * share
        return costs

    def place(self, key: tuple[str, str], address: int) -> dict[tuple[str, str], float]:
        if self.device is not None and key[0] == self.device:
            return {("device", key[1]): 1.0}
        for function, layer in BY_CHANCE.items():
            if function in key[1]:
                return {(layer, key[1]): 1.0}
        if key[0] == self.program:
            place = self.sources.places[address]
            if place.layer:
                return {(place.layer, place.function): 1.0}
        return self.of_callers(key)

    def of_callers(self, key: tuple[str, str]) -> dict[tuple[str, str], float]:
        """The layers that called a function without a layer of its own, weighted by the instructions of their calls."""
        if key in self.shares:
            return self.shares[key]
        self.shares[key] = {("other", key[1]): 1.0}  # ends the recursion in a cycle of functions that call each other
        spent: dict[tuple[str, str], float] = defaultdict(float)
        for caller, address, cost in self.callers[key]:
            for where, share in self.place(caller, address).items():
                spent[where] += cost * share
        total = sum(spent.values())
        if total > 0:
            self.shares[key] = {where: cost / total for where, cost in spent.items()}
        return self.shares[key]
