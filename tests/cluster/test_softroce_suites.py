"""Runs the test suites of the fabrics over libibverbs, in one machine with a Soft-RoCE NIC: the fabric suites
(conformance, litmus, lost messages), protocols, and whole runs whose histories are checked.

With LOCH_SOFTROCE=short (set by ./loch test where CI is set) each suite runs once in a short form.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from support import LOCH, ROOT

RELEASE = Path(os.environ.get("LOCH_RELEASE") or ROOT / "build/release")
BENCH = str(RELEASE / "bin/loch-bench")
IS_SHORT = os.environ.get("LOCH_SOFTROCE") == "short"
# The stress test has a limit of ten minutes; without KVM on a busy host, 230 operations a second have been measured.
STRESS_OPERATIONS = os.environ.get("LOCH_STRESS_OPERATIONS") or ("20000" if IS_SHORT else "100000")
# Shell script for the machine; prints a line for each step: its name, its exit status, and the seconds that it took.
SCRIPT = r"""
export LOCH_TEST_VERBS=1 LOCH_HOME="$ROOT"
step() {
  local name=$1 began=$SECONDS
  shift
  timeout 1500 "$@" >"$name.txt" 2>&1
  echo "$name $? $((SECONDS - began))"
}
suite() { step "$1" "$RELEASE/$2" --gtest_filter="$3" --gtest_output="json:$1.json"; }
stress='*NoRequestIsLostOrExecutedTwice'
suite fabric tests/fabric/fabric_conformance_test "$SUITES-$stress*"
LOCH_STRESS_OPERATIONS=$OPERATIONS suite stress tests/fabric/fabric_conformance_test "$stress/verbs"
suite nessie nessie/nessie_fabrics_test '*/verbs'
suite protocols tests/protocol/protocol_suite_test '*OverThisMachine*:*LostMessages*'
load=(--fabric verbs --nodes 2 --keys 2000 --verify --duration 3s)
for protocol in $ALONE; do
  step "$protocol-1" "$BENCH" bench --protocol "$protocol" "${load[@]}" --history "$protocol-1.jsonl" --json "$protocol-1.json"
done
step herd-lanes "$BENCH" bench --protocol herd --herd.ud-qps 4 "${load[@]}" --history herd-lanes.jsonl --json herd-lanes.json
for protocol in $IN_TWO; do
  step "$protocol-2" mpirun --enable-recovery --bind-to none -n 2 "$BENCH" bench --protocol "$protocol" "${load[@]}" \
    --history "$protocol-2.jsonl" --json "$protocol-2.json"
done
"""


def storing_protocols() -> dict[str, str]:
    """The storing protocols with the consistency that each claims; emulations store nothing, and baselines do not use
    the NIC."""
    listed = subprocess.run([BENCH, "list", "protocols", "--json"], capture_output=True, check=True)
    return {
        each["name"]: each["consistency"]
        for each in json.loads(listed.stdout)
        if each["consistency"] != "none" and each["name"] not in ("memcached", "redis")
    }


def runs_of(protocol: str) -> list[str]:
    """The names of the steps that run a protocol: alone, for HERD with several UD queue pairs, and in two processes."""
    return [
        f"{protocol}-1",
        *(["herd-lanes"] if protocol == "herd" else []),
        *([f"{protocol}-2"] if protocol in protocols_in_two() else []),
    ]


def protocols_in_two() -> list[str]:
    """The protocols that also run in two processes."""
    return ["nessie"] if IS_SHORT else list(storing_protocols())


class OverVerbs(unittest.TestCase):
    """All steps of SCRIPT run in one virtual machine; each test checks the output of some of them."""

    folder: Path
    said: Any
    ended: Any

    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-suites-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        given = {
            "ROOT": str(ROOT),
            "RELEASE": str(RELEASE),
            "BENCH": BENCH,
            "OPERATIONS": STRESS_OPERATIONS,
            "SUITES": "*/verbs" if IS_SHORT else "*",
            "ALONE": " ".join(storing_protocols()),
            "IN_TWO": " ".join(protocols_in_two()),
        }
        done = subprocess.run(
            [LOCH, "softroce", "--timeout", "55m", "--", "bash", "-c", SCRIPT],
            cwd=cls.folder,
            env={**os.environ, **given},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        cls.said = done.stdout.decode() + done.stderr.decode()
        cls.ended = {name: int(status) for name, status, _ in map(str.split, done.stdout.decode().splitlines())}
        print(cls.said, flush=True)

    def text_of(self, step: str) -> str:
        """The output of a successful step; a failed step fails the test with its output."""
        self.assertIn(step, self.ended, self.said)
        text = (self.folder / f"{step}.txt").read_text(errors="replace")
        self.assertEqual((step, self.ended[step]), (step, 0), text[-4000:])
        return text

    def assert_suite(self, step: str, at_least: int) -> None:
        self.text_of(step)
        ran = json.loads((self.folder / f"{step}.json").read_text())
        cases = [case for suite in ran["testsuites"] for case in suite["testsuite"]]
        self.assertGreaterEqual(len(cases), at_least)
        self.assertEqual(
            [case["name"] for case in cases if case["result"] != "COMPLETED" or "/verbs" not in case["name"]], []
        )

    def test_conformance_and_litmus(self) -> None:
        self.assert_suite("fabric", 44 if IS_SHORT else 88)

    def test_remote_procedure_calls_survive_lost_messages(self) -> None:
        self.assert_suite("stress", 1)

    def test_the_protocols_own_suite(self) -> None:
        self.assert_suite("nessie", 2)

    def test_the_suite_of_every_protocol(self) -> None:
        text = self.text_of("protocols")
        ran = json.loads((self.folder / "protocols.json").read_text())
        cases = {case["name"]: case for suite in ran["testsuites"] for case in suite["testsuite"]}
        for protocol in storing_protocols():
            for case in ("OverThisMachine", "LostMessages"):
                with self.subTest(protocol=protocol, case=case):
                    found = cases[f"{case}/{protocol.replace('-', '_')}"]
                    self.assertEqual(found["result"], "COMPLETED", text[-4000:])

    def test_every_protocol_keeps_its_claim_in_one_process_and_in_two(self) -> None:
        for protocol, model in storing_protocols().items():
            for run in runs_of(protocol):
                with self.subTest(run=run):
                    self.text_of(run)
                    result = json.loads((self.folder / f"{run}.json").read_text())
                    self.assertEqual(result["capabilities"]["device"], "rxe0 (Soft-RoCE)")
                    self.assertEqual(result.get("lost_nodes", []), [])
                    self.assertGreater(result["operations"]["verified"], 20)
                    self.assertEqual((result["operations"]["corrupt"], result["operations"]["error"]), (0, 0))
                    checked = subprocess.run(
                        [BENCH, "check", "--model", model, str(self.folder / f"{run}.jsonl")],
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
