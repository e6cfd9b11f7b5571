"""Tests of `loch compare`: its statistics against exact values and random data, and the command on result folders."""

import json
import math
import unittest

import numpy as np

from support import SMALL, Folder
from loch.runner import compare

SIX = SMALL.replace("repeats: 2", "repeats: 6")


def draw(rng, shape, size):
    """Positive values with the given noise around 1."""
    if shape == "narrow":
        return rng.normal(1, 0.01, size)
    if shape == "long tail":
        return rng.lognormal(0, 0.5, size)
    return np.where(rng.random(size) < 0.3, 1.0, 0.005) * rng.normal(1, 0.02, size)  # bimodal


def pairs(rng, shape, points, repeats, ratio=1.0):
    """Values of A and B at points whose levels differ by powers of ten; B is `ratio` times what A is."""
    return [
        ((level * draw(rng, shape, repeats)).tolist(), (ratio * level * draw(rng, shape, repeats)).tolist())
        for level in 10.0 ** np.arange(points)
    ]


class Statistics(unittest.TestCase):
    def test_every_exchange_of_few_values_is_tried(self):
        test = compare.permutation_test([([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])])
        self.assertAlmostEqual(test.p, 2 / 20)  # of the 20 ways to choose 3 of 6 values, 2 give as large a difference
        self.assertAlmostEqual(test.least_p, 2 / 20)
        self.assertIsNone(test.low)  # six values are too few for a 95 % interval
        test = compare.permutation_test([([1.0] * 6, [2.0] * 6)])
        self.assertAlmostEqual(test.p, 2 / math.comb(12, 6))
        self.assertAlmostEqual(test.ratio, 2.0)

    def test_points_of_one_repeat_are_no_repeats(self):
        points = [([level], [0.9 * level]) for level in (1.0, 20.0, 300.0, 4e3, 5e4, 6e5)]
        test = compare.permutation_test(points)
        self.assertEqual((test.p, test.least_p), (1.0, 1.0))  # of one seed each, whatever the number of points
        self.assertAlmostEqual(test.ratio, 0.9)
        self.assertIsNone(test.effect)  # a single repeat has no standard deviation

    def test_a_repeat_is_what_has_one_seed(self):
        a, b = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
        by_place = compare.permutation_test([(a, b), (a, b)])
        self.assertAlmostEqual(by_place.p, 2 / 70)
        # The same values in another order are the same repeats if the seeds say so, and equal seeds in A and B are two.
        seeds = [([1, 2, 3, 4], [1, 2, 3, 4]), ([4, 3, 2, 1], [4, 3, 2, 1])]
        self.assertEqual(compare.permutation_test([(a, b), (a[::-1], b[::-1])], seeds=seeds), by_place)
        # Two seeds of which each has two values, as under `preloads`, are two repeats.
        self.assertAlmostEqual(compare.permutation_test([(a, b)], seeds=[([1, 1, 2, 2], [1, 1, 2, 2])]).p, 2 / 6)

    def test_a_point_that_lacks_repeats_counts_with_those_it_has(self):
        rng = np.random.default_rng(16)
        tests = []
        for _ in range(200):
            x = np.exp(rng.normal(0, 0.01, (12, 1)) + rng.normal(0, 0.002, (12, 2)))
            points = [(x[:6, 0].tolist(), x[6:, 0].tolist()), (x[:1, 1].tolist(), x[6:8, 1].tolist())]
            seeds = [(list(range(6)), list(range(6))), ([0], [0, 1])]
            tests.append(compare.permutation_test(points, False, seeds=seeds))
        self.assertLess(sum(test.p <= compare.LEVEL for test in tests), 20)
        self.assertGreater(min(test.p for test in tests), 0)
        slower = compare.permutation_test([([1.0] * 6, [0.9] * 6), ([2.0], [1.8, 1.8])], seeds=seeds)
        self.assertAlmostEqual(slower.ratio, 0.9)
        self.assertLess(slower.p, 0.01)

    def test_points_of_one_seed_may_depend_on_each_other(self):
        rng = np.random.default_rng(15)
        found = 0
        for _ in range(200):
            x = np.exp(rng.normal(0, 0.01, (12, 1)) + rng.normal(0, 0.002, (12, 5)))
            points = [(x[:6, i].tolist(), x[6:, i].tolist()) for i in range(5)]
            found += compare.permutation_test(points, False).p <= compare.LEVEL
        # Labels that are exchanged at each point by itself find over 70.
        self.assertLess(found, 20)

    def test_a_difference_of_the_tolerance_is_none_beyond_it(self):
        rng = np.random.default_rng(17)
        for ratio, most in (1.0, 2), (1.01, 14), (1 / 1.01, 14):
            tests = [compare.permutation_test(pairs(rng, "narrow", 1, 6, ratio), False, 0.01) for _ in range(200)]
            # two-sided at the edge of the tolerance: 2.5 % are found; 15 or more with a probability of 0.03 %
            self.assertLessEqual(sum(test.p <= compare.LEVEL for test in tests), most, ratio)
        # The whole interval is beyond the tolerance where, and only where, the p value says so.
        beyond = 0
        for _ in range(40):
            points = pairs(rng, "narrow", 1, 6, 0.975)
            test = compare.permutation_test(points, tolerance=0.01)
            self.assertEqual(test.p <= compare.LEVEL, test.high < 1 / 1.01)
            beyond += test.p <= compare.LEVEL
        self.assertTrue(10 < beyond < 40, beyond)

    def test_equal_values_differ_in_nothing(self):
        test = compare.permutation_test([([5.0] * 6, [5.0] * 6), ([7.0] * 6, [7.0] * 6)])
        self.assertEqual(test.p, 1.0)
        self.assertAlmostEqual(test.ratio, 1.0, places=12)

    def test_holms_correction(self):
        corrected = compare.holm([0.01, 0.04, 0.03, 0.005])
        self.assertEqual([round(p, 9) for p in corrected], [0.03, 0.06, 0.06, 0.02])

    def test_folders_that_do_the_same_seldom_differ(self):
        for shape in ("narrow", "long tail", "bimodal"):
            rng = np.random.default_rng(11)
            found = 0
            for _ in range(200):
                tests = [compare.permutation_test(pairs(rng, shape, points, 6), False) for points in (1, 3, 5)]
                found += min(compare.holm([test.p for test in tests])) <= compare.LEVEL
            # At a level of 5 %, 200 comparisons of equal systems find 10 differences on average, and 20 or more with a
            # probability of 0.3 %.
            self.assertLess(found, 20, shape)

    def test_a_slower_pace_of_three_per_cent_is_found_with_six_repeats(self):
        rng = np.random.default_rng(12)
        for points, enough in (1, 95), (5, 99):
            tests = [compare.permutation_test(pairs(rng, "narrow", points, 6, 0.97), False) for _ in range(100)]
            self.assertGreaterEqual(sum(test.p <= compare.LEVEL and test.ratio < 0.99 for test in tests), enough)
        tests = [compare.permutation_test(pairs(rng, "narrow", 5, 6, 0.97), False, 0.01) for _ in range(100)]
        self.assertGreaterEqual(sum(test.p <= compare.LEVEL and test.ratio < 0.99 for test in tests), 98)

    def test_a_noisy_point_does_not_hide_the_others(self):
        rng = np.random.default_rng(13)
        noisy = [(draw(rng, "bimodal", 6).tolist(), draw(rng, "bimodal", 6).tolist())]
        test = compare.permutation_test(pairs(rng, "narrow", 3, 6, 0.97) + noisy)
        self.assertLess(test.p, 0.01)
        self.assertAlmostEqual(test.ratio, 0.97, delta=0.01)

    def test_intervals_contain_the_true_ratio(self):
        rng = np.random.default_rng(14)
        tests = [
            compare.permutation_test(pairs(rng, "narrow", points, 6, 0.97)) for points in (1, 2, 5) for _ in range(60)
        ]
        inside = sum(test.low <= 0.97 <= test.high for test in tests)
        self.assertGreaterEqual(inside, 0.91 * len(tests))
        self.assertLessEqual(inside, 0.995 * len(tests))  # intervals that are too wide are wrong as well

    def test_a_rate_of_zero_is_worse_and_not_left_out(self):
        series = [compare.Series("x", "CD", "throughput_ops_s", [], compare.permutation_test([([9.0] * 6, [0.0] * 6)]))]
        compare.judge(series, 0.01)
        self.assertEqual(series[0].verdict, "worse")

    def test_less_latency_is_better(self):
        points = [([10.0, 10.1, 9.9, 10, 10, 10], [8.0, 8.1, 7.9, 8, 8, 8])]
        for tolerance, verdicts in (
            (0.01, ["better", "worse"]),
            (0.25, ["no difference beyond the tolerance found"] * 2),  # of 20 % one way, 25 % the other
            (0.5, ["within the tolerance"] * 2),
        ):
            test = compare.permutation_test(points, tolerance=tolerance)
            series = [compare.Series("x", "CD", name, [], test) for name in ("latency_us.all.p99", "throughput_ops_s")]
            compare.judge(series, tolerance)
            self.assertEqual([each.verdict for each in series], verdicts)


