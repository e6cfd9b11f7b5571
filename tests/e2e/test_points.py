"""Tests of `loch-bench points`, which runs points in copies of one preloaded cluster: each result equals that of a
process of its own, even if one of the copies dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import unittest
from pathlib import Path
from typing import Any

from support import BINARY, EndToEnd

CLUSTER = [
    "--hardware",
    "connectx3-10gbe",
    "--keys",
    "1500",
    "--value-size",
    "256",
    "--warmup",
    "100us",
    "--duration",
    "300us",
]
SYMMETRIC = ["--nodes", "3", "--clients", "2"]
ONE_SERVER = ["--nodes", "3", "--server-nodes", "1", "--clients", "2"]
STORES = {
    "nessie": SYMMETRIC,
    "nessie-sd": [*SYMMETRIC, "--servers", "1"],
    "nessie-hy": [*SYMMETRIC, "--servers", "1"],
    "herd": [*ONE_SERVER, "--servers", "2"],
    "pilaf": [*ONE_SERVER, "--servers", "1"],
    "farm-em": [*ONE_SERVER, "--servers", "1"],
    "drtm-em": ONE_SERVER,
    "race": [*ONE_SERVER, "--hogs", "2"],
    "memcached": [*ONE_SERVER, "--servers", "1"],
    "micro-verbs": [*ONE_SERVER, "--micro-verbs.verb", "read"],
}
LOADS = [
    ["--get", "0.5"],
    ["--get", "0.95", "--distribution", "zipfian-n", "--zipf-theta", "0.9"],
    ["--get", "0.9", "--pause", "5us"],
    ["--get", "1", "--rate", "200000", "--settle", "20us"],
    ["--get", "0.5", "--load-seed", "7"],
]
# What differs between two processes of one run: times of this machine, its memory and load, and where the result went.
OF_THE_PROCESS = ("wall_s", "events_per_s", "peak_memory_bytes", "provenance")


def of_the_run(found: Any) -> Any:
    """A result without the values that differ from process to process (OF_THE_PROCESS)."""
    if isinstance(found, dict):
        return {key: of_the_run(each) for key, each in found.items() if key not in OF_THE_PROCESS}
    return [of_the_run(each) for each in found] if isinstance(found, list) else found


class Points(EndToEnd):
    def points(self, entries: list[list[str]], *more: str) -> list[dict[str, Any]]:
        """Runs points by `loch-bench points`; returns what it reported when each ended. Point i has its result in
        i.json, and what it printed in i.txt."""
        listed = [
            {"arguments": [*each, "--json", str(self.folder / f"{i}.json")], "output": str(self.folder / f"{i}.txt")}
            for i, each in enumerate(entries)
        ]
        (self.folder / "list.json").write_text(json.dumps(listed))
        done = self.call([BINARY, "points", str(self.folder / "list.json"), *more], 300)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        ended = [each for each in said if "pid" not in each]
        for each in ended[: 0 if "--dry-run" in more else None]:
            self.assertGreaterEqual(each.pop("cpu_s"), 0)
        return ended

    def alone(self, arguments: list[str]) -> Any:
        done = self.call([BINARY, "bench", *arguments, "--json", str(self.folder / "alone.json")], 300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return of_the_run(json.loads((self.folder / "alone.json").read_text()))

    def test_results_are_those_of_processes_of_their_own(self) -> None:
        for store, flags in STORES.items():
            with self.subTest(store):
                loads = (
                    [
                        ["--get", "1"],
                        ["--get", "1", "--pause", "5us"],
                        ["--get", "1", "--pause", "9us", "--load-seed", "7"],
                    ]
                    if store == "micro-verbs"
                    else LOADS
                )
                entries = [["--protocol", store, *flags, *CLUSTER, *load] for load in loads]
                ended = self.points(entries, "--share", "always")
                self.assertEqual(ended, [{"point": i, "status": 0} for i in range(len(entries))])
                hashes = set()
                for i, each in enumerate(entries):
                    found = of_the_run(json.loads((self.folder / f"{i}.json").read_text()))
                    self.assertEqual(found, self.alone(each), each)
                    hashes.add(found["sim"]["trace_hash"])
                self.assertEqual(len(hashes), len(entries), "other loads are other runs")

    def test_they_share_a_cluster_only_where_they_are_to(self) -> None:
        """Points that share a cluster run one after the other, before the next cluster is set up. Whether they do changes no
        result."""
        base = ["--protocol", "nessie", *SYMMETRIC, *CLUSTER]
        entries = [[*base, *more] for more in (["--get", "0.5"], ["--seed", "2"], ["--get", "0.9"])]
        found = {}
        for share, order in (("always", [0, 2, 1]), ("never", [0, 1, 2])):
            ended = self.points(entries, "--share", share)
            self.assertEqual(ended, [{"point": i, "status": 0} for i in order])
            found[share] = [of_the_run(json.loads((self.folder / f"{i}.json").read_text())) for i in range(3)]
        self.assertEqual(found["always"], found["never"])
        self.assertIn([each["point"] for each in self.points(entries)], ([0, 2, 1], [0, 1, 2]))
        refused = self.call([BINARY, "points", "--share", "often", "list.json"], 60)
        self.assertEqual((refused.returncode, len(refused.stderr.strip().splitlines())), (2, 1), refused.stderr)

    def test_a_seed_of_the_load_changes_the_load_and_not_the_cluster(self) -> None:
        """Loads with seeds of their own on one cluster differ, and a seed that equals the cluster's is not the same as none:
        the workers draw anew when the load begins. The cluster's seed still decides where records lie."""
        base = ["--protocol", "nessie", *SYMMETRIC, *CLUSTER, "--get", "0"]
        base += [
            "--distribution",
            "zipfian-n",
            "--zipf-theta",
            "1.2",
        ]  # clients meet, and workers draw how long they wait
        seeds = [(1, None), (1, 0), (1, 1), (1, 5), (1, 6), (2, 5)]
        found = []
        for seed, of_load in seeds:
            more: list[str] = [] if of_load is None else ["--load-seed", str(of_load)]
            found.append(self.alone([*base, "--seed", str(seed), *more]))
        hashes = [each["sim"]["trace_hash"] for each in found]
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(len(set(hashes)), 5)
        self.assertEqual([each["config"].get("load_seed") for each in found], [None, None, 1, 5, 6, 5])
        self.assertEqual([each["seed"] for each in found], [1, 1, 1, 1, 1, 2])

    def test_what_servers_are_assumed_to_work_is_charged_and_nothing_by_default(self) -> None:
        base = ["--protocol", "nessie-sd", *STORES["nessie-sd"], *CLUSTER, "--get", "1", "--service-times"]
        without = self.alone(base)
        zero, with_work = (self.alone([*base, "--server-work", each]) for each in ("0ns", "3us"))
        self.assertEqual(without, zero)
        self.assertNotIn("server_work_s", without["config"])
        self.assertEqual(with_work["config"]["server_work_s"], 3e-6)
        self.assertLess(with_work["throughput_ops_s"], 0.8 * without["throughput_ops_s"])
        for one, other in zip(with_work["nodes"], without["nodes"]):
            more = one["counters"]["service.median_ns"] - other["counters"]["service.median_ns"]
            self.assertAlmostEqual(more, 3000, delta=60)
        refused = self.call([BINARY, "bench", "--fabric", "shm", "--server-work", "1us"], 60)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--server-work: for --fabric sim", refused.stderr)

    def test_in_real_time_each_begins_with_the_preloaded_records(self) -> None:
        """Each point on shm begins with a copy of the preloaded memory: the first deletes keys, and the second finds what a
        process of its own finds all the same (HERD's index loses some keys), with the values of the preload."""
        load = ["--fabric", "shm", "--warmup", "0ms", "--keys", "20000", "--value-size", "256", "--verify"]
        first = ["--get", "0.2", "--delete", "0.5", "--operations", "60000"]
        second = ["--get", "1", "--operations", "60000"]
        for store in ("nessie", "nessie-sd", "herd", "pilaf"):
            with self.subTest(store):
                entries = [["--protocol", store, *STORES[store], *load, *each] for each in (first, second)]
                ended = self.points(entries)
                self.assertEqual(ended, [{"point": 0, "status": 0}, {"point": 1, "status": 0}])
                one, other = (json.loads((self.folder / f"{i}.json").read_text()) for i in (0, 1))
                for each in (one, other):
                    notes = [note for note in each["notes"] if "preloaded once for 2 points" in note]
                    self.assertEqual(len(notes), 1, each["notes"])
                self.assertGreater(one["operations"]["not_found"], 1000)
                alone = self.alone(entries[1])
                for what in ("ok", "not_found", "verified", "corrupt"):
                    self.assertEqual(other["operations"][what], alone["operations"][what], what)
                self.assertLess(other["operations"]["not_found"], 200)

    def test_stores_that_write_a_file_are_set_up_apart(self) -> None:
        """The second point finds in the log what the first has put there, as a process of its own does."""
        base = ["--protocol", "pilaf", *STORES["pilaf"], *CLUSTER]
        log = [*base, "--pilaf.log", str(self.folder / "log"), "--pilaf.log-sync", "write"]
        entries = [[*log, "--get", "0.5"], [*base, "--seed", "2"], [*log, "--get", "1"]]
        ended = self.points(entries, "--share", "always")
        self.assertEqual(ended, [{"point": i, "status": 0} for i in range(3)])
        first, last = (json.loads((self.folder / f"{i}.json").read_text())["protocol_counters"] for i in (0, 2))
        self.assertGreater(first["log_appended"], 0)
        self.assertEqual(last["log_replayed"], first["log_appended"])

    def test_clusters_that_differ_are_set_up_apart(self) -> None:
        first = ["--protocol", "nessie", *SYMMETRIC, *CLUSTER, "--get", "0.5"]
        entries = [first, [*first, "--seed", "2"], [*first, "--window", "2"], [*first, "--set", "keys=2000"]]
        self.points(entries, "--share", "always")
        for i, each in enumerate(entries):
            self.assertEqual(of_the_run(json.loads((self.folder / f"{i}.json").read_text())), self.alone(each), each)

    def test_one_with_bad_flags_is_the_only_one(self) -> None:
        good = ["--protocol", "nessie", *SYMMETRIC, *CLUSTER]
        entries = [good, [*good, "--get", "2"], [*good, "--get", "0.5"]]
        ended = self.points(entries, "--share", "always")
        self.assertEqual([each["status"] for each in sorted(ended, key=lambda each: each["point"])], [0, 2, 0])
        self.assertIn("loch bench: --get", (self.folder / "1.txt").read_text())
        judged = self.points(entries, "--dry-run")
        self.assertEqual([each["status"] for each in judged], [0, 2, 0])
        self.assertIn("get", judged[1]["refusal"])

    def test_one_that_is_killed_is_the_only_one(self) -> None:
        long = ["--protocol", "nessie", *SYMMETRIC, *CLUSTER, "--set", "duration=20s"]
        listed = [
            {"arguments": [*long, "--get", get, "--json", str(self.folder / f"{get}.json")], "output": "/dev/null"}
            for get in ("0.5", "0.9")
        ]
        short = [word if word != "duration=20s" else "duration=300us" for word in long]
        listed.append({"arguments": [*short, "--json", str(self.folder / "last.json")], "output": "/dev/null"})
        (self.folder / "list.json").write_text(json.dumps(listed))
        process = subprocess.Popen(
            [BINARY, "points", "--share", "always", str(self.folder / "list.json")],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = []
        assert process.stdout is not None
        for line in process.stdout:
            said.append(json.loads(line))
            if "pid" in said[-1] and said[-1]["point"] < 2:
                os.kill(said[-1]["pid"], signal.SIGKILL)
        self.assertEqual(process.wait(60), 0)
        ended = [{key: each[key] for key in each if key != "cpu_s"} for each in said if "pid" not in each]
        self.assertEqual(ended, [{"point": 0, "signal": 9}, {"point": 1, "signal": 9}, {"point": 2, "status": 0}])
        self.assertTrue(Path(self.folder / "last.json").exists())
        self.assertFalse((self.folder / "0.5.json").exists())

    def test_a_bad_list_is_one_line(self) -> None:
        for text in ("[", "{}", "[1]", '[{"arguments": [1]}]', '[{"arguments": [], "output": 1}]'):
            self.write("list.json", text)
            done = self.call([BINARY, "points", "list.json"], 60)
            self.assertEqual((done.returncode, len(done.stderr.strip().splitlines())), (2, 1), done.stderr)
            self.assertIn("expected a JSON list", done.stderr)


if __name__ == "__main__":
    unittest.main()
