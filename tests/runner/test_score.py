"""Scores, comparisons with published numbers, and verdicts on claims."""

import json
import unittest

from support import SMALL, Folder
from runner import published

CLAIMS = """\
claims:
  - CD.latency_us.get.mean < CD.latency_us.put.mean
  - CD.latency_us.get.mean < CD.latency_us.delete.mean
  - CD.latency_us.get.mean > CD.latency_us.put.mean where value_size >= 4K
  - CD.latency_us.get.nothing > 0
  - "CD[value_size=8K].latency_us.get.mean > CD.latency_us.get.mean where value_size < 8K"
"""


def comparison(number, obtained, value):
    return published.Comparison(published.Cell(f"V{number}", "f", "CD", 2048, value), "CD", obtained)


class Arithmetic(unittest.TestCase):
    def test_bands_median_and_worst(self):
        parts = [comparison(1, 105, 100), comparison(2, 91, 100), comparison(3, 124, 100), comparison(4, 60, 100),
                 comparison(5, 50, None), comparison(6, None, 100)]
        score = published.score(parts)
        self.assertEqual((score.numbers, score.within_5, score.within_10, score.within_25), (4, 1, 2, 3))
        self.assertAlmostEqual(score.median_error, (0.09 + 0.24) / 2)
        self.assertEqual((score.worst.cell.id, round(score.worst.error, 3)), ("V4", -0.4))

    def test_nothing_to_compare(self):
        self.assertEqual(published.score([comparison(1, 3, None)]).text(), "no published number can be compared")

    def test_table_1_as_printed(self):
        item = published.find("nessie-2017", "Table 1")
        self.assertEqual(len(item.cells), 84)
        self.assertEqual((item.cells[0].id, item.cells[-1].id), ("V1", "V84"))
        self.assertEqual(sum(cell.value is None for cell in item.cells), 24)
        self.assertEqual(item.value("latency_us.put.mean", "CD", 131072), 1533)
        self.assertEqual(item.value("gb_sent_all", "SD", 8192), 1590)
        for series in ("CD", "SD", "HY"):  # "all" is the mean of GET and PUT, as it must be at 50 % GETs
            for get, put, both in zip(*(item.series(f"latency_us.{k}.mean", series) for k in ("get", "put", "all"))):
                if get.value is not None:
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
        self.assertIn("| V1 | latency_us.get.mean | CD | 2K | 19 |", done.stdout)
        self.assertIn("| V2 | latency_us.get.mean | CD | 4K | withheld |", done.stdout)
        self.assertIn("2 of 3 claims held, 2 not evaluated", done.stdout)
        self.loch("score", "results", "--json", "score.json")
        score = json.loads((self.folder / "score.json").read_text())
        by_id = {each["id"]: each for each in score["numbers"]}
        self.assertAlmostEqual(by_id["V1"]["error"], by_id["V1"]["obtained"] / 19 - 1)
        self.assertTrue(by_id["V2"]["withheld"])
        self.assertIsNone(by_id["V2"]["error"])
        self.assertIsNotNone(by_id["V2"]["obtained"])
        self.assertEqual(score["summary"]["numbers"], 6)  # GET, PUT and all, at 2K and 8K

    def test_a_number_is_scored_once(self):
        self.loch("run", self.write(SMALL), "--out", "results/zzz")
        self.loch("score", "--json", "score.json")
        self.assertEqual(json.loads((self.folder / "score.json").read_text())["summary"]["numbers"], 6)

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
