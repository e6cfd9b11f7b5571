"""Has the hosts of a hostfile ping each other by `loch-bench ping`, and turns its verdict into report lines."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from loch.doctor.judge import NO, OK, WARN, Line
from loch.starting import starting

LAUNCH_LIMIT_S = 60.0  # seconds for starting the processes and for their set-up
END_LIMIT_S = 3.0  # seconds for the processes to end after the result; a host that hangs would hold up mpirun
MENDS = {
    "silent": "does the program run there? ./loch devices, and ssh HOST dmesg",
    "unreachable": "one subnet and VLAN for both ports, no filter of UDP port 4791; ./loch devices on both",
    "loss": "cable and switch port; on RoCE flow control (PFC) or ECN; rdma statistic show link",
    "slow": "link rate and route (./loch devices), other load on the host, CPU governor",
}


def launch(
    hosts: Sequence[tuple[str, int]], binary: str, fabric: str, device: str = ""
) -> tuple[dict[str, Any] | None, str]:
    """Starts `loch-bench ping` with as many ranks as each host is given; returns the result, or None and why there is
    none."""
    by, command = starting(hosts)
    command += [binary, "ping", "--json", "--fabric", fabric]
    command += ["--device", device] if device else []
    deadline = time.monotonic() + LAUNCH_LIMIT_S + 0.5 * sum(ranks for _, ranks in hosts)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            result = _await(started, out, deadline)
        finally:
            _end(started)
        err.seek(0)
        said = [line for line in err.read().decode(errors="replace").splitlines() if line.startswith("loch ping: ")]
    if result is None:
        why = said[0].removeprefix("loch ping: ") if said else f"{by} ended with status {started.returncode}"
        return None, why if started.returncode is not None else f"no result within {LAUNCH_LIMIT_S:.0f} s"
    return result, ""


def _await(started: subprocess.Popen[bytes], out: Any, deadline: float) -> dict[str, Any] | None:
    """The result, as soon as the file `out` has all of it; None if the processes end without one or are too late."""
    while True:
        has_ended = started.poll() is not None
        out.seek(0)
        text = out.read().decode(errors="replace").lstrip()
        try:
            found = json.JSONDecoder().raw_decode(text)[0]
            return found if isinstance(found, dict) else None
        except ValueError:
            pass
        if has_ended or time.monotonic() > deadline:
            return None
        time.sleep(0.05)


def _end(started: subprocess.Popen[bytes]) -> None:
    for stop in (lambda: None, started.terminate, started.kill):
        stop()
        try:
            started.wait(END_LIMIT_S)
            return
        except subprocess.TimeoutExpired:
            continue


def lines(result: dict[str, Any] | None, why: str, left_out: list[str]) -> list[Line]:
    found = []
    if left_out:
        text = f"without {', '.join(left_out)}, where no device can be used"
        found.append(Line("pings", WARN, text, "see the lines of that host"))
    if result is None:
        return [
            *found,
            Line("pings", NO, why, "./loch ping in a launch of two hosts says more; --no-ping leaves it out"),
        ]
    for each in result["findings"]:
        found.append(Line("pings", NO if each["is_fault"] else WARN, each["text"], MENDS[each["kind"]]))
    if not result["findings"]:
        found.append(Line("pings", OK, f"{len(result['nodes'])} nodes on {result['fabric']}: {result['verdict']}"))
    return found
