"""Tests of single published numbers: their expressions over results, ids, and links to explanations."""

import re
import textwrap
import unittest

import support
from support import SMALL, Folder, read
from loch.runner import claims, drawing, expression, grid, located, outputs, published, result, targets
from loch.runner.errors import BadInput

ITEM = textwrap.dedent(
    """\
    citation: "a paper"
    items:
      Figure 5:
        setup: "a cluster"
        numbers:
          - {id: V900a, what: "GET at 8 KB over 2 KB", value: 1.5, obtained: "CD[value_size=8K].latency_us.get.mean /
             CD[value_size=2K].latency_us.get.mean"}
          - {id: V901, what: "most", value: null, kind: E, obtained: "max(CD[value_size=*].throughput_ops_s)"}
          - {id: V902, what: "best size", value: 2048, kind: T, obtained: "argmax(CD[value_size=*].throughput_ops_s)"}
          - {id: V903, what: "calibrated", value: 3, calibration: true, why: "docs/fidelity.md#method",
             obtained: "CD[value_size=2K].latency_us.get.mean"}
          - {id: V904, what: "of another experiment", value: 3, obtained: "Other[value_size=2K].latency_us.get.mean"}
      Figure 6:
        groups:
          - axis: value_size
            at: [2K, 4K]
            where: {get: 0.5}
            ids: {latency_us.get.mean: {CD: [V910, null]}}
            metrics: {latency_us.get.mean: {CD: [20, null]}}
          - axis: value_size
            at: [8K]
            where: {get: 0.9}
            first_id: 920
            metrics: {latency_us.get.mean: {CD: [20]}}
        shown:
          - {field: latency_us.get.mean, series: CD, at: {value_size: 2K}, value: 30, what: "of Table 9"}
          - {field: latency_us.get.mean, value: 12.5, what: "a bare READ", id: V920}
    """
)


class Published(Folder):
    """Tests with a temporary folder in place of plots/published."""

    def setUp(self):
        super().setUp()
        before = published.FOLDER
        self.addCleanup(setattr, published, "FOLDER", before)
        self.addCleanup(published.find.cache_clear)
        published.find.cache_clear()
        published.FOLDER = self.folder

    def items(self, text=ITEM):
        self.write(text, "a-paper.yaml")
        published.find.cache_clear()

    def item(self, name="Figure 5"):
        return published.find("a-paper", name)

    def refused(self, old, new, part):
        self.items(ITEM.replace(old, new))
        with self.assertRaises(BadInput) as caught:
            self.check(SMALL)
        self.assertIn("a-paper.yaml:", str(caught.exception))
        self.assertIn(part, str(caught.exception))

    def check(self, text):
        experiment = read(text.replace("nessie-2017, item: Table 1", "a-paper, item: Figure 5"))
        published.check(located.from_plain({"source": "a-paper"}, "x.yaml", "paper"), experiment)
        return experiment


