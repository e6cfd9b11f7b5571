"""Tests of aliases of options in experiments: an alias in a file or in --set gives the same points as the option's own
key."""

from __future__ import annotations

import json
import os
import unittest
from typing import Any, Sequence

from support import Folder, read
from loch.runner import grid

WITH_KEYS = (
    "name: names\n"
    "systems:\n"
    "  CD: {protocol: nessie, nessie.variant: published, nessie.mend-h2: true}\n"
    "  SD: {protocol: nessie-sd}\n"
    "cluster: {nodes: 3}\n"
    "workload: {keys: 300, clients: 1, hog_nodes: 1}\n"
    "axes: {hogs: [0, 2]}\n"
    "measure: {duration: 1ms, repeats: 1}\n"
    "figure: {kind: line, x: hogs, y: [throughput_ops_s]}\n"
    'claims: ["CD.throughput_ops_s > 0.1 * SD[hogs=0].throughput_ops_s where hogs >= 2"]\n'
    "smoke: {hogs: [0]}\n"
)
OTHERS = {"hog_nodes": "background_nodes", "hogs": "background_workers", "mend-h2": "fix-h2"}


def with_aliases() -> str:
    """The experiment with its options replaced by their aliases."""
    text = WITH_KEYS
    for key, alias in OTHERS.items():
        text = text.replace(key, alias)
    return text


def points(text: str, sets: Sequence[str] = (), smoke: bool = False) -> list[dict[str, Any]]:
    """The parameters of the points that `loch run` would run."""
    return [point.params for point in grid.points(read(text, sets, smoke=smoke))]


class OtherNames(Folder):
    """Tests with the aliases that loch-bench describes."""

    def test_an_alias_runs_the_points_of_its_key(self) -> None:
        self.assertNotEqual(with_aliases(), WITH_KEYS)
        self.assertEqual(points(with_aliases()), points(WITH_KEYS))
        self.assertEqual(points(with_aliases(), smoke=True), points(WITH_KEYS, smoke=True))

    def test_an_alias_in_set(self) -> None:
        own = points(WITH_KEYS, ["hog_nodes=2", "systems.CD.nessie.mend-h2=false"])
        self.assertNotEqual(own, points(WITH_KEYS))
        other = points(WITH_KEYS, ["background_nodes=2", "systems.CD.nessie.fix-h2=false"])
        self.assertEqual(other, own)

    def test_both_names_are_refused(self) -> None:
        path = self.write(WITH_KEYS.replace("hog_nodes: 1", "hog_nodes: 1, background_nodes: 2"))
        done = self.loch("run", path, LOCH_BIN=os.environ["LOCH_BIN"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("x.yaml:6: workload.background_nodes: is another name of hog_nodes", done.stderr)

    def test_the_schema_for_editors_takes_both(self) -> None:
        done = self.loch("schema", LOCH_BIN=os.environ["LOCH_BIN"])
        self.assertEqual(done.returncode, 0, done.stderr)
        axes = json.loads(done.stdout)["definitions"]["Axes"]["properties"]
        self.assertEqual(axes["background_workers"], axes["hogs"])


if __name__ == "__main__":
    unittest.main()
