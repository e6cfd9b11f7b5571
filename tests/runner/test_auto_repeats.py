"""Tests of `measure: {repeats: auto}` and of points whose repeats fall into two groups."""

import csv
import random
import unittest

from support import SMALL, Folder, read
from loch.runner import auto_repeats, grid, intervals
from loch.runner.errors import BadInput

AUTO = SMALL.replace("repeats: 2", "repeats: auto").replace("[2K, 4K, 8K]", "[2K, 4K]")


class Rule(unittest.TestCase):
    def test_a_narrow_interval_needs_its_level_and_its_width(self):
        self.assertTrue(auto_repeats.is_narrow([100.0, 100.5, 101.0, 101.5, 101.9, 102.0]))
        self.assertFalse(auto_repeats.is_narrow([100.0, 100.5, 101.0, 101.5, 101.9, 102.1]))
        self.assertFalse(auto_repeats.is_narrow([100.0] * 5))  # five repeats give a level of 94 %, not 95 %
        self.assertTrue(auto_repeats.is_narrow([0.0] * 6))

    def test_batches_end_at_the_most(self):
        found = [auto_repeats.LEAST]
        while found[-1] < auto_repeats.MOST:
            found.append(auto_repeats.following(found[-1]))
        self.assertEqual(found, [6, 9, 13, 19, 24])

    def test_the_interval_at_which_it_stops_holds_the_median_nearly_as_often_as_it_says(self):
        """Normal repeats of 2 % noise: the interval in which the rule stops contains the true median in 90 % of the cases or
        more, where a fixed number of repeats has 95 %."""
        rng = random.Random(3)
        held = 0
        for _ in range(1000):
            values = [rng.gauss(100, 2) for _ in range(auto_repeats.MOST)]
            n = auto_repeats.LEAST
            while n < auto_repeats.MOST and not auto_repeats.is_narrow(values[:n]):
                n = auto_repeats.following(n)
            found = intervals.median(values[:n])
            held += found.low <= 100 <= found.high
        self.assertGreaterEqual(held, 900)

    def repeats(self, noise, may_give_up=True):
        """How many repeats 400 points of normal noise get on average, and the share whose interval ends narrow."""
        rng = random.Random(5)
        runs = narrow = 0
        for _ in range(400):
            values = [rng.gauss(100, 100 * noise) for _ in range(auto_repeats.MOST)]
            n = auto_repeats.LEAST
            while n < auto_repeats.MOST and not self.ends(values[:n], may_give_up):
                n = auto_repeats.following(n)
            runs += n
            narrow += auto_repeats.is_narrow(values[:n])
        return runs / 400, narrow / 400

    def ends(self, values, may_give_up):
        return auto_repeats.is_over([values]) if may_give_up else auto_repeats.is_narrow(values)

    def test_a_point_that_cannot_become_narrow_is_given_up(self):
        for noise in (0.04, 0.2):
            runs, narrow = self.repeats(noise, may_give_up=False)
            self.assertGreater(runs, 23)
            self.assertLess(narrow, 0.03)
            self.assertLess(self.repeats(noise)[0], 11)

    def test_a_point_that_may_become_narrow_is_hardly_ever_given_up(self):
        for noise in (0.006, 0.01, 0.014, 0.016, 0.018):
            self.assertGreater(self.repeats(noise)[1], 0.88 * self.repeats(noise, may_give_up=False)[1])

    def test_one_outlier_does_not_give_a_point_up(self):
        values = [100.0, 100.1, 100.2, 100.3, 100.4, 500.0, 100.5, 100.6, 100.7]
        self.assertFalse(auto_repeats.is_over([values[:6]]))
        self.assertFalse(auto_repeats.is_hopeless(values))
        self.assertTrue(auto_repeats.is_narrow(values))

    def test_one_field_that_cannot_become_narrow_is_enough(self):
        near, far = [100.0] * 9, [100.0 + 10 * i for i in range(9)]
        self.assertTrue(auto_repeats.is_over([near, far]))
        self.assertTrue(auto_repeats.is_over([near, near]))
        self.assertFalse(auto_repeats.is_over([near[:6], far[:6]]))

    def test_a_word_other_than_auto_is_refused(self):
        with self.assertRaises(BadInput) as refused:
            read(SMALL.replace("repeats: 2", "repeats: often"))
        self.assertIn("a whole number from 1 to 1000, or auto", str(refused.exception))

    def test_the_plan_says_how_many_it_can_be(self):
        self.assertIn("6 to 24 repeats = at least 12 points", grid.plan(read(AUTO)))


