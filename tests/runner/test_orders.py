"""Tests of the order of two systems as published and as obtained: verdicts by interval, pairs of repeats, bad input."""

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from loch.runner import orders, published, second_score
from loch.runner.errors import BadInput


def pair(lead, low, high, ahead=5, repeats=5, alike=0.05):
    return orders.Pair("p", "e", "rate", "A", "B", "clients 8", lead, low, high, ahead, repeats, alike)


class Verdicts(unittest.TestCase):
    def test_a_pair_is_decided_only_where_both_leads_have_a_sign(self):
        for lead, low, high, expected in (
            (0.10, 0.01, 0.03, orders.HELD),
            (-0.10, -0.03, -0.01, orders.HELD),
            (0.10, -0.03, -0.01, orders.NOT_HELD),
            (-0.10, 0.01, 0.03, orders.NOT_HELD),
            (0.10, -0.01, 0.03, orders.UNDECIDED),
            (0.10, 0.0, 0.03, orders.UNDECIDED),
            (-0.048, 0.01, 0.03, orders.NOT_HELD),  # the other one is 5.04 % ahead
        ):
            self.assertEqual(pair(lead, low, high).verdict, expected, (lead, low, high))

    def test_a_pair_that_is_published_as_level_has_to_be_level(self):
        for lead, low, high, expected in (
            (0.04, 0.01, 0.03, orders.HELD),
            (0.04, -0.04, 0.049, orders.HELD),
            (-0.045, 0.01, 0.03, orders.HELD),
            (0.0, 0.0, 0.0, orders.HELD),
            (0.04, 0.01, 0.06, orders.UNDECIDED),
            (0.04, -0.06, 0.01, orders.UNDECIDED),
            (0.04, -0.2, 0.2, orders.UNDECIDED),
            (0.04, 0.06, 0.08, orders.NOT_HELD),  # the order as published, but a lead that was not
            (0.04, -0.08, -0.06, orders.NOT_HELD),
            (0.04, -0.0477, 0.01, orders.UNDECIDED),  # the other one is 5.01 % ahead
            (0.04, -0.0476, 0.01, orders.HELD),
        ):
            self.assertEqual(pair(lead, low, high).verdict, expected, (lead, low, high))
            self.assertTrue(pair(lead, low, high).is_level)
        self.assertFalse(pair(0.06, 0.01, 0.03).is_level)

    def test_four_repeats_decide_nothing(self):
        self.assertEqual(pair(0.5, 0.4, 0.6, 4, 4).verdict, orders.UNKNOWN)

    def test_the_order_of_most_repeats_is_told_apart_from_the_verdict(self):
        self.assertTrue(pair(0.02, -0.01, 0.03, 3).is_in_order)
        self.assertFalse(pair(0.02, -0.01, 0.03, 2).is_in_order)
        self.assertTrue(pair(-0.02, -0.01, 0.03, 2).is_in_order)
        self.assertFalse(pair(-0.02, -0.01, 0.03, 2, 4).is_in_order)

    def test_the_score_lists_what_is_not_held_with_the_published_lead(self):
        part = second_score.Part(pairs=[pair(0.5, 0.4, 0.6), pair(0.021, -0.071, -0.012, 0), pair(0.1, -0.2, -0.1, 0)])
        text = "\n".join(second_score.markdown(second_score.merged([part])))
        self.assertIn("p: 3 pairs: 1 held, 1 not held, 1 undecided. Most repeats have the published order in 1.", text)
        self.assertIn(
            "* undecided: A over B, clients 8: published +2.1 %, obtained −7.1 % to −1.2 %, ahead in 0 of 5 repeats",
            text,
        )
        self.assertIn("* **not held**: A over B", text)
        level = second_score.Part(pairs=[pair(0.5, 0.4, 0.6), pair(0.02, 0.0, 0.01)])
        text = "\n".join(second_score.markdown(second_score.merged([level])))
        self.assertIn("p: 2 pairs: 2 held (1 of them level, as published).", text)
        turned = second_score.Part(pairs=[pair(0.02, 0.0, 0.01), pair(0.02, -0.02, 0.01, 2)])
        text = "\n".join(second_score.markdown(second_score.merged([turned])))
        self.assertIn(
            "p: 2 pairs: 2 held (2 of them level, as published, 1 of these with the other one ahead in most repeats).",
            text,
        )
        self.assertIn(
            "* level, the other one ahead: A over B, clients 8: published +2.0 %, obtained −2.0 % to +1.0 %", text
        )
        self.assertEqual(text.count("* level"), 1)
        listed = second_score.as_json(part)["orders"]
        self.assertEqual([each["verdict"] for each in listed], ["held", "undecided", "not held"])