class Reading(Published):
    def test_numbers_have_kinds_and_pointers(self):
        self.items()
        cells = self.item().cells
        self.assertEqual(
            [(c.id, c.value, c.kind, c.calibration) for c in cells],
            [
                ("V900a", 1.5, "E", False),
                ("V901", None, "E", False),
                ("V902", 2048, "T", False),
                ("V903", 3, "E", True),
                ("V904", 3, "E", False),
            ],
        )
        self.assertEqual(cells[3].explained, "docs/fidelity.md#method")

    def test_cells_have_listed_ids_or_counted_ones(self):
        self.items()
        self.assertEqual(
            [(c.id, c.at, c.where) for c in self.item("Figure 6").cells],
            [("V910", 2048, (("get", 0.5),)), ("V920", 8192, (("get", 0.9),))],
        )

    def test_what_is_only_shown_is_a_mark_or_a_line(self):
        self.items()
        self.assertEqual(
            self.item("Figure 6").shown,
            (
                published.Shown("latency_us.get.mean", 30, "of Table 9", "CD", (("value_size", 2048),)),
                published.Shown("latency_us.get.mean", 12.5, "a bare READ", id="V920"),
            ),
        )
        for old, new, part in (
            ("series: CD, ", "", "at: expected both series: and at:, or neither"),
            ("value: 30", "value: null", "expected a number"),
            (', what: "of Table 9"', "", "what: missing"),
            ("id: V920", "ids: V920", "did you mean id?"),
        ):
            self.assertIn(old, ITEM)
            self.items(ITEM.replace(old, new))
            with self.assertRaises(BadInput) as caught:
                self.item("Figure 6")
            self.assertIn("a-paper.yaml:", str(caught.exception))
            self.assertIn(part, str(caught.exception))

    def test_a_line_stands_instead_of_its_number_s_mark(self):
        self.items(ITEM.replace("where: {get: 0.9}", "where: {get: 0.5}"))
        experiment = read(SMALL.replace("nessie-2017, item: Table 1", "a-paper, item: Figure 6"))

        class Kept:
            damaged = {}

            def of(self, point):
                document = {"throughput_ops_s": 1.0, "latency_us": {"get": {"mean": 25.0}}, "runner": {"host": {}}}
                return result.of_file("name", document, False, "x.json")

        drawn = drawing.of(outputs.collect(experiment, Kept(), []))
        self.assertEqual(drawn.levels, (drawing.Level("latency_us.get.mean", 12.5, "a bare READ"),))
        self.assertEqual(
            [(each.series, dict(each.place)["value_size"], each.value) for each in drawn.published],
            [("CD", 2048, 30), ("CD", 2048, 20)],
        )

    def test_bad_numbers_are_refused_with_file_and_line(self):
        self.items()
        self.check(SMALL)
        at_2k = 'obtained: "CD[value_size=2K].latency_us.get.mean"'
        for new, part in (
            (at_2k.replace("CD[", "CD("), "cannot read"),
            (at_2k.replace("[value_size=2K]", ""), "runs at several value_size"),
            (at_2k.replace("=2K", "=3K"), "value_size=3K: not among 2K, 4K, 8K"),
            (at_2k.replace("value_size", "value_sise"), "did you mean value_size?"),
            (at_2k.replace("CD[value_size=2K].latency_us.get.mean", "CD[value_size=2K].x / SD.x"), "SD is no system"),
            (at_2k.replace("=2K", "=*"), "many values"),
            ('obtained: "3"', "names no result"),
        ):
            self.refused(at_2k, new, part)
        self.refused("id: V902", "id: 902", "expected an id")
        self.refused("kind: T", "kind: F", "expected one of E (exact), D (derived), T (trend)")
        self.refused("value: 2048", "value: two", "expected a number or null")
        self.refused("docs/fidelity.md#method", "fidelity", "expected a place such as")
        self.refused('what: "most", ', "", "what: missing")

    def test_an_experiment_without_the_systems_leaves_a_number_to_another(self):
        self.items()
        experiment = self.check(SMALL)
        asked = [published.is_asked(experiment, cell) for cell in self.item().cells]
        self.assertEqual(asked, [True, True, True, True, False])

    def test_a_file_says_what_its_numbers_are(self):
        for first, word in (("", "published"), ("called: derived\n", "derived")):
            self.items(first + ITEM)
            self.assertEqual(published.called(self.check(SMALL)), word)

    def test_a_zero_is_met_or_has_no_relative_error(self):
        def error(value, obtained):
            return published.Comparison(published.Cell("V1", "x", "CD", 2048, value), "CD", obtained).error

        self.assertEqual(error(0, 0.0), 0)
        self.assertIsNone(error(0, 1.0))
        self.assertIsNone(error(None, 0.0))
        self.assertAlmostEqual(error(4, 5), 0.25)


