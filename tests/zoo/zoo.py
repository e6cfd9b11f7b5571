"""A run on the zoo's NICs: the program, its flags, and what it may not say (docs/zoo.md)."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("LOCH_RELEASE") or ROOT / "build/release")
# What a sanitizer, valgrind, a crash or the NIC itself says of a fault, whatever the exit status is.
FAULT = re.compile(
    r"WARNING: ThreadSanitizer|ERROR: AddressSanitizer|ERROR: LeakSanitizer|runtime error:|ERROR SUMMARY: [1-9]"
    r"|^zoo: |was killed by signal|loch-bench crashed",
    re.MULTILINE,
)


def bench(build: Path) -> str:
    return str(build / "bin/loch-bench")


def flags_of(protocol: str, duration: str = "20ms", nodes: int = 2) -> list[str]:
    return [
        *("bench", "--protocol", protocol, "--fabric", "verbs", "--nodes", str(nodes), "--clients", "1"),
        *("--keys", "500", "--warmup", "5ms", "--duration", duration, "--verify"),
    ]
