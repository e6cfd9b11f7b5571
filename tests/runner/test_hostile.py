"""Tests that an experiment with any part replaced by junk is refused in one line or accepted, without a traceback."""

import copy
import unittest
from typing import Any

from ruamel.yaml import YAML

from support import SMALL, read
from loch.runner import grid, located
from loch.runner.errors import BadInput

FULL = (
    SMALL.replace("clients: 12}", "tune: {servers: [1, 2], clients: 12 - servers}, maximize: throughput_ops_s}")
    + """\
zip: [[get, window]]
exclude: [{system: CD, value_size: 2K}]
scale: 0.5
notes: text
derive: {gb: duration_s * 2}
claims: ["CD.throughput_ops_s > 0 where value_size >= 4K"]
smoke: {measure.repeats: 1}
"""
)
FULL = FULL.replace("get: 0.5, ", "").replace("[2K, 4K, 8K]", "[2K, 4K, 8K], get: [0.1, 0.2], window: [1, 2]")
JUNK: list[Any] = [
    None,
    "",
    "x",
    -1,
    0,
    1e400,
    True,
    [],
    {},
    [None],
    {"x": None},
    [[[]]],
    "1 - ",
    "\u0000",
    "9" * 30,
    [1, 1],
    2**70,
]


def places(node, path=()):
    """The path of every value inside a document."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


class Junk(unittest.TestCase):
    def attempt(self, document):
        text = located.dump(document)
        try:
            experiment = read(text)
            grid.plan(experiment)
        except BadInput as error:
            self.assertNotIn("\n", str(error))
            self.assertIn(".yaml", str(error))

    def test_every_value_by_every_junk(self):
        document = YAML(typ="safe").load(FULL)
        read(FULL)
        for path in places(document):
            for junk in JUNK:
                changed = copy.deepcopy(document)
                node = changed
                for key in path[:-1]:
                    node = node[key]
                node[path[-1]] = junk
                with self.subTest(path=path, junk=junk):
                    self.attempt(changed)

    def test_every_key_left_out(self):
        document = YAML(typ="safe").load(FULL)
        for path in places(document):
            changed = copy.deepcopy(document)
            node = changed
            for key in path[:-1]:
                node = node[key]
            del node[path[-1]]
            with self.subTest(path=path):
                self.attempt(changed)

    def test_truncated_text(self):
        for end in range(0, len(FULL), 3):
            with self.subTest(end=end):
                try:
                    read(FULL[:end])
                except BadInput as error:
                    self.assertNotIn("\n", str(error))


if __name__ == "__main__":
    unittest.main()