class Answers(Folder):
    def results(self, text=SMALL):
        done = self.loch("run", self.write(text), "--out", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        return outputs.load(self.folder / "out")[0]

    def test_expressions_are_worked_out_over_medians(self):
        results = self.results()

        def value(text):
            cell = published.Cell("V1", "", "", None, 1.0, obtained=expression.parse_arithmetic(text))
            return published._single(results, cell)

        get = {size: results.median("CD", {"value_size": size}, "latency_us.get.mean") for size in (2048, 4096, 8192)}
        ratio = value("CD[value_size=8K].latency_us.get.mean / CD[value_size=2K].latency_us.get.mean")
        self.assertAlmostEqual(ratio.obtained, get[8192] / get[2048])
        self.assertEqual(value("max(CD[value_size=*].latency_us.get.mean)").obtained, get[8192])
        self.assertEqual(value("min(CD[value_size=*].latency_us.get.mean, 3)").obtained, 3)
        self.assertEqual(value("argmin(CD[value_size=*].latency_us.get.mean)").obtained, 2048)
        self.assertAlmostEqual(value("CD[value_size=4K].verbs.per_put.cdf.total.above_6").obtained, 0.4)
        self.assertEqual(value("CD[value_size=4K].verbs.per_put.cdf.total.above_5").obtained, 1)
        self.assertIn("CD has no", value("CD[value_size=4K].verbs.per_put.cdf.nothing.above_5").missing)
        self.assertIn("CD has no nothing.x at value_size 4K", value("CD[value_size=4K].nothing.x").missing)
        self.assertIn("CD does not run at value_size 3K", value("CD[value_size=3K].throughput_ops_s").missing)

    def test_claims_that_fix_an_axis_are_checked_once(self):
        results = self.results(
            SMALL + "claims:\n"
            "  - CD[value_size=8K].latency_us.get.mean > CD[value_size=2K].latency_us.get.mean\n"
            "  - max(CD[value_size=*].latency_us.get.mean) >= CD.latency_us.get.mean\n"
            "  - {claim: CD.latency_us.get.mean < 1, why: docs/fidelity.md#method}\n"
        )
        verdicts = claims.judge_all(results)
        self.assertEqual(
            [(v.held, v.places, v.explained) for v in verdicts],
            [(True, 1, ""), (True, 3, ""), (False, 3, "docs/fidelity.md#method")],
        )
        self.assertIn("value_size 2K", verdicts[2].why)

    def test_where_may_name_a_protocol_option(self):
        results = self.results(
            SMALL.replace("value_size: [2K, 4K, 8K]", "nessie.filter-bits: [3, 7]")
            .replace("keys: 1000", "keys: 1000, value_size: 2K")
            .replace("paper: {source: nessie-2017, item: Table 1}\n", "")
            + "claims: ['CD.throughput_ops_s > 0 where nessie.filter-bits >= 7', "
            "'CD[nessie.filter-bits=3].throughput_ops_s > 0']\n"
        )
        self.assertEqual([(v.held, v.places) for v in claims.judge_all(results)], [(True, 1), (True, 1)])


class TheTree(unittest.TestCase):
    """Checks of the tree itself: every published file is valid, and some experiment answers each of its numbers."""

    def test_every_number_can_be_answered(self):
        experiments = []
        for path in sorted((support.ROOT / "experiments").glob("**/*.yaml")):
            if path.parent.name not in ("hardware", "faults"):
                experiments.append(read(path.read_text(encoding="utf-8")))
        for path in sorted(published.FOLDER.glob("*.yaml")):
            if path.stem == targets.NAME:
                continue
            items = located.load(path).mapping().get("items")
            for name in items.mapping() if items is not None else []:
                item = published.find(path.stem, name)
                mine = [e for e in experiments if e.paper and (e.paper.source, e.paper.item) == (path.stem, name)]
                for cell in item.cells if mine else []:
                    with self.subTest(source=path.stem, item=name, id=cell.id):
                        self.assertTrue(any(self.answers(e, cell) for e in mine), cell.place)
                for shown in item.shown:
                    with self.subTest(source=path.stem, item=name, what=shown.what):
                        self.assertTrue(any(self.shows(e, shown) for e in mine))
                        self.assertTrue(not shown.id or any(cell.id == shown.id for cell in item.cells))

    def test_explanations_are_there(self):
        """Every docs/PAGE.md#anchor that a number or a claim names is a heading of that page."""
        pointers = set()
        for path in [*(support.ROOT / "experiments").glob("*/*.yaml"), *published.FOLDER.glob("*.yaml")]:
            pointers |= set(re.findall(r"why: \"?(docs/[a-z-]+\.md#[a-z0-9-]+)", path.read_text(encoding="utf-8")))
        self.assertTrue(pointers)
        for pointer in sorted(pointers):
            page, _, anchor = pointer.partition("#")
            heads = re.findall(r"^#+ (.+)$", (support.ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}
            self.assertIn(anchor, slugs, pointer)

    @staticmethod
    def shows(experiment, shown):
        systems = [system for system in experiment.systems if system.name == shown.series]
        places = [place for system in systems for place in grid.combinations(experiment, system)]
        return shown.field in experiment.figure.y and (not shown.series or dict(shown.at) in places)

    @staticmethod
    def answers(experiment, cell):
        if cell.is_single:
            return published.is_asked(experiment, cell) and published.wrong_number(experiment, cell) is None
        if cell.axis in experiment.axes:
            return cell.at not in experiment.axes[cell.axis] or any(
                system.published == cell.series for system in experiment.systems
            )
        return False


if __name__ == "__main__":
    unittest.main()
