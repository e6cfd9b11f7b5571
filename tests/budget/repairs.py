#!/usr/bin/python3
"""How long Nessie repairs the loss of a node during a load: three processes of a build over the emulated NICs and over TCP, of
which one is killed; seconds from the start of the repair to its end, the median of the rounds with the least and the most.
Several builds take turns: tests/budget/repairs.py [--rounds N] BUILD..."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

LOAD = "--protocol nessie --nodes 3 --clients 1 --keys 20000 --value-size 256 --get 0.5 --warmup 20ms --duration 6s"
REPAIR = "--timeline 100ms --probe-keys 50 --repair-after 200ms"
VICTIM = 2
BEFORE_KILL_S, LIMIT_S = 3.5, 120.0


def workers(result: str) -> dict[int, int]:
    """The process of each rank that has a launcher of its own rank as its parent."""
    found: dict[int, list[tuple[int, int]]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if result.encode() not in (process / "cmdline").read_bytes().split(b"\0"):
                continue
            environment = (process / "environ").read_bytes().split(b"\0")
            status = (process / "status").read_text(encoding="utf-8")
        except OSError:
            continue
        ranks = [int(each.split(b"=")[1]) for each in environment if each.startswith(b"OMPI_COMM_WORLD_RANK=")]
        if ranks:
            parent = int(status.split("PPid:")[1].split()[0])
            found.setdefault(ranks[0], []).append((int(process.name), parent))
    return {rank: pid for rank, pids in found.items() for pid, parent in pids if parent in [each for each, _ in pids]}


def repair_s(build: Path, fabric: str, folder: str) -> float:
    """Runs the load, kills a node's worker, and returns the seconds that the repair took."""
    result = f"{folder}/result.json"
    line = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    if fabric == "verbs":
        zoo = {"LD_PRELOAD": build / "lib/libloch_zoo.so", "LOCH_ZOO": f"mlx5-ib,net={folder}/net"}
        line += [word for name, value in zoo.items() for word in ("-x", f"{name}={value}")]
    line += [
        str(build / "bin/loch-bench"),
        "bench",
        "--fabric",
        fabric,
        *LOAD.split(),
        *REPAIR.split(),
        "--json",
        result,
    ]
    line += ["--ofi-provider", "tcp"] if fabric == "ofi" else []
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + LIMIT_S
        while len(found := workers(result)) < 3 and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(BEFORE_KILL_S)
        if running.poll() is None:
            os.kill(found[VICTIM], signal.SIGKILL)
        _, said = running.communicate(timeout=LIMIT_S)
    if running.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: {said}")
    events = json.loads(Path(result).read_text(encoding="utf-8"))["events"]
    at = {each["event"]: float(each["t_s"]) for each in events if each["node"] == VICTIM}
    return at["scrub_end"] - at["scrub"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "builds", nargs="+", type=Path, metavar="BUILD", help="a build folder with loch-bench and loch_zoo"
    )
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    for fabric in ("verbs", "ofi"):
        took: dict[Path, list[float]] = {build: [] for build in flags.builds}
        for _ in range(flags.rounds):
            for build in flags.builds:
                with tempfile.TemporaryDirectory() as folder:
                    took[build].append(repair_s(build.absolute(), fabric, folder))
        for build, each in took.items():
            print(f"{fabric} {build}: {statistics.median(each):.1f} s ({min(each):.1f} to {max(each):.1f})")


if __name__ == "__main__":
    main()
