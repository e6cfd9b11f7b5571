"""Tests of --trace: the file follows the rules of Perfetto's importer and has every step of GETs, PUTs and MIGRATEs."""

from __future__ import annotations

import json
import unittest
from collections import defaultdict
from typing import Any

from support import EndToEnd

# Three candidate slots for each key and a nearly full table: a PUT of a deleted key finds its slots taken and moves
# another key's entry (MIGRATE).
TIGHT = [
    "bench",
    "--protocol",
    "nessie",
    "--nodes",
    "3",
    "--keys",
    "60",
    "--value-size",
    "256",
    "--get",
    "0.3",
    "--delete",
    "0.3",
    "--nessie.load-factor",
    "0.9",
    "--operations",
    "200",
    "--warmup",
    "0ms",
    "--verify",
    "--trace",
    "t.json",
]


class Trace:
    """Reads a trace file, times in ns; fails the test on events that Perfetto would drop or misplace."""

    def __init__(self, test: unittest.TestCase, text: str) -> None:
        self.test = test
        document = json.loads(text)
        self.nodes: dict[int, str] = {}
        self.tracks: dict[tuple[int, int], str] = {}
        self.boxes: list[dict] = []
        self.instants: list[dict] = []
        for event in document["traceEvents"]:
            self.take(event)
        for event in self.boxes + self.instants:
            test.assertIn(event["pid"], self.nodes, event)
            test.assertIn((event["pid"], event["tid"]), self.tracks, event)
        test.assertEqual(len(set(self.tracks.items())), len(self.tracks))
        self.check_overlaps()

    def take(self, event: dict) -> None:
        """Checks one event: its phase, and the fields and types that the phase requires."""
        test = self.test
        test.assertIn(event["ph"], ("M", "X", "i"), event)
        test.assertTrue(all(isinstance(event[key], int) and event[key] >= 0 for key in ("pid", "tid")), event)
        test.assertIsInstance(event["name"], str)
        if event["ph"] == "M":
            name = event["args"]["name"]
            test.assertTrue(name)
            if event["name"] == "process_name":
                self.nodes[event["pid"]] = name
            else:
                test.assertEqual(event["name"], "thread_name")
                test.assertNotIn((event["pid"], event["tid"]), self.tracks, "a track has one name")
                self.tracks[event["pid"], event["tid"]] = name
            return
        test.assertGreaterEqual(event["ts"], 0, event)
        event["start"] = round(event["ts"] * 1000)  # microseconds with three decimals are whole nanoseconds
        test.assertAlmostEqual(event["start"] / 1000, event["ts"], places=6)
        if event["ph"] == "i":
            test.assertEqual(event["s"], "t", event)
            self.instants.append(event)
            return
        test.assertGreaterEqual(event["dur"], 0, event)
        event["end"] = event["start"] + round(event["dur"] * 1000)
        self.boxes.append(event)

    def check_overlaps(self) -> None:
        """Checks that spans of one track are disjoint or nested, since Perfetto drops others."""
        by_track: dict[tuple[int, int], list[dict]] = defaultdict(list)
        for box in self.boxes:
            by_track[box["pid"], box["tid"]].append(box)
        for boxes in by_track.values():
            boxes.sort(key=lambda box: (box["start"], -box["end"]))
            around: list[dict] = []
            for box in boxes:
                while around and around[-1]["end"] <= box["start"]:
                    around.pop()
                if around:
                    self.test.assertLessEqual(box["end"], around[-1]["end"], (around[-1], box))
                around.append(box)

    def on(self, track: str) -> list[dict]:
        """The spans of a track. A track with overlapping spans is drawn as several rows, the further ones named "TRACK
        (…)"."""
        wanted = {place for place, name in self.tracks.items() if name == track or name.startswith(track + " (")}
        return [box for box in self.boxes if (box["pid"], box["tid"]) in wanted]


class Traces(EndToEnd):
    def trace(self, *arguments: str) -> tuple[Trace, dict]:
        done = self.loch(*TIGHT, *arguments, "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return Trace(self, (self.folder / "t.json").read_text()), json.loads((self.folder / "out.json").read_text())

    def test_every_stage_of_every_request_is_on_its_nodes_track(self) -> None:
        trace, result = self.trace("--fabric", "sim", "--clients", "2", "--seed", "1")
        self.assertGreater(result["protocol_counters"]["migrations"], 0)
        names = {"GET": 0, "PUT": 0, "DELETE": 0, "MIGRATE": 0}
        for client in ("client 0", "client 1"):
            for box in trace.on(client):
                names[box["name"]] += 1
        self.assertEqual(
            [names[kind] for kind in ("GET", "PUT", "DELETE")],
            [result["operations"][kind] for kind in ("get", "put", "delete")],
        )
        self.assertEqual(names["MIGRATE"], result["protocol_counters"]["migrations"])
        stages: dict[Any, dict[Any, list[Any]]] = defaultdict(
            lambda: defaultdict(list)
        )  # request (sender, receiver, UD queue pair, number) -> track -> spans
        for box in trace.boxes:
            if "request" not in box.get("args", {}):
                continue
            track = trace.tracks[box["pid"], box["tid"]].split(" (")[0]
            key = (box["args"]["from"], box["args"]["to"], box["args"]["lane"], box["args"]["request"])
            stages[key][track].append(box)
        self.assertGreater(len(stages), 1000)
        for (sender, to, _, _), found in stages.items():
            self.check_request(int(sender.rsplit(" ", 1)[1]), to, found)

    def check_request(self, source: int, to: int, found: dict[str, list[dict]]) -> None:
        """Checks a request's spans: through the sender's NIC, both links and the receiver's NIC, and back, each on its
        node, in order."""
        path = [("NIC: work requests", source)]
        path += [("link: out", source), ("link: in", to)] if source != to else []
        path += [("NIC: incoming requests, memory", to)]
        path += [("link: out", to), ("link: in", source)] if source != to else []
        path += [("NIC: responses, completions", source)]
        seen = {track: sorted(boxes, key=lambda box: box["start"]) for track, boxes in found.items()}
        last = -1
        for track, node in path:
            if track not in seen or not seen[track]:
                # The measured time ended before the request had completed, so the remaining spans are missing.
                self.assertFalse(any(seen.values()), found)
                return
            box = seen[track].pop(0)
            self.assertEqual(box["pid"], node, found)
            self.assertGreaterEqual(box["start"], last, found)
            last = box["start"]
        self.assertFalse(any(seen.values()), found)

    def test_real_threads_keep_the_rules_too(self) -> None:
        trace, result = self.trace("--fabric", "shm", "--clients", "1", "--window", "3")
        marked = [box["name"] for box in trace.on("client 0")]
        self.assertEqual(
            [marked.count(kind) for kind in ("GET", "PUT", "DELETE")],
            [result["operations"][kind] + 0 for kind in ("get", "put", "delete")],
        )
        self.assertEqual(marked.count("MIGRATE"), result["protocol_counters"]["migrations"])
        requests = trace.on("client 0: requests")
        self.assertTrue(all(box["args"]["status"] == "success" for box in requests))
        posted = {event["name"].split()[0] for event in requests + trace.instants}
        self.assertLessEqual({"READ", "CAS"}, posted)


if __name__ == "__main__":
    unittest.main()
