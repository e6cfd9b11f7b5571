"""Tests of loch-bench on NICs that this machine lacks: libloch_zoo.so emulates them in libibverbs' place (docs/zoo.md).
Which device is opened, on which capabilities the hosts agree, and which protocols run. Tests are named after numbered
findings (a1, b7, …) on how such devices differ from Soft-RoCE."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

RELEASE = Path(os.environ.get("LOCH_RELEASE") or ROOT / "build/release")
BENCH = RELEASE / "bin/loch-bench"
ZOO = RELEASE / "lib/libloch_zoo.so"
LOAD = ["--fabric", "verbs", "--clients", "1", "--keys", "1000", "--warmup", "50ms", "--duration", "200ms", "--verify"]
LAUNCH = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "--bind-to", "none"]


def bench(machine: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BENCH, "bench", *LOAD, "--nodes", "2", *flags, "--json", "-"],
        env={**os.environ, "LD_PRELOAD": str(ZOO), "LOCH_ZOO": machine},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def result(machine: str, *flags: str) -> Any:
    done = bench(machine, *flags)
    assert done.returncode == 0, done.stderr
    point = json.loads(done.stdout)
    assert point["operations"]["ok"] > 0 and point["operations"]["corrupt"] == 0
    return point


def launch_of(folder: Path, machines: list[str], *flags: str) -> list[str]:
    """The command that starts one process for each of the emulated machines in `machines`, all on one network."""
    apart: list[str] = []
    for machine in machines:
        zoo = ["env", f"LD_PRELOAD={ZOO}", f"LOCH_ZOO={machine},net={folder}/net"]
        ranks = ["-n", "1", *zoo, str(BENCH), "bench", *LOAD, "--nodes", str(len(machines)), *flags]
        apart += [*([":"] if apart else []), *ranks, "--json", f"{folder}/out.json"]
    return [*LAUNCH, *apart]


def together(folder: Path, machines: list[str], *flags: str) -> subprocess.CompletedProcess[str]:
    command = launch_of(folder, machines, *flags)
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def descendants(pid: int) -> list[int]:
    try:
        children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return children + [each for child in children for each in descendants(child)]


def open_files(pid: int) -> dict[str, int]:
    """The names of the files and sockets that a process has open, each with its flags (open(2))."""
    found = {}
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            flags = re.search(r"^flags:\s*(\d+)$", Path(f"/proc/{pid}/fdinfo/{link.name}").read_text(), re.MULTILINE)
            if flags:
                found[os.readlink(link)] = int(flags[1], 8)
    except OSError:
        pass  # the process has ended, or has closed the file
    return found


def listening() -> set[str]:
    """The sockets of this machine that wait for TCP connections, as /proc names them."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}


