"""Tests of recovery over time: after clients die and a node is lost and returns, which keys cannot be written, and
when."""

from __future__ import annotations

import unittest

from support import EndToEnd

# Both clients of node 1 are killed; node 2 crashes, loses its memory, and returns with empty memory.
FAULTS = """\
schedule:
  - {kind: kill, node: 1, worker: 0, at: 150ms}
  - {kind: kill, node: 1, worker: 1, at: 150ms}
  - {kind: crash, node: 2, at: 300ms, span: 300ms}
"""
DELAY_S, CRASH_S, BACK_S = 0.1, 0.25, 0.55
RUN = [
    "bench",
    "--fabric",
    "sim",
    "--nodes",
    "4",
    "--clients",
    "2",
    "--window",
    "12",
    "--think",
    "500us",
    "--keys",
    "2000",
    "--value-size",
    "256",
    "--get",
    "0.5",
    "--verify",
    "--warmup",
    "50ms",
    "--duration",
    "1s",
    "--timeline",
    "20ms",
    "--probe-keys",
    "96",
    "--faults",
    "faults.yaml",
    "--repair-after",
    "100ms",
]
NESSIE = [
    "--protocol",
    "nessie",
    "--nessie.expiry",
    "100ms",
    "--nessie.clock-margin",
    "1ms",
    "--nessie.min-spare",
    "1500",
]
SD = ["--protocol", "nessie-sd", "--servers", "1", "--nessie-sd.give-up-after", "50ms"]
PILAF = ["--protocol", "pilaf", "--servers", "1", "--pilaf.patience", "50ms"]
HERD = ["--protocol", "herd", "--servers", "1", "--herd.give-up", "20ms"]


class Recovery(EndToEnd):
    def over_time(self, protocol: list[str]) -> dict:
        self.write("faults.yaml", FAULTS)
        got = self.result(*RUN, *protocol)
        self.assertEqual((got["run_end"], got["operations"]["corrupt"], got["probed_keys"]), ("finished", 0, 96))
        self.assertEqual(len(got["timeline"]), 50)
        done = sum(entry["ops_s"] * 0.02 for entry in got["timeline"])
        self.assertAlmostEqual(done, got["operations"]["ok"] + got["operations"]["not_found"], delta=0.01)
        self.assertEqual(self.unwritable(got, 0, 0.1), [0] * 5)
        # The kill of two of the eight clients lowers throughput by their share. After the crash it falls further, as
        # operations on the lost node wait.
        before, after = self.rate(got, 0, 0.1), self.rate(got, 0.14, 0.24)
        # One of the eight clients only probes and is not counted; two of the other seven were killed.
        self.assertAlmostEqual(after / before, 5 / 7, delta=0.06)
        self.assertLess(self.rate(got, 0.26, 0.34), 0.7 * after)
        return got

    @staticmethod
    def rate(got: dict, begin: float, end: float) -> float:
        rates = [entry["ops_s"] for entry in got["timeline"] if begin - 1e-9 <= entry["t_s"] < end - 1e-9]
        return sum(rates) / len(rates)

    @staticmethod
    def unwritable(got: dict, begin: float, end: float) -> list[int]:
        return [entry["unwritable_keys"] for entry in got["timeline"] if begin - 1e-9 <= entry["t_s"] < end - 1e-9]

    @staticmethod
    def at(got: dict, event: str, node: int) -> list[float]:
        return [round(entry["t_s"], 2) for entry in got["events"] if (entry["event"], entry["node"]) == (event, node)]

    def test_nessie_serves_all_once_the_lost_node_is_declared_and_before_it_is_back(self) -> None:
        got = self.over_time(NESSIE)
        self.assertEqual(self.at(got, "kill", 1), [0.1, 0.1])
        self.assertEqual(self.at(got, "scrub", 1), [0.1 + DELAY_S])
        self.assertEqual(
            (self.at(got, "crash", 2), self.at(got, "restart", 2), self.at(got, "rejoin", 2)), ([0.25], [0.55], [0.55])
        )
        self.assertEqual(self.at(got, "declare", 2), [CRASH_S + DELAY_S, BACK_S + DELAY_S])
        self.assertEqual(got["declared_lost"], [2])
        self.assertGreater(max(self.unwritable(got, CRASH_S, CRASH_S + DELAY_S)), 20)
        self.assertEqual(max(self.unwritable(got, 0.5, BACK_S)), 0)
        self.assertEqual(max(self.unwritable(got, 0.9, 1.0)), 0)
        self.assertGreater(self.rate(got, 0.5, 0.54), 3 * self.rate(got, 0.28, 0.34))

    def assert_out_of_service_until_its_return(self, protocol: list[str]) -> None:
        got = self.over_time(protocol)
        # for this protocol a dead client leaves nothing to repair, so no repair (scrub) runs
        self.assertEqual(self.at(got, "scrub", 1), [])
        self.assertEqual(self.at(got, "declare", 2), [BACK_S + DELAY_S])
        self.assertEqual(max(self.unwritable(got, 0, CRASH_S)), 0)
        self.assertEqual(len(set(self.unwritable(got, 0.5, 0.64))), 1)
        self.assertTrue(15 <= self.unwritable(got, 0.5, 0.52)[0] <= 35, "about a fourth of 96")
        self.assertEqual(max(self.unwritable(got, 0.8, 1.0)), 0)

    def test_nessie_sd_serves_the_lost_keys_when_the_node_is_back(self) -> None:
        self.assert_out_of_service_until_its_return(SD)

    def test_pilaf_serves_the_lost_keys_when_the_node_is_back(self) -> None:
        self.assert_out_of_service_until_its_return(PILAF)

    def test_herd_does_not_take_the_node_back(self) -> None:
        got = self.over_time(HERD)
        self.assertEqual(
            (self.at(got, "restart", 2), self.at(got, "rejoin", 2), self.at(got, "declare", 2)), ([0.55], [], [])
        )
        self.assertTrue(15 <= self.unwritable(got, 0.9, 1.0)[0] <= 35, "about a fourth of 96")

    def test_a_schedule_that_leaves_nobody_to_repair_is_refused(self) -> None:
        self.write(
            "faults.yaml",
            "schedule:\n" + "".join(f"  - {{kind: pause, node: {n}, at: 1ms, span: 1ms}}\n" for n in range(4)),
        )
        none: list[str] = []
        for flags in (none, ["--dry-run"]):
            self.assert_refused(self.loch(*RUN, *NESSIE, *flags), "--repair-after", "every node")


if __name__ == "__main__":
    unittest.main()
