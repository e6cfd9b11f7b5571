"""Tests of `./loch calibrate --rows`: the run that stands for a row, tables that are refused, and rows that cannot run."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

from support import BINARY, ROOT, EndToEnd

sys.path.insert(0, str(ROOT / "tools"))
from loch.measured_rows import formats, main, stores  # noqa: E402

HEAD = (
    "source_file,hardware,verb,size_bytes,machines,threads_per_machine,vms_per_machine,queue_pairs_per_thread,"
    "window_per_thread,unsignaled_batch,mops_per_machine,mops_min,mops_max"
)
DATA = ROOT / "experiments/hardware/data/rc-swarm.csv"
ROW = {
    "hardware": "connect-ib-2x56g",
    "verb": "read",
    "size_bytes": "32",
    "machines": "6",
    "threads_per_machine": "14",
    "vms_per_machine": "3",
    "window_per_thread": "24",
    "unsignaled_batch": "8",
}


class Limit(unittest.TestCase):
    """Tests of the processor time that the run for one row may take."""

    def outcome(self, program: str) -> main.Outcome:
        with mock.patch.object(main, "ROW_S", 1):
            table_format = formats.format_of(HEAD.split(","))
            assert table_format is not None
            return main.outcome_of(table_format, ROW, "", [sys.executable, "-c", program])

    def test_a_run_that_computes_for_too_long_is_given_up(self) -> None:
        self.assertEqual(self.outcome("while True: pass").reason, "not done after 1 s of processor time")

    def test_waiting_does_not_count(self) -> None:
        waits = "import time; time.sleep(2.5); print('{\"throughput_ops_s\": 12e6}')"
        outcome = self.outcome(waits)
        self.assertEqual((outcome.rate, outcome.reason), (2, ""))


class Mapping(unittest.TestCase):
    """Tests of the flags of `loch bench` for a row of rdma_bench's rc-swarm."""

    def flags(self, **changes: str) -> dict[str, str]:
        words = formats.swarm_flags({**ROW, **changes})
        return dict(zip(words[::2], words[1::2]))

    def test_the_shape_of_a_row(self) -> None:
        flags = self.flags()
        expected = {
            "--hardware": "connect-ib-2x56g",
            "--nodes": "6",
            "--clients": "14",
            "--window": "24",
            "--value-size": "32",
            "--micro-verbs.verb": "read",
            "--micro-verbs.transport": "rc",
            "--micro-verbs.queue-pairs": "3",
            "--micro-verbs.peers": "random",
            "--micro-verbs.buffer": "2M",
            "--micro-verbs.signal-interval": "8",
        }
        self.assertEqual({name: flags[name] for name in expected}, expected)
        self.assertNotIn("--server-nodes", flags)  # every machine asks and answers
        self.assertEqual(self.flags(unsignaled_batch="")["--micro-verbs.signal-interval"], "1")

    def test_each_outstanding_operation_is_replaced_some_times(self) -> None:
        self.assertEqual(self.flags()["--operations"], str(formats.OPERATIONS))
        many = int(self.flags(machines="64", window_per_thread="512")["--operations"])
        self.assertEqual(many, formats.ROUNDS * 64 * 14 * 512)

    def test_verbs_and_transports(self) -> None:
        for verb, transport, expected in (
            ("read", "", ("read", "rc")),
            ("READ", "RC", ("read", "rc")),
            ("write", "", ("write", "rc")),
            ("uc_write", "", ("write", "uc")),
            ("WRITE-UC", "", ("write", "uc")),
            ("write", "uc", ("write", "uc")),
            ("writes", "rc", ("write", "rc")),
        ):
            self.assertEqual(formats.verb_and_transport(verb, transport), expected, (verb, transport))
        for verb in ("send", "read_uc", "write_ud", "read write", "", "rc uc write"):
            with self.assertRaises(formats.CannotRun, msg=verb):
                formats.verb_and_transport(verb)

    def test_what_no_run_can_be(self) -> None:
        for name, value in (
            ("machines", "1"),
            ("machines", "six"),
            ("vms_per_machine", "65"),
            ("size_bytes", "0"),
            ("size_bytes", "nan"),
            ("hardware", ""),
            ("window_per_thread", "-8"),
        ):
            with self.assertRaises(formats.CannotRun) as caught:
                self.flags(**{name: value})
            self.assertIn(name, str(caught.exception))

    def test_a_format_is_told_by_its_columns(self) -> None:
        columns = DATA.read_text(encoding="utf-8").splitlines()[0].split(",")
        found = formats.format_of(columns)
        self.assertEqual(found and found.name, "rc-swarm")
        self.assertIsNone(formats.format_of(["hardware", "verb", "size_bytes"]))
        self.assertEqual(len({each.name for each in formats.FORMATS}), len(formats.FORMATS))


