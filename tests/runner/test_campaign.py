"""Tests of `loch run` with several experiments: one pool, one time estimate, kill and resume, reference
results, and report.html."""

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import ROOT, SMALL, Folder, call
from loch.runner import blocks, page
from loch.runner.blocks import Code, Heading, Lines, Paragraph, Plain, Point, Strong

TUNED = (
    SMALL.replace("name: small", "name: tuned")
    .replace("clients: 12", "tune: {clients: [6, 9, 12]}, maximize: throughput_ops_s")
    .replace("repeats: 2", "repeats: 1")
)
LOCAL = (
    SMALL.replace("name: small", "name: local")
    .replace("fabric: sim", "fabric: shm")
    .replace("hardware: connectx3-10gbe\n", "")
    .replace("{nodes: 15}", "{nodes: 2}")
    .replace("repeats: 2", "repeats: 1")
    .replace("paper: {source: nessie-2017, item: Table 1}\n", "")
)
CDF = SMALL.replace("name: small", "name: spread").replace(
    "{kind: line, y: latency_us.get.mean}", "{kind: cdf, y: [latency_us.get, verbs.per_put.cdf.total]}"
)


def write_all(folder):
    """Writes four experiments into a folder."""
    (folder / "yaml").mkdir()
    for name, text in (
        ("a", SMALL + "claims: ['CD.latency_us.get.mean > CD.latency_us.put.mean']\n"),
        ("b", TUNED),
        ("c", LOCAL),
        ("d", CDF),
    ):
        (folder / "yaml" / f"{name}.yaml").write_text(text, encoding="utf-8")


def ran(count):
    return len(count.read_text().splitlines()) if count.exists() else 0


class Interrupted(Folder):
    def setUp(self):
        super().setUp()
        self.count = self.folder / "count"
        write_all(self.folder)
        for name in ("c", "d"):
            (self.folder / "yaml" / f"{name}.yaml").unlink()

    def bytes_of(self, out):
        """The outputs that must not depend on when and how often the runner ran."""
        kept = {}
        for name in ("small", "tuned"):
            folder = self.folder / out / name
            for file in ("table.csv", "figure.svg", "figure.pdf", "figure.png"):
                kept[name, file] = (folder / file).read_bytes()
            kept[name, "tuned"] = json.loads((folder / "manifest.json").read_text())["tuned"]
        return kept

    def test_kill_9_and_resume_give_the_same_bytes(self):
        argv = ("run", "yaml", "--jobs", "2", "--out")
        self.assertEqual(self.loch(*argv, "whole").returncode, 0)
        whole = self.bytes_of("whole")
        for kills in range(3):
            runner = subprocess.Popen(
                [sys.executable, str(ROOT / "tools/loch"), "--no-setup", *argv, "all"],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment(FAKE_COUNT=str(self.count), FAKE_SLEEP="0.1", FAKE_HANG="value-size=8192,seed=2"),
            )
            deadline = time.monotonic() + 120
            while ran(self.count) < 5 * (kills + 1) and time.monotonic() < deadline and runner.poll() is None:
                time.sleep(0.01)
            runner.send_signal(signal.SIGKILL)
            runner.wait()
        self.assertLess(len(list((self.folder / "all").glob("*/points/*.json"))), 6 + 9 + 3)
        self.assertEqual(self.loch(*argv, "all").returncode, 0)
        for what, found in self.bytes_of("all").items():
            self.assertEqual(found, whole[what], what)


