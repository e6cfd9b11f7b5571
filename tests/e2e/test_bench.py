"""Tests of `loch bench` on each fabric: the contents of the result, and that a seed determines a simulation."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
from collections import Counter

from support import BINARY, SHM, SIM, EndToEnd, without


class Bench(EndToEnd):
    def test_one_seed_one_trace_hash(self) -> None:
        first = self.result(*SIM, "--get", "0.5", "--seed", "7")
        again = self.result(*SIM, "--get", "0.5", "--seed", "7")
        other = self.result(*SIM, "--get", "0.5", "--seed", "8")
        self.assertRegex(first["sim"]["trace_hash"], "^[0-9a-f]{16}$")
        self.assertEqual(first["sim"]["trace_hash"], again["sim"]["trace_hash"])
        self.assertEqual(first["latency_us"], again["latency_us"])
        self.assertEqual(first["verbs"], again["verbs"])
        self.assertNotEqual(first["sim"]["trace_hash"], other["sim"]["trace_hash"])

    def test_a_put_costs_what_the_paper_says(self) -> None:
        # With three hash functions a PUT takes at least 5 READs and 1 CAS of index entries (Nessie 2017,
        # section 6).
        put = self.result(*SIM, "--get", "0")["verbs"]["per_put"]
        self.assertGreaterEqual(put["index_read"], 5)
        self.assertGreaterEqual(put["index_cas"], 1)

    def test_the_value_of_a_put_stays_at_home(self) -> None:
        small = self.result(*SIM, "--get", "0", "--set", "value-size=256")["wire_bytes"]["payload_per_put"]
        large = self.result(*SIM, "--get", "0", "--set", "value-size=16K")["wire_bytes"]["payload_per_put"]
        # A PUT reads headers of old entries, whose size does not depend on the value's; if it moved the old
        # value, that would add 16 KB.
        self.assertLess(large, small + 1000)

    def test_a_get_moves_its_value(self) -> None:
        got = self.result(*SIM, "--get", "1", "--set", "value-size=4K", "--nessie.cache", "false")
        # Values have 4,096 bytes. Two of three entries are on another of the 3 nodes, and after a filter collision a
        # GET fetches a second entry.
        self.assertGreater(got["wire_bytes"]["payload_per_get"], 4096 * 2 / 3 * 0.9)
        self.assertLess(got["wire_bytes"]["payload_per_get"], 4096 * 1.2)

    def test_a_rate_that_waiting_decides_says_so(self) -> None:
        # Replaced entries are reused only after an expiry period, so a long run with few spare entries uses all of them
        # up.
        crowd = [
            "bench",
            "--protocol",
            "nessie",
            "--nodes",
            "3",
            "--clients",
            "8",
            "--keys",
            "2000",
            "--value-size",
            "256",
            "--get",
            "0.5",
            "--nessie.min-spare",
            "512",
            "--nessie.spare-limit",
            "0",
        ]
        for span, waits in (("200us", False), ("10ms", True)):
            done = self.loch(*crowd, "--duration", span)
            self.assertEqual((done.returncode, "back-pressure" in done.stderr), (0, waits), done.stderr)
            got = json.loads(done.stdout)
            self.assertEqual(any("back-pressure" in note for note in got["caveats"][:1]), waits)
            self.assertEqual(got["protocol_counters"]["back_pressure"] > 0.01 * got["operations"]["total"], waits)

    def test_the_length_of_a_run_is_no_setting(self) -> None:
        """With default options the number of spare entries suffices for runs of any length."""
        for protocol, clients, servers in (("nessie", 12, 0), ("nessie-hy", 10, 2), ("nessie-sd", 10, 2)):
            rates = []
            for span in ("2ms", "20ms"):
                got = self.result(
                    "bench",
                    "--protocol",
                    protocol,
                    "--nodes",
                    "4",
                    "--clients",
                    str(clients),
                    "--servers",
                    str(servers),
                    "--keys",
                    "20000",
                    "--get",
                    "0.5",
                    "--duration",
                    span,
                )
                self.assertEqual(got["caveats"], [])
                rates.append(got["throughput_ops_s"])
            self.assertLess(abs(rates[1] / rates[0] - 1), 0.05, f"{protocol}: {rates}")

    def test_halves_that_differ_are_not_steady(self) -> None:
        self.write("late.yaml", "schedule:\n  - {kind: cut, node: 0, peer: 1, at: 1.5ms, span: 10ms}\n")
        for faults, steady in (("", True), ("late.yaml", False)):
            with self.subTest(faults):
                got = self.result(
                    "bench",
                    "--protocol",
                    "nessie",
                    "--nodes",
                    "2",
                    "--clients",
                    "4",
                    "--keys",
                    "1000",
                    "--warmup",
                    "1ms",
                    "--duration",
                    "1ms",
                    *(["--faults", faults] if faults else []),
                )
                self.assertEqual(
                    any(note.startswith("not steady") for note in got["caveats"]), not steady, got["caveats"]
                )

    def test_a_terminal_is_shown_a_summary(self) -> None:
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        with subprocess.Popen([BINARY, *SIM], cwd=self.folder, stdout=theirs, stderr=subprocess.DEVNULL) as running:
            os.close(theirs)
            shown = b""
            while True:
                try:
                    more = os.read(ours, 4096)
                except OSError:  # reading the terminal fails once the process has closed its end
                    break
                if not more:
                    break
                shown += more
            self.assertEqual(running.wait(60), 0)
        lines = shown.decode().splitlines()
        self.assertLessEqual(len(lines), 15)
        self.assertIn("nessie on sim", lines[0])
        self.assertIn("--json", lines[-1])

    def test_simulated_percentiles_are_printed_with_a_warning(self) -> None:
        warning = "simulated percentiles above the median say little"

        def told(*flags: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [BINARY, *flags], cwd=self.folder, capture_output=True, text=True, check=True, timeout=60
            )

        ran = told(*SIM, "--json", "x.json", "--histogram", "x.hgrm")
        self.assertEqual([ran.stdout.count(warning), ran.stderr.count(f"note: x.hgrm: {warning}")], [1, 1])
        self.assertEqual(told(*SIM, "--repeats", "2", "--json", "x.json").stdout.count(warning), 1)
        ran = told(*SIM)  # a script gets JSON and nothing else
        self.assertNotIn(warning, ran.stdout + ran.stderr)
        json.loads(ran.stdout)
        self.assertIn(warning, told(*SIM, "--search", "p99:1ms").stderr)
        self.assertNotIn(warning, told(*SIM, "--search", "mean:1ms").stderr)
        measured = ["bench", "--protocol", "nessie", "--fabric", "shm", "--nodes", "2", "--clients", "1"]
        measured += ["--keys", "300", "--duration", "2ms", "--json", "x.json", "--histogram", "x.hgrm"]
        ran = told(*measured)
        self.assertNotIn(warning, ran.stdout + ran.stderr)

    def test_what_may_be_said_and_what_is_counted_are_listed(self) -> None:
        def names(kind: str) -> list[str]:
            done = self.loch("list", kind, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return [entry["name"] for entry in json.loads(done.stdout)]

        self.assertLessEqual({"torn_read", "kill_rate", "schedule"}, set(names("faults")))
        self.assertLessEqual({"value_size", "nessie.expiry", "herd.batch"}, set(names("keys")))
        got = self.result(*SIM)
        for field in names("fields"):
            at = got
            for part in field.split("."):
                if part not in at and field.startswith(("operations.", "sim.", "verbs.")):
                    break
                self.assertIn(part, at, field)
                at = at[part]
        for protocol in ("nessie", "herd"):
            listed = {
                entry["name"]
                for entry in json.loads(self.loch("list", "counters", "--json").stdout)
                if entry.get("protocol") == protocol
            }
            run = self.result(*(protocol if word == "nessie" else word for word in SIM))
            self.assertEqual({f"protocol_counters.{name}" for name in run["protocol_counters"]}, listed)

    def test_the_result_is_complete(self) -> None:
        got = self.result(*SIM)
        for key in (
            "schema",
            "loch",
            "protocol",
            "fabric",
            "hardware",
            "seed",
            "config",
            "capabilities",
            "duration_s",
            "throughput_ops_s",
            "goodput_bytes_s",
            "operations",
            "latency_us",
            "verbs",
            "wire_bytes",
            "cpu",
            "power_w",
            "nodes",
            "provenance",
            "sim",
        ):
            self.assertIn(key, got)
        self.assertEqual(got["schema"], 1)
        self.assertEqual((got["protocol"], got["fabric"], got["hardware"]), ("nessie", "sim", "connectx3-10gbe"))
        self.assertEqual(len(got["nodes"]), 3)
        operations = got["operations"]
        self.assertEqual(operations["get"] + operations["put"] + operations["delete"], operations["total"])
        self.assertAlmostEqual(got["duration_s"], 0.002, places=9)
        self.assertAlmostEqual(operations["get"] / operations["total"], 0.9, delta=0.05)

    def accesses(self, *flags: str) -> dict[int, Counter[str]]:
        """Runs 8,000 GETs of 100 records by 4 clients; returns how often each client asked for each key."""
        self.result(
            "bench",
            "--protocol",
            "nessie-sd",
            "--fabric",
            "sim",
            "--nodes",
            "4",
            "--clients",
            "1",
            "--keys",
            "100",
            "--get",
            "1",
            "--delete",
            "0",
            "--operations",
            "8000",
            "--warmup",
            "0s",
            "--history",
            "asked.jsonl",
            *flags,
        )
        by: dict[int, Counter[str]] = {}
        for line in (self.folder / "asked.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["op"] == "get" and entry["client"] >= 0:
                by.setdefault(entry["client"], Counter())[entry["key"]] += 1
        return by

    def test_a_hotspot_gets_its_share_of_operations(self) -> None:
        asked: Counter[str] = sum(
            self.accesses("--distribution", "hotspot", "--hotspot-data", "0.1", "--hotspot-operations", "0.7").values(),
            Counter(),
        )
        total = sum(asked.values())
        hot = sum(count for _, count in asked.most_common(10))
        self.assertAlmostEqual(hot / total, 0.7, delta=0.03)
        # Ten of 100 keys are hot and equally likely: each has about a tenth of the hot share of 70 %. The eleventh most
        # frequent key is cold.
        self.assertGreater(asked.most_common(10)[-1][1], 0.05 * total)
        self.assertLess(asked.most_common(11)[-1][1], 0.01 * total)

    def test_locality_is_the_share_of_a_node_s_own_part(self) -> None:
        own = self.accesses("--distribution", "locality", "--locality", "1")
        self.assertEqual(len(own), 4)
        parts = [set(asked) for asked in own.values()]
        self.assertTrue(all(len(part) == 25 for part in parts), [len(part) for part in parts])
        self.assertEqual(len(set().union(*parts)), 100, "two nodes have the same part")
        most = self.accesses("--distribution", "locality", "--locality", "0.6")
        for client, asked in most.items():
            mine = sum(asked[key] for key in own[client]) / sum(asked.values())
            # At locality 0.6 the other 40 % of accesses are uniform over the keys of 4 nodes, so a quarter of
            # them is local; locality 0 is uniform access (Nessie 2015, section 6).
            self.assertAlmostEqual(mine, 0.6 + 0.4 / 4, delta=0.05)

    def test_verified_gets_are_counted_and_none_is_corrupt(self) -> None:
        for fabric in (SIM, SHM):
            with self.subTest(fabric[4]):
                operations = self.result(*fabric, "--verify", "--get", "0.5")["operations"]
                self.assertGreater(operations["verified"], 0)
                self.assertEqual(operations["corrupt"], 0)

    def test_a_multi_get_is_counted_by_keys_and_by_batches(self) -> None:
        got = self.result(*SIM, "--get", "1", "--multi-get", "4", "--verify")
        many = got["multi_get"]
        self.assertEqual((many["keys"], got["config"]["multi_get"]), (4, 4))
        self.assertEqual(got["operations"]["corrupt"], 0)
        self.assertGreater(got["operations"]["verified"], 0)
        # At the edges of the measured time, some GETs of a batch may be counted while the batch is not, or the reverse.
        self.assertAlmostEqual(4 * many["batches"], got["operations"]["get"], delta=0.02 * got["operations"]["get"])
        self.assertAlmostEqual(4 * many["batches_per_s"], got["throughput_ops_s"], delta=0.02 * got["throughput_ops_s"])
        self.assertGreater(many["latency_us"]["mean"], got["latency_us"]["get"]["mean"])
        self.assertNotIn("multi_get", self.result(*SIM, "--get", "1"))

    def test_what_cannot_be_a_multi_get_is_refused_in_a_line(self) -> None:
        for flags, said in (
            (["--multi-get", "0"], "1 to 256"),
            (["--multi-get", "9", "--keys", "8"], "at most as many as --keys, 8"),
            (["--multi-get", "2", "--protocol", "seq-rpc"], "seq-rpc takes one key a GET"),
        ):
            done = self.loch("bench", *flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(said, done.stderr)

    def test_inserts_are_counted_by_their_answers(self) -> None:
        got = self.result(*SIM, "--get", "0", "--delete", "0.5", "--insert-if-absent", "0.5", "--verify")
        operations, mix = got["operations"], got["config"]["mix"]
        self.assertEqual((mix["insert_if_absent"], mix["put"]), (0.5, 0))
        self.assertEqual(operations["put"], 0)
        # At the start all keys are present; DELETEs and INSERTs then change which keys are present.
        self.assertGreater(operations["exists"], 0.1 * operations["insert_if_absent"])
        self.assertLess(operations["exists"], 0.95 * operations["insert_if_absent"])
        told = ("ok", "not_found", "exists", "conflict", "timeout", "error")
        self.assertEqual(sum(operations[each] for each in told), operations["total"])
        self.assertGreater(got["latency_us"]["insert_if_absent"]["mean"], 0)
        self.assertGreater(got["verbs"]["per_insert_if_absent"]["read"], 1)
        without = self.result(*SIM)
        self.assertNotIn("insert_if_absent", without["operations"])
        self.assertNotIn("insert_if_absent", without["config"]["mix"])

    def test_a_protocols_own_back_off_has_no_effect_beside_another(self) -> None:
        for flag in ("--race.backoff-start", "--race.backoff-cap"):
            for kind in ("none", "throttled"):
                done = self.loch("bench", "--protocol", "race", "--backoff", kind, flag, "50us")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(
                    done.stderr, f"loch bench: {flag}: has no effect beside --backoff {kind}; expected --backoff own\n"
                )
        done = self.loch("bench", "--protocol", "race", "--race.backoff-start", "50us", "--duration", "100us")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_has_no_insert_refuses_it_in_a_line(self) -> None:
        for flags, said in (
            (["--insert-if-absent", "2"], "0 to 1"),
            (["--insert-if-absent", "0.6", "--get", "0.6"], "together over 1"),
            (["--insert-if-absent", "0.1", "--protocol", "farm-em"], "it stores nothing"),
            (["--insert-if-absent", "0.1", "--nessie.variant", "published"], "does not know whether the key is there"),
            (["--insert-if-absent", "0.1", "--protocol", "herd", "--herd.variant", "published"], "no code for it"),
        ):
            done = self.loch("bench", *flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(said, done.stderr)

    def test_shared_memory_is_no_simulation(self) -> None:
        got = self.result(*SHM)
        self.assertIsNone(got["sim"])
        self.assertFalse(got["capabilities"]["simulated"])
        self.assertGreater(got["throughput_ops_s"], 0)

    def test_json_goes_to_the_file_and_standard_output_stays_free(self) -> None:
        done = self.loch(*SIM, "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('"schema"', done.stdout)
        self.assertEqual(json.loads((self.folder / "out.json").read_text())["schema"], 1)

    def test_repeats_are_a_list_with_a_seed_each(self) -> None:
        many = self.result(*SIM, "--repeats", "3", "--seed", "5")
        self.assertEqual([one["seed"] for one in many], [5, 6, 7])

    def test_a_small_table_takes_the_puts_of_a_real_machine(self) -> None:
        # the run lasts 15 expiry periods of 100 ms, so replaced entries are reused
        puts = without(SHM, "--duration") + ["--get", "0", "--duration", "1500ms"]
        got = self.result(*puts)
        self.assertEqual(got["operations"]["table_full"], 0)
        self.assertEqual(
            (got["config"]["options"]["nessie.expiry"], got["config"]["options"]["nessie.clock-margin"]),
            (100_000_000, 1_000_000),
        )
        given = self.result(*SHM, "--nessie.expiry", "1s", "--nessie.spare-memory", "4M")
        self.assertEqual(
            (given["config"]["options"]["nessie.expiry"], given["config"]["options"]["nessie.spare-memory"]),
            (1_000_000_000, 4 << 20),
        )
        simulated = self.result(*SIM)["config"]["options"]
        self.assertEqual((simulated["nessie.expiry"], simulated["nessie.spare-memory"]), (1_000_000_000, 0))

    def test_ycsb_files_are_taken_unchanged(self) -> None:
        self.write(
            "workloada",
            "# Yahoo! Cloud System Benchmark\nrecordcount=1000\noperationcount=3000\n"
            "workload=site.ycsb.workloads.CoreWorkload\nreadallfields=true\nreadproportion=0.5\n"
            "updateproportion=0.5\nscanproportion=0\ninsertproportion=0\nrequestdistribution=zipfian\n"
            "fieldcount=1\nfieldlength=256\n",
        )
        got = self.result("bench", "--fabric", "sim", "--nodes", "3", "--workload", "workloada")
        self.assertAlmostEqual(got["operations"]["get"] / got["operations"]["total"], 0.5, delta=0.05)
        self.assertEqual(got["config"]["keys"], 1000)


if __name__ == "__main__":
    unittest.main()