class Rounds(unittest.TestCase):
    """Tests of the flags of `loch bench` for a row of SMART's microbenchmarks."""

    ROW = {"series": "per_thread_doorbell", "verb": "write", "threads": "48", "depth": "16", "block_bytes": "8"}

    def flags(self, **changes: str) -> dict[str, str]:
        words = formats.rounds_flags({**self.ROW, **changes})
        return dict(zip(words[::2], words[1::2]))

    def test_the_shape_of_a_row(self) -> None:
        flags = self.flags()
        expected = {
            "--hardware": "connectx6-200g-ib",
            "--nodes": "2",
            "--server-nodes": "1",
            "--clients": "48",
            "--doorbells": "own",
            "--value-size": "8",
            "--micro-verbs.verb": "write",
            "--micro-verbs.round": "16",
            "--micro-verbs.inline": "off",
            "--micro-verbs.direction": "outbound",
        }
        self.assertEqual({name: flags[name] for name in expected}, expected)
        self.assertNotIn("--throttle", flags)
        self.assertEqual(self.flags(series="per_thread_qp")["--doorbells"], "shared")
        self.assertEqual(self.flags(hardware="connectx6-100g")["--hardware"], "connectx6-100g")

    def test_throttling_is_on_where_the_series_says_so(self) -> None:
        flags = self.flags(series="doorbell_and_throttling")
        self.assertEqual((flags["--doorbells"], flags["--throttle"]), ("own", "adaptive"))

    def test_what_threads_do_in_a_time_counts(self) -> None:
        # A run of a fixed number of operations would be uneven: threads with a doorbell register of their own finish
        # first.
        self.assertIn("--duration", self.flags(series="per_thread_qp"))
        self.assertNotIn("--operations", self.flags(series="per_thread_qp"))

    def test_what_no_run_can_be(self) -> None:
        for name, value in (
            ("series", "shared_qp"),
            ("series", "multiplexed_qp_4"),
            ("verb", "send"),
            ("threads", "0"),
            ("depth", "deep"),
            ("block_bytes", "-8"),
        ):
            with self.assertRaises(formats.CannotRun, msg=(name, value)) as caught:
                self.flags(**{name: value})
            self.assertIn(name, str(caught.exception))

    def test_the_tables_that_are_here(self) -> None:
        for path in DATA.parent.glob("smart-micro-*.csv"):
            with open(path, encoding="utf-8", newline="") as stream:
                reader = csv.DictReader(stream)
                found = formats.format_of(list(reader.fieldnames or []))
                assert found is not None, path
                self.assertEqual(found.name, "smart-micro")
                for row in reader:
                    if row["role"] == "not_modelled":
                        self.assertRaises(formats.CannotRun, found.flags, row, "")
                    else:
                        found.flags(row, "")


