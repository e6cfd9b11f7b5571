"""The emulated machines (the zoo, docs/zoo.md), Loch's protocols, and the expected outcome of each protocol on each
machine."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("LOCH_RELEASE") or ROOT / "build/release")
# Systems that use TCP by themselves and not a fabric of Loch.
WITHOUT_FABRIC = ("memcached", "redis")
SUITES = ("conformance", "litmus")
TIMEOUT_S = 120.0
UNDER_A_TOOL = 100  # operations of a run under valgrind
# Output of a sanitizer, of valgrind, of a crash or of the emulated NIC that shows a fault, whatever the exit status is.
FAULT = re.compile(
    r"WARNING: ThreadSanitizer|ERROR: AddressSanitizer|ERROR: LeakSanitizer|runtime error:|ERROR SUMMARY: [1-9]"
    r"|^zoo: |was killed by signal|loch-bench crashed",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Machine:
    """An emulated machine with its RDMA devices."""

    name: str
    stands_for: str
    devices: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Protocol:
    name: str
    consistency: str
    needs: Mapping[str, Any]
    flags: tuple[str, ...] = ()

    @property
    def keeps_values(self) -> bool:
        return self.consistency != "none"


@cache
def machines() -> tuple[Machine, ...]:
    library = ctypes.CDLL(str(RELEASE / "lib/libloch_zoo.so"))
    library.loch_zoo_machines.restype = ctypes.c_char_p
    listed = json.loads(library.loch_zoo_machines().decode())
    return tuple(Machine(each["name"], each["stands_for"], tuple(each["devices"])) for each in listed)


@cache
def protocols() -> tuple[Protocol, ...]:
    listed = subprocess.run([bench(RELEASE), "list", "protocols", "--json"], capture_output=True, check=True)
    return tuple(
        Protocol(each["name"], each["consistency"], each["needs"])
        for each in json.loads(listed.stdout)
        if each["name"] not in WITHOUT_FABRIC
    )


# Protocols that were published over UC, and whose option `transport` lets them send requests over RC.
OVER_RC = ("herd", "farm-em", "farm-em-var", "seq-rpc")


@cache
def protocols_over_rc() -> tuple[Protocol, ...]:
    """The protocols that need UC, with the option that lets a device without UC run them."""
    return tuple(
        replace(
            each,
            name=f"{each.name} over RC",
            needs={**each.needs, "rc": True, "uc": False},
            flags=("--protocol", each.name, f"--{each.name}.transport", "rc"),
        )
        for each in protocols()
        if each.name in OVER_RC
    )


@cache
def protocols_on_memory_nodes() -> tuple[Protocol, ...]:
    """The protocols whose data may lie on nodes that drive no load: Nessie's entries, and chunks of memory that clients
    ask these nodes for by SENDs."""
    of = {each.name: each for each in protocols()}
    remote = ("--protocol", "nessie", "--server-nodes", "1", "--nessie.placement", "remote")
    race = ("--protocol", "race", "--server-nodes", "1")
    asks = {"rc": True, "receives_rc": True}
    return (
        replace(of["nessie"], name="nessie on memory nodes", flags=remote),
        replace(
            of["nessie"],
            name="nessie by ALLOC",
            needs={**of["nessie"].needs, **asks},
            flags=(*remote, "--nessie.allocation", "chunks"),
        ),
        replace(
            of["race"],
            name="race by ALLOC",
            needs={**of["race"].needs, **asks},
            flags=(*race, "--race.allocation", "chunks"),
        ),
    )


def bench(build: Path) -> str:
    return str(build / "bin/loch-bench")


def lacks(device: Mapping[str, Any], needs: Mapping[str, Any]) -> str:
    """The first capability that the protocol needs and the device lacks; empty if it lacks none."""
    for transport in ("rc", "uc", "ud"):
        if needs[transport] and not device[transport]:
            return transport.upper()
    if needs["atomic_scope"] != "none" and not device["atomics"]:
        return "atomics"
    if (needs.get("receives_rc") or needs.get("receives_uc")) and not device["srq"]:
        return "shared receive queues"
    if needs["max_inline_bytes"] > device["max_inline"]:
        return "inline data"
    if needs["max_rd_atomic"] > device["max_rd_atomic"]:
        return "READs and atomics under way"
    if device["iwarp"]:
        return "InfiniBand's transports"
    return ""


# Combinations that Loch refuses although the device has what the protocol needs. If a run succeeds although its
# combination is listed here, the test fails, so that the entry is removed.
GAPS: tuple[tuple[str, Callable[[Mapping[str, Any], Protocol], bool]], ...] = ()


def gap(device: Mapping[str, Any], protocol: Protocol) -> str:
    return next((why for why, is_so in GAPS if is_so(device, protocol)), "")


@dataclass
class Outcome:
    """The outcome of one program; `fault` is empty if it is the expected one."""

    status: int
    said: str
    seconds: float
    result: Any = field(default_factory=dict)
    fault: str = ""
    is_refusal: bool = False

    @property
    def mark(self) -> str:
        return "FAIL" if self.fault else "-" if self.is_refusal else "ok"


def environment(build: Path, settings: str) -> dict[str, str]:
    """The environment of a program that uses the emulated NICs, whose library is that of the program's own build."""
    return {
        **os.environ,
        "LD_PRELOAD": str(build / "lib/libloch_zoo.so"),
        "LOCH_ZOO": settings,
        "LOCH_TEST_VERBS": "1",
        "LOCH_STRESS_OPERATIONS": "2000",
        "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:second_deadlock_stack=1",
        "ASAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-19",
        "TSAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-19",
    }


