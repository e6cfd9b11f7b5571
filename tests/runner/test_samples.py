"""Tests of `loch run --samples`, which draws hardware constants at random: draws, intervals of results (bands), and
which constant decides."""

import json
import math
import os
import random
import tempfile
import unittest
from pathlib import Path

import numpy as np
from support import FAKE, ROOT, SMALL, Folder, read
from loch.runner import band_report, bands, factors, influence, intervals
from loch.runner.errors import BadInput
from loch.runner.factors import Assumption, Factor, Range, Reading
from loch.runner.readings import readings
from loch.runner.tables import Results


class Intervals(unittest.TestCase):
    def test_levels_are_those_of_order_statistics(self):
        for n, level in {2: 0.5, 3: 0.75, 5: 0.9375, 6: 0.96875}.items():
            found = intervals.median([float(i) for i in range(n)])
            self.assertAlmostEqual(found.level, level)
            self.assertEqual((found.low, found.high), (0.0, n - 1.0))
        ten = intervals.median([float(i) for i in range(10)])
        self.assertEqual((ten.low, ten.middle, ten.high), (1.0, 4.5, 8.0))
        self.assertAlmostEqual(ten.level, 1 - 2 * (1 + 10) / 1024)

    def test_the_stated_level_is_the_true_one(self):
        rng = random.Random(5)
        hits = 0
        for _ in range(4000):
            found = intervals.median([rng.expovariate(1.0) for _ in range(9)])
            hits += found.low <= math.log(2) <= found.high
        self.assertAlmostEqual(hits / 4000, found.level, delta=0.012)

    def test_a_band_below_19_draws_is_called_what_it_is(self):
        self.assertEqual(intervals.band_name(8), "least to most of 8, 78 %")
        self.assertEqual(intervals.band_name(18), "least to most of 18, 89 %")
        self.assertEqual(intervals.band_name(19), "90 % band of 19 draws")
        self.assertAlmostEqual(intervals.band([float(i) for i in range(19)]).level, 0.9)
        wide = intervals.band([float(i) for i in range(64)])
        self.assertEqual((wide.low, wide.high), (2.0, 61.0))
        self.assertGreaterEqual(wide.level, 0.9)

    def test_bimodal_points(self):
        self.assertTrue(intervals.is_bimodal([1.0, 1.01, 0.99, 1.02, 1.0, 217.0]))
        self.assertTrue(intervals.is_bimodal([5.0, 5.1, 5.05, 9.0, 9.1, 9.05]))
        self.assertFalse(intervals.is_bimodal([1.0, 1.01, 1.02, 1.03, 1.04, 1.05]))
        self.assertFalse(intervals.is_bimodal([1.0, 1.001, 1.002, 1.02]))
        rng = random.Random(3)
        found = sum(intervals.is_bimodal([rng.gauss(10, 1) for _ in range(6)]) for _ in range(1000))
        self.assertLess(found, 30)


