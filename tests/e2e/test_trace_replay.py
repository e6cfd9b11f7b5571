"""Tests of --trace-replay: a run counts the operations that the trace has, on every store; bad traces are refused in a
line."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import unittest
from collections import Counter

import support
from support import ROOT, EndToEnd

TRACES = ROOT / "workloads/traces"
TWITTER = ["--trace-replay", str(TRACES / "twitter.csv"), "--trace-format", "twitter"]
CACHELIB = ["--trace-replay", str(TRACES / "cachelib.csv"), "--trace-format", "cachelib"]
YCSB = ["--trace-replay", str(TRACES / "ycsb.log"), "--trace-format", "ycsb"]
AS = {
    "get": "get",
    "gets": "get",
    "set": "put",
    "add": "insert_if_absent",
    "replace": "put",
    "cas": "put",
    "delete": "delete",
}
LINE = "0,some:key:of:text,20,100,1,get,0\n"


class Expected:
    """Expected counts for the sample trace in Twitter's format, from the order of operations on each key."""

    def __init__(self, preload: str = "found") -> None:
        self.kinds: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.found = self.missed = self.exists = self.got = self.key_bytes = self.value_bytes = self.moved = 0
        there: dict[str, int] = {}  # bytes of each key's current value; 0: the key is absent
        rows = list(csv.reader((TRACES / "twitter.csv").read_text(encoding="ascii").splitlines()))
        for _, key, key_size, value_size, _, name, _ in rows:
            if name not in AS:
                self.skipped[name] += 1
                continue
            if key not in there:
                is_preloaded = preload == "all" or (preload == "found" and name not in ("set", "add"))
                sizes = (int(row[3]) for row in rows if row[1] == key and row[5] in AS and int(row[3]) > 0)
                there[key] = next(sizes, 1024) if is_preloaded else 0
            self.kinds[AS[name]] += 1
            self.key_bytes += int(key_size)
            hit = there[key] > 0
            if AS[name] == "insert_if_absent":
                self.exists += hit
                self.found += not hit
            else:
                self.found += hit or AS[name] == "put"
                self.missed += not hit and AS[name] != "put"
            if AS[name] == "put" or (AS[name] == "insert_if_absent" and not hit):
                there[key] = int(value_size)
                self.value_bytes, self.moved = self.value_bytes + there[key], self.moved + 1
            elif AS[name] == "get" and hit:
                self.got += 1
                self.value_bytes, self.moved = self.value_bytes + there[key], self.moved + 1
            elif AS[name] == "delete":
                there[key] = 0
        self.keys = len(there)


