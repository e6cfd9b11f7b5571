#!/usr/bin/python3
"""Makes the small traces of this folder, one in each format that `loch bench --trace-replay` reads.

  workloads/traces/make.py [FOLDER]

The traces are synthetic: keys by a Zipf distribution of exponent 1; sizes and shares of operations are similar to those
that Yang et al. (OSDI 2020) report of caches. Every run makes the same files, which a test compares with the tree's.
"""

from __future__ import annotations

import bisect
import itertools
import random
import sys
from pathlib import Path

KEYS = 500
OPERATIONS = 4000
SECONDS = 4


class Draws:
    """A random source of keys (Zipf, each with fixed key and value sizes) and of operations by given shares."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sums = list(itertools.accumulate(1 / (rank + 1) for rank in range(KEYS)))
        self.key_bytes = [self.rng.randint(16, 60) for _ in range(KEYS)]
        self.value_bytes = [min(900, 20 + int(self.rng.expovariate(1 / 180))) for _ in range(KEYS)]

    def key(self) -> int:
        return bisect.bisect_left(self.sums, self.rng.random() * self.sums[-1])

    def operation(self, shares: dict[str, float]) -> str:
        return self.rng.choices(list(shares), list(shares.values()))[0]


def twitter() -> str:
    """Twitter's cache trace, columns: timestamp,key,key size,value size,client id,operation,TTL"""
    draws = Draws(1)
    shares = {"get": 0.8, "gets": 0.01, "set": 0.14, "add": 0.02, "cas": 0.005, "delete": 0.02, "incr": 0.005}
    lines = []
    for number in range(OPERATIONS):
        key, operation = draws.key(), draws.operation(shares)
        name = f"nz:u:{key:05x}".ljust(draws.key_bytes[key], "e")
        value = 0 if operation in ("delete", "incr") else draws.value_bytes[key]
        ttl = 86400 if operation in ("set", "add", "cas") else 0
        client = draws.rng.randrange(20)
        time = number * SECONDS // OPERATIONS
        lines.append(f"{time},{name},{len(name)},{value},{client},{operation},{ttl}")
    return "\n".join(lines) + "\n"


def cachelib() -> str:
    """CacheLib's trace of 2022 with op_time: op_time,key,key_size,op,op_count,size,cache_hits,ttl"""
    draws = Draws(2)
    shares = {"GET": 0.7, "GET_LEASE": 0.1, "SET": 0.1, "SET_LEASE": 0.05, "DELETE": 0.05}
    lines = ["op_time,key,key_size,op,op_count,size,cache_hits,ttl"]
    done = 0
    while done < OPERATIONS:
        key, operation = draws.key(), draws.operation(shares)
        count = draws.rng.choice([1, 1, 1, 2, 3]) if operation == "GET" else 1
        count = min(count, OPERATIONS - done)
        is_hit = operation.startswith("GET") and draws.rng.random() < 0.9
        size = draws.value_bytes[key] if is_hit or operation.startswith("SET") else 0
        ttl = 3600 if operation.startswith("SET") else 0
        time = 564726470 + done * SECONDS // OPERATIONS
        name = 798057486 + key
        lines.append(f"{time},{name},{draws.key_bytes[key]},{operation},{count},{size},{count * is_hit},{ttl}")
        done += count
    return "\n".join(lines) + "\n"


def ycsb() -> str:
    """The log that YCSB's binding `basic` prints of a run; each field has 10 random printable characters"""
    draws = Draws(3)
    shares = {"READ": 0.75, "UPDATE": 0.2, "INSERT": 0.03, "SCAN": 0.02}
    characters = "".join(map(chr, range(32, 127)))
    inserted = KEYS

    def fields(numbers: list[int]) -> str:
        return "".join(f"field{i}={''.join(draws.rng.choices(characters, k=10))} " for i in numbers)

    lines = ["***************** properties *****************", '"recordcount"="500"', "*" * 46]
    for _ in range(OPERATIONS // 4):
        key, operation = draws.key(), draws.operation(shares)
        if operation == "INSERT":
            key, inserted = inserted, inserted + 1
        line = f"{operation} usertable user{6284781860667377211 + 7919 * key}"
        if operation == "READ":
            lines.append(f"{line} [ <all fields>]")
        elif operation == "SCAN":
            lines.append(f"{line} {draws.rng.randint(1, 100)} [ <all fields>]")
        else:
            lines.append(f"{line} [ {fields(list(range(10)) if operation == 'INSERT' else [draws.rng.randrange(10)])}]")
    return "\n".join(lines) + "\n"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    for name, text in {"twitter.csv": twitter(), "cachelib.csv": cachelib(), "ycsb.log": ycsb()}.items():
        (folder / name).write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
