"""Support for the runner's tests: paths, a small experiment, and calls of the command line with the fake loch-bench."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from loch.runner import located, other_names, overrides, schema

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE = ROOT / "tests" / "runner" / "fake_bench.py"

SMALL = textwrap.dedent(
    """\
    name: small
    title: A small experiment
    paper: {source: nessie-2017, item: Table 1}
    fabric: sim
    hardware: connectx3-10gbe
    cluster: {nodes: 15}
    systems:
      CD: {protocol: nessie, clients: 12}
    workload: {key_size: 128, get: 0.5, distribution: uniform, keys: 1000}
    axes: {value_size: [2K, 4K, 8K]}
    measure: {warmup: 1ms, duration: 2ms, repeats: 2}
    figure: {kind: line, y: latency_us.get.mean}
    """
)


def two_nodes_over_tcp(axis, values):
    """An experiment whose points differ in their load alone, so that they can follow each other on one store."""
    return textwrap.dedent(
        f"""\
        name: kept
        title: Points on one store
        fabric: ofi
        cluster: {{nodes: 2}}
        systems:
          CD: {{protocol: nessie, clients: 1, keys: 300, verify: true, ofi_provider: tcp, nessie.expiry: 30s}}
        workload: {{key_size: 128, value_size: 256, distribution: uniform}}
        axes: {{{axis}: {values}}}
        measure: {{warmup: 0ms, operations: 200, repeats: 1}}
        figure: {{kind: line, x: {axis}, y: latency_us.get.mean}}
        """
    )


def load_number(result):
    """Which load on its store a point was; 0 if it began with a store of its own."""
    found = re.search(r"this is load (\d) on it", " ".join(result["notes"]))
    return int(found[1]) if found else 0


def read(text, sets=(), fabric=None, smoke=False, nodes_max=None, cores=None):
    """The experiment in a YAML text, as `loch run` reads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_text(text, encoding="utf-8")
        document = other_names.by_keys(located.load(path))
        overrides.check_smoke(document)
        given = overrides.apply(document, list(sets), fabric, smoke, nodes_max, cores)
        return schema.read(document, given)


def call(folder, *argv, **environment):
    """Runs tools/loch in a folder, with the fake loch-bench; returns the finished process."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tools/loch"), "--no-setup", *map(str, argv)],
        text=True,
        capture_output=True,
        cwd=folder,
        env={**os.environ, "LOCH_BIN": str(FAKE), **environment},
        check=False,
        timeout=240,
    )


class Folder(unittest.TestCase):
    """A test case whose tests have a temporary folder and call the command line in it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def write(self, text, name="x.yaml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def environment(self, **more):
        return {**os.environ, "LOCH_BIN": str(FAKE), **more}

    def loch(self, *argv, **environment):
        """Runs tools/loch in the test's folder; returns the finished process."""
        return call(self.folder, *argv, **environment)