def while_it_runs(command: list[str], look: Callable[[list[int]], bool]) -> bool:
    """Runs the command with a longer --duration, and calls `look` with its processes again and again until that returns
    true. Returns whether it did before the run ended."""
    command = ["8s" if before == "--duration" else word for before, word in zip(["", *command], command)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        has_seen, until = False, time.monotonic() + 60
        while not has_seen and run.poll() is None and time.monotonic() < until:
            has_seen = look(descendants(run.pid))
            time.sleep(0.05)
        run.terminate()
        run.wait(60)
    return has_seen


def test_a1_order_is_asked_of_a_connected_queue_pair() -> None:
    can = result("mlx5-ib", "--protocol", "nessie")["capabilities"]
    assert can["in_order_placement"] and can["in_order_reads"] and not can["order_is_assumed"]
    can = result("mlx4", "--protocol", "nessie")["capabilities"]
    assert not can["in_order_placement"] and not can["in_order_reads"]


def test_a1_order_that_no_device_claims_can_be_assumed_and_is_recorded() -> None:
    assert "in order" in bench("mlx4", "--protocol", "herd", "--herd.variant", "published").stderr
    point = result("mlx4", "--protocol", "nessie", "--assume-order")
    can = point["capabilities"]
    assert can["in_order_placement"] and can["in_order_reads"] and can["order_is_assumed"]
    assert point["config"]["assume_order"] is True
    assert point["devices"][0]["can"]["in_order_placement"] is False


def test_a1_unlike_hosts_agree_on_the_least_and_say_who_has_what(tmp_path: Path) -> None:
    done = together(tmp_path, ["mlx5-ib", "mlx4"], "--protocol", "nessie-sd", "--servers", "1")
    assert done.returncode == 0, done.stderr
    point = json.loads((tmp_path / "out.json").read_text())
    assert point["operations"]["ok"] > 0
    assert not point["capabilities"]["in_order_placement"]
    assert [one["can"]["in_order_placement"] for one in point["devices"]] == [True, False]
    assert re.search(r"in_order_placement: no on \S+ \(zoo_mlx4_0\); yes on \S+ \(zoo_mlx5_0\)", done.stderr)


def test_a2_nessie_has_the_spare_entries_of_real_time() -> None:
    options = result("mlx5-roce", "--protocol", "nessie")["config"]["options"]
    assert options["nessie.spare-memory"] == 128 << 20 and options["nessie.expiry"] == 100_000_000
    assert options["nessie.clock-margin"] == 10_000_000


@pytest.mark.parametrize("is_synced", [False, True], ids=["as it comes", "--history-sync"])
def test_a3_operations_of_a_history_are_synced_only_where_that_is_asked_for(is_synced: bool, tmp_path: Path) -> None:
    """Syncing every write of the history to disk would slow the load down, so files are opened with O_DSYNC only on
    request."""
    flags = ["--protocol", "nessie", "--history", f"{tmp_path}/history.jsonl"]
    flags += ["--history-sync", "true"] if is_synced else []

    def look(pids: list[int]) -> bool:
        histories.update({pid: how for pid in pids for file, how in open_files(pid).items() if "history" in file})
        return len(histories) >= 2

    histories: dict[int, int] = {}
    assert while_it_runs(launch_of(tmp_path, ["mlx5-roce", "mlx5-roce"], *flags), look), histories
    assert {bool(how & os.O_DSYNC) for how in histories.values()} == {is_synced}, histories


@pytest.mark.parametrize(("machine", "link", "wire"), [("mlx5-roce", "roce_v2", 208), ("mlx5-ib", "infiniband", 136)])
def test_a5_bytes_on_the_wire_are_the_links(machine: str, link: str, wire: int) -> None:
    point = result(machine, "--protocol", "micro-verbs", "--micro-verbs.verb", "read", "--value-size", "64")
    assert point["capabilities"]["link"] == link
    assert point["wire_bytes"]["per_get"] == pytest.approx(
        wire / 2, rel=0.1
    )  # `wire` bytes for a remote READ; with two nodes half of the READs are local and send nothing


def test_b6_a_port_that_requires_a_global_routing_header_gets_one() -> None:
    for protocol in ("nessie", "herd"):
        result("mlx5-vf", "--protocol", protocol)


def test_b7_the_fastest_port_is_opened_not_the_first() -> None:
    device = result("azure-hb", "--protocol", "nessie")["devices"][0]
    assert device["can"]["device"] == "zoo_mlx5_1"
    assert device["network"].startswith("InfiniBand")


def test_b7_a_device_that_is_named_is_opened_and_one_that_is_not_there_is_refused() -> None:
    named = result("azure-hb", "--protocol", "nessie", "--device", "zoo_mlx5_0")
    assert named["devices"][0]["can"]["device"] == "zoo_mlx5_0"
    done = bench("azure-hb", "--protocol", "nessie", "--device", "mlx5_7")
    assert done.returncode == 2
    assert "there are: zoo_mlx5_0, zoo_mlx5_1" in done.stderr


def test_b8_the_partition_is_one_of_full_membership() -> None:
    assert result("azure-hb", "--protocol", "nessie")["devices"][0]["pkey"] == 0x8005
    done = bench("azure-hb", "--protocol", "nessie", "--pkey", "0x7fff")
    assert done.returncode == 2
    assert "no partition of which all hosts are full members" in done.stderr


def test_b8_service_level_traffic_class_and_flow_label_are_recorded() -> None:
    assert result("mlx5-roce", "--protocol", "nessie")["devices"][0]["traffic_class"] == 106
    given = ("--traffic-class", "32", "--service-level", "3", "--flow-label", "5")
    device = result("mlx5-roce", "--protocol", "nessie", *given)["devices"][0]
    assert (device["traffic_class"], device["service_level"], device["flow_label"]) == (32, 3, 5)


def test_b9_what_a_protocol_does_not_use_it_does_not_need() -> None:
    result("no-srq", "--protocol", "nessie")
    result("irdma", "--protocol", "micro-verbs", "--micro-verbs.verb", "read")
    result("mana", "--protocol", "micro-verbs", "--micro-verbs.verb", "read")
    assert "no shared receive queues" in bench("no-srq", "--protocol", "pilaf").stderr
    assert "no atomics" in bench("irdma", "--protocol", "nessie").stderr
    refused = bench("efa", "--protocol", "nessie")
    assert refused.stderr == "loch bench: verbs (zoo_efa_0 port 1) has no reliable connections (RC)\n"


def test_b10_workers_of_all_nodes_have_cores_of_their_own() -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("this machine has one core")
    flags = ["--protocol", "nessie", "--nodes", "2", "--clients", "1", "--pin", "--duration", "3s"]
    with subprocess.Popen([BENCH, "bench", "--fabric", "shm", *flags, "--json", "-"], stdout=subprocess.PIPE) as run:
        pinned: dict[str, str] = {}
        until = time.monotonic() + 20
        while len(pinned) < 2 and time.monotonic() < until and run.poll() is None:
            time.sleep(0.05)
            for task in Path(f"/proc/{run.pid}/task").iterdir():
                try:
                    name, status = (task / "comm").read_text().strip(), (task / "status").read_text()
                except OSError:
                    continue
                cores = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
                if "client" in name and cores and cores.group(1).isdigit():
                    pinned[name] = cores.group(1)
        run.communicate(timeout=60)
    assert set(pinned.values()) == {str(usable[0]), str(usable[1])}, pinned


def test_b11_the_program_is_not_linked_to_mpi_and_no_rank_listens(tmp_path: Path) -> None:
    """loch-bench must run without MPI: a cluster may have another one than the machine on which it was built, or
    none."""
    libraries = subprocess.run(["ldd", BENCH], capture_output=True, text=True, check=True).stdout
    assert "libibverbs" in libraries and "libmpi" not in libraries

    def look(pids: list[int]) -> bool:
        for pid in pids:
            files = set(open_files(pid))
            if any("uverbs" in name or name.endswith("/net") for name in files) or "zoo nic" in threads(pid):
                ranks.add(pid)
                listened.update(files & listening())
        return len(ranks) >= 2

    ranks: set[int] = set()
    listened: set[str] = set()
    assert while_it_runs(launch_of(tmp_path, ["mlx5-ib", "mlx5-ib"], "--protocol", "nessie"), look)
    assert not listened


def threads(pid: int) -> set[str]:
    try:
        return {(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:
        return set()
