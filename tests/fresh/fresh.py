#!/usr/bin/python3
"""Fuzzes every storing protocol with seeds that no run had before, for $LOCH_FRESH_SECONDS (60) seconds in all.

The seeds begin at $LOCH_FRESH_BASE, which ./loch test derives from the commit and the time, and prints. Each protocol
has an equal share of the time, on one core. A finding is printed with the command that reproduces it, and fails the
test.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time

BENCH = os.environ.get("LOCH_BIN", "loch-bench")
SEEDS_MAX = 10**9  # never reached, because the time limit ends the run first
BASELINES = ("memcached", "redis")  # existing servers, whose network the fuzzer does not simulate


def drawn_base() -> int:
    """A new first seed from the current time: a multiple of 10^9, so that the seeds of two runs do not overlap."""
    return (int.from_bytes(hashlib.sha256(str(time.time_ns()).encode()).digest()[:4], "big") + 1) * SEEDS_MAX


def storing_protocols() -> list[str]:
    listed = subprocess.run([BENCH, "list", "protocols", "--json"], capture_output=True, check=True)
    return [
        each["name"]
        for each in json.loads(listed.stdout)
        if each["consistency"] != "none" and each["name"] not in BASELINES
    ]


def main() -> int:
    base = int(os.environ.get("LOCH_FRESH_BASE") or drawn_base())
    seconds = float(os.environ.get("LOCH_FRESH_SECONDS") or 60)
    protocols = storing_protocols()
    print(f"fresh seeds from {base} (LOCH_FRESH_BASE={base} runs them again), {seconds:g} s for {', '.join(protocols)}")
    failed = []
    for protocol in protocols:
        command = [
            BENCH,
            "fuzz",
            "--protocol",
            protocol,
            "--first-seed",
            str(base),
            "--seeds",
            str(SEEDS_MAX),
            "--time",
            f"{max(1, round(1000 * seconds / len(protocols)))}ms",
            "--jobs",
            "1",
        ]
        print(f"\n{protocol}: {' '.join(command[1:])}", flush=True)
        if status := subprocess.run(command, check=False).returncode:
            failed.append(f"{protocol} (status {status})")
    if failed:
        print(f"\nfindings: {', '.join(failed)}; the lines `rerun` above show each again")
    return 1 if failed or not protocols else 0


if __name__ == "__main__":
    sys.exit(main())