class Influence(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(2).random((64, 6))
        self.names = ["a", "b", "c", "d", "e", "f"]

    def test_sobol_indices_of_a_known_function(self):
        values = 3 * self.x[:, 0] + self.x[:, 1]  # the first input has nine times the variance of the second one
        found = influence.decide(self.names, self.x, [0] * 6, values)
        self.assertEqual(found.shares[0].factor, "a")
        self.assertAlmostEqual(found.shares[0].first, 0.9, delta=0.05)
        self.assertGreater(found.explained, 0.99)

    def test_an_interaction_is_in_the_total_index(self):
        z = 2 * self.x - 1
        values = 0.6 * z[:, 0] * z[:, 1] + 0.4 * z[:, 0] + 0.4 * z[:, 1]
        found = influence.decide(self.names, self.x, [0] * 6, values)
        by_name = {each.factor: each for each in found.shares}
        self.assertGreater(by_name["a"].total, by_name["a"].first + 0.1)

    def test_noise_decides_nothing(self):
        rng = np.random.default_rng(7)
        stands_out = sum(
            bool(influence.decide(self.names, rng.random((64, 6)), [0] * 6, rng.random(64)).shares) for _ in range(200)
        )
        self.assertLess(stands_out, 25)  # 5 % by design

    def test_levels_of_a_reading_are_few_values(self):
        values = np.floor(self.x[:, 2] * 3)
        found = influence.decide(self.names, self.x, [0, 0, 3, 0, 0, 0], values)
        self.assertEqual(found.shares[0].factor, "c")
        self.assertAlmostEqual(found.shares[0].correlation, 1.0)


class Draws(unittest.TestCase):
    def setUp(self):
        os.environ.setdefault("LOCH_HOME", str(ROOT))  # where the fake program finds its flags

    RANGE = Range(100, 200, False, False, "a paper")

    def test_each_factor_takes_each_part_of_its_range_once(self):
        some = [Factor(name, (("h", self.RANGE),)) for name in ("nic.pipeline", "pcie.read")]
        drawn = factors.draw(some, 16, 4, str(FAKE))
        for j in range(2):
            self.assertEqual(sorted(int(row[j] * 16) for row in drawn.shares), list(range(16)))
        self.assertEqual(drawn.shares, factors.draw(some, 16, 4, str(FAKE)).shares)
        self.assertNotEqual(drawn.shares, factors.draw(some, 16, 5, str(FAKE)).shares)

    def test_values(self):
        self.assertEqual(self.RANGE.at(0.25, "nic.pipeline"), "125")
        log = Range(64, 1024, True, True, "s")
        self.assertEqual((log.at(0, "n"), log.at(0.5, "n"), log.at(1, "n")), ("64", "256", "1024"))
        self.assertEqual(Range(1, 4096, True, True, "s").at(0.4, "nic.atomic_buckets"), "32")
        self.assertEqual([Factor("o", levels=("x", "y")).text(u) for u in (0, 0.49, 0.5, 1)], ["x", "x", "y", "y"])

    def test_a_reading_that_the_figure_is_about_is_not_drawn(self):
        chosen = [Reading("nessie.filter-bits", (0, 7), ("nessie-2017",), "s")]

        def names(text):
            return [each.name for each in factors.of(read(text), str(FAKE), chosen)]

        self.assertEqual(names(SMALL), ["nessie.filter-bits", "nic.pipeline"])
        differs = SMALL.replace("workload:", "  NF: {protocol: nessie, nessie.filter-bits: 0, clients: 12}\nworkload:")
        self.assertEqual(names(differs), ["nic.pipeline"])
        self.assertEqual(
            names(SMALL.replace("nessie-2017", "herd-2014").replace("Table 1", "Figure 9")), ["nic.pipeline"]
        )

    def test_an_assumption_is_drawn_for_the_protocols_that_it_is_about(self):
        assumed = Assumption(
            "server_work", "s", Range(0, 800, False, True, "m"), "ns", ("nessie-2017",), ("nessie-sd",)
        )
        both = read(SMALL.replace("workload:", "  SD: {protocol: nessie-sd, clients: 12}\nworkload:"))
        some = factors.of(both, str(FAKE), [], [assumed])
        self.assertEqual([each.name for each in some], ["nic.pipeline", "server_work"])
        drawn = factors.draw(some, 4, 1, str(FAKE))
        values = {"CD": set(), "SD": set()}
        for index in range(4):
            for point in factors.points(both, {}, drawn, index):
                values[point.system].add(point.params.get("server_work"))
        self.assertEqual(values["CD"], {None})
        self.assertEqual(sorted(int(each // 200) for each in values["SD"]), [0, 1, 2, 3])
        self.assertEqual(factors.of(read(SMALL), str(FAKE), [], [assumed])[0].name, "nic.pipeline")
        self.assertEqual(len(factors.of(read(SMALL), str(FAKE), [], [assumed])), 1)

    def test_the_assumptions_of_the_tree_have_a_range_and_a_source(self):
        for each in factors.assumptions():
            self.assertLess(each.range.low, each.range.high)
            self.assertGreater(len(each.range.source), 40)
        bad = "assumptions:\n  - {option: o, says: s, low: 5, high: 5, unit: ns, papers: [p], protocols: [q], source: t}\n"
        for text, said in ((bad, "low below high"), (bad.replace(", source: t", ""), "source")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "assumptions.yaml"
                path.write_text(text, encoding="utf-8")
                with self.assertRaisesRegex(BadInput, said):
                    factors.assumptions(path)

    def test_what_the_experiment_sets_is_not_drawn(self):
        fixed = read(SMALL.replace("keys: 1000", 'keys: 1000, hardware_set: "nic.pipeline=150"'))
        drawn = factors.draw(factors.of(fixed, str(FAKE), []), 4, 1, str(FAKE))
        for point in factors.points(fixed, {}, drawn, 0):
            self.assertEqual(point.params["hardware_set"], "nic.pipeline=150")


class Readings(unittest.TestCase):
    """Readings that are more than one option of a protocol."""

    def setUp(self):
        os.environ.setdefault("LOCH_HOME", str(ROOT))

    def draws(self, text, reading, option):
        """What each system of an experiment gets of an option in six draws; None: what the experiment says."""
        experiment = read(text)
        some = [each for each in factors.of(experiment, str(FAKE), [reading], []) if each.reading]
        drawn = factors.draw(some, 6, 1, str(FAKE))
        found = {}
        for index in range(6 if some else 0):
            for point in factors.points(experiment, {}, drawn, index):
                found.setdefault((point.system, *point.axes.values()), set()).add(point.params.get(option))
        return found

    def test_an_option_of_the_load_and_of_one_figure_alone(self):
        reading = Reading("get", (0.5, 0.9), ("nessie-2017",), "s", items=("Table 1",))
        self.assertEqual(set().union(*self.draws(SMALL, reading, "get").values()), {0.5, 0.9})
        self.assertEqual(self.draws(SMALL.replace("Table 1", "Figure 9"), reading, "get"), {})
        self.assertEqual(
            self.draws(SMALL.replace("get: 0.5, ", "").replace("axes: {", "axes: {get: [0.5], "), reading, "get"), {}
        )

    def test_options_that_go_together_and_are_those_of_some_protocols(self):
        both = SMALL.replace("workload:", "  SD: {protocol: nessie-sd, servers: 1, clients: 11}\nworkload:")
        reading = Reading("servers, clients", ((1, 11), (2, 10)), ("nessie-2017",), "s", protocols=("nessie-sd",))
        experiment = read(both)
        (factor,) = [each for each in factors.of(experiment, str(FAKE), [reading], []) if each.reading]
        self.assertEqual((factor.name, factor.levels), ("servers, clients", ("1, 11", "2, 10")))
        drawn = factors.draw([factor], 4, 1, str(FAKE))
        found = {
            (p.system, p.params.get("servers"), p.params["clients"])
            for i in range(4)
            for p in factors.points(experiment, {}, drawn, i)
        }
        self.assertEqual(found, {("CD", None, 12), ("SD", 1, 11), ("SD", 2, 10)})

    def test_factors_of_what_the_experiment_sets(self):
        reading = Reading("nessie.filter-bits", (1, 4), ("nessie-2017",), "s", is_multiple=True, most=16)
        self.assertEqual(self.draws(SMALL, reading, "nessie.filter-bits"), {})  # no system sets it
        given = SMALL.replace("keys: 1000", "keys: 1000, nessie.filter-bits: {value_size < 4K: 2, else: 7}")
        found = self.draws(given, reading, "nessie.filter-bits")
        self.assertEqual(found, {("CD", 2048): {"2", "8"}, ("CD", 4096): {"7", "16"}, ("CD", 8192): {"7", "16"}})
        differs = given.replace(
            "clients: 12}", "clients: 12}\n  NF: {protocol: nessie, nessie.filter-bits: 0, clients: 12}"
        )
        self.assertEqual(self.draws(differs, reading, "nessie.filter-bits"), {})

    def test_an_axis_is_multiplied_and_keeps_its_names(self):
        text = SMALL.replace("value_size: [2K, 4K, 8K]", "hogs: [0, 1, 12]").replace(
            "keys: 1000", "keys: 1000, value_size: 2K"
        )
        reading = Reading("hogs", (0.5, 2), ("nessie-2017",), "s", is_multiple=True, least=2)
        self.assertEqual(self.draws(text, reading, "hogs"), {("CD", 0): {0}, ("CD", 1): {1}, ("CD", 12): {6, 24}})
        self.assertEqual(self.draws(text, Reading("hogs", (0, 4), ("nessie-2017",), "s"), "hogs"), {})
        time = SMALL.replace("value_size: [2K, 4K, 8K]", "think: [0us, 10us]").replace(
            "keys: 1000", "keys: 1000, value_size: 2K"
        )
        reading = Reading("think", (0.5, 2), ("nessie-2017",), "s", is_multiple=True)
        self.assertEqual(self.draws(time, reading, "think"), {("CD", 0): {0}, ("CD", 10000): {5000, 20000}})

    def test_the_readings_of_the_tree_have_sources(self):
        found = readings()
        self.assertGreater(len(found), 10)
        for each in found:
            self.assertGreater(len(each.source), 40, each)
        for paper in {paper for each in found for paper in each.papers}:  # one factor a name and figure
            names = [(each.name, item) for each in found if paper in each.papers for item in each.items or ("",)]
            self.assertEqual(len(names), len(set(names)))

    def test_bad_readings(self):
        good = "readings:\n  - {option: o, values: [1, 2], papers: [p], source: t}\n"
        for text, said in (
            (good.replace(", source: t", ""), "source: a reading needs"),
            (good.replace("[1, 2]", "[1]"), "two values or more"),
            (good.replace("values: [1, 2], ", ""), "either values or times"),
            (good.replace("values: [1, 2]", "values: [1, 2], times: [1, 2]"), "either values or times"),
            (good.replace("values: [1, 2]", "times: [1, x]"), "numbers above 0"),
            (good.replace("option: o", "option: [o, q]"), "lists of 2 values"),
            (good.replace("papers", "most: 3, papers"), "beside times"),
            (good.replace("papers", "pappers"), "expected one of"),
        ):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "readings.yaml"
                path.write_text(text, encoding="utf-8")
                with self.assertRaisesRegex(BadInput, said):
                    readings(path)


class Windows(unittest.TestCase):
    """Bands whose draws were measured for another time than the results beside them."""

    def test_a_band_of_another_window_says_so_and_has_results_of_that_window_beside_it(self):
        short = read(SMALL, ["duration=1ms"])
        found = bands.Bands(24, 1, "", "90 % band of 24 draws", window=bands.window(short))
        self.assertEqual(found.window, "1ms")
        results = Results(read(SMALL), [])
        results.bands = found
        self.assertEqual(bands.other_window(results), "1ms")
        self.assertEqual(
            band_report.title(found, bands.other_window(results)), "90 % band of 24 draws, each measured for 1ms"
        )
        with self.assertRaisesRegex(BadInput, "measured for 2ms, its bands for 1ms"):
            bands.add_base(found, results)
        results = Results(short, [])
        results.bands = found
        self.assertEqual(bands.other_window(results), "")
        bands.add_base(found, results)


class Runs(Folder):
    def test_a_band_a_claim_and_the_deciding_constant(self):
        path = self.write(SMALL + "claims:\n  - CD.latency_us.get.mean < 40\n")
        ran = self.loch("run", path, "--samples", "24", "--out", "out")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = json.loads((self.folder / "out/bands.json").read_text())
        self.assertEqual((found["samples"], found["seed"], found["name"]), (24, 1, "90 % band of 24 draws"))
        point = next(each for each in found["points"] if each["axes"] == {"value_size": 2048})
        band = point["fields"]["latency_us.get.mean"]
        self.assertEqual(band["n"], 24)
        nominal = 10 + 2048 / 180
        self.assertTrue(nominal * 0.7 < band["low"] < nominal < band["high"] < nominal * 1.6)
        self.assertEqual(band["decided"][0]["factor"], "nic.pipeline")
        self.assertIn("published numbers in it", ran.stdout)
        self.assertIn("decided by", (self.folder / "out/report.md").read_text())
        self.assertEqual(found["claims"][0]["of"], 24)

    def test_a_band_of_a_ratio_is_over_ratios_within_each_draw(self):
        text = SMALL.replace("clients: 12}", "clients: 12}\n  SD: {protocol: nessie-sd, servers: 2, clients: 10}")
        path = self.write(
            text.replace("y: latency_us.get.mean", "x: value_size, y: latency_us.get.mean, relative_to: SD")
        )
        ran = self.loch("run", path, "--samples", "24", "--out", "out")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = json.loads((self.folder / "out/bands.json").read_text())
        for each in found["points"]:
            own, ratio = each["fields"]["latency_us.get.mean"], each.get("relative", {}).get("latency_us.get.mean")
            self.assertEqual(ratio is not None, each["system"] == "CD")
            if ratio is not None:  # a constant that both systems follow alike moves no ratio
                self.assertGreater(own["high"], 1.2 * own["low"])
                self.assertLess(ratio["high"], 1.2 * ratio["low"])
                self.assertTrue(ratio["low"] <= ratio["base"] <= ratio["high"])
        self.assertIn('id="band"', (self.folder / "out/figure.svg").read_text())
        kept = bands.read(self.folder / "out")
        bands.write(self.folder, kept)
        self.assertEqual(json.loads((self.folder / "bands.json").read_text()), found)

    def test_it_goes_on_where_it_was_and_other_draws_are_other_points(self):
        path = self.write(SMALL)
        count = self.folder / "count"
        first = self.loch("run", path, "--samples", "5", "--out", "out", FAKE_COUNT=str(count))
        self.assertIn("least to most of 5, 67 %", first.stdout)
        ran = len(count.read_text().splitlines())
        self.assertEqual(ran, 3 * 2 + 3 * 5)
        self.loch("run", path, "--samples", "5", "--out", "out", FAKE_COUNT=str(count))
        self.assertEqual(len(count.read_text().splitlines()), ran)
        self.loch("run", path, "--samples", "5", "--seed", "2", "--out", "out", FAKE_COUNT=str(count))
        self.assertEqual(len(count.read_text().splitlines()), ran + 15)

    def test_bad_numbers_are_refused_in_one_line(self):
        path = self.write(SMALL)
        for flags in (["--samples", "1"], ["--samples", "0"], ["--seed", "3"], ["--samples", "4", "--seed", "-1"]):
            ran = self.loch("run", path, *flags)
            self.assertEqual(ran.returncode, 2, flags)
            self.assertEqual(len(ran.stderr.strip().splitlines()), 1, ran.stderr)

    def test_a_damaged_file_is_refused(self):
        (self.folder / bands.NAME).write_text('{"samples": 3}')
        with self.assertRaises(BadInput):
            bands.read(self.folder)


if __name__ == "__main__":
    unittest.main()