class Campaign(unittest.TestCase):
    """Tests of the outputs of one run that has two failing points."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        cls.count = cls.folder / "count"
        write_all(cls.folder)
        cls.done = call(
            cls.folder,
            "run",
            "yaml",
            "--out",
            "all",
            "--jobs",
            "2",
            FAKE_COUNT=str(cls.count),
            FAKE_FAIL="value-size=4096,seed=2",
        )
        cls.made = call(cls.folder, "reference", "all", "--out", "reference")
        cls.root = cls.folder / "reference"

    def test_the_summary_says_what_came_of_each(self):
        self.assertEqual(self.done.returncode, 1, self.done.stderr)
        self.assertIn("4 experiments: 27 points to run, about", self.done.stderr)
        self.assertIn("tuned: 3 points, plus 9 short runs to tune", self.done.stderr)
        self.assertIn("small: claim NOT held: CD.latency_us.get.mean > CD.latency_us.put.mean", self.done.stdout)
        self.assertRegex(self.done.stdout, r"4 experiments in about .*; with failures: small, spread")
        self.assertIn("failed CD value_size=4K repeat 2: exit status 1: the store is full", self.done.stderr)
        self.assertEqual((self.folder / "all" / "report.html").read_text().count("<section id="), 4)

    def test_measured_points_come_alone_after_all_others(self):
        order = [("shm" if "--fabric shm" in line else "sim") for line in self.count.read_text().splitlines()]
        self.assertEqual(order, ["sim"] * 24 + ["shm"] * 3)

    def test_the_plan_has_a_total(self):
        done = call(self.folder, "run", "yaml", "--dry-run")
        self.assertRegex(done.stdout.splitlines()[-1], r"^4 experiments, about .* with --jobs \d+$")

    def test_two_experiments_of_one_name_are_refused(self):
        (self.folder / "same.yaml").write_text(SMALL, encoding="utf-8")
        done = call(self.folder, "run", "yaml", "same.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("same.yaml: name: small is also that of", done.stderr)

    def test_reference_results_draw_every_figure_without_running_anything(self):
        self.assertEqual(self.made.returncode, 0, self.made.stderr)
        before = ran(self.count)
        done = call(self.folder, "plot", "reference", LOCH_BIN="/nonexistent")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ran(self.count), before)
        for name in ("small", "tuned", "local", "spread"):
            for file in ("figure.svg", "figure.pdf", "figure.png"):
                self.assertEqual(
                    (self.root / name / file).read_bytes(),
                    (self.folder / "all" / name / file).read_bytes(),
                    f"{name}/{file}",
                )
        self.assertEqual((self.root / "report.html").read_text().count("<section id="), 4)

    def test_reference_results_score_as_the_run_does(self):
        for where in ("all", "reference"):
            call(self.folder, "score", where, "--json", f"{where}.json")
        first, second = (json.loads((self.folder / f"{where}.json").read_text()) for where in ("all", "reference"))
        self.assertEqual(first, second)
        self.assertGreater(first["summary"]["numbers"], 3)

    def test_reference_results_are_small_and_name_no_place_of_this_machine(self):
        kept = {
            path: path.read_text(encoding="utf-8")
            for path in self.root.glob("**/*")
            if path.suffix in (".csv", ".json", ".md", ".yaml")
        }
        self.assertEqual(len(kept), 1 + 4 * 5)
        self.assertLess(sum(map(len, kept.values())), 60_000)
        for path, text in kept.items():
            self.assertNotIn(str(self.folder), text, path)
        with open(self.root / "small" / "table.csv", encoding="utf-8") as stream:
            names = next(csv.reader(stream))
        self.assertIn("latency_us.get.mean", names)
        self.assertNotIn("latency_us.get.p99", names)
        self.assertEqual((self.root / "tuned" / "experiment.yaml").read_text(), TUNED)
        manifest = json.loads((self.root / "tuned" / "manifest.json").read_text())
        self.assertGreater(manifest["tuning_mean_s"], 0)
        self.assertEqual([each["elapsed_s"] > 0 for each in manifest["points"]], [True] * 3)

    def test_a_reference_with_a_value_that_is_no_number_is_refused(self):
        for text in ("inf", "-Infinity", "nan", "1e999", "9" * 400):
            with self.subTest(text):
                folder = self.folder / f"damaged-{text[:9]}"
                shutil.copytree(self.root / "small", folder)
                rows = list(csv.reader((folder / "table.csv").read_text(encoding="utf-8").splitlines()))
                rows[1][rows[0].index("throughput_ops_s")] = text
                (folder / "table.csv").write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
                done = call(self.folder, "score", str(folder), "--json", "damaged.json")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(f"table.csv: throughput_ops_s of {rows[1][0]}, 1, ", done.stderr)
                self.assertIn(f": {text[:40]} is no number", done.stderr)
                self.assertFalse((self.folder / "damaged.json").exists())

    def test_an_unfinished_run_makes_no_reference(self):
        shutil.copytree(self.folder / "all" / "tuned", self.folder / "part")
        manifest = json.loads((self.folder / "part" / "manifest.json").read_text())
        (self.folder / "part" / "points" / f"{manifest['points'][0]['point']}.json").unlink()
        done = call(self.folder, "reference", "part", "--out", "other")
        self.assertEqual((done.returncode, "1 points have not run" in done.stderr), (2, True))
        self.assertFalse((self.folder / "other").exists())

    def test_results_of_a_file_that_has_changed_since_make_no_reference(self):
        shutil.copytree(self.folder / "all" / "tuned", self.folder / "old")
        path = self.folder / "old" / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["experiment"]["title"] = "what ran"  # now the experiment file differs from what ran
        path.write_text(json.dumps(manifest))
        done = call(self.folder, "reference", "old", "--out", "other")
        self.assertEqual((done.returncode, "is no longer what ran" in done.stderr), (2, True), done.stderr)
        self.assertFalse((self.folder / "other").exists())

    def test_pdfs_embed_their_fonts_and_pages_need_nothing_else(self):
        for name in ("small", "spread"):
            data = (self.folder / "all" / name / "figure.pdf").read_bytes()
            self.assertIn(b"/FontFile2", data)  # the font is embedded as TrueType (type 42)
            self.assertNotIn(b"/Type3", data)
            self.assertNotRegex(data, rb"/CreationDate|/ModDate")
            text = (self.folder / "all" / name / "report.html").read_text()
            self.assertEqual(re.findall(r'(?:src|href)="(?!data:|#)', text), [])
            self.assertEqual(re.findall(r"url\((?!#)", text), [])  # a drawing's own clip paths are in the page


def test_a_report_becomes_markdown_and_html_alike():
    report = blocks.Report(
        (
            Heading(1, (Plain("A <title>"),)),
            Paragraph((Plain("One "), Code("a < b"), Plain(" and "), Strong("strong"), Plain(" *words*."))),
            blocks.List((Point((Plain("held: "), Code("x > y")), True), Point((Strong("NOT held"),), False))),
            blocks.table(["id", "error"], [["a | b", "−12.5%"], ["c", "–"]], slice(1, None), {1: [-0.125, None]}),
            Heading(2, (Plain("Obtained"),)),
            Paragraph((Lines("1. one\n# two"),)),
        ),
        detail=4,
    )
    assert blocks.markdown(report) == (
        "# A \\<title>\n\nOne `a < b` and **strong** \\*words\\*.\n\n* held: `x > y`\n\n* **NOT held**\n\n"
        "| id | error |\n|---|---|\n| a \\| b | −12.5% |\n| c | – |\n\n## Obtained\n\n1\\. one\n\\# two\n"
    )
    made = page.render(report)
    for part in (
        "<h1>A &lt;title&gt;</h1>",
        "<p>One <code>a &lt; b</code> and <b>strong</b> *words*.</p>",
        '<li class="held">held: <code>x &gt; y</code></li>',
        '<li class="not-held"><b>NOT held</b></li>',
        '<td>a | b</td><td class="number fair">−12.5%</td>',
        '<td class="number">–</td>',
    ):
        assert part in made, made
    assert made.index("<details") < made.index("<h2>Obtained</h2>") < made.index("</details>")


def test_shades_are_those_of_the_figures():
    errors = (0.05, -0.1, 0.0, 0.24, 0.261, None)
    assert [page.shade(each) for each in errors] == ["close", "near", "close", "fair", "far", ""]


if __name__ == "__main__":
    unittest.main()
