"""Tests of figures over time: drawn from stored time series, refused if damaged, and with points that are processes."""

import json
import re
import shutil
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

from support import FAKE, SMALL, Folder, call, read
from plots import draw, timeline
from loch.runner import drawing, execute, grid, inline_svg, launch, options, outputs, reference, result
from loch.runner.errors import BadInput

OVER_TIME = (
    SMALL.replace("axes: {value_size: [2K, 4K, 8K]}", "axes: {value_size: [2K]}")
    .replace(
        "figure: {kind: line, y: latency_us.get.mean}",
        "figure: {kind: timeline, width: two, note: What a reader must know.}",
    )
    .replace(
        "  CD: {protocol: nessie, clients: 12}",
        (
            "  CD: {protocol: nessie, clients: 12}\n"
            "  SD: {protocol: nessie-sd, label: NessieSD}\n"
            "  shm: {protocol: nessie, fabric: shm, cluster: {nodes: 2, processes: true}}"
        ),
    )
    .replace("duration: 2ms, repeats: 2", "duration: 2ms, timeline: 500us, probe_keys: 40, repeats: 1")
)
EVENTS = [
    {"t_s": 0.01, "event": "kill", "node": 1},
    {"t_s": 0.01, "event": "kill", "node": 1},
    {"t_s": 0.02, "event": "fence", "node": 1},
    {"t_s": 0.0201, "event": "scrub", "node": 1},
    {"t_s": 0.035, "event": "scrub_end", "node": 1},
    {"t_s": 0.04, "event": "rejoin", "node": 1},
    {"t_s": 0.07, "event": "kill", "node": 0},
]
BINS = [
    {
        "t_s": 0.01 * i,
        "ops_s": 0 if i == 1 else 1e5 + i,
        "p50_us": None if i == 1 else 3.5,
        "p99_us": None if i == 1 else 9.5,
        "failed_s": 100.0 * i,
        "unwritable_keys": 20 if i == 1 else 0,
    }
    for i in range(5)
]