class Turns(unittest.TestCase):
    """Tests of the flags of `loch bench` for a row of SMART's Table 1, whose threads take turns."""

    ROW = {
        **{"series": "doorbell_and_throttling", "verb": "READ", "threads_started": "96", "depth": "64"},
        **{"threads_active": "36..95 drawn anew each interval", "interval_ms": "64", "block_bytes": "8"},
    }

    def flags(self, **changes: str) -> dict[str, str]:
        words = formats.turns_flags({**self.ROW, **changes})
        return dict(zip(words[::2], words[1::2]))

    def test_slow_times_are_divided_by_one_number(self) -> None:
        flags = self.flags()
        expected = {
            "--clients": "96",
            "--doorbells": "own",
            "--throttle": "adaptive",
            "--micro-verbs.verb": "read",
            "--micro-verbs.round": "64",
            "--active": "36..95",
            "--active-every": "800000ns",  # 64 ms / 80
            "--throttle-sample": "100000ns",  # 8 ms / 80
            "--warmup": "6600000ns",  # 66 samples
            "--duration": "375000000ns",  # 30 s / 80
        }
        self.assertEqual({name: flags[name] for name in expected}, expected)
        unlimited = self.flags(series="per_thread_doorbell")
        self.assertNotIn("--throttle", unlimited)
        self.assertNotIn("--throttle-sample", unlimited)
        self.assertEqual(unlimited["--active-every"], flags["--active-every"])

    def test_short_intervals_are_shortened_less(self) -> None:
        flags = self.flags(interval_ms="2")
        found = (flags["--active-every"], flags["--throttle-sample"], flags["--duration"])
        self.assertEqual(found, ("100000ns", "400000ns", "1000000000ns"))  # 20 times, and 20 s of the 30
        self.assertEqual(self.flags(interval_ms="0.05")["--throttle-sample"], "8000000ns")  # not at all

    def test_a_run_has_many_intervals(self) -> None:
        for interval, duration in (("2048", 24 * 2048 / 80), ("4096", 1000), ("8192", 12 * 8192 / 80)):
            flags = self.flags(interval_ms=interval)
            self.assertEqual(flags["--duration"], f"{round(duration * 1e6)}ns", interval)

    def test_what_no_run_can_be(self) -> None:
        for name, value in (
            ("series", "shared_qp"),
            ("threads_started", "0"),
            ("threads_started", "64"),
            ("threads_active", "all"),
            ("threads_active", "95..36"),
            ("threads_active", "0..95"),
            ("threads_active", "36..97"),
            ("interval_ms", "0"),
            ("interval_ms", "nan"),
            ("interval_ms", "long"),
            ("depth", "0"),
        ):
            with self.assertRaises(formats.CannotRun, msg=(name, value)) as caught:
                self.flags(**{name: value})
            self.assertIn("threads" if name.startswith("threads") else name, str(caught.exception))

    def test_the_format_is_told_by_its_columns(self) -> None:
        found = formats.format_of(["figure", *self.ROW, "mops"])
        self.assertEqual(found and found.name, "smart-turns")
        self.assertEqual(found, formats.format_of(list(self.ROW)))