class Results(unittest.TestCase):
    def of(self, rates, repeats, cells=None):
        """The pairs of series A, B and C with these rates by series and repeat."""
        axes = {"clients": 8}
        cells = cells or {"A": 3.0, "B": 2.0, "C": 1.0}
        item = SimpleNamespace(source="p", orders=("A", "B", "C"), alike=0.05)

        def comparison(series, value):
            cell = published.Cell("V1", "rate", series, 8, value, axis="clients")
            return published.Comparison(cell, "System" + series, 1.0, tuple(axes.items()), field="rate")

        def at(system, _):
            found = zip(repeats[system[-1]], rates[system[-1]])
            return [
                SimpleNamespace(
                    point=SimpleNamespace(repeat=n), fields={"rate": rate} if rate else {}, ok=rate is not None
                )
                for n, rate in found
            ]

        results = SimpleNamespace(experiment=SimpleNamespace(name="e"), at=at)
        with (
            mock.patch.object(published, "of", return_value=item),
            mock.patch.object(published, "compare", return_value=[comparison(*each) for each in cells.items()]),
        ):
            return orders.of_results(results)

    def test_repeats_of_one_number_are_compared(self):
        # in each repeat A is 10 % ahead of B, though B's most is above A's least
        many = list(range(5))
        found = self.of(
            {"A": [11.0, 22.0, 33.0, 44.0, 55.0], "B": [10.0, 20.0, 30.0, 40.0, 50.0], "C": [None] * 5},
            {"A": many, "B": many[::1], "C": many},
        )
        self.assertEqual([(each.first, each.second, each.verdict) for each in found], [("A", "B", orders.HELD)])
        self.assertAlmostEqual(found[0].low, 0.1)
        self.assertAlmostEqual(found[0].published, 0.5)
        shifted = self.of(
            {"A": [11.0, 22.0], "B": [20.0, 10.0], "C": [None] * 2}, {"A": [0, 1], "B": [1, 0], "C": [0, 1]}
        )
        self.assertAlmostEqual(shifted[0].low, 0.1)

    def test_each_pair_of_the_series_is_there_and_no_withheld_number(self):
        one = {name: [1.0] for name in "ABC"}
        at = {name: [0] for name in "ABC"}
        self.assertEqual(len(self.of(one, at)), 3)
        self.assertEqual(len(self.of(one, at, {"A": 3.0, "B": None, "C": 1.0})), 1)


class File(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.yaml"
            path.write_text(
                "items:\n  F:\n    axis: clients\n    at: [8]\n    first_id: 1\n"
                f"    metrics: {{rate: {{A: [1], B: [2]}}}}\n    orders: {text}\n",
                encoding="utf-8",
            )
            with mock.patch.object(published, "FOLDER", Path(folder)), mock.patch.object(
                published.targets, "load", return_value={}
            ):
                return published.find.__wrapped__("x", "F")

    def test_good_and_bad_orders(self):
        item = self.read("{series: [B, A], alike: 0.05}")
        self.assertEqual((item.orders, item.alike), (("B", "A"), 0.05))
        for text, said in (
            ("{series: [A, B]}", "alike"),
            ("{series: [A], alike: 0}", "at least two series"),
            ("{series: [A, A], alike: 0}", "at least two series"),
            ("{series: [A, C], alike: 0}", "not C"),
            ("{series: [A, B], alike: 5}", "from 0 to below 1"),
            ("{series: [A, B], alike: 0, by: 1}", "by"),
        ):
            with self.assertRaisesRegex(BadInput, said):
                self.read(text)

    def test_figure_8_of_smart_has_a_pair_for_two_of_three_systems_at_27_places(self):
        item = published.find("smart-2024", "Figure 8")
        places: dict = {}
        for cell in item.cells:
            if cell.series in item.orders and cell.value:
                places.setdefault((cell.at, cell.where), []).append(cell)
        self.assertEqual(sum(len(each) * (len(each) - 1) // 2 for each in places.values()), 81)


if __name__ == "__main__":
    unittest.main()
