"""Tests of plots/published/misses.yaml: every published rate that the simulator misses by more than 30 % is named there
with the mechanism that is missing, and no other one is."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

from support import BINARY, ROOT, EndToEnd

sys.path.insert(0, str(ROOT / "tools"))
from loch.ending import CommandError  # noqa: E402
from loch.measured_rows import main, misses  # noqa: E402

DATA = ROOT / "experiments/hardware/data"


def miss() -> misses.Miss:
    rows = [{"threads": ["2", "4"], "size": ["8"]}]
    return misses.Miss(name="lost", table="t.csv", mechanism="why", tried="what", rows=rows)


class Listed(unittest.TestCase):
    """Tests of the list, without a run."""

    def test_every_line_names_rows_and_no_row_is_named_twice(self) -> None:
        for each in misses.listed():
            rows = main.read_table(str(DATA / each.table)).rows
            for line in each.rows:
                self.assertTrue(set(line) <= set(rows[0]), line)
                one = each.copy(update={"rows": [line]})
                self.assertTrue(any(one.has(row) for row in rows), line)
            others = [
                other for other in misses.of_table(misses.listed(), each.table) if other is not each and other != each
            ]
            for row in rows:
                self.assertFalse(each.has(row) and misses.name_of(others, row), row)

    def test_all_conditions_of_one_line_have_to_hold(self) -> None:
        found = miss()
        self.assertTrue(found.has({"threads": "4", "size": "8", "other": "x"}))
        self.assertFalse(found.has({"threads": "3", "size": "8"}))
        self.assertFalse(found.has({"threads": "4", "size": "16"}))
        self.assertFalse(found.has({"threads": "4"}))

    def test_rows_that_are_not_named_and_names_that_are_stale_are_told(self) -> None:
        judged = [
            misses.Judged("a", 0.5, "lost"),
            misses.Judged("b", -0.31, ""),
            misses.Judged("c", 0.29, "lost"),
            misses.Judged("d", 0.3, ""),
        ]
        self.assertEqual([each.title for each in misses.unnamed(judged)], ["b"])
        self.assertEqual([each.title for each in misses.stale(judged)], ["c"])
        text = misses.text_of([miss()], judged)
        self.assertIn("lost, 1 rows more than 30 % off:\n  why\n  Tried: what\n", text)
        self.assertIn("not named in misses.yaml: b: -31.0 %\n", text)
        self.assertIn("named lost in misses.yaml, but within 30 %: c: +29.0 %\n", text)
        self.assertEqual(misses.text_of([miss()], [misses.Judged("d", 0.1, "")]), "")

    def test_a_row_has_the_name_beside_its_error(self) -> None:
        table = main.read_table(str(DATA / "rc-swarm.csv"))
        named = misses.of_table(misses.listed(), table.file)
        table.rows = [row for row in table.rows if misses.name_of(named, row)][:1]
        rate = main.published_rate(table, table.rows[0])
        text = main.comparison(table, [main.Outcome(1.5 * rate)], named)
        self.assertIn(f"+50.0 %  {misses.name_of(named, table.rows[0])}\n", text)
        self.assertNotIn("misses.yaml", text)
        self.assertIn("but within 30 %", main.comparison(table, [main.Outcome(rate)], named))
        self.assertNotIn("within 30 %:", main.comparison(table, [main.Outcome(rate)]))


class BadList(EndToEnd):
    def test_what_is_no_list_is_one_line(self) -> None:
        path = self.folder / "plots/published/misses.yaml"
        path.parent.mkdir(parents=True)
        for text in (
            "misses: [{name: x}]",
            "x",
            "",
            "- 3",
            "misses: 3",
            "misses: [3]",
            "a: [",
            "mechanisms: []",
            "misses: [{name: a, table: t, mechanism: m, tried: t, rows: [], more: 1}]",
        ):
            path.write_text(text, encoding="utf-8")
            with mock.patch.dict(os.environ, LOCH_HOME=str(self.folder)), self.assertRaises(
                CommandError, msg=text
            ) as caught:
                misses.listed()
            self.assertNotIn("\n", str(caught.exception))
        path.unlink()
        with mock.patch.dict(os.environ, LOCH_HOME=str(self.folder)):
            self.assertEqual(misses.listed(), [])


class Simulated(unittest.TestCase):
    """Simulates rows of rc-swarm: some, or all of them with LOCH_ALL_ROWS."""

    def test_what_is_named_is_missed_and_what_is_missed_is_named(self) -> None:
        table = main.read_table(str(DATA / "rc-swarm.csv"))
        named = misses.of_table(misses.listed(), table.file)
        if not os.environ.get("LOCH_ALL_ROWS"):
            table.rows = chosen(named, table.rows)
        outcomes = main.run_all(table, "", [BINARY, "bench"], len(os.sched_getaffinity(0)))
        judged = []
        for row, outcome in zip(table.rows, outcomes):
            self.assertEqual(outcome.reason, "", row)
            assert outcome.rate is not None
            error = outcome.rate / main.published_rate(table, row) - 1
            judged.append(misses.Judged(table.format.title(row), error, misses.name_of(named, row)))
        self.assertEqual([f"{each.title}: {100 * each.error:+.1f} %" for each in misses.unnamed(judged)], [])
        self.assertEqual([f"{each.title}: {100 * each.error:+.1f} %" for each in misses.stale(judged)], [])
        self.assertGreater(sum(each.is_miss for each in judged), 8)
        self.assertFalse(all(each.is_miss for each in judged))


def chosen(named: list[misses.Miss], rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The first and the last row that each line of the list names, and one row beside them that is not missed."""
    out = []
    for each in named:
        for line in each.rows:
            one = each.copy(update={"rows": [line]})
            found = [row for row in rows if one.has(row)]
            out += [found[0], found[-1]]
    beside = {"threads_per_machine": "14", "vms_per_machine": "1", "size_bytes": "72", "window_per_thread": "32"}
    out += [row for row in rows if row["hardware"] == "connect-ib-2x56g" and beside.items() <= row.items()]
    return out


if __name__ == "__main__":
    unittest.main()