class TraceReplay(EndToEnd):
    def replay(self, *arguments: str, protocol: str = "nessie") -> dict:
        return self.result("bench", "--protocol", protocol, "--nodes", "3", "--clients", "2", *arguments)

    def assert_is(self, got: dict, expected: Expected) -> None:
        operations = got["operations"]
        for kind in ("get", "put", "delete", "insert_if_absent"):
            self.assertEqual(operations[kind], expected.kinds[kind], got["protocol"])
        self.assertEqual((operations["ok"], operations["not_found"]), (expected.found, expected.missed))
        self.assertEqual(operations["exists"], expected.exists)
        self.assertEqual((operations["verified"], operations["corrupt"]), (expected.got, 0))
        self.assertAlmostEqual(got["sizes"]["key_bytes"]["mean"], expected.key_bytes / expected.kinds.total(), places=6)
        self.assertAlmostEqual(got["sizes"]["value_bytes"]["mean"], expected.value_bytes / expected.moved, places=6)
        self.assertEqual(got["trace_replay"]["keys"], expected.keys)
        self.assertEqual(got["trace_replay"]["skipped"], dict(expected.skipped))

    def test_every_store_finds_what_the_order_of_the_trace_says(self) -> None:
        expected = Expected()
        self.assertGreater(expected.missed, 50)
        self.assertGreater(expected.exists, 10)
        for protocol in ("nessie", "nessie-sd", "nessie-hy", "pilaf", "redis", "memcached"):
            with self.subTest(protocol=protocol):
                got = self.replay(*TWITTER, "--trace-speed", "0", "--window", "3", "--verify", protocol=protocol)
                self.assert_is(got, expected)

    def test_preloaded_keys(self) -> None:
        for preload in ("all", "none"):
            with self.subTest(preload=preload):
                got = self.replay(*TWITTER, "--trace-speed", "0", "--trace-preload", preload, "--verify")
                self.assertEqual(got["operations"]["not_found"], Expected(preload).missed)
                self.assertEqual(got["trace_replay"]["preload"], preload)
        self.assertEqual(got["trace_replay"]["preloaded_keys"], 0)

    def test_a_real_fabric_answers_as_a_simulated_one(self) -> None:
        got = self.replay("--fabric", "shm", *TWITTER, "--trace-speed", "40", "--verify", protocol="pilaf")
        self.assert_is(got, Expected())
        # the trace lasts 4 s, or 0.1 s at speed 40, and its last operation begins a little before the end
        self.assertGreater(got["duration_s"], 0.0999)
        self.assertEqual(got["trace_replay"]["lag_us"]["count"], got["operations"]["total"])

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun (Debian: openmpi-bin) is not here")
    def test_processes_share_a_trace(self) -> None:
        done = self.call(
            ["mpirun", "--oversubscribe", "-n", "2", support.BINARY, "bench", "--fabric", "shm", "--nodes", "2"]
            + ["--protocol", "pilaf", *TWITTER, "--trace-speed", "40", "--verify"]
            + ["--json", "out.json"],
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assert_is(got, Expected())
        self.assertEqual(got["trace_replay"]["lag_us"]["count"], got["operations"]["total"])

    def test_arrival_times_and_their_scale(self) -> None:
        own = self.replay(*TWITTER)
        self.assertEqual(own["trace_replay"]["speed"], 1)
        # 1,000 operations a second for 4 seconds: the last one is issued 1 ms before the end.
        self.assertAlmostEqual(own["duration_s"], 3.999, delta=0.0005)
        fast = self.replay(*TWITTER, "--trace-speed", "10")
        self.assertAlmostEqual(fast["duration_s"], 0.3999, delta=0.0005)
        self.assertLess(fast["trace_replay"]["lag_us"]["max"], 1000)
        self.assertEqual(fast["config"]["arrivals"], "trace")
        closed = self.replay(*TWITTER, "--trace-speed", "0")
        self.assertLess(closed["duration_s"], 0.1)
        self.assertIsNone(closed["trace_replay"]["lag_us"])
        self.assertEqual(closed["config"]["arrivals"], "closed")

    def test_the_first_caveat_says_how_late_it_was(self) -> None:
        late = self.replay(*TWITTER, "--trace-speed", "1e6")
        self.assertRegex(late["caveats"][0], r"^late: operations began .* us after their arrival times in the mean")
        lag = late["trace_replay"]["lag_us"]
        self.assertGreater(lag["p99"], 1000)
        self.assertLessEqual(lag["p50"], lag["p99"])
        self.assertGreater(late["latency_us"]["get"]["mean"], 0.9 * lag["mean"])
        # At speed 0 the trace's arrival times are ignored, so no operation can be late.
        spread = self.replay(*TWITTER, "--trace-speed", "0", "--window", "4")
        self.assertFalse([line for line in spread["caveats"] if line.startswith("late")])

    def test_what_is_skipped_is_said(self) -> None:
        got = self.replay(*TWITTER, "--trace-speed", "0")
        skipped = sum(got["trace_replay"]["skipped"].values())
        self.assertGreater(skipped, 0)
        self.assertIn(
            f"{skipped} operations of the trace were skipped, for which there is no GET, PUT, DELETE or INSERT: {skipped} "
            "incr",
            got["caveats"],
        )
        simplified = got["trace_replay"]["simplified"]
        self.assertEqual(set(simplified), {"cas", "gets"})
        said = ", ".join(f"{count} {name}" for name, count in sorted(simplified.items()))
        self.assertIn(f"operations of the trace were replayed without their condition or lease: {said}", got["caveats"])
        # The published PUT of Nessie does not tell the client whether the key was present.
        without = self.replay(*TWITTER, "--trace-speed", "0", "--nessie.variant", "published")
        self.assertEqual(set(without["trace_replay"]["simplified"]), {"add", "cas", "gets"})
        self.assertNotIn("insert_if_absent", without["operations"])
        done = self.loch("bench", *TWITTER, "--trace-speed", "0")
        self.assertIn("note: 20 operations of the trace were skipped" if skipped == 20 else "skipped", done.stderr)

    def test_the_other_formats(self) -> None:
        got = self.replay(*CACHELIB, "--trace-speed", "1000", "--verify")
        self.assertEqual((got["operations"]["total"], got["operations"]["corrupt"]), (4000, 0))
        self.assertEqual(set(got["trace_replay"]["simplified"]), {"GET_LEASE", "SET_LEASE"})
        log = (TRACES / "ycsb.log").read_text(encoding="ascii").splitlines()
        kinds = Counter(line.split()[0] for line in log)
        got = self.replay(*YCSB, "--verify")
        self.assertEqual(got["trace_replay"]["speed"], 0)
        self.assertEqual(got["operations"]["get"], kinds["READ"])
        self.assertEqual(got["operations"]["put"], kinds["UPDATE"] + kinds["INSERT"])
        self.assertEqual(got["operations"]["not_found"], 0)
        self.assertEqual(got["trace_replay"]["skipped"], {"SCAN": kinds["SCAN"]})

    def test_one_seed_one_trace_hash(self) -> None:
        hashes = [self.replay(*TWITTER, "--trace-speed", "200")["sim"]["trace_hash"] for _ in range(2)]
        self.assertEqual(hashes[0], hashes[1])
        runs = json.loads(self.loch("bench", *TWITTER, "--trace-speed", "200", "--repeats", "2").stdout)
        self.assertEqual([run["operations"]["total"] for run in runs], [runs[0]["operations"]["total"]] * 2)

    def test_the_first_operations(self) -> None:
        got = self.replay(*TWITTER, "--operations", "100", "--trace-speed", "0")
        self.assertEqual((got["operations"]["total"], got["trace_replay"]["is_cut"]), (100, True))

    def test_designs_of_one_size(self) -> None:
        refused = self.loch("bench", "--protocol", "farm-em", *TWITTER)
        self.assert_refused(refused, "trace-replay: farm-em stores keys of one size", "--trace-sizes fixed")
        sizes = ["--trace-sizes", "fixed", "--key-size", "16", "--value-size", "64"]
        got = self.replay(*TWITTER, *sizes, "--trace-speed", "0", protocol="farm-em")
        self.assertEqual((got["config"]["key_size"], got["config"]["value_size"]), (16, 64))
        self.assertEqual(got["operations"]["total"], sum(Expected().kinds.values()))

    def test_bad_traces_are_one_line(self) -> None:
        for name, text, said in [
            ("bad", LINE + "1,k,20\n", "bad:2: expected timestamp,key,key size,value size,client id,operation,TTL"),
            ("back", "5" + LINE[1:] + LINE, "back:2: expected a time of 5 s or later"),
            ("empty", "", "empty: empty; expected the lines of a twitter trace"),
            ("skipped", LINE.replace("get", "incr"), "skipped: no GET, PUT or DELETE in 1 lines"),
            ("large", LINE, "large:1: a value of 100 bytes, above --value-size 99"),
            ("longer", LINE, "longer:1: a key of 20 bytes, above --key-size 19"),
        ]:
            self.write(name, text)
            more = ["--value-size", "99"] if name == "large" else ["--key-size", "19"] if name == "longer" else []
            for how in ("--verify", "--dry-run"):
                with self.subTest(name=name, how=how):
                    done = self.loch("bench", "--trace-replay", name, "--trace-format", "twitter", *more, how)
                    self.assert_refused(done, f"loch bench: {said}")
        (self.folder / "packed").write_bytes(b"\x28\xb5\x2f\xfd123")
        for name, said in [("missing", "cannot read: No such file"), (".", "expected a regular file")]:
            self.assert_refused(self.loch("bench", "--trace-replay", name, "--trace-format", "ycsb"), f"{name}: {said}")
        packed = self.loch("bench", "--trace-replay", "packed", "--trace-format", "twitter")
        self.assert_refused(packed, "packed: is compressed", "zstd -d")

    def test_flags_that_do_not_go_together(self) -> None:
        for arguments, said in [
            (["--trace-speed", "2"], "--trace-speed: goes with --trace-replay"),
            (TWITTER[:2], "--trace-replay: goes with --trace-format twitter|cachelib|ycsb"),
            ([*TWITTER[:2], "--trace-format", "arc"], "--trace-format"),
            ([*TWITTER, "--rate", "100"], "--rate: not with --trace-replay"),
            ([*TWITTER, "--multi-get", "2"], "--multi-get: not with --trace-replay"),
            ([*TWITTER, "--get", "1"], "--get: not with --trace-replay"),
            ([*TWITTER, "-p", "recordcount=5"], "--property: not with --trace-replay"),
            ([*TWITTER, "--value-size-distribution", "etc"], "--value-size-distribution: not with --trace-replay"),
            ([*TWITTER, "--max-keys", "10"], "--max-keys 10: "),
            ([*TWITTER, "--trace-speed", "0.0001"], "would take 4e+04 simulated seconds"),
            ([*YCSB, "--trace-speed", "1"], "--trace-speed 1: "),
        ]:
            with self.subTest(said=said):
                self.assert_refused(self.loch("bench", *arguments), said)

    def test_an_experiment_replays(self) -> None:
        for name in ("trace-replay", "etc-sizes"):
            done = self.call(
                [str(ROOT / "loch"), "--no-setup", "run", str(ROOT / f"experiments/{name}.yaml"), "--smoke"]
                + ["--out", str(self.folder / name)],
                timeout=300,
                LOCH_BIN=support.BINARY,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("claim held", done.stdout)
        point = next(iter((self.folder / "trace-replay/points").glob("*.json")))
        self.assertTrue(json.loads(point.read_text(encoding="utf-8"))["trace_replay"]["file"].endswith("twitter.csv"))


class Samples(EndToEnd):
    def test_the_samples_are_what_their_script_makes(self) -> None:
        subprocess.run(["/usr/bin/python3", str(TRACES / "make.py"), str(self.folder)], check=True)
        made = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual(made, ["cachelib.csv", "twitter.csv", "ycsb.log"])
        for name in made:
            self.assertEqual((TRACES / name).read_bytes(), (self.folder / name).read_bytes())


if __name__ == "__main__":
    unittest.main()