def execute(command: list[str], env: dict[str, str], cwd: Path | None = None, timeout_s: float = TIMEOUT_S) -> Outcome:
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        said = ((late.stdout or b"") + (late.stderr or b"")).decode(errors="replace")
        return Outcome(-1, said, time.monotonic() - began, fault=f"hangs: not ended after {timeout_s:.0f} s")
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    outcome = Outcome(done.returncode, said, time.monotonic() - began)
    if done.returncode < 0 or done.returncode > 128:
        outcome.fault = f"ended by a signal, status {done.returncode}"
    elif found := FAULT.search(said):
        outcome.fault = f"says: {said[found.start():].splitlines()[0]}"
    return outcome


def flags_of(
    protocol: Protocol | str, duration: str = "20ms", nodes: int = 2, operations: int | None = None
) -> list[str]:
    own = ("--protocol", protocol) if isinstance(protocol, str) else protocol.flags or ("--protocol", protocol.name)
    return [
        *("bench", *own, "--fabric", "verbs", "--nodes", str(nodes), "--clients", "1"),
        *("--keys", "500", "--warmup", "5ms", "--verify"),
        *(("--duration", duration) if operations is None else ("--operations", str(operations))),
    ]


def run_protocol(
    build: Path, settings: str, protocol: Protocol, more: Sequence[str] = (), prefix: Sequence[str] = ()
) -> Outcome:
    """One run in one process, under a tool if `prefix` names one (valgrind: so slow that operations are counted, not
    time). The run has to succeed: the outcome's `fault` says why it did not."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as folder:
        path = Path(folder) / "result.json"
        flags = flags_of(protocol, operations=UNDER_A_TOOL if prefix else None)
        command = [*prefix, bench(build), *flags, "--json", str(path), *more]
        outcome = execute(command, environment(build, settings))
        if path.exists() and path.stat().st_size:
            outcome.result = json.loads(path.read_text())
    if not outcome.fault:
        outcome.fault = wrong_with_run(outcome, protocol)
    return outcome


def wrong_with_run(outcome: Outcome, protocol: Protocol) -> str:
    if outcome.status != 0:
        return f"exit status {outcome.status}: {outcome.said.strip().splitlines()[0] if outcome.said.strip() else ''}"
    operations = outcome.result["operations"]
    if not outcome.result["capabilities"]["device"].startswith("zoo_"):
        return f"ran on {outcome.result['capabilities']['device']}"
    if operations["corrupt"] or operations["error"]:
        return f"{operations['corrupt']} values corrupt, {operations['error']} errors"
    # An operation of Nessie may time out, because a thread may be without a core for longer than the expiry period; then
    # it is counted, and nothing else lets one time out.
    expired = outcome.result["protocol_counters"].get("expired_operations", operations["timeout"])
    if operations["timeout"] > expired:
        return f"{operations['timeout']} operations timed out, of which {expired:.0f} expired"
    if operations["table_full"]:
        return f"{operations['table_full']} PUTs found no memory"
    if protocol.keeps_values and not operations["verified"] + operations.get("outside_window", 0):
        return "no operation ended"
    return ""


def judge_refusal(outcome: Outcome, why: str, command: str = "bench") -> Outcome:
    """Judges a run that has to be refused by one line before anything runs."""
    outcome.is_refusal = True
    lines = [line for line in outcome.said.strip().splitlines() if line]
    if outcome.status == 0:
        outcome.fault = f"ran, although: {why}"
    elif outcome.status not in (1, 2) or len(lines) != 1 or not lines[0].startswith(f"loch {command}: "):
        outcome.fault = f"status {outcome.status}, expected one line that says: no {why}: {outcome.said[:300]!r}"
    else:
        outcome.fault = ""
    return outcome


def try_protocol(build: Path, machine: Machine, protocol: Protocol, prefix: Sequence[str] = ()) -> Outcome:
    """Runs a protocol on a machine: it has to run, or to be refused for what the device lacks."""
    outcome = run_protocol(build, machine.name, protocol, prefix=prefix)
    why = refusal(machine, protocol)
    return judge_refusal(outcome, why) if why else outcome


def refusal(machine: Machine, protocol: Protocol) -> str:
    """Why a protocol has to be refused on a machine; empty if it has to run."""
    device = machine.devices[0]
    return lacks(device, protocol.needs) or gap(device, protocol)


def try_suite(build: Path, machine: Machine, suite: str, is_plain: bool = False) -> Outcome:
    """Runs the fabric's conformance suite, if `is_plain` without the decorator that counts requests, or the races of
    `loch litmus`."""
    if suite == "litmus":
        return try_litmus(build, machine)
    command = [str(build / "tests/fabric/fabric_conformance_test"), "--gtest_brief=1"]
    outcome = execute(
        [*command, *(["--gtest_filter=-*_counted"] if is_plain else [])], environment(build, machine.name)
    )
    if not outcome.fault and outcome.status != 0:
        failed = re.findall(r"^\[  FAILED  \] (\S+)", outcome.said, re.MULTILINE)
        outcome.fault = f"exit status {outcome.status}: {' '.join(failed[:3])}"
    return outcome


def try_litmus(build: Path, machine: Machine) -> Outcome:
    """Runs the races of `loch litmus`: none may show what the device claims never to do. A machine without RC, which
    all races need, has to be refused."""
    flags = ["litmus", "--fabric", "verbs", "--time", "100ms", "--tries", "100"]
    outcome = execute([bench(build), *flags], environment(build, machine.name))
    device = machine.devices[0]
    if not device["rc"] or device["iwarp"]:
        return judge_refusal(outcome, "RC of InfiniBand", command="litmus")
    if not outcome.fault and outcome.status != 0:
        outcome.fault = f"exit status {outcome.status}: {outcome.said.strip().splitlines()[-1]}"
    return outcome


def suites(machine: Machine) -> tuple[str, ...]:
    """The suites that run on a machine: the conformance suite needs RC, UC, UD, shared receive queues and atomics."""
    device = machine.devices[0]
    is_whole = all(device[name] for name in ("rc", "uc", "ud", "atomics", "srq")) and not device["iwarp"]
    return SUITES if is_whole else ("litmus",)
