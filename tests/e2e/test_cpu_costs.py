"""Tests of `./loch calibrate --cpu`: what a result says of a server's work, how it is scaled and judged, and the whole
command on a small table."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from typing import Any

from support import BINARY, ROOT, EndToEnd

sys.path.insert(0, str(ROOT / "tools"))
from loch.ending import CommandError  # noqa: E402
from loch.measured_rows import cpu  # noqa: E402

COSTS: dict[str, Any] = {
    "memory_bytes": 1 << 30,
    "clock": 3.0,
    "memory": 120.0,
    "memory_huge": 90.0,
    "line": None,
    "hash": 5.0,
    "hash_byte": 0.1,
    "compare": 2.0,
    "compare_byte": 0.03,
    "copy": 100.0,
    "copy_byte": 0.1,
    "post": 40.0,
}
PROCESSOR = cpu.Processor("Xeon Test", (2.0, 2.5), (80.0, 100.0), (40.0, 53.0))


def result(**counters: float) -> dict[str, Any]:
    return {"nodes": [{"counters": {f"service.{name}": value for name, value in counters.items()}}]}


class Work(unittest.TestCase):
    """Tests of the numbers that the tables are made of."""

    def test_posting_and_the_clock_are_no_work(self) -> None:
        found = cpu.work_of(result(requests=10, median_ns=900, posting_ns=300, clock_ns=20))
        self.assertEqual(found, 560)
        with self.assertRaises(CommandError):
            cpu.work_of(result(requests=0, median_ns=0, posting_ns=0, clock_ns=20))
        with self.assertRaises(CommandError):
            cpu.work_of(result())

    def test_in_caches_by_the_clock_and_beyond_by_the_latency_of_memory(self) -> None:
        work = cpu.Work(cpu.CASES[0], small=300, small_pages=600)
        low, high = cpu.scaled(work, COSTS, PROCESSOR) or (0, 0)
        self.assertAlmostEqual(low, 300 * 3.0 / 2.5 + 300 * 80 / 120)  # as if a miss of the TLB cost nothing there
        self.assertAlmostEqual(high, 300 * 3.0 / 2.0 + 300 * 100 / 90)
        low, high = cpu.scaled(work, {**COSTS, "line": 20.0}, PROCESSOR) or (0, 0)  # lines come from the other core
        self.assertAlmostEqual(high, 300 * 53 / 20 + 300 * 100 / 90)
        low, high = cpu.scaled(cpu.Work(cpu.CASES[0], small=700, small_pages=600), COSTS, PROCESSOR) or (0, 0)
        self.assertAlmostEqual(high, 600 * 3.0 / 2.0)
        self.assertIsNone(cpu.scaled(cpu.Work(cpu.CASES[0], small=300), COSTS, PROCESSOR))

    def test_a_simulated_server_is_judged_by_the_range(self) -> None:
        case = cpu.CASES[0]
        for simulated, verdict in ((559.0, "too cheap"), (561.0, "in"), (783.0, "in"), (784.0, "too dear")):
            table = cpu.work_table([cpu.Work(case, 300, 500, 600, simulated)], COSTS, PROCESSOR)
            self.assertIn(f"560 to 783: simulated is {verdict}\n", table)
        table = cpu.work_table([cpu.Work(case, 300, None, None, 500)], COSTS, PROCESSOR)
        self.assertNotIn("scaled range over", table)

    def test_of_two_measurements_the_lesser_times_count(self) -> None:
        slower = {**COSTS, "memory": 700.0, "clock": 2.9, "hash": 4.0}
        self.assertEqual(cpu.least(COSTS, slower), {**COSTS, "hash": 4.0})

    def test_what_is_measured_on_is_said(self) -> None:
        self.assertEqual(
            cpu.measured_on(11 << 30, False, 1),
            "table of 11.0 GiB, half of what is available, for less than 32 GiB are; 1 server worker, 1 client, "
            "150 requests outstanding\n",
        )
        self.assertIn("table of 16.0 GiB; 4 server workers, 4 clients, 148", cpu.measured_on(16 << 30, False, 4))
        self.assertIn("table of 1.0 GiB;", cpu.measured_on(1 << 30, True, 1))

    def test_each_core_has_a_server_or_a_client_and_slots_are_as_many(self) -> None:
        for workers in (1, 6, 200):
            flags = cpu.CASES[0].flags(workers)
            servers, clients, window = (int(flags[flags.index(f"--{n}") + 1]) for n in ("servers", "clients", "window"))
            self.assertEqual((servers, clients), (workers, workers))
            self.assertEqual(window, max(1, 150 // workers))

    def test_each_profile_with_a_processor_has_the_constants(self) -> None:
        for hardware in ("connectx3-10gbe", "connectx3-56g-ib", "connect-ib-2x56g", "connectx6-200g-ib"):
            base, turbo = cpu.processor_of(hardware).clock_ghz
            self.assertLess(base, turbo)
            for low, high in (cpu.processor_of(hardware).memory_ns, cpu.processor_of(hardware).line_ns):
                self.assertTrue(30 < low < high < 150)
            table = cpu.costs_table(COSTS, cpu.constants_of(hardware), hardware)
            self.assertIn("cpu.line                  -", table)
        with self.assertRaises(CommandError):
            cpu.processor_of("susitna")

    def test_the_largest_table_fills_the_memory_that_is_given(self) -> None:
        flags = cpu.run_flags(cpu.Case("nessie-sd", "GET", 936), "small_pages", "connectx3-10gbe", 16 << 30, 1)
        keys = int(flags[flags.index("--keys") + 1])
        self.assertAlmostEqual(keys * 1000 * cpu.OVERHEAD["nessie-sd"], 16 << 30, delta=2000)
        self.assertEqual(flags[flags.index("--memory") + 1], str((20 << 30) + (64 << 20)))


class Command(EndToEnd):
    """Tests of the whole command, with real servers."""

    def calibrate(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.call([str(ROOT / "loch"), "--no-setup", "calibrate", "--cpu", *words], LOCH_BIN=BINARY)

    def test_real_and_simulated_servers(self) -> None:
        done = self.calibrate("--memory", "32M", "--seconds", "0.05", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        out = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assertEqual(out["costs"]["memory_bytes"], 32 << 20)
        self.assertGreater(out["costs"]["clock"], 0.2)
        self.assertEqual(len(out["requests"]), len(cpu.CASES))
        for request in out["requests"]:
            for name in ("in_cache_ns", "huge_pages_ns", "small_pages_ns", "simulated_ns"):
                self.assertGreater(request[name], 0, (name, request))
                self.assertLess(request[name], 1e6, (name, request))
        self.assertIn("scaled to Xeon E5-2620 v2", done.stdout)
        self.assertIn(f"{out['outstanding']} requests outstanding", done.stdout)

    def test_bad_input(self) -> None:
        for words, expected in (
            (["--memory", "much"], "much"),
            (["--memory", "900T"], "--memory"),
            (["--hardware", "susitna"], "no processor is known"),
            (["--seconds", "0"], "expected 0.01 to 3600"),
            (["--cores", "1"], "--cores 1: expected 2 to"),
            (["--cores", "100000"], "--cores 100000: expected 2 to"),
            (["--memmory", "1G"], "did you mean --memory"),
        ):
            done = self.calibrate(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
