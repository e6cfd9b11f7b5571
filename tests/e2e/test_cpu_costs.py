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

COSTS = {
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
PROCESSOR = cpu.Processor("Xeon Test", (2.0, 2.5), (80.0, 100.0))


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

    def test_scaled_by_clock_rate_or_by_the_latency_of_memory(self) -> None:
        low, high = cpu.scaled(600, COSTS, PROCESSOR)
        self.assertAlmostEqual(low, 600 * 80 / 120)
        self.assertAlmostEqual(high, 600 * 3.0 / 2.0)

    def test_a_simulated_server_is_judged_by_the_range(self) -> None:
        case = cpu.CASES[0]
        for simulated, verdict in ((399.0, "too cheap"), (401.0, "in"), (899.0, "in"), (901.0, "too dear")):
            table = cpu.work_table([cpu.Work(case, 300, 500, 600, simulated)], COSTS, PROCESSOR)
            self.assertIn(f"400 to 900: simulated is {verdict}\n", table)
        table = cpu.work_table([cpu.Work(case, 300, None, None, 500)], COSTS, PROCESSOR)
        self.assertNotIn("scaled range over", table)

    def test_each_profile_with_a_processor_has_the_constants(self) -> None:
        for hardware in ("connectx3-10gbe", "connectx3-56g-ib", "connect-ib-2x56g", "connectx6-200g-ib"):
            base, turbo = cpu.processor_of(hardware).clock_ghz
            self.assertLess(base, turbo)
            table = cpu.costs_table(COSTS, cpu.constants_of(hardware), hardware)
            self.assertIn("cpu.line                  -", table)
        with self.assertRaises(CommandError):
            cpu.processor_of("susitna")

    def test_the_largest_table_fills_the_memory_that_is_given(self) -> None:
        flags = cpu.run_flags(cpu.Case("nessie-sd", "GET", 936), "small_pages", "connectx3-10gbe", 16 << 30, 1)
        keys = int(flags[flags.index("--keys") + 1])
        self.assertAlmostEqual(keys * 1000 * cpu.OVERHEAD, 16 << 30, delta=2000)


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

    def test_bad_input(self) -> None:
        for words, expected in (
            (["--memory", "much"], "much"),
            (["--memory", "900T"], "--memory"),
            (["--hardware", "susitna"], "no processor is known"),
            (["--seconds", "0"], "expected 0.01 to 3600"),
            (["--memmory", "1G"], "did you mean --memory"),
        ):
            done = self.calibrate(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
