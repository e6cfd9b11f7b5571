"""Tests of figures: every kind drawn from stored results, statistics, and texts that a figure must contain."""

import re
import unittest
from types import SimpleNamespace

from support import SMALL, Folder
from plots import stats, style
from loch.runner import drawing, report, result
from loch.runner.drawing import Distribution
from loch.runner.tables import Row

BOTH = SMALL.replace(
    "  CD:", "  local: {protocol: nessie, fabric: shm, cluster: {nodes: 2}, clients: 1, duration: 5ms}\n  CD:"
)


def stored(system, cores, **document):
    """A stored point that ran on a machine with `cores` cores."""
    runner = {"host": {"cpu": "some CPU", "cores": cores}}
    found = result.of_file("name", {"throughput_ops_s": 1.0, **document, "runner": runner}, False, "name.json")
    return Row(SimpleNamespace(system=system), "name", found)


class Figures(Folder):
    def draw(self, figure, text=SMALL, **environment):
        """Runs and draws an experiment with another `figure:` section; returns its folder."""
        path = self.write(
            re.sub(r"figure: .*", f"figure: {figure}", text).replace(
                "measure:",
                "derive: {gb_sent: wire_bytes.payload_per_get * operations.get / duration_s * 112 / 1e9}\nmeasure:",
            )
        )
        done = self.loch("run", path, "--out", "out", **environment)
        self.assertEqual(done.returncode, 1 if environment else 0, done.stderr)
        folder = self.folder / "out"
        self.assertEqual((folder / "figure.png").read_bytes()[:4], b"\x89PNG")
        self.assertEqual((folder / "figure.pdf").read_bytes()[:5], b"%PDF-")
        return folder

    def redraws_alike(self, folder):
        names = ("figure.pdf", "figure.png", "figure.svg")
        before = [(folder / name).read_bytes() for name in names]
        for name in names:
            (folder / name).unlink()
        done = self.loch("plot", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(folder / name).read_bytes() for name in names], before)

    def test_line_with_published_marks(self):
        folder = self.draw("{kind: line, y: [latency_us.get.mean, throughput_ops_s]}")
        self.assertIn('id="published"', (folder / "figure.svg").read_text())
        self.redraws_alike(folder)

    def test_line_shows_gaps_for_failures(self):
        folder = self.draw("{kind: line, y: throughput_ops_s}", FAKE_FAIL="value-size=4096")
        self.assertIn('id="failed"', (folder / "figure.svg").read_text())

    def test_simulated_and_measured_have_panels_of_their_own(self):
        folder = self.draw("{kind: line, y: throughput_ops_s, width: two}", text=BOTH)
        self.assertEqual((folder / "figure.svg").read_text().count(f"fill: {style.MEASURED_GROUND}"), 1)
        self.redraws_alike(folder)

    def test_what_is_measured_on_a_device_names_it(self):
        system = SimpleNamespace(name="CD", is_measured=True, params={"fabric": "verbs"})
        row = stored("CD", 1, capabilities={"device": "rxe0 (Soft-RoCE)"})
        results = SimpleNamespace(experiment=SimpleNamespace(measure=None), rows=[row])
        self.assertEqual(report.origin(results, system), "measured on rxe0 (Soft-RoCE)")

    def test_what_goes_over_sockets_or_their_model_says_so(self):
        measure = SimpleNamespace(seed=1, repeats=3, is_auto=False)
        for fabric, transport, label in (
            ("shm", "unix socket", "measured (unix socket on some CPU, 2 cores)"),
            ("verbs", "tcp", "measured (tcp on some CPU, 2 cores)"),
            ("sim", "modelled tcp over ipoib", "simulated (modelled tcp over ipoib, connectx2-20g-ib, seeds 1 to 3)"),
            ("sim", "verbs", "simulated (connectx2-20g-ib, seeds 1 to 3)"),
        ):
            system = SimpleNamespace(
                name="M", is_measured=fabric != "sim", params={"fabric": fabric, "hardware": "connectx2-20g-ib"}
            )
            row = stored("M", 2, capabilities={"device": "rxe0"}, transport=transport)
            results = SimpleNamespace(experiment=SimpleNamespace(measure=measure, axes={}), rows=[row])
            self.assertEqual(report.origin(results, system), label)

    def test_an_axis_of_hardware_is_named(self):
        system = SimpleNamespace(name="M", is_measured=False, params={"fabric": "sim"})
        experiment = SimpleNamespace(
            measure=SimpleNamespace(seed=1, repeats=1, is_auto=False), axes={"hardware": ["new", "old"]}
        )
        self.assertEqual(
            report.origin(SimpleNamespace(experiment=experiment, rows=[]), system), "simulated (new, old, seed 1)"
        )

    def test_bars(self):
        folder = self.draw("{kind: bars, y: latency_us.all.mean}", text=BOTH)
        self.assertIn('id="published"', (folder / "figure.svg").read_text())
        self.redraws_alike(folder)

    def test_bars_show_failures(self):
        folder = self.draw("{kind: bars, y: latency_us.all.mean}", FAKE_FAIL="value-size=8192")
        self.assertIn('id="failed"', (folder / "figure.svg").read_text())

    def test_table(self):
        folder = self.draw("{kind: table, rows: [latency_us.get.mean, gb_sent]}", text=BOTH)
        report = (folder / "report.md").read_text()
        self.assertIn("| V1 | latency_us.get.mean | CD | 2K | 19 |", report)
        self.assertIn("| V2 | latency_us.get.mean | CD | 4K | 27 |", report)
        self.assertIn("| V64 | gb_sent | CD | 2K | 514 |", report)
        self.redraws_alike(folder)

    def test_table_with_failures(self):
        folder = self.draw("{kind: table, rows: [latency_us.get.mean]}", FAKE_FAIL="value-size=8192")
        self.assertIn('id="failed"', (folder / "figure.svg").read_text())

    def test_cdf_of_percentiles_and_of_whole_distributions(self):
        self.redraws_alike(self.draw("{kind: cdf, y: latency_us.get}"))
        self.redraws_alike(self.draw("{kind: cdf, y: verbs.per_put.cdf.total}", text=BOTH))
        document = {
            "operations": {"put": 8},
            "verbs": {"per_put": {"cdf": {"total": [[6, 0.6], [7, 1.0]]}}},
            "latency_us": {
                "get": {"count": 4, "p50": 2, "p99": 9, "histogram": [[1.5, 1], [3, 3]]},
                "put": {"count": 4, "p50": 2, "p99": 9},
            },
        }
        found = stored("CD", 1, **document).result
        for name, distribution in (
            ("verbs.per_put.cdf.total", Distribution([(6.0, 0.6), (7.0, 1.0)], 8.0, True)),
            ("latency_us.get", Distribution([(1.5, 0.25), (3.0, 1.0)], 4.0, True)),
            ("latency_us.put", Distribution([(2.0, 0.5), (9.0, 0.99)], 4.0, False)),
            ("latency_us.delete", Distribution([], 0.0, False)),
        ):
            self.assertEqual(drawing.distribution(found, name), distribution)

    def test_percentiles_alone_are_never_averaged(self):
        path = self.write(SMALL.replace("kind: line, y: latency_us.get.mean", "kind: cdf, y: latency_us.get"))
        done = self.loch("run", path, "--out", "out", FAKE_HISTOGRAM="none")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_pdf_holds_real_fonts(self):
        folder = self.draw("{kind: line, y: throughput_ops_s}")
        self.assertNotIn(b"/Type3", (folder / "figure.pdf").read_bytes())
        self.assertNotIn(b"CreationDate", (folder / "figure.pdf").read_bytes())


class Statistics(unittest.TestCase):
    def test_interval_holds_the_median_and_is_repeatable(self):
        middle, low, high = stats.median_interval([5.0, 1.0, 3.0, 2.0, 4.0])
        self.assertEqual(middle, 3.0)
        self.assertTrue(1.0 <= low < 3.0 < high <= 5.0)
        self.assertEqual(stats.median_interval([1.0, 2.0, 3.0, 4.0, 5.0]), (middle, low, high))
        self.assertEqual(stats.median_interval([7.0]), (7.0, 7.0, 7.0))

    def test_distributions_merge_as_histograms_do(self):
        merged = stats.merge_cdfs([([(1, 0.5), (2, 1.0)], 100), ([(2, 0.5), (3, 1.0)], 300)])
        self.assertEqual([(v, round(s, 9)) for v, s in merged], [(1, 0.125), (2, 0.625), (3, 1.0)])


class Looks(unittest.TestCase):
    def test_no_two_designs_look_alike(self):
        seen = [(look.color, look.marker, look.line) for look in style.LOOKS.values()]
        self.assertEqual(len(set(seen)), len(seen))


if __name__ == "__main__":
    unittest.main()