class Timelines(Folder):
    @classmethod
    def setUpClass(cls):
        """One run with a fake mpirun, which runs only the first rank and records its arguments."""
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.home = Path(scratch.name)
        (cls.home / "x.yaml").write_text(OVER_TIME, encoding="utf-8")
        mpirun = cls.home / "bin" / "mpirun"
        mpirun.parent.mkdir()
        mpirun.write_text(
            f'#!/bin/sh\necho "$@" >>mpirun.called\nwhile [ "$1" != "{FAKE}" ]; do shift; done\nexec "$@"\n'
        )
        mpirun.chmod(0o755)
        done = call(cls.home, "run", "x.yaml", "--out", "out", PATH=f"{mpirun.parent}:/usr/bin:/bin")
        assert done.returncode == 0, done.stderr

    def results(self, change=None):
        """A copy of the finished run, whose points have a time series; `change` may modify each stored document."""
        shutil.copytree(self.home / "out", self.folder / "out")
        shutil.copy(self.home / "x.yaml", self.folder)
        for path in sorted((self.folder / "out/points").glob("*.json")):
            document = json.loads(path.read_text())
            document |= {"timeline": BINS, "events": EVENTS, "probed_keys": 40}
            if change:
                change(document)
            path.write_text(json.dumps(document))
        return outputs.load(self.folder / "out")[0]

    def svg(self, results):
        draw.draw(drawing.of(results), self.folder)
        svg = (self.folder / "figure.svg").read_text()
        self.assertTrue(inline_svg.of(svg, "title"), "a page would have it as an image")
        return svg

    def test_each_system_has_its_throughput_its_unwritable_keys_and_its_events(self):
        results = self.results()
        svg = self.svg(results)
        self.assertEqual(svg.count('<g id="ops_s'), 3)
        self.assertEqual(svg.count('<g id="failed_s'), 3)
        self.assertEqual(svg.count('<g id="unwritable'), 3)
        # Each column has two panels with three marks each: the two kills share a mark, as do the fencing of the
        # dead clients and their repair (scrub), which are close in time; events after the measured time have no
        # mark.
        self.assertEqual(svg.count('<g id="event'), 3 * 3 * 2)
        self.assertEqual(svg.count('<g id="repair'), 3 * 2)
        self.assertEqual(svg.count('<g id="failed"'), 0)
        texts = " ".join(re.findall("<!-- (.*?) -->", svg))
        for said in (
            "kill",
            "fence, scrub",
            "rejoins",
            "simulated (connectx3-10gbe, seed 1)",
            "NessieSD",
            "What a reader must know.",
        ):
            self.assertIn(said, texts)
        self.assertTrue(re.search("<!-- .*measured \\(shm", svg))

    def test_what_was_simulated_and_what_was_measured_are_blocks_of_their_own(self):
        shown = drawing.of(self.results())
        blocks = [
            (group.is_measured, [each.label for each in timeline.shown(shown, group)])
            for group in timeline.groups(shown)
        ]
        self.assertEqual(blocks, [(False, ["CD", "NessieSD"]), (True, ["shm"])])

    def test_repairs_last_from_their_begin_to_their_end(self):
        events = result.Events.check(EVENTS)
        self.assertEqual(timeline.spans(events, 0.05), [(0.0201, 0.035)])
        self.assertEqual(timeline.spans(events, 0.03), [(0.0201, 0.03)])
        self.assertEqual(timeline.spans([result.Event(0.01, "declare", 3)], 0.05), [(0.01, 0.05)])
        self.assertEqual(timeline.spans([], 0.05), [])

    def test_unwritable_keys_are_a_share_of_the_sample(self):
        bins = result.Bins.check(BINS)
        probed, not_probed = (drawing.Run(0.05, bins, [], keys) for keys in (40, 0))
        self.assertEqual([share for _, share in timeline.unwritable(probed)], [0, 50, 0, 0, 0])
        self.assertEqual(timeline.unwritable(not_probed), [])

    def test_a_point_that_failed_or_has_no_time_series_keeps_its_place_and_says_so(self):
        def drop(document):
            if document["protocol"] == "nessie-sd":
                del document["timeline"]

        results = self.results(drop)
        svg = self.svg(results)
        self.assertEqual(svg.count('<g id="ops_s'), 2)
        self.assertEqual(svg.count('<g id="failed"'), 1)
        self.assertTrue("<!-- has no time series" in svg)

    def test_points_whose_nodes_are_processes_are_started_with_mpirun_here(self):
        called = (self.home / "mpirun.called").read_text().splitlines()
        self.assertEqual(len(called), 1)
        self.assertIn("--host localhost:2 -n 2", called[0])
        self.assertIn("--timeline 500us --probe-keys 40", called[0])
        self.assertNotIn("processes", called[0])

    def test_reference_results_keep_time_series(self):
        results = self.results()
        kept = json.loads(reference._data(results))
        self.assertEqual(len(kept), 3)
        for each in kept.values():
            self.assertEqual(
                each["distributions"], {"timeline": BINS, "events": EVENTS, "probed_keys": 40, "duration_s": 0.05}
            )

    def test_a_damaged_time_series_is_said(self):
        good = {"throughput_ops_s": 1.0, "runner": {}, "timeline": BINS, "events": EVENTS, "probed_keys": 40}
        self.assertEqual(result.of_file("name", good, False, "x.json").result.known.probed_keys, 40)
        for key, value, said in (
            ("timeline", {}, "timeline: expected a list"),
            ("timeline", [1], "timeline.0: expected t_s and ops_s"),
            ("timeline", [{"t_s": 0, "ops_s": "1"}], "timeline.0"),
            ("timeline", BINS * 3000, "timeline: expected a list of at most 10,000"),
            ("timeline", [{"t_s": 0, "ops_s": 1, "unwritable_keys": []}], "timeline.0: expected numbers"),
            ("events", [{"t_s": 0, "event": "<b>"}], "events.0"),
            ("events", [{"event": "kill"}], "events.0"),
            ("probed_keys", "x", "probed_keys"),
        ):
            with self.assertRaisesRegex(BadInput, f"^x.json: {said}"):
                result.of_file("name", {**good, key: value}, False, "x.json")

    def test_only_losses_that_were_planned_are_no_failures(self):
        self.assertEqual(execute._unplanned({"lost_nodes": [1], "planned_losses": [1]}), [])
        self.assertEqual(execute._unplanned({"lost_nodes": [1, 2], "planned_losses": [1]}), [2])
        self.assertEqual(execute._unplanned({"lost_nodes": [1]}), [1])
        self.assertEqual(execute._unplanned({}), [])


class Keys(unittest.TestCase):
    def test_what_makes_no_sense_is_refused(self):
        for old, new, said in (
            ("kind: timeline,", "kind: timeline, y: throughput_ops_s,", "y: goes with kind line"),
            ("kind: timeline,", "kind: timeline, x: value_size,", "x: goes with kind line"),
            ("nodes: 15", "nodes: 15, processes: true", "one process"),
            ("timeline: 500us", "timeline: 500", "timeline: expected a time"),
            ("probe_keys: 40", "probe_keys: many", "probe_keys: expected a whole number"),
        ):
            with self.assertRaises(BadInput) as caught:
                read(OVER_TIME.replace(old, new))
            self.assertIn(said, str(caught.exception))

    def test_the_keys_become_flags_and_processes_does_not(self):
        experiment = read(OVER_TIME)
        points = {point.system: point for point in grid.points(experiment)}
        self.assertIn("--timeline", options.arguments(points["CD"].params))
        self.assertNotIn("--processes", options.arguments(points["shm"].params))
        self.assertIsNone(launch.of_this_machine(points["CD"]))
        self.assertEqual(
            [(host.name, host.slots) for host in launch.of_this_machine(points["shm"]).hosts], [("localhost", 2)]
        )
        self.assertIsNone(launch.of_this_machine(SimpleNamespace(params={"nodes": 3})))


if __name__ == "__main__":
    unittest.main()