class Preloads(unittest.TestCase):
    def test_repeats_share_clusters_in_turn_and_no_load(self):
        points = [each.params for each in grid.points(read(AUTO.replace("auto", "auto, preloads: 2, seed: 5")))]
        points = [each for each in points if each["value_size"] == 2048]
        self.assertEqual([each["seed"] for each in points], [5, 6, 5, 6, 5, 6])
        self.assertEqual([each.get("load_seed") for each in points], [None, None, 7, 8, 9, 10])

    def test_without_the_key_each_repeat_has_its_own(self):
        points = grid.points(read(AUTO))
        self.assertEqual({each.params["seed"] for each in points}, set(range(1, 7)))
        self.assertFalse(any("load_seed" in each.params for each in points))

    def test_measured_repeats_share_none(self):
        measured = AUTO.replace("fabric: sim", "fabric: shm").replace("hardware: connectx3-10gbe\n", "")
        points = grid.points(read(measured.replace("auto", "auto, preloads: 1")))
        self.assertEqual({each.params["seed"] for each in points}, set(range(1, 7)))


class Run(Folder):
    """Runs with a fake loch-bench, whose throughput and latency grow by 0.1 % with each seed, or by FAKE_NOISE."""

    def rows(self, out):
        with open(out / "table.csv", encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    def run_it(self, text, out, status=0, **environment):
        count = self.folder / "count"
        done = self.loch("run", self.write(text), "--out", out, FAKE_COUNT=str(count), **environment)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done, len(count.read_text().splitlines())

    def repeats(self, out):
        found = {}
        for row in self.rows(out):
            found[row["value_size"]] = found.get(row["value_size"], 0) + 1
        return found

    def test_only_points_with_a_wide_interval_are_repeated(self):
        out = self.folder / "out"
        _, ran = self.run_it(AUTO, out, FAKE_NOISE="value-size=4096")
        self.assertEqual(self.repeats(out), {"2048": 6, "4096": 9})
        self.assertEqual(ran, 15)
        report = (out / "report.md").read_text(encoding="utf-8")
        self.assertIn("n = 6 to 9 runs", report)
        self.assertIn("The interval of 1 point is wider than 2 % of the median: CD value_size=4K.", report)
        self.assertIn("seeds 1 to 9", report)
        self.assertEqual({row["seed"] for row in self.rows(out)}, {str(seed) for seed in range(1, 10)})
        _, again = self.run_it(AUTO, out, FAKE_NOISE="value-size=4096")
        self.assertEqual(again, 15)  # a complete run is not run again, and asks for no more repeats

    def test_an_interrupted_run_ends_with_the_same_repeats(self):
        whole, cut = self.folder / "whole", self.folder / "cut"
        self.run_it(AUTO, whole, FAKE_NOISE="value-size=4096")
        self.run_it(AUTO, cut, FAKE_NOISE="value-size=4096")
        for path in sorted((cut / "points").glob("*.json"))[::2]:
            path.unlink()
        self.run_it(AUTO, cut, FAKE_NOISE="value-size=4096")
        self.assertEqual((whole / "table.csv").read_bytes(), (cut / "table.csv").read_bytes())

    def test_a_point_that_fails_is_not_repeated_further(self):
        out = self.folder / "out"
        _, ran = self.run_it(AUTO, out, status=1, FAKE_NOISE="value-size=4096", FAKE_FAIL="value-size=4096,seed=3")
        self.assertEqual(ran, 12)
        self.assertEqual(self.repeats(out), {"2048": 6, "4096": 6})

    def test_repeats_in_two_groups_are_named_and_drawn_one_by_one(self):
        out = self.folder / "out"
        fixed = AUTO.replace("repeats: auto", "repeats: 6")
        self.run_it(fixed, out, FAKE_SPIKE="value-size=4096,seed=5")
        svg = (out / "figure.svg").read_text(encoding="utf-8")
        self.assertEqual(svg.count('id="repeat"'), 1)
        self.assertIn("CD value_size=4K", (out / "report.md").read_text(encoding="utf-8"))
        self.run_it(fixed, self.folder / "plain")
        self.assertNotIn('id="repeat"', (self.folder / "plain" / "figure.svg").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
