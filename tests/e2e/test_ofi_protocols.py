"""Every protocol on --fabric ofi: two nodes in one process, over TCP and over libfabric's shared memory, with checked
GETs; a protocol is refused in one line where the provider lacks a message ordering that it needs."""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any

import pytest
from support import BINARY

# Systems that use TCP by themselves and not a fabric of Loch.
WITHOUT_FABRIC = ("memcached", "redis")
# A number of operations, not a time: on a busy machine TCP between two threads does few of them a second.
LOAD = ["--nodes", "2", "--clients", "1", "--keys", "300", "--operations", "200", "--verify", "--json", "-"]


@functools.cache
def protocols() -> dict[str, Any]:
    listed = subprocess.run([BINARY, "list", "protocols", "--json"], capture_output=True, check=True)
    return {each["name"]: each for each in json.loads(listed.stdout) if each["name"] not in WITHOUT_FABRIC}


def bench(protocol: str, provider: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [BINARY, "bench", "--protocol", protocol, "--fabric", "ofi", "--ofi-provider", provider]
    return subprocess.run([*command, *LOAD, *more], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("provider", ["tcp", "shm"])
@pytest.mark.parametrize("protocol", protocols())
def test_a_protocol_reads_what_was_written(protocol: str, provider: str) -> None:
    done = bench(protocol, provider)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["capabilities"]["fabric"] == "ofi"
    operations = result["operations"]
    # A microbenchmark counts the operations of a measured time of its own, which may be fewer than --operations.
    # A store over unreliable transports gives up an operation whose answer is late, as on a busy machine.
    ended = operations["ok"] + operations["timeout"]
    assert ended >= (1 if protocol.startswith("micro-") else 200), operations
    assert operations["timeout"] <= operations["ok"] // 4, operations
    assert (operations["corrupt"], operations["error"]) == (0, 0)
    if protocols()[protocol]["consistency"] != "none":
        assert operations["verified"] > 100, operations


@pytest.mark.parametrize("protocol", [name for name, each in protocols().items() if each["needs"]["rc"]])
def test_without_the_order_that_it_needs_a_protocol_is_refused(protocol: str) -> None:
    done = bench(protocol, "tcp", "--ofi-order", "provider")
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1 and "overtake the WRITE before it" in done.stderr, done.stderr
