"""Tests of units, and of the expressions in tune, derive and claims."""

import unittest

import support  # noqa: F401  (sets the path)
from loch.runner import expression, result, tables, units
from loch.runner.errors import nearest


class Units(unittest.TestCase):
    def test_sizes_are_powers_of_1024(self):
        self.assertEqual(
            [units.parse_size(t) for t in ("512", 512, "2K", "1.5M", "20G", "4KiB")],
            [512, 512, 2048, 1572864, 20 * 2**30, 4096],
        )
        self.assertEqual([units.parse_size(t) for t in ("", "K", "1.3", "-1", "2X", True)], [None] * 6)

    def test_durations_need_a_unit(self):
        self.assertEqual(
            [units.parse_duration(t) for t in ("5us", "50ms", "10s", "1.5us")], [5_000, 50_000_000, 10**10, 1_500]
        )
        self.assertIsNone(units.parse_duration("50"))

    def test_formatting_reads_back(self):
        for size in (1, 1000, 1024, 16384, 3 * 2**30):
            self.assertEqual(units.parse_size(units.format_size(size)), size)
        for span in (1, 1500, 2_000_000, 5_000_000_000):
            self.assertEqual(units.parse_duration(units.format_duration(span)), span)


def value(text, **names):
    return expression.evaluate(expression.parse_arithmetic(text), lambda name: names[name.path])


class Expressions(unittest.TestCase):
    def test_arithmetic_has_precedence_units_and_names(self):
        self.assertEqual(value("12 - servers", servers=3), 9)
        self.assertEqual(value("2 + 3 * (4 - 1) / 9"), 3)
        self.assertEqual(value("-2 * 2K"), -4096)
        self.assertEqual(value("1e9 / 5%"), 2e10)
        self.assertEqual(value("10 - 2 - 3"), 5)

    def test_division_by_zero_is_not_a_number(self):
        self.assertNotEqual(value("1 / x", x=0), value("1 / x", x=0))

    def test_nothing_but_the_language_is_read(self):
        for text in ("__import__('os')", "a ** 2", "f(1)", "1 +", "", "(1", "1 2", "a; b", "lambda: 1"):
            with self.assertRaises(expression.ExpressionError, msg=text):
                expression.parse_arithmetic(text)

    def test_claims_have_conditions_and_other_places(self):
        claim = expression.parse_claim(
            "CD.latency_us.all.mean < 1.1 * SD.latency_us.all.mean " "where value_size >= 16K and get == 0.5"
        )
        self.assertEqual(
            [name.path for name in expression.names(claim)], ["CD.latency_us.all.mean", "SD.latency_us.all.mean"]
        )
        self.assertEqual(
            [(c.left.path, c.sign, c.right) for c in claim.where], [("value_size", ">=", 16384.0), ("get", "==", 0.5)]
        )
        place = expression.parse_claim("CD[value_size=2K].throughput_ops_s > 0").left
        self.assertEqual((place.path, place.at), ("CD.throughput_ops_s", (("value_size", 2048.0),)))

    def test_a_claim_must_compare(self):
        for text in ("CD.x", "CD.x < ", "CD.x < 1 where", "CD.x < 1 where value_size", "CD[2K].x < 1"):
            with self.assertRaises(expression.ExpressionError, msg=text):
                expression.parse_claim(text)

    def test_nearest_name(self):
        self.assertEqual(nearest("vlaue_size", ["key_size", "value_size"]), "value_size")
        self.assertIsNone(nearest("zzzzzzzz", ["key_size", "value_size"]))


class Derived(unittest.TestCase):
    def test_a_derived_field_looks_into_lists(self):
        document = {
            "throughput_ops_s": 1,
            "runner": {},
            "duration_s": 0.5,
            "nodes": [{"counters": {"misses": 1}}, {"counters": {"misses": 4}}],
        }
        found = result.of_file("name", document, False, "name.json").result

        def derived(text):
            return tables._derived(expression.parse_arithmetic(text), tables.flatten(document), found)

        self.assertEqual(derived("nodes.1.counters.misses / duration_s"), 8)
        for missing in ("nodes.2.counters.misses", "nodes.first.counters.misses", "nodes.1.counters", "nodes"):
            self.assertIsNone(derived(missing), missing)


if __name__ == "__main__":
    unittest.main()