class Command(Folder):
    def run_it(self, out, *more, **environment):
        done = self.loch("run", self.write(SIX), "--out", out, "--jobs", 2, *more, **environment)
        self.assertIn(done.returncode, (0, 1), done.stderr)

    def scale(self, out, share, system_size=None):
        """Multiplies the rates of the stored points by `share`: of all points, or of those with the given value
        size."""
        for path in (self.folder / out / "points").glob("*.json"):
            document = json.loads(path.read_text())
            if system_size in (None, document["config"]["value_size"]):
                document["throughput_ops_s"] *= share
                path.write_text(json.dumps(document))

    def test_two_runs_of_other_seeds_and_then_a_slower_one(self):
        self.run_it("a")
        self.run_it("b", "--set", "measure.seed=2")
        done = self.loch("compare", "a", "b")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("no regression: 1 series: 0 worse, 0 better\n"), done.stdout)
        self.scale("b", 0.97)
        done = self.loch("compare", "a", "b", "--json", "found.json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("REGRESSION: 1 series: 1 worse, 0 better\n"), done.stdout)
        self.assertIn("value_size=8K", done.stdout)
        found = json.loads((self.folder / "found.json").read_text())
        self.assertTrue(found["regression"])
        (series,) = found["series"]
        self.assertAlmostEqual(series["test"]["ratio"], 0.97, delta=0.005)
        self.assertEqual([len(point["b"]) for point in series["points"]], [6, 6, 6])
        self.assertEqual([point["b_seeds"] for point in series["points"]], [[2, 3, 4, 5, 6, 7]] * 3)
        self.assertEqual(self.loch("compare", "a", "b", "--tolerance", "0.05").returncode, 0)
        self.assertEqual(self.loch("compare", "b", "a").returncode, 0)  # b, now the baseline, is slower than a

    def test_simulated_percentiles_are_compared_with_a_warning(self):
        self.run_it("a")
        for metric, times in (("latency_us.all.p99", 1), ("latency_us.all.mean", 0)):
            done = self.loch("compare", "a", "a", "--metric", metric, "--metric", "throughput_ops_s")
            self.assertEqual(done.stdout.count("note: Simulated percentiles above the median"), times, done.stdout)

    def test_a_point_that_fails_in_b_alone_is_a_regression(self):
        self.run_it("a")
        self.run_it("b", FAKE_FAIL="value-size=4096")
        done = self.loch("compare", "a", "b")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("failed in B alone: small: CD, value_size=4K: the store is full", done.stdout)
        self.assertEqual(self.loch("compare", "b", "b").returncode, 0)

    def test_what_else_differs_is_said(self):
        self.run_it("a")
        self.run_it("b", "--set", "clients=11")
        done = self.loch("compare", "a", "b", "--metric", "throughput_ops_s", "--metric", "latency_us.all.p99")
        self.assertIn("note: small: clients is 12 in A and 11 in B\n", done.stdout)
        self.assertIn("latency_us.all.p99", done.stdout)

    def test_many_series_need_more_repeats(self):
        tests = [compare.permutation_test([([1.0] * 6, [0.5] * 6)])] * 24
        few, many = ([compare.Series("x", "CD", "y", [], test) for test in tests[:n]] for n in (23, 24))
        for series, verdict in (few, "worse"), (many, "no difference beyond the tolerance found"):
            compare.judge(series, 0.01)
            self.assertEqual({each.verdict for each in series}, {verdict})
        self.assertEqual(compare._too_few(few), [])
        self.assertIn("with 24 series and so few repeats no difference", compare._too_few(many)[0])

    def test_two_repeats_cannot_show_a_difference_of_one_point(self):
        one = SMALL.replace("[2K, 4K, 8K]", "[2K]")
        for out in "a", "b":
            self.assertEqual(self.loch("run", self.write(one), "--out", out).returncode, 0)
        self.scale("b", 0.5)
        done = self.loch("compare", "a", "b")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no difference can be found with so few repeats: the least p value is 0.33", done.stdout)

    def test_bad_input_is_one_line(self):
        self.run_it("a")
        (self.folder / "empty").mkdir()
        for words, said in (
            (("a", "gone"), "gone: no such folder"),
            (("a", "empty"), "empty: no results in or below it"),
            (("a", "a", "--metric", "throughput_op_s"), "no point has results in both with throughput_op_s"),
            (("a", "a", "--tolerance", "5"), "--tolerance: 5: expected a share from 0 to 1"),
            (("a", "a", "--json", "gone/x.json"), "--json gone/x.json"),
        ):
            done = self.loch("compare", *words)
            self.assertEqual(done.returncode, 2, (words, done.stdout, done.stderr))
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
