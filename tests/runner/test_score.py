"""Tests of scores, comparisons with published numbers, and verdicts on claims."""

import json
import re
import shutil
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from support import SMALL, Folder
from loch.runner import located, outputs, predictions, published, report, score, targets
from loch.runner.errors import BadInput

CLAIMS = """\
claims:
  # V87: a comment is no data
  - {about: V88, claim: CD.latency_us.get.mean < CD.latency_us.put.mean}
  - {about: V88, claim: CD.latency_us.get.mean < CD.latency_us.delete.mean}
  - {about: V88, claim: CD.latency_us.get.mean > CD.latency_us.put.mean where value_size >= 4K}
  - {claim: CD.latency_us.get.nothing > 0, about: [V89, V90], why: docs/fidelity.md#method}
  - "CD[value_size=8K].latency_us.get.mean > CD.latency_us.get.mean where value_size < 8K"
"""


def comparison(number, obtained, value):
    return published.Comparison(published.Cell(f"V{number}", "f", "CD", 2048, value), "CD", obtained)


class Arithmetic(unittest.TestCase):
    def test_bands_median_and_worst(self):
        parts = [
            comparison(1, 105, 100),
            comparison(2, 91, 100),
            comparison(3, 124, 100),
            comparison(4, 60, 100),
            comparison(5, 50, None),
            comparison(6, None, 100),
        ]
        total = published.score(parts)
        self.assertEqual((total.numbers, total.within_5, total.within_10, total.within_25), (4, 1, 2, 3))
        self.assertAlmostEqual(total.median_error, (0.09 + 0.24) / 2)
        self.assertEqual((total.worst.cell.id, round(total.worst.error, 3)), ("V4", -0.4))

    def test_nothing_to_compare(self):
        self.assertEqual(published.score([comparison(1, 3, None)]).text(), "no published number can be compared")

    def test_only_exact_numbers_that_nothing_was_calibrated_on_count(self):
        def one(**more):
            return published.Comparison(published.Cell("V9", "f", "CD", 1, 100.0, **more), "CD", 110.0)

        parts = [one(), one(kind="D"), one(kind="T"), one(calibration=True)]
        self.assertEqual([part.counts for part in parts], [True, False, False, False])
        self.assertEqual(published.score(parts).numbers, 1)

    def test_a_withheld_number_is_a_prediction_without_an_error(self):
        scored = score.Scored(Path("small"), "small", "nessie-2015", [], [])
        line = score._of_comparison(scored, comparison(117, 105, None))
        self.assertEqual((line.status, line.obtained, line.error, line.counts), ("withheld", 105, None, False))
        self.assertEqual(score._published(line), "withheld")
        self.assertEqual(report.comparison_table([comparison(117, 105, None)])[0][4:], ["withheld", "105", "–"])

    def test_what_the_list_says_of_a_target_holds_for_its_numbers(self):
        listed = targets.load(published.FOLDER)
        self.assertEqual((len(listed), list(listed)[0], list(listed)[-1]), (192, "V1", "V192"))
        self.assertTrue(listed["V167"].calibration and not listed["V155"].calibration)
        self.assertTrue(listed["V117"].withheld)
        cells = [published._as_listed(published.Cell(each, "", "", None, 1.0)) for each in ("V167c", "V155a", "V88")]
        self.assertEqual([(c.calibration, c.kind) for c in cells], [(True, "E"), (False, "E"), (False, "T")])

    def test_table_1_as_printed(self):
        item = published.find("nessie-2017", "Table 1")
        self.assertEqual(len(item.cells), 84)
        self.assertEqual((item.cells[0].id, item.cells[-1].id), ("V1", "V84"))
        self.assertEqual(sum(cell.value is None for cell in item.cells), 0)
        self.assertEqual(item.value("latency_us.put.mean", "HY", 32768), 271)
        self.assertEqual(item.value("latency_us.put.mean", "CD", 131072), 1533)
        self.assertEqual(item.value("gb_sent_all", "SD", 8192), 1590)
        for series in ("CD", "SD", "HY"):  # at 50 % GETs the latency of "all" must be the mean of GET and PUT
            for get, put, both in zip(*(item.series(f"latency_us.{k}.mean", series) for k in ("get", "put", "all"))):
                self.assertLessEqual(abs((get.value + put.value) / 2 - both.value), 1.0)


