"""Tests of tools/ablate: which experiments a mechanism touches, and a short run with and without one."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/ablate"
PAPER = ROOT / "experiments/paper"

TINY = """\
name: tiny
title: Nessie's GETs of Table 1, on a small cluster
paper: {source: nessie-2017, item: Table 1}
fabric: sim
hardware: connectx3-10gbe
cluster: {nodes: 3}
systems:
  CD: {protocol: nessie}
workload: {clients: 1, keys: 300, get: 1}
axes: {value_size: [2K]}
measure: {warmup: 100us, duration: 200us, repeats: 3}
figure: {kind: line, x: value_size, y: [latency_us.get.mean]}
"""


def the_tool():
    loader = importlib.machinery.SourceFileLoader("ablate", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ablate", loader))
    loader.exec_module(module)
    return module


class Touched(unittest.TestCase):
    def is_touched(self, name, change, **more):
        tool = the_tool()
        return tool.is_touched(tool.load(PAPER / f"{name}.yaml"), tool.ablation.Mechanism("m", change, **more))

    def test_a_constant_that_is_off_in_the_profile_touches_nothing(self):
        self.assertTrue(self.is_touched("nessie-2017-table1", "hardware_set=link.port_buffer=0"))
        self.assertFalse(self.is_touched("herd-2014-figure8", "hardware_set=link.port_buffer=0"))
        self.assertFalse(self.is_touched("nessie-2017-table1", "hardware_set=nic.private_doorbells=0"))

    def test_profiles_of_systems_and_axes_count(self):
        self.assertTrue(self.is_touched("guidelines-2016-figure10", "hardware_set=nic.segment=0"))
        self.assertTrue(self.is_touched("guidelines-2016-figure12", "hardware_set=nic.segment=0"))

    def test_one_of_several_constants_is_enough(self):
        both = "hardware_set=nic.private_doorbells=0,nic.atomic_hold=0"
        self.assertTrue(self.is_touched("nessie-2017-table1", both))
        self.assertFalse(self.is_touched("nessie-2017-table1", "hardware_set=nic.private_doorbells=0"))

    def test_an_option_touches_the_system_that_has_it(self):
        change = "systems.HY.nessie-hy.index-access=cpu"
        self.assertTrue(self.is_touched("nessie-2017-table1", change))
        self.assertFalse(self.is_touched("nessie-2015-figure7", change))
        self.assertFalse(self.is_touched("nessie-2017-table1", "systems.CD.nessie-hy.index-access=cpu"))

    def test_what_is_off_touches_experiments_where_it_can_act(self):
        late = "hardware_set=link.pause_delay=5500"
        self.assertTrue(self.is_touched("nessie-2017-table1", late, is_off=True, needs="link.port_buffer"))
        self.assertFalse(self.is_touched("herd-2014-figure8", late, is_off=True, needs="link.port_buffer"))
        work = {"is_off": True, "protocols": ("nessie-sd", "pilaf")}
        self.assertTrue(self.is_touched("nessie-2017-table1", "server_work=1800ns", **work))
        self.assertFalse(self.is_touched("nessie-2017-figure13", "server_work=1800ns", **work))

    def test_each_mechanism_of_the_tree_touches_an_experiment(self):
        tool = the_tool()
        files = [tool.load(path) for path in sorted(PAPER.glob("*.yaml"))]
        for mechanism in tool.ablation.mechanisms():
            self.assertTrue(any(tool.is_touched(each, mechanism) for each in files), mechanism)


class Run(unittest.TestCase):
    def run_it(self, *words):
        done = subprocess.run(
            [sys.executable, str(TOOL), *map(str, words)], capture_output=True, text=True, check=False, env=os.environ
        )
        return done.returncode, done.stdout + done.stderr

    def test_with_and_without(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "tiny.yaml"
            file.write_text(TINY)
            status, said = self.run_it("--out", f"{folder}/out", "--only", "cpu.memory", file)
            self.assertEqual(status, 0, said)
            self.assertIn("What each mechanism buys", said)
            table = json.loads(Path(folder, "out/ablation.json").read_text())
            self.assertEqual([row["change"] for row in table["rows"]], ["hardware_set=cpu.memory=0"])
            self.assertEqual(table["experiments"], ["tiny"])

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "tiny.yaml"
            status, said = self.run_it("--out", folder, file)
            self.assertEqual(status, 2)
            self.assertIn(f"{file}: no such file", said)
            file.write_text(TINY)
            status, said = self.run_it("--out", folder, "--only", "warp drive", file)
            self.assertEqual(status, 2)
            self.assertIn("--only warp drive: no mechanism of mechanisms.yaml has that in its name or setting", said)
            file.write_text("[1, 2]")
            status, said = self.run_it("--out", folder, file)
            self.assertEqual(status, 2)
            self.assertIn("expected a mapping", said)


if __name__ == "__main__":
    unittest.main()
