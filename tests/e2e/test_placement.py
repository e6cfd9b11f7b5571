"""Tests of where workers and memory are placed in real time: by --pin, by default on verbs, on machines that are too
small, and what the result says of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import BINARY, SHM, SIM

ZOO = Path(BINARY).resolve().parents[1] / "lib/libloch_zoo.so"
VERBS = ["verbs" if SHM[i - 1] == "--fabric" else word for i, word in enumerate(SHM)]
# Makes hwloc report a machine with one CPU; the CPUs on which the process may run do not change.
ONE_CPU = {"HWLOC_SYNTHETIC": "NUMANode:1 Core:1 PU:1"}
ON_ZOO = {"LD_PRELOAD": str(ZOO), "LOCH_ZOO": "mlx5-ib"}
LAUNCH = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]


def loch(*words: str, env: dict[str, str] | None = None, before: list[str] | None = None) -> Any:
    return subprocess.run(
        [*(before or []), BINARY, *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def result(*words: str, **how: Any) -> Any:
    done = loch(*words, **how)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def two_cpus() -> list[int]:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("this machine has one core")
    return usable


def test_pinned_workers_and_their_memory_are_in_the_result() -> None:
    usable = two_cpus()
    point = result(*SHM, "--pin")
    (entry,) = point["placement"]
    assert entry["pinned"] is True and entry["reason"] is None and entry["nic_numa_node"] is None
    assert [worker["node"] for worker in entry["workers"]] == [0, 1]
    cpus = [worker["cpu"] for worker in entry["workers"]]
    assert len(set(cpus)) == 2 and set(cpus) <= set(usable)
    assert {worker["role"] for worker in entry["workers"]} == {"client"}
    assert len(entry["memory"]["numa_nodes"]) == 2
    assert entry["memory"]["bytes"] > 0
    # A kernel or container may refuse mbind; then nothing is bound, and the result says so.
    assert entry["memory"]["bound_bytes"] in (0, entry["memory"]["bytes"])


def test_one_worker_leaves_the_first_core_alone() -> None:
    usable = two_cpus()
    alone = ["1" if SHM[i - 1] == "--nodes" else word for i, word in enumerate(SHM)]
    ((worker,),) = [entry["workers"] for entry in result(*alone, "--pin")["placement"]]
    assert worker["cpu"] != usable[0]


def test_processes_of_a_host_are_pinned_apart() -> None:
    two_cpus()
    point = result(*SHM, "--pin", "--json", "-", before=LAUNCH)
    assert [entry["node"] for entry in point["placement"]] == [0, 1]
    assert all(entry["pinned"] for entry in point["placement"])
    assert len({worker["cpu"] for entry in point["placement"] for worker in entry["workers"]}) == 2


def test_without_the_flag_shm_pins_nothing() -> None:
    (entry,) = result(*SHM)["placement"]
    assert entry["pinned"] is False and entry["workers"] == [] and entry["memory"]["bound_bytes"] == 0
    assert "--pin" in entry["reason"]


def test_too_few_cpus_are_refused_in_one_line() -> None:
    for pinned in (["--pin"], ["--pin", "--dry-run"]):
        for words, env in ((SHM, ONE_CPU), (VERBS, {**ONE_CPU, **ON_ZOO})):
            done = loch(*words, *pinned, env=env)
            assert done.returncode == 2, done.stderr
            (line,) = done.stderr.splitlines()
            assert line == "loch bench: --pin: 2 workers on this host, and 1 CPU that the process may use"


def test_verbs_pins_by_default() -> None:
    two_cpus()
    point = result(*VERBS, env=ON_ZOO)
    (entry,) = point["placement"]
    assert point["config"]["pin"] is True
    assert entry["pinned"] is True and len({worker["cpu"] for worker in entry["workers"]}) == 2
    assert entry["memory"]["bytes"] > 0
    (entry,) = result(*VERBS, "--pin", "false", env=ON_ZOO)["placement"]
    assert entry["pinned"] is False and entry["reason"] == "--pin false"


def test_verbs_goes_on_unpinned_where_there_are_too_few_cpus() -> None:
    (entry,) = result(*VERBS, env={**ONE_CPU, **ON_ZOO})["placement"]
    assert entry["pinned"] is False and entry["workers"] == []
    assert entry["reason"] == "2 workers on this host, and 1 CPU that the process may use"


def test_a_simulation_places_nothing() -> None:
    assert result(*SIM)["placement"] is None
