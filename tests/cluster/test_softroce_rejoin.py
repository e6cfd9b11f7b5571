"""Test of three nodes on one Soft-RoCE device: one is killed with requests outstanding, and rejoins with new memory."""

from __future__ import annotations

import os
import re
import unittest

from support import ROOT, InAFolder

RANK = os.environ.get("LOCH_REJOIN_RANK", str(ROOT / "build/release/tests/fabric/fabric_rejoin_rank"))


class Rejoin(InAFolder):
    def test_a_node_that_is_killed_comes_back_and_is_served_again(self) -> None:
        done = self.loch(
            "softroce",
            "--timeout",
            "10m",
            "--",
            "timeout",
            "-k",
            "5",
            "300",
            "mpirun",
            "-n",
            "3",
            "--enable-recovery",
            "--oversubscribe",
            "--bind-to",
            "none",
            RANK,
            timeout=800,
        )
        said = done.stdout.decode() + done.stderr.decode()
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("node 0 incarnation 0: all is well", said)
        for node in (0, 2):
            keys = re.search(rf"node {node} incarnation 0: connected anew, epoch 1 to 2, rkey (\w+) to (\w+)", said)
            assert keys, said
            self.assertNotEqual(keys[1], keys[2])
            self.assertIn(f"node {node} incarnation 0: the old rkey is refused", said)
            self.assertIn(f"node {node} incarnation 0: served and was served", said)
        self.assertIn("node 1 incarnation 1: served and was served", said)


if __name__ == "__main__":
    unittest.main()