class Stores(unittest.TestCase):
    """Tests of the flags of `loch bench` for a row of SMART's store."""

    ROW = {
        **{"system": "race", "workload": "ycsb-a", "memory_nodes": "2", "compute_nodes": "3", "threads": "96"},
        **{
            "coroutines": "8",
            "key_bytes": "8",
            "value_bytes": "8",
            "keys": "100000000",
            "zipf": "0.99",
            "idle_us": "0",
        },
    }

    def flags(self, **changes: str) -> dict[str, str]:
        words = stores.flags({**self.ROW, **changes})
        return dict(zip(words[::2], words[1::2]))

    def test_the_shape_of_a_row(self) -> None:
        flags = self.flags()
        expected = {
            "--hardware": "connectx6-200g-ib",
            "--race.variant": "published",
            "--nodes": "5",
            "--server-nodes": "2",
            "--clients": "96",
            "--window": "8",
            "--get": "0.5",
            "--doorbells": "shared",
            "--backoff": "none",
            "--distribution": "zipfian-n",
            "--zipf-items": "100000000",
        }
        self.assertEqual({name: flags[name] for name in expected}, expected)
        self.assertNotIn("--throttle", flags)
        self.assertNotIn("--pause", flags)

    def test_as_large_a_share_of_the_table_is_used(self) -> None:
        published = 100_000_000 / (2 * 256 * 300_000 * 7)
        flags = self.flags()
        slots = stores.SUBTABLES * stores.GROUPS * stores.SLOTS_PER_GROUP
        self.assertAlmostEqual(int(flags["--keys"]) / 2 / slots, published, places=5)
        self.assertAlmostEqual(float(flags["--race.load-factor"]), published, delta=2e-3 * published)
        self.assertEqual(math.gcd(2 * stores.GROUPS, 256), math.gcd(200_000, 256))
        self.assertEqual(self.flags(keys="1000")["--keys"], "1000")

    def test_without_skew_keys_are_uniform(self) -> None:
        flags = self.flags(zipf="0")
        self.assertEqual(flags["--distribution"], "uniform")
        self.assertNotIn("--zipf-items", flags)

    def test_systems(self) -> None:
        for system, doorbells, throttle, backoff in (
            ("race", "shared", None, "none"),
            ("race+doorbell", "own", None, "none"),
            ("race+doorbell+throttling", "own", "adaptive", "none"),
            ("race+doorbell+throttling+backoff_unbounded", "own", "adaptive", "exponential"),
            ("+backoff_dynamic_limit", "own", "adaptive", "limited"),
            ("+coroutine_throttling", "own", "adaptive", "throttled"),
            ("smart_ht", "own", "adaptive", "throttled"),
        ):
            flags = self.flags(system=system)
            found = (flags["--doorbells"], flags.get("--throttle"), flags["--backoff"])
            self.assertEqual(found, (doorbells, throttle, backoff), system)

    def test_updates_run_until_they_are_steady(self) -> None:
        for system, threads, machines, warmup in (
            ("race", "16", "1", 20_000),
            ("race", "48", "1", 60_000),
            ("race", "48", "2", 150_000),
            ("race+doorbell+throttling", "16", "1", 80_000),
            ("race+doorbell+throttling", "96", "1", 150_000),
            ("smart_ht", "96", "3", 80_000),
        ):
            flags = self.flags(system=system, threads=threads, compute_nodes=machines)
            self.assertEqual(flags["--warmup"], f"{warmup}us", (system, threads, machines))
            self.assertEqual(flags.get("--throttle-sample", "8ms"), "8ms", system)
        self.assertEqual(self.flags(system="smart_ht", workload="ycsb-c")["--throttle-sample"], "50us")

    def test_idle_time_is_a_pause_and_lengthens_the_run(self) -> None:
        flags = self.flags(idle_us="64", workload="ycsb-c")
        self.assertEqual((flags["--pause"], flags["--warmup"], flags["--duration"]), ("64us", "628us", "756us"))

    def test_what_no_run_can_be(self) -> None:
        for name, value in (
            ("system", "sherman"),
            ("system", "race+speculation"),
            ("system", "smart_ht+doorbell"),
            ("system", "+"),
            ("workload", "ycsb-e"),
            ("threads", "0"),
            ("keys", "many"),
            ("zipf", "-1"),
            ("zipf", "nan"),
            ("idle_us", "-3"),
        ):
            with self.assertRaises(formats.CannotRun, msg=(name, value)) as caught:
                self.flags(**{name: value})
            self.assertIn(name, str(caught.exception))

    def test_rows_of_all_figures_have_the_format(self) -> None:
        columns = list(self.ROW)
        with_results: list[list[str]] = [[], ["mops"], ["mops", "p50_us", "p99_us", "mean_tries", "role"]]
        for results in with_results:
            found = formats.format_of(["figure", *columns, *results])
            self.assertEqual(found and found.name, "smart-race")
        self.assertIsNone(formats.format_of([name for name in columns if name != "zipf"]))


