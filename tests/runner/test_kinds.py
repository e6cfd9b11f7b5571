"""Tests of drawn figures: small multiples, curves, maps, tables with systems as columns, and hardened variants."""

import json
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from ruamel.yaml import YAML

from support import SMALL, Folder, call, read
from plots import curve, draw, frame, style, table
from plots import map as winners
from plots.line import panels
from plots.series import _origins, groups
from loch.runner import drawing, grid, inline_svg, outputs, published
from loch.runner.errors import BadInput

SWEEP = (
    SMALL.replace("{value_size: [2K, 4K, 8K]}", "{value_size: [2K, 4K], clients: [3, 6, 9]}")
    .replace(
        "  CD: {protocol: nessie, clients: 12}",
        "  CD: {protocol: nessie, nessie.variant: published}\n"
        '  CDh: {protocol: nessie, hardened_of: CD, label: "CD, hardened"}\n'
        "  SD: {protocol: nessie-sd, only: {value_size: [2K]}}",
    )
    .replace("repeats: 2", "repeats: 1")
)
ALONG = "{kind: curve, x: throughput_ops_s, y: [latency_us.all.mean], along: clients, panels: value_size, width: two}"


class Kinds(Folder):
    @classmethod
    def setUpClass(cls):
        """Runs the experiment once; each test draws another figure of its results."""
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.home = Path(scratch.name)
        (cls.home / "x.yaml").write_text(SWEEP, encoding="utf-8")
        done = call(cls.home, "run", "x.yaml", "--out", "out")
        assert done.returncode == 0, done.stderr

    def svg(self, figure):
        """Draws the stored points with another `figure:` section; returns the SVG."""
        manifest = json.loads((self.home / "out" / "manifest.json").read_text())
        manifest["experiment"]["figure"] = YAML(typ="safe").load(figure)
        copy = self.folder / "copy"
        copy.mkdir(exist_ok=True)
        (copy / "manifest.json").write_text(json.dumps(manifest))
        if not (copy / "points").exists():
            (copy / "points").symlink_to(self.home / "out" / "points")
        results, _, _ = outputs.load(copy)
        draw.draw(drawing.of(results), copy)
        for name in ("figure.png", "figure.pdf"):
            self.assertGreater((copy / name).stat().st_size, 1000)
        svg = (copy / "figure.svg").read_text()
        self.assertTrue(inline_svg.of(svg, "title"), "a page would have it as an image")
        return svg, results

    def panels(self, svg):
        return len(re.findall(r'<g id="axes_\d+">', svg)) - 1  # minus 1: the legend has axes too and is no panel

    def test_simulations_that_differ_by_their_model_are_named_once(self):
        self.assertEqual(_origins(["simulated (a, seed 1)", "simulated (a, seed 1)"]), ["simulated (a, seed 1)"])
        self.assertEqual(
            _origins(["simulated (a, seed 1)", "simulated (tcp, a, seed 1)", "measured (shm on X, 2 cores)"]),
            ["simulated (a, seed 1): verbs, tcp", "measured (shm on X, 2 cores)"],
        )
        self.assertEqual(_origins(["simulated (tcp, a, seeds 1 to 3)"]), ["simulated (tcp, a, seeds 1 to 3)"])
        # repeats: auto gives systems different numbers of repeats
        auto = ["simulated (a, seeds 1 to 6)", "simulated (a, seeds 1 to 13)", "simulated (a, seeds 1 to 9)"]
        self.assertEqual(_origins([*auto, auto[0]]), ["simulated (a, seeds 1 to 6 or up to 13)"])
        self.assertEqual(
            _origins([*auto[:2], "simulated (b, seeds 1 to 6)"]),
            ["simulated (a, seeds 1 to 6 or up to 13)", "simulated (b, seeds 1 to 6)"],
        )

    def test_a_system_that_is_not_drawn_runs_all_the_same(self):
        _, results = self.svg("{kind: line, x: clients, y: [throughput_ops_s], published: false}")
        self.assertEqual([s.name for s in groups(drawing.of(results))[0].series], ["CD", "CDh", "SD"])
        results.experiment = read(SWEEP.replace("{protocol: nessie-sd,", "{protocol: nessie-sd, drawn: false,"))
        self.assertEqual([s.name for s in results.experiment.systems], ["CD", "CDh", "SD"])
        self.assertEqual([s.name for s in groups(drawing.of(results))[0].series], ["CD", "CDh"])

    def test_panels_are_one_a_value_with_one_legend(self):
        svg, _ = self.svg(
            "{kind: line, x: clients, y: [throughput_ops_s, latency_us.get.mean], panels: value_size, "
            "width: two, published: false}"
        )
        self.assertEqual(self.panels(svg), 4)
        self.assertEqual(svg.count('<g id="legend_'), 1)
        svg, _ = self.svg("{kind: bars, x: clients, panels: {axis: value_size, labels: {2K: small, 4K: large}}}")
        self.assertEqual(self.panels(svg), 2)

    def test_lines_relative_to_a_system_are_over_it_at_the_same_place(self):
        svg, results = self.svg("{kind: line, x: clients, y: throughput_ops_s, panels: value_size, relative_to: SD}")
        shown = {(panel.at, line.label): line for panel in panels(drawing.of(results)) for line in panel.lines}
        self.assertEqual({label for _, label in shown}, {"CD", "CD, hardened"})
        small = shown[(("value_size", 2048),), "CD"]
        wanted = [
            results.median("CD", {"value_size": 2048, "clients": n}, "throughput_ops_s")
            / results.median("SD", {"value_size": 2048, "clients": n}, "throughput_ops_s")
            for n in small.x
        ]
        self.assertEqual(small.middle, wanted)
        self.assertEqual({at for at, _ in shown}, {(("value_size", 2048),)})  # the system SD does not run at 4 KB
        self.assertIn("SD's", re.sub("<!-- | -->", "", svg))

    def test_a_published_ratio_stands_among_relative_lines_and_absolute_ones(self):
        place = "[clients=6,value_size=2K].throughput_ops_s"

        def cell(name, over, kind):
            return published.Cell(
                "V1",
                "a ratio",
                "",
                None,
                1.5,
                kind=kind,
                obtained=published.expression.parse_arithmetic(f"{name}{place} / {over}{place}"),
            )

        item = published.PublishedItem(
            "p", "f", "c", "", (cell("CD", "SD", "E"), cell("CD", "SD", "T"), cell("CD", "CDh", "E"))
        )
        with mock.patch.object(published, "find", return_value=item):
            _, results = self.svg("{kind: line, x: clients, y: throughput_ops_s, panels: value_size, relative_to: SD}")
            found = panels(drawing.of(results))
            self.assertEqual(
                {line.label: line.published for line in found[0].lines}, {"CD": [(6, 1.5)], "CD, hardened": []}
            )
            self.assertFalse(any(panel.has_ratio for panel in found))
            _, results = self.svg("{kind: line, x: clients, y: throughput_ops_s, panels: value_size}")
            # among absolute values, the ratio times what the other system has here
            lines = {line.label: line for line in panels(drawing.of(results))[0].lines}
            over = dict(zip(lines["SD"].x, lines["SD"].middle))[6]
            [(at, value)] = lines["CD"].published
            self.assertEqual((at, lines["CD"].kinds), (6, {6: "ratio"}))
            self.assertAlmostEqual(value, 1.5 * over, places=3)
            self.assertEqual(lines["CD, hardened"].published, [])

    def test_a_table_has_nothing_where_a_system_does_not_run(self):
        single = published.Cell(
            "V2",
            "a sum",
            "",
            None,
            3.0,
            obtained=published.expression.parse_arithmetic("SD[clients=9,value_size=2K].throughput_ops_s / 2"),
        )
        with mock.patch.object(published, "find", return_value=published.PublishedItem("p", "f", "c", "", (single,))):
            _, results = self.svg("{kind: table, x: value_size, rows: [throughput_ops_s]}")
            self.assertEqual([(each.system, each.axes) for each in published.compare(results)], [("", ())])
            self.assertEqual(drawing.of(results).published, [])  # a published number without axis values is not drawn
        self.assertIsNone(table._comparison({}, None))

    def test_headings_and_legends_have_room(self):
        self.assertEqual(frame.legend_size([], 3.4), (1, 0.0))

        def handles(*labels):
            return [style.matplotlib.lines.Line2D([], [], label=label) for label in labels]

        self.assertEqual(frame.legend_size(handles("Nessie (CD)", "NessieSD", "NessieHY"), 3.4)[0], 3)
        self.assertEqual(
            frame.legend_size(handles("Pilaf Put (verb messages)", "Pilaf-VO Get (verb messages)"), 3.4)[0], 1
        )
        ticks = [256, 2048, 4096, 16384, 32768, 131072]
        places = {tick: float(tick) for tick in ticks}
        names = {tick: grid.show("value_size", tick) for tick in ticks}
        self.assertEqual(frame._apart(ticks, places, True, names, 2.85), ticks)
        self.assertEqual(frame._apart(ticks, places, True, names, 1.6), [256, 2048, 16384, 131072])

    def test_axes_that_advance_with_the_x_axis_make_no_lines_of_their_own(self):
        text = SWEEP.replace("clients: [3, 6, 9]}", "clients: [3, 6, 9], window: [1, 2, 4]}\nzip: [[clients, window]]")
        (self.folder / "zipped.yaml").write_text(text, encoding="utf-8")
        done = call(self.folder, "run", "zipped.yaml", "--out", "zipped")
        self.assertEqual(done.returncode, 0, done.stderr)
        results, _, _ = outputs.load(self.folder / "zipped")
        results.experiment = read(
            text.replace("kind: line, y: latency_us.get.mean", "kind: line, x: clients, y: throughput_ops_s")
        )
        self.assertEqual([len(line.x) for panel in panels(drawing.of(results)) for line in panel.lines], [3] * 5)

    def test_one_field_has_one_unit_in_all_panels(self):
        _, results = self.svg("{kind: line, x: clients, y: throughput_ops_s, panels: value_size}")
        found = panels(drawing.of(results))
        self.assertEqual(len({frame.largest(panel, found) for panel in found}), 1)
        self.assertGreater(frame.largest(found[0], found), 0)

    def test_published_values_stand_in_the_panel_that_they_belong_to(self):
        cells = tuple(
            published.Cell(f"V{i}", "throughput_ops_s", "CD", 3, 1e6, axis="clients", where=(("value_size", size),))
            for i, size in ((1, 2048), (2, 4096))
        )
        single = published.Cell(
            "V3",
            "one number",
            "",
            None,
            2e6,
            obtained=published.expression.parse_arithmetic("SD[clients=9,value_size=2K].throughput_ops_s"),
        )
        item = published.PublishedItem("p", "f", "c", "", (*cells, single))
        with mock.patch.object(published, "find", return_value=item):
            svg, results = self.svg("{kind: line, x: clients, y: throughput_ops_s, panels: value_size}")
            marks = {
                (panel.at[0][1], line.label): line.published
                for panel in panels(drawing.of(results))
                for line in panel.lines
            }
        self.assertEqual(marks[2048, "CD"], [(3, 1e6)])
        self.assertEqual(marks[4096, "CD"], [(3, 1e6)])
        self.assertEqual(marks[2048, "SD"], [(9, 2e6)])
        self.assertEqual(marks[2048, "CD, hardened"], [])
        self.assertEqual(svg.count('id="published"'), 3)

    def test_curves_join_two_fields_along_an_axis(self):
        svg, results = self.svg(ALONG)
        self.assertEqual(self.panels(svg), 2)
        lines = curve._lines(
            drawing.of(results), groups(drawing.of(results))[0], "latency_us.all.mean", (("value_size", 2048),)
        )
        self.assertEqual([line.label for line in lines], ["CD", "CD, hardened", "SD"])
        at = [{"value_size": 2048, "clients": n} for n in (3, 6, 9)]
        self.assertEqual(lines[0].x, [results.median("CD", axes, "throughput_ops_s") for axes in at])
        self.assertEqual(lines[0].middle, [results.median("CD", axes, "latency_us.all.mean") for axes in at])

    def test_a_hardened_variant_has_the_colour_of_its_original_dashed(self):
        _, results = self.svg(ALONG)
        looks = style.looks(drawing.of(results).series)
        self.assertEqual((looks["CDh"].color, looks["CDh"].line), (looks["CD"].color, style.DASHED))
        self.assertNotEqual(looks["SD"].color, looks["CD"].color)
        svg, _ = self.svg("{kind: bars, x: systems, y: throughput_ops_s, panels: clients, width: two}")
        self.assertIn("<pattern id=", svg)  # a hatch pattern, for the bars of a hardened variant

    def test_a_table_may_have_the_systems_as_columns(self):
        svg, results = self.svg(
            "{kind: table, rows: [throughput_ops_s, latency_us.all.mean], across: systems, width: two}"
        )
        group = groups(drawing.of(results))[0]
        rows = table._rows(drawing.of(results), group)
        self.assertEqual(len(rows), 2 * 3 * 2)
        self.assertEqual(len(table._columns(drawing.of(results), group)), 3)
        series, name, point = rows[0].places[2]
        self.assertEqual((series.name, name, point.at), ("SD", "throughput_ops_s", {"value_size": 2048, "clients": 3}))
        missing = [row.places[2][2] for row in rows if row.places[2][2].at["value_size"] == 4096]
        # the system SD does not run at a value size of 4 KB
        self.assertEqual([(each.values, each.failures) for each in missing], [({}, [])] * 6)
        self.assertIn("<svg", svg)

    def test_a_map_has_a_winner_in_each_cell(self):
        svg, results = self.svg("{kind: map, x: clients, down: value_size, y: latency_us.get.mean}")
        self.assertEqual(svg.count('id="winner"'), 6)
        place = {"value_size": 2048, "clients": 3}
        (group,) = groups(drawing.of(results))
        for series, value in zip(group.series, (10.0, 8.0, 12.0)):
            for name in ("latency_us.get.mean", "throughput_ops_s"):
                series.point(place).values[name] = [value]
        self.assertEqual(winners.winner(group, place, "latency_us.get.mean"), ("CDh", 1.25))
        self.assertEqual(winners.winner(group, place, "throughput_ops_s"), ("SD", 1.2))
        self.assertEqual(winners.shade("#0072B2", 5.0)[1], "white")
        self.assertEqual(winners.shade("#0072B2", 1.01)[0], winners.to_rgb("#eeeeee"))

    def test_axes_may_be_cut_and_logarithmic(self):
        svg, results = self.svg(
            "{kind: line, x: clients, y: throughput_ops_s, x_log: true, y_max: 2e+6, panels: value_size}"
        )
        self.assertIn("<svg", svg)
        self.assertEqual((results.experiment.figure.x_log, results.experiment.figure.y_max), (True, 2e6))