class Scoring(Folder):
    def setUp(self):
        super().setUp()
        done = self.loch("run", self.write(SMALL + CLAIMS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.printed = done.stdout

    def test_claims_are_held_not_held_or_not_evaluated(self):
        manifest = json.loads((self.folder / "results" / "small" / "manifest.json").read_text())
        self.assertEqual([claim["held"] for claim in manifest["claims"]], [True, None, False, None, True])
        self.assertIn("CD has no latency_us.delete.mean", manifest["claims"][1]["why"])
        self.assertIn("value_size 4K", manifest["claims"][2]["why"])
        self.assertIn("CD has no latency_us.get.nothing", manifest["claims"][3]["why"])
        self.assertEqual(manifest["claims"][4]["places"], 2)
        self.assertIn("claim NOT held", self.printed)

    def test_score_in_words_and_as_json(self):
        done = self.loch("score")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| V1 | latency_us.get.mean (CD, 2K) | 19 |", done.stdout)
        self.assertIn("| V2 | latency_us.get.mean (CD, 4K) | 27 |", done.stdout)
        self.assertIn("2 of 3 claims held, 2 not evaluated", done.stdout)
        self.loch("score", "results", "--json", "score.json")
        found = json.loads((self.folder / "score.json").read_text())
        by_id = {each["id"]: each for each in found["numbers"]}
        self.assertAlmostEqual(by_id["V1"]["error"], by_id["V1"]["obtained"] / 19 - 1)
        self.assertFalse(by_id["V2"]["withheld"])
        self.assertEqual(found["summary"]["numbers"], 9)  # the numbers are of GET, PUT and all, at 2K, 4K and 8K

    def test_every_point_of_an_item_that_asks_for_predictions_is_listed(self):
        results, _, _ = outputs.load(self.folder / "results" / "small")
        item = replace(published.of(results), predictions=("latency_us.get.mean", "no.such_field"))
        asked = predictions.of_results(results, item, published.compare(results))
        places = {(row.point.system, tuple(row.point.axes.items())) for row in results.rows}
        self.assertEqual({(each.system, each.axes) for each in asked}, places)
        self.assertEqual(len(asked), len(places))
        first = next(each for each in asked if each.system == "CD" and dict(each.axes)["value_size"] == 2048)
        obtained = results.median("CD", dict(first.axes), "latency_us.get.mean")
        self.assertEqual(first.obtained, (("latency_us.get.mean", obtained), ("no.such_field", None)))
        self.assertEqual(first.published, (19, None))
        text = "\n".join(predictions.markdown(asked))
        self.assertIn(f"| CD | 2K | {report.number(obtained)} (19) | no result | {first.repeats} |", text)
        self.assertEqual(predictions.as_json(asked)[0]["at"], dict(asked[0].axes))
        self.assertEqual(predictions.of_results(results, published.of(results), []), [])  # Table 1 asks for none
        self.assertEqual(predictions.markdown([]), [])

    def test_predictions_of_one_experiment_are_those_of_the_first_folder(self):
        small = self.folder / "results" / "small"
        shutil.copytree(small, self.folder / "results" / "twice")
        item = replace(published.of(outputs.load(small)[0]), predictions=("throughput_ops_s",))
        with mock.patch.object(published, "of", lambda results: item):
            sheet = score.gather(self.folder / "results", with_calibration=False)
        self.assertEqual([bool(each.predictions) for each in sheet.scored], [True, False])
        self.assertIn("twice: predictions of small are in another folder; the first counts", "\n".join(sheet.notes))

    def test_a_list_of_predictions_is_checked(self):
        for text in (
            "predictions: rate",
            "predictions: []",
            "predictions: [rate, rate]",
            "predictions: [1]",
            'predictions: [""]',
        ):
            path = self.write(text, "item.yaml")
            with self.assertRaisesRegex(BadInput, r"item.yaml:1: predictions: expected a list of result fields"):
                published._predictions(located.load(path).mapping()["predictions"])

    def test_smart_asks_for_every_figure_of_which_rows_are_withheld(self):
        for item in ("Figure 5", "Figure 7", "Figure 8", "Figure 9", "Figure 14"):
            self.assertIn("throughput_ops_s", published.find("smart-2024", item).predictions, item)

    def test_no_target_is_dropped(self):
        self.loch("score", "results", "--json", "score.json")
        found = json.loads((self.folder / "score.json").read_text())
        status = {}
        for line in found["targets"]:
            status.setdefault(targets.base(line["id"]), set()).add(line["status"])
        self.assertEqual(sorted(status, key=targets.number), [f"V{i}" for i in range(1, 193)])
        self.assertEqual(
            [status[f"V{i}"] for i in (1, 2, 4, 88, 89, 109, 167, 181)],
            [
                {"obtained"},
                {"obtained"},
                {"no result stored"},
                {"claims"},
                {"claims"},
                {"elsewhere"},
                {"calibration"},
                {"no result stored"},
            ],
        )
        self.assertEqual(sum(found["summary"]["targets"].values()), 192)

    def test_misses_point_to_their_explanation(self):
        shown = self.loch("score").stdout
        told = re.search(r"where value_size >= 4K` is not held: (\S+)", shown)
        # the claim names no explanation of its own, so the page links to that of the published item
        self.assertEqual(told.group(1), "docs/fidelity.md#nessie-2017")
        self.assertIn("(docs/fidelity.md#method)", shown)
        self.assertIn("| V85 |", shown)
        self.assertRegex(shown, r"\d+ numbers: \d+ within 5 %, \d+ within 10 %, \d+ within 25 %; median absolute error")
        self.assertIn("192 targets:", shown)

    def test_a_miss_that_nothing_explains_is_said(self):
        line = score.Line("V9", "p", "x", 1.0, 2.0, 1.0, "obtained")
        sheet = score.Sheet(
            [], [line, replace(line, error=0.2), replace(line, kind="T"), replace(line, explained="docs/x.md#y")]
        )
        self.assertEqual([where for _, where in score.to_explain(sheet)], ["", "docs/x.md#y"])
        self.assertIn("V9, x: +100.0%: **no explanation named**", score.markdown(sheet, self.folder))

    def test_a_stored_calibration_is_not_made_again(self):
        (self.folder / "results" / "calibration.json").write_text("[]")
        self.loch("score", "results", "--json", "score.json")
        found = json.loads((self.folder / "score.json").read_text())
        self.assertEqual({line["status"] for line in found["targets"] if line["id"] == "V167"}, {"no result stored"})

    def test_a_number_is_scored_once(self):
        self.loch("run", self.write(SMALL), "--out", "results/zzz")
        self.loch("score", "--json", "score.json")
        self.assertEqual(json.loads((self.folder / "score.json").read_text())["summary"]["numbers"], 9)

    def test_experiments_may_stay_out(self):
        self.loch("run", self.write(SMALL.replace("item: Table 1", "item: Table 1, score: false")), "--out", "apart")
        done = self.loch("score", "apart")
        self.assertIn("No stored results", done.stdout)

    def test_damaged_manifests_are_named(self):
        (self.folder / "results" / "small" / "manifest.json").write_text("{")
        done = self.loch("score")
        self.assertEqual(done.returncode, 2)
        self.assertIn("manifest.json: not a manifest", done.stderr)


if __name__ == "__main__":
    unittest.main()