class Command(EndToEnd):
    """Tests of the whole command `loch calibrate --rows` with the real simulator."""

    def rows(self, text: str, *words: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "rows.csv").write_text(text, encoding="utf-8")
        loch = [str(ROOT / "loch"), "--no-setup", "calibrate", "--rows", "rows.csv", "--out", "out.csv", *words]
        return self.call(loch, LOCH_BIN=BINARY)

    def out(self, name: str = "out.csv") -> list[dict[str, str]]:
        with open(self.folder / name, encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    def test_rows_without_results(self) -> None:
        text = f"{HEAD}\na,connectx3-56g-ib,read,32,2,1,2,4,4,1,,,\na,connectx3-56g-ib,uc_write,32,2,1,1,2,4,1,,,\n"
        done = self.rows(text)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual([row["verb"] for row in self.out()], ["read", "uc_write"])
        for row in self.out():
            self.assertGreater(float(row["obtained"]), 0.1)
        self.assertEqual(list(self.out()[0])[-1], "obtained")

    def test_published_rates_are_compared(self) -> None:
        done = self.rows(f"{HEAD}\na,connectx3-56g-ib,read,32,2,1,1,2,1,1,0.5,0,0\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 published rates (M/s)", done.stdout)
        obtained = float(self.out()[0]["obtained"])
        self.assertIn(f"{100 * (obtained / 0.5 - 1):+.1f} %", done.stdout)

    def test_a_row_that_cannot_run_is_named_and_counted(self) -> None:
        good, bad = "a,connectx3-56g-ib,read,32,2,1,1,2,1,1,,,", "a,no-such-card,read,32,2,1,1,2,1,1,,,"
        done = self.rows(f"{HEAD}\n{bad}\n{good}\n")
        self.assertEqual(done.returncode, 0)
        self.assertIn("row 1 (no-such-card", done.stderr)
        self.assertIn("1 of 2 rows could not be run", done.stderr)
        self.assertEqual([bool(row["obtained"]) for row in self.out()], [False, True])
        done = self.rows(f"{HEAD}\n{bad}\n")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.out()[0]["obtained"], "")

    def test_rows_of_threads_with_doorbells_of_their_own_and_without_results(self) -> None:
        head = "figure,series,verb,threads,depth,block_bytes,mops,role"
        rows = [f"x,{series},read,32,8,8,," for series in formats.SERIES]
        done = self.rows("\n".join([head, *rows, ""]))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        rates = {row["series"]: float(row["obtained"]) for row in self.out()}
        self.assertAlmostEqual(rates["per_thread_qp"], 37.4, delta=2)  # as `loch calibrate` obtains it
        self.assertGreater(rates["per_thread_doorbell"], 1.2 * rates["per_thread_qp"])
        self.assertGreater(rates["per_thread_qp"], 10)

    def test_what_a_run_says_against_its_rate_is_told(self) -> None:
        done = self.rows("series,verb,threads,depth,block_bytes\n" + "per_thread_qp,read,97,1,8\n" * 2)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        said = "note: row 1 (per_thread_qp read 8 B, 97 threads, depth 1) and 1 more: a node's 97 workers"
        self.assertIn(said, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_rows_of_threads_that_take_turns_without_results(self) -> None:
        head = "figure,series,verb,threads_started,threads_active,interval_ms,depth,block_bytes,mops"
        rows = [
            f"t1,{series},READ,6,{active} drawn anew each interval,8,1,8,"
            for series in ("per_thread_doorbell", "doorbell_and_throttling")
            for active in ("3..3", "2..4")
        ]
        done = self.rows("\n".join([head, *rows, rows[0].replace("3..3", "3..7"), ""]))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("row 5 (per_thread_doorbell READ 8 B, 3..7 drawn anew each interval of 6", done.stderr)
        self.assertIn("1 of 5 rows could not be run", done.stderr)
        rates = [float(row["obtained"] or 0) for row in self.out()]
        done = self.rows("series,verb,threads,depth,block_bytes\nper_thread_doorbell,read,3,1,8\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        always = float(self.out()[0]["obtained"])
        # so few requests are out that the limit on them does not matter; 2 to 4 threads are 3 on average
        for rate, tolerance in zip(rates, (0.02, 0.1, 0.02, 0.1), strict=False):
            self.assertAlmostEqual(rate / always, 1, delta=tolerance)
        self.assertEqual(rates[4], 0)

    def test_rows_of_a_store_without_results(self) -> None:
        head = "figure,system,workload,memory_nodes,compute_nodes,threads,coroutines,key_bytes,value_bytes,keys,zipf,idle_us"
        rows = [f"8,{system},ycsb-a,2,1,16,8,8,8,100000000,0.99,0" for system in ("race", "smart_ht", "race+magic")]
        done = self.rows("\n".join([head, *rows, ""]))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("row 3 (race+magic ycsb-a, 1 x 16 threads, zipf 0.99): system 'race+magic'", done.stderr)
        race, smart, magic = self.out()
        self.assertGreater(float(smart["obtained"]), float(race["obtained"]))
        self.assertGreater(float(race["obtained_mean_tries"]), float(smart["obtained_mean_tries"]))
        self.assertGreater(float(race["obtained_p99_us"]), float(race["obtained_p50_us"]))
        self.assertEqual({magic[name] for name in magic if name.startswith("obtained")}, {""})

    def test_what_is_no_table(self) -> None:
        for text in ("", "a,b\n1,2\n", f"{HEAD}\n", f"{HEAD}\na,b,c,d,e,f,g,h,i,j,k,l,m,n\n", "\0", HEAD + ",verb\n"):
            with self.subTest(text):
                done = self.rows(text)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
        done = self.rows(f"{HEAD}\na,connectx3-56g-ib,read,32,2,1,1,2,1,1,,,\n", "--out", "none/out.csv")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--out", done.stderr)

    def calibrate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs `loch calibrate` with a home folder of its own: one hardware profile, for which the program has no
        microbenchmarks, and two tables of published rows."""
        hardware = self.folder / "experiments/hardware"
        (hardware / "data").mkdir(parents=True)
        text = (ROOT / "experiments/hardware/connectx3-56g-ib.yaml").read_text(encoding="utf-8")
        (hardware / "mine.yaml").write_text(text.replace("name: connectx3-56g-ib", "name: mine"), encoding="utf-8")
        rows = (
            "a,mine,read,32,2,1,1,2,1,1,0.5,0,0",
            "a,other,read,32,2,1,1,2,1,1,0.5,0,0",
            "a,mine,read,8,2,1,1,2,1,1,,,",
        )
        (hardware / "data/swarm.csv").write_text("\n".join([HEAD, *rows, ""]), encoding="utf-8")
        (hardware / "data/none.csv").write_text(f"{HEAD}\na,other,read,32,2,1,1,2,1,1,0.5,0,0\n", encoding="utf-8")
        loch = [str(ROOT / "loch"), "--no-setup", "calibrate", *words]
        return self.call(loch, LOCH_BIN=BINARY, LOCH_HOME=str(self.folder))

    def test_calibrate_prints_the_published_rows_of_its_profile(self) -> None:
        done = self.calibrate("--hardware", "mine", "--json", "rows.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("1 published rates (M/s)", done.stdout)
        (row,) = json.loads((self.folder / "rows.json").read_text(encoding="utf-8"))
        self.assertEqual((row["id"], row["hardware"], row["published"]), ("rc-swarm", "mine", 0.5))
        self.assertAlmostEqual(row["error"], row["obtained"] / 0.5 - 1)
        self.assertIn(f"{100 * row['error']:+.1f} %", done.stdout)

    def test_calibrate_is_refused_as_the_program_refuses(self) -> None:
        for words in (("--hardware", "none"), ("--jsn", "x"), ("--json",)):
            done = self.calibrate(*words)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
            shutil.rmtree(self.folder / "experiments")

    def test_a_profile_given_as_a_file(self) -> None:
        done = self.calibrate("--hardware=experiments/hardware/mine.yaml", "--json=-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["hardware"] for row in json.loads(done.stdout)], ["mine"])

    def test_samples_give_each_row_a_band(self) -> None:
        done = self.calibrate("--samples", "6", "--hardware", "mine", "--out", "bands.csv")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        (row,) = self.out("bands.csv")
        low, obtained, high = (float(row[name]) for name in ("low", "obtained", "high"))
        self.assertLess(low, obtained)  # the constants' ranges enclose their values on both sides, and so do the rates
        self.assertLess(obtained, high)
        self.assertEqual((row["draws"], row["in_band"]), ("6", str(low <= 0.5 <= high)))
        self.assertIn(f"{row['low']} to {row['high']} {'in' if low <= 0.5 <= high else 'OUT'}", done.stdout)
        self.assertIn("in their least to most of 6, 71 %", done.stdout)  # fewer than 19 draws give no 90 %

    def test_samples_of_a_profile_without_ranges_are_refused(self) -> None:
        profile = self.folder / "plain.yaml"
        text = (ROOT / "experiments/hardware/connectx3-56g-ib.yaml").read_text(encoding="utf-8")
        profile.write_text(re.sub(r", low: [^}]*", "", text), encoding="utf-8")
        for words, named in (
            (("--samples", "6", "--hardware", str(profile)), "no constant of this profile has a range"),
            (("--samples", "0"), "--samples 0"),
            (("--samples", "six"), "--samples"),
            (("--samples", "6", "--hardware", "none"), "none"),
        ):
            loch = [str(ROOT / "loch"), "--no-setup", "calibrate", *words]
            done = self.call(loch, LOCH_BIN=BINARY)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
            self.assertIn(named, done.stderr)

    def test_the_published_table_is_whole(self) -> None:
        with open(DATA, encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        self.assertGreater(len(rows), 200)
        for row in rows:
            self.assertEqual(formats.swarm_flags(row)[4:6], ["--hardware", row["hardware"]])


if __name__ == "__main__":
    unittest.main()