class Schema(unittest.TestCase):
    def test_only_restricts_one_system(self):
        experiment = read(SWEEP)
        counts = [len(grid.combinations(experiment, system)) for system in experiment.systems]
        self.assertEqual(counts, [6, 6, 3])
        trimmed = read(SWEEP, ["value_size=4K"])
        self.assertEqual([len(grid.combinations(trimmed, system)) for system in trimmed.systems], [3, 3, 0])

    def test_labels_of_panels_go_with_their_values(self):
        text = SWEEP.replace(
            "{kind: line, y: latency_us.get.mean}",
            "{kind: line, x: clients, panels: {axis: value_size, labels: {2K: small, 4K: large}}}",
        )
        self.assertEqual(read(text).figure.panel_labels, {2048: "small", 4096: "large"})
        self.assertEqual(read(text, ["value_size=4K"]).figure.panel_labels, {4096: "large"})

    def test_what_cannot_be_drawn_is_refused(self):
        for figure, part in (
            ("{kind: curve, y: throughput_ops_s}", "a curve needs x:"),
            ("{kind: curve, x: throughput_ops_s, along: gets}", "gets is no axis"),
            ("{kind: line, x: clients, panels: clients}", "other than clients"),
            ("{kind: line, panels: {axis: clients, labels: {5: five}}}", "not among the values of clients"),
            ("{kind: table, rows: [throughput_ops_s], across: clients}", "expected systems"),
            ("{kind: line, across: systems}", "goes with kind table, not with line"),
            ("{kind: line, y_max: none}", "expected a number above 0"),
            ("{kind: map, down: get}", "get is no axis"),
        ):
            with self.subTest(figure=figure), self.assertRaises(BadInput) as caught:
                read(SWEEP.replace("{kind: line, y: latency_us.get.mean}", figure))
            self.assertIn(part, str(caught.exception))
        for old, new, part in (
            ("hardened_of: CD", "hardened_of: CDh", "expected another system"),
            ("only: {value_size: [2K]}", "only: {value_size: [3K]}", "3072 is not among 2048, 4096"),
            ("only: {value_size: [2K]}", "only: {get: [1]}", "no axis"),
        ):
            with self.subTest(new=new), self.assertRaises(BadInput) as caught:
                read(SWEEP.replace(old, new))
            self.assertIn(part, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
