"""Points on verbs that share one store (`loch-bench points`): a store is deployed, registered and preloaded once, and one
load after another runs on it. Each result has the keys and the meaning of a point that runs by itself."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from zoo import RELEASE, Protocol, bench, environment, protocols

MACHINE = "mlx5-ib"
OPERATIONS = 3000
# Ends of the names of counters that tell how threads take turns: how often one waits, how many requests it finds, who is first.
OF_TURNS = ("yields", "sleeps", "batches", "reply_lists", "doorbells", "out_of_order")
LOADS = (["--get", "0.5"], ["--get", "0.9", "--distribution", "zipfian-n"], ["--get", "0.5", "--rate", "1000000"])
# The stores that serve one load after another. The others are deployed anew for each point: nothing, or a handful of
# bytes, is preloaded for them.
KEPT = {
    *("nessie", "nessie-sd", "nessie-hy", "herd", "pilaf", "pilaf-vo", "farm-em", "farm-em-var"),
    *("drtm-em", "race", "micro-cuckoo"),
}
# After an operation that ended in a time-out no load follows. On a busy machine one of Nessie may last longer than
# entries do, and a request of HERD longer than clients wait for its reply.
PATIENT = {"nessie": ["--nessie.expiry", "30s"], "herd": ["--herd.give-up", "30s"]}
NOTE = re.compile(r"serves the loads of several points: this is load (\d) on it")


def load_number(result: Any) -> int:
    """Which load on its store a result is of; 0 if the store was deployed for it alone."""
    found = [each[1] for note in result["notes"] if (each := NOTE.search(note))]
    return int(found[0]) if found else 0


def keys_of(found: Any, before: str = "") -> set[str]:
    """The keys of a result, those of objects in it with the keys before them."""
    if isinstance(found, list):
        return {key for each in found for key in keys_of(each, before + "[]")}
    if not isinstance(found, dict):
        return set()
    own = {f"{before}.{key}" for key in found}
    return own.union(*(keys_of(each, f"{before}.{key}") for key, each in found.items()))


def counts_of(result: Any) -> dict[str, float]:
    """The counters that follow from the number of operations, not those of how threads take turns; of all nodes together,
    since the nodes' clients share the operations as they come."""
    all_counts = {f"protocol {name}": value for name, value in result["protocol_counters"].items()}
    for name, value in result["fabric_counters"].items():
        all_counts[f"fabric {name}"] = value
    for node in result["nodes"]:
        for name, value in node.get("counters", {}).items():
            if not name.startswith("port_"):
                all_counts[f"nodes {name}"] = all_counts.get(f"nodes {name}", 0) + value
    return {name: value for name, value in all_counts.items() if not name.endswith(OF_TURNS)}


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-kept-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def points(self, entries: list[list[str]], settings: str = MACHINE) -> list[dict[str, Any]]:
        """Runs points by `loch-bench points`; returns what it said when each had ended."""
        listed = [
            {"arguments": [*each, "--json", str(self.folder / f"{i}.json")], "output": str(self.folder / f"{i}.txt")}
            for i, each in enumerate(entries)
        ]
        (self.folder / "list.json").write_text(json.dumps(listed))
        done = subprocess.run(
            [bench(RELEASE), "points", str(self.folder / "list.json")],
            env=environment(RELEASE, settings),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        ended = [each for each in said if "pid" not in each]
        self.assertTrue(all(each.pop("cpu_s") >= 0 for each in ended), ended)
        return ended

    def result(self, number: int) -> Any:
        return json.loads((self.folder / f"{number}.json").read_text())

    def alone(self, arguments: list[str]) -> Any:
        path = self.folder / "alone.json"
        done = subprocess.run(
            [bench(RELEASE), "bench", *arguments, "--json", str(path)],
            env=environment(RELEASE, MACHINE),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(path.read_text())

    def entries(self, protocol: Protocol) -> list[list[str]]:
        own = ["--protocol", protocol.name, "--fabric", "verbs", "--nodes", "2", "--clients", "1", "--keys", "500"]
        own += ["--value-size", "256", "--memory", "1G", "--warmup", "0ms", "--operations", str(OPERATIONS), "--verify"]
        return [[*own, *PATIENT.get(protocol.name, []), *load] for load in LOADS]

    def test_each_result_is_that_of_a_point_by_itself(self) -> None:
        for protocol in protocols():
            with self.subTest(protocol.name):
                entries = self.entries(protocol)
                ended = self.points(entries)
                said = [(self.folder / f"{i}.txt").read_text() for i in range(len(entries))]
                self.assertEqual(ended, [{"point": i, "status": 0} for i in range(len(entries))], said)
                for i, each in enumerate(entries):
                    self.compare(self.result(i), self.alone(each))
                numbers = [load_number(self.result(i)) for i in range(len(entries))]
                self.assertEqual(numbers, [1, 2, 3] if protocol.name in KEPT else [0, 0, 0], protocol.name)

    def compare(self, kept: Any, alone: Any) -> None:
        self.assertEqual(keys_of(kept), keys_of(alone))
        self.assertEqual(kept["config"], alone["config"])
        of_kept, of_alone = kept["operations"], alone["operations"]
        self.assertEqual((of_kept["total"], of_kept["corrupt"], of_kept["error"]), (OPERATIONS, 0, 0))
        self.assertEqual(of_kept["put"], of_alone["put"])  # drawn by the same seed
        counted, expected = counts_of(kept), counts_of(alone)
        again = {name for name in counted if name.endswith("retries")}
        # Operations that meet are tried again, on a busy machine a thousand times, with what each try posts.
        slack = 300 + 20 * sum(max(0, counted[name] - expected[name]) for name in again)
        for name in sorted(counted.keys() - again):
            more = slack * (300 if name.endswith("bytes") else 1)
            # with those of the loads before, the third load's would be three times as many
            self.assertGreaterEqual(counted[name], 0.4 * expected[name] - 300 if expected[name] > 800 else 0, name)
            self.assertLess(counted[name], 2 * expected[name] + more, name)


if __name__ == "__main__":
    unittest.main()
