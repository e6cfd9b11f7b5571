"""Tests of several processes on the network of the emulated NICs, started by mpirun; the numbers of their queue pairs
are equal."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zoo

RANK = os.environ.get("LOCH_REJOIN_RANK", str(zoo.RELEASE / "tests/fabric/fabric_rejoin_rank"))
MPIRUN = [
    *("mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "--bind-to", "none"),
    *("--mca", "btl_base_warn_component_unused", "0"),
]

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")


@pytest.fixture(name="folder")
def a_folder() -> Iterator[Path]:
    """A folder for the file that emulates the network, in memory if the machine has /dev/shm."""
    of = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="loch-zoo-", dir=of) as name:
        yield Path(name)


def on(settings: str, command: list[str], folder: Path, ranks: int) -> list[str]:
    """The arguments of mpirun that start `ranks` processes of a command on an emulated machine."""
    library = f"LD_PRELOAD={zoo.RELEASE}/lib/libloch_zoo.so"
    return ["-n", str(ranks), "env", library, f"LOCH_ZOO={settings},net={folder}/net", *command]


def launch(words: list[str], timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*MPIRUN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        said = b"".join(part if isinstance(part, bytes) else b"" for part in (late.stdout, late.stderr))
        raise AssertionError(f"not ended after {timeout_s:.0f} s:\n{said.decode(errors='replace')}") from late


def rejoin(settings: str, folder: Path, of_victim: str = "", device: str = "") -> str:
    """What three processes of fabric_rejoin_rank say, of which node 1, on a machine with the further settings
    `of_victim`, is killed and comes back. Each of their waits ends within 50 s with a line."""
    shared = ["-x", "LOCH_REJOIN_PATIENCE=50s", *(["-x", f"LOCH_TEST_DEVICE={device}"] if device else [])]
    rank = [*shared, *on(settings, [RANK], folder, 1)]
    done = launch([*rank, ":", *shared, *on(settings + of_victim, [RANK], folder, 1), ":", *rank])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "node 0 incarnation 0: all is well" in said, said
    for node in (0, 2):
        keys = re.search(rf"node {node} incarnation 0: connected anew, epoch 1 to 2, rkey (\w+) to (\w+)", said)
        assert keys and keys[1] != keys[2], said
        assert f"node {node} incarnation 0: the old rkey is refused" in said, said
        assert f"node {node} incarnation 0: served and was served" in said, said
    assert "node 1 incarnation 1: served and was served" in said, said
    return said


def run_in_two(first: str, second: str, protocol: str, folder: Path, *more: str) -> Any:
    """The result of a run of two processes, each with its own emulated machine."""
    path = folder / "result.json"
    command = [zoo.bench(zoo.RELEASE), *zoo.flags_of(protocol, duration="200ms"), "--json", str(path), *more]
    done = launch([*on(first, command, folder, 1), ":", *on(second, command, folder, 1)])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert not zoo.FAULT.search(said), said
    result = json.loads(path.read_text())
    assert result["operations"]["total"] + result["operations"]["outside_window"] > 0, said
    return result


@pytest.mark.parametrize("machine", ["mlx5-ib", "mlx5-roce"])
@pytest.mark.parametrize("protocol", ["nessie", "herd", "pilaf"])
def test_a_protocol_in_two_processes(protocol: str, machine: str, folder: Path) -> None:
    result = run_in_two(machine, machine, protocol, folder)
    assert result["capabilities"]["device"].startswith("zoo_")
    assert result.get("lost_nodes", []) == []
    operations = result["operations"]
    assert (operations["corrupt"], operations["error"]) == (0, 0)


def test_late_and_lost_messages_between_processes(folder: Path) -> None:
    result = run_in_two("mlx5-roce,delay_us=50,drop=0.02", "mlx5-roce,delay_us=50,drop=0.02", "herd", folder)
    assert (result["operations"]["corrupt"], result["operations"]["error"]) == (0, 0)


def test_a_node_that_is_killed_comes_back_and_is_served_again(folder: Path) -> None:
    """Runs fabric_rejoin_rank, as tests/cluster does over Soft-RoCE, on emulated NICs: in seconds instead of
    minutes."""
    rejoin("mlx5-ib", folder)


@pytest.mark.parametrize("device", ["", "zoo_mlx5_0+zoo_mlx5_1"])
def test_a_node_is_killed_before_its_replies_leave(device: str, folder: Path) -> None:
    """The requests that the victim executes in its last 40 ms end in an error at their senders."""
    said = rejoin("mlx5-ib,copies=2", folder, of_victim=",reply_late_us=40000", device=device)
    assert len(re.findall(r"READ ended in retry exceeded", said)) == 2, said
