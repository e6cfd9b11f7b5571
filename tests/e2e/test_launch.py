"""Several processes over shared memory, as mpirun starts them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unittest

from support import BINARY, ROOT, EndToEnd

EXPERIMENT = """\
name: tiny
title: Tiny
fabric: shm
cluster: {nodes: 2}
systems:
  CD: {protocol: nessie, clients: 1}
workload: {key_size: 128, get: 0.5, distribution: uniform, keys: 500}
axes: {value_size: [256]}
measure: {warmup: 50ms, duration: 300ms, repeats: 1}
figure: {kind: bars, x: value_size, y: [latency_us.get.mean]}
"""


@unittest.skipUnless(shutil.which("mpirun"), "mpirun (Debian: openmpi-bin) is not here")
class Launch(EndToEnd):
    def mpirun(self, ranks: int, *arguments: str):
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
        return self.call(["mpirun", "--oversubscribe", "-n", str(ranks), BINARY, *arguments], timeout=200, **environment)

    def test_three_ranks_are_one_cluster(self) -> None:
        done = self.mpirun(3, "bench", "--fabric", "shm", "--nodes", "3", "--clients", "1", "--keys", "600",
                           "--value-size", "256", "--get", "0.7", "--verify", "--warmup", "100ms", "--duration", "500ms",
                           "--history", "h.jsonl", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        got = json.loads((self.folder / "out.json").read_text())
        self.assertEqual([node["node"] for node in got["nodes"]], [0, 1, 2])
        self.assertTrue(all(node["operations"]["total"] > 0 for node in got["nodes"]))
        self.assertEqual(got["lost_nodes"], [])
        self.assertEqual(got["operations"]["corrupt"], 0)
        checked = self.loch("check", "h.jsonl")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_bad_input_is_status_2_from_every_rank(self) -> None:
        done = self.mpirun(2, "bench", "--fabric", "shm", "--nodes", "2", "--value-sise", "1K", "--json", "out.json")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("--value-size", done.stderr)
        self.assertFalse((self.folder / "out.json").exists())

    def test_the_runner_brings_up_the_ranks_of_a_hostfile(self) -> None:
        self.write("tiny.yaml", EXPERIMENT)
        self.write("hosts", "localhost slots=2\n")
        done = self.call([sys.executable, str(ROOT / "experiments/loch.py"), "run", "tiny.yaml", "--hostfile", "hosts"],
                         timeout=200, LOCH_BIN=BINARY)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kept = [json.loads(path.read_text()) for path in (self.folder / "results/tiny/points").glob("*.json")]
        self.assertEqual(len(kept), 1)
        self.assertEqual(kept[0]["runner"]["argv"][0], "mpirun")
        self.assertEqual([node["node"] for node in kept[0]["nodes"]], [0, 1])
        self.assertTrue(all(node["operations"]["total"] > 0 for node in kept[0]["nodes"]))
        self.assertEqual(kept[0]["operations"]["corrupt"], 0)


if __name__ == "__main__":
    unittest.main()
