"""Tests of `loch litmus` (races that test memory order) on emulated machines: if a setting makes a device violate what
it claims, the table shows this in the row of that race, and in no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zoo
from test_processes import launch, on

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
RACES = (
    *("read-cpu", "read-write", "write-write", "write-read", "write-atomic", "write-send", "cas-cpu", "cas-nic"),
    *("early", "at-completion", "late"),
)
LENGTH = ("--time", "500ms", "--tries", "100")
LONGER = ("--time", "3s", "--tries", "1000")
# Settings of the emulated NIC -> the races (litmus tests) in which it then violates what it claims.
VIOLATIONS = {
    "unit=4,pause_ns=300": {"read-cpu", "read-write"},
    "write_unit=4,pause_ns=1000": {"read-write"},
    "overtake=write:0.5": {"write-write"},
    "overtake=read:0.5": {"write-read"},
    "overtake=atomic:0.5": {"write-atomic"},
    "overtake=send:0.5": {"write-send"},
    "atomics=global,scope=nic,pause_ns=20000": {"cas-cpu"},
    "scope=none,pause_ns=20000": {"cas-nic"},
    "late_us=20000": {"late"},
}
# Settings by which the emulated NIC shows a weak outcome (of memory order) that it never ruled out -> the race (litmus
# test) that shows it.
ALLOWED = {
    "scope=nic,pause_ns=20000": "cas-cpu",
    "order=never,overtake=write:0.5": "write-write",
    "late_us=20000": "at-completion",
    "delay_us=20": "early",
}


@pytest.fixture(name="folder")
def a_folder() -> Iterator[Path]:
    """A folder for the file that emulates the network, in memory if the machine has /dev/shm."""
    of = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="loch-zoo-", dir=of) as name:
        yield Path(name)


def litmus(settings: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Both nodes in one process, on an emulated machine unless `settings` are empty."""
    return subprocess.run(
        [zoo.bench(zoo.RELEASE), "litmus", *(() if "--time" in more else LENGTH), *more],
        env=zoo.environment(zoo.RELEASE, settings) if settings else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rows_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The rows of a result by race (litmus test); the exit status has to say whether one of them is violated."""
    said = done.stdout + done.stderr
    assert not zoo.FAULT.search(done.stderr), said
    assert done.stdout, said
    result = json.loads(done.stdout)
    rows = {row["race"]: row for row in result["races"]}
    assert done.returncode == (1 if violated(rows) else 0), said
    assert ("violated" in result["verdict"]) == bool(violated(rows))
    return rows


def violated(rows: dict[str, Any]) -> set[str]:
    return {race for race, row in rows.items() if row["verdict"] == "violated"}


@pytest.mark.parametrize("keys", VIOLATIONS)
def test_a_device_that_does_other_than_it_claims_is_found_in_its_row(keys: str) -> None:
    """Runs all races (litmus tests); expected violations that did not show, as on a busy machine where the nodes'
    threads do not run at the same time, are tried again for longer."""
    rows = rows_of(litmus(f"mlx5-roce,{keys}", "--json"))
    assert violated(rows) <= VIOLATIONS[keys], {race: (row["seen"], row["tries"]) for race, row in rows.items()}
    for race in VIOLATIONS[keys] - violated(rows):
        assert seen_in_three_tries(f"mlx5-roce,{keys}", race)["verdict"] == "violated"


def seen_in_three_tries(settings: str, race: str) -> Any:
    """The row of a race (litmus test) from the first of three longer tries in which its weak outcome was seen, else
    from the last."""
    for _ in range(3):
        row = rows_of(litmus(settings, "--json", "--race", race, *LONGER))[race]
        if row["seen"]:
            break
    return row


@pytest.mark.parametrize("keys", ALLOWED)
def test_what_a_device_does_not_rule_out_is_seen_and_no_violation(keys: str) -> None:
    row = seen_in_three_tries(f"mlx5-roce,{keys}", ALLOWED[keys])
    assert (row["verdict"], row["is_forbidden"]) == ("as claimed", False)
    assert row["seen"] > 0


@pytest.mark.parametrize("unit", [2, 4, 16, 64])
def test_the_unit_of_a_read_is_measured(unit: int) -> None:
    """The emulated NIC READs in units of `unit` bytes and pauses between them, so a READ that runs while a CPU stores
    to the same bytes is torn between units: parts of `unit` bytes are (almost) never torn, parts of twice that often.

    On a busy machine a thread may seldom lose its core in the middle of a unit, which is torn then, too; the measured
    unit is then smaller. So what is compared is the largest increase from parts of one size to parts of twice the size.
    """
    settings = f"mlx5-roce,unit={unit},pause_ns=500"
    row = rows_of(litmus(settings, "--json", "--race", "read-write", *LONGER))["read-write"]
    torn = {int(part): times for part, times in row["torn"].items()}
    steps = {part: torn[2 * part] - torn[part] for part in torn if 2 * part in torn}
    assert max(steps, key=lambda part: steps[part]) == unit, torn
    assert row["unit_bytes"] == max(part for part in torn if torn[part] == 0)
    assert min(unit, 8) <= row["unit_bytes"] <= unit
    assert row["verdict"] == ("violated" if unit < 8 else "as claimed")
    assert (row["seen"] > 0) == (unit < 8)


USABLE = [machine for machine in zoo.machines() if not machine.devices[0]["iwarp"] and machine.devices[0]["rc"]]


@pytest.mark.parametrize("machine", USABLE, ids=lambda machine: machine.name)
def test_machines_that_keep_their_claims(machine: zoo.Machine) -> None:
    device = machine.devices[0]
    rows = rows_of(litmus(machine.name, "--json"))
    assert tuple(rows) == RACES
    assert not violated(rows)
    lacks = set() if device["atomics"] else {"write-atomic", "cas-cpu", "cas-nic"}
    lacks |= set() if device["srq"] else {"write-send"}
    for race in set(RACES) - lacks:
        assert not rows[race]["missing"], rows[race]
    assert all(rows[race]["missing"] for race in lacks)


def test_a_device_without_rc_is_refused() -> None:
    done = litmus("efa")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and "RC" in done.stderr, done.stderr


@pytest.mark.parametrize("fabric", ["shm", "ofi", "sim"])
def test_other_fabrics_keep_their_claims(fabric: str) -> None:
    rows = rows_of(litmus("", "--json", "--fabric", fabric))
    assert tuple(rows) == RACES
    assert not violated(rows)
    assert all(row["tries"] > 0 for row in rows.values()), rows


def test_the_table_has_a_line_for_each_race_and_the_verdict() -> None:
    done = litmus("mlx5-roce,overtake=read:1", "--race", "write-read", "--race", "cas-nic")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split() == ["race", "seen", "of", "unit,", "B", "claim", "verdict"]
    assert lines[1].endswith("violated") and lines[2].endswith("as claimed")
    assert "zoo_mlx5_0" in lines[3] and lines[3].endswith("violated: write-read")


@needs_mpirun
@pytest.mark.parametrize("fabric", ["verbs", "shm", "ofi"])
def test_two_processes(fabric: str, folder: Path) -> None:
    command = [zoo.bench(zoo.RELEASE), "litmus", "--json", "--fabric", fabric, *LENGTH]
    rows = rows_of(launch(on("mlx5-roce", command, folder, 2) if fabric == "verbs" else ["-n", "2", *command]))
    assert tuple(rows) == RACES
    assert not violated(rows)
    assert all(row["tries"] > 0 for row in rows.values()), rows


def by_hostfile(folder: Path, settings: str, hosts: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs ./loch litmus --hostfile with a loch-bench that runs on an emulated machine."""
    program = folder / "program"
    program.write_text(
        f"#!/bin/sh\nexport LD_PRELOAD={zoo.RELEASE}/lib/libloch_zoo.so LOCH_ZOO={settings},net={folder}/net\n"
        f'exec {zoo.bench(zoo.RELEASE)} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    (folder / "hosts").write_text(hosts, encoding="utf-8")
    return subprocess.run(
        [str(zoo.ROOT / "loch"), "--no-setup", "litmus", "--hostfile", str(folder / "hosts"), *LENGTH, *more],
        env={**os.environ, "LOCH_BIN": str(program)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@needs_mpirun
def test_a_hostfile_starts_a_process_on_each_host(folder: Path) -> None:
    rows = rows_of(by_hostfile(folder, "mlx5-roce,overtake=read:1", "localhost\nlocalhost\n", "--json"))
    assert violated(rows) == {"write-read"}


@needs_mpirun
def test_a_hostfile_whose_devices_keep_their_claims(folder: Path) -> None:
    done = by_hostfile(folder, "mlx5-ib", "localhost # twice\nlocalhost slots=1\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was seen that is claimed never to be" in done.stdout and not done.stderr


@needs_mpirun
def test_bad_hostfiles_and_flags_of_them_are_one_line(folder: Path) -> None:
    for hosts, more, what in (
        ("localhost\n", (), "1 lines with hosts; expected two"),
        ("a\nb\nc\n", (), "3 lines with hosts; expected two"),
        ("-oProxyCommand=x\n", (), "expected 'HOST'"),
        ("localhost\nlocalhost\n", ("--tries", "0"), '--tries: "0" is not'),
        ("localhost\nlocalhost\n", ("--fabric", "sim"), "--fabric sim runs in one process"),
    ):
        done = by_hostfile(folder, "mlx5-ib", hosts, *more)
        assert (done.returncode, done.stdout) == (2, ""), (hosts, more, done.stderr)
        assert len(done.stderr.splitlines()) == 1 and what in done.stderr, done.stderr


def test_bad_flags_are_one_line() -> None:
    for words, what in (
        (("--fabric", "tcp"), "--fabric"),
        (("--race", "write-writ"), "--race"),
        (("--time", "1us"), "--time"),
        (("--pkey", "7"), "--pkey"),
        (("--hostfile", "hosts"), "--hostfile: ./loch litmus starts the processes"),
        (("--device", "nix"), "--device nix: no such device"),
    ):
        done = litmus("mlx5-roce", *words)
        assert (done.returncode, done.stdout) == (2, ""), (words, done.stderr)
        assert len(done.stderr.splitlines()) == 1 and what in done.stderr, done.stderr


@pytest.mark.parametrize(
    "keys", ["overtake=writ:1", "overtake=write", "overtake=write:2", "scope=cpu", "unit=x", "atomics=2", "late_us=-1"]
)
def test_bad_keys_of_the_zoo_are_one_line(keys: str) -> None:
    done = litmus(f"mlx5-roce,{keys}")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and keys.partition("=")[0] in done.stderr, done.stderr
