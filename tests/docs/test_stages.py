"""Tests of the table in docs/simulator.md: it agrees with the functions that compute stages' costs, and the simulator
calls each of these functions."""

from __future__ import annotations

import re
import unittest

import stages


class Page(unittest.TestCase):
    def test_every_function_says_its_stage_its_formula_and_its_source(self) -> None:
        self.assertEqual(stages.incomplete(stages.all_functions()), [])

    def test_the_table_is_of_todays_functions(self) -> None:
        page = stages.PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, stages.drawn(page, stages.all_functions()), "tests/docs/stages.py --draw")

    def test_every_function_is_used_by_the_simulator_and_tested(self) -> None:
        def words(names: list[str]) -> set[str]:
            return {word for name in names for word in re.findall(r"\w+(?=\()", (stages.SIM / name).read_text("utf-8"))}

        headers = list(stages.HEADERS)
        sources = [file.name for file in stages.SIM.glob("*.cc") if not file.stem.endswith(("_test", "_bench"))]
        tests = [header.replace(".h", "_test.cc") for header in headers]
        names = {each.name for each in stages.all_functions()}
        bodies = {name for name in names if self.calls_within_headers(name) > 1}
        self.assertEqual(names - words(sources) - bodies, set(), "nothing but its own header mentions it")
        self.assertEqual(names - words(tests), set(), "no test mentions it")

    def calls_within_headers(self, name: str) -> int:
        texts = ((stages.SIM / header).read_text(encoding="utf-8") for header in stages.HEADERS)
        return sum(len(re.findall(rf"^(?!//).*\b{name}\(", text, re.M)) for text in texts)


class CanFail(unittest.TestCase):
    TEXT = (
        "// ---- Buses ----\n\n// What it is, in\n// two lines:\n//   a/b\n//   c\n// Source: a paper,\n// page 3.\n"
        "[[nodiscard]] constexpr Picos f(int a) {\n  return a;\n}\n"
    )

    def test_a_comment_is_taken_apart(self) -> None:
        self.assertEqual(
            list(stages.functions(self.TEXT)),
            [stages.Function("Buses", "f", "What it is, in two lines:", "a/b; c", "a paper, page 3.")],
        )

    def test_what_is_missing_is_named(self) -> None:
        def without(*parts: str) -> list[str]:
            text = self.TEXT
            for part in parts:
                text = text.replace(part, "")
            return stages.incomplete(list(stages.functions(text)))

        self.assertEqual(without(), [])
        self.assertEqual(without("//   a/b\n//   c\n"), ["f has no formula"])
        self.assertEqual(without("// Source: a paper,\n// page 3.\n"), ["f has no source"])
        self.assertEqual(without("// ---- Buses ----\n"), ["f has no stage"])

    def test_another_formula_is_another_page(self) -> None:
        page = stages.PAGE.read_text(encoding="utf-8")
        found = stages.all_functions()
        other = [found[0]._replace(formula=found[0].formula + " + 1"), *found[1:]]
        self.assertNotEqual(page, stages.drawn(page, other))
        self.assertNotEqual(page, stages.drawn(page, found[1:]))
        self.assertRaises(ValueError, stages.drawn, "a page without the place", found)


if __name__ == "__main__":
    unittest.main()
