"""Tests of docs/protocols: every protocol has a page with a sequence diagram that agrees with the trace of a run
today."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from loch import sequence  # noqa: E402

PROGRAM = os.environ.get("LOCH_BIN", str(ROOT / "build/release/bin/loch-bench"))
PAGES = ROOT / "docs/protocols"
DRAW = "./loch sequence --all --out docs/protocols/figures"


def own_protocols() -> list[str]:
    """The protocols of this tree, without those that LOCH_PROTOCOLS adds: they have their pages in their own
    folders."""
    index = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`([\w-]+)`\]", index, re.M)
    outside = os.environ.get("LOCH_PROTOCOLS")
    return [name for name in sequence.protocols(PROGRAM) if name in listed or not outside]


class Pages(unittest.TestCase):
    def test_every_protocol_has_a_row_a_page_and_a_figure(self) -> None:
        index = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")
        for name in own_protocols():
            with self.subTest(protocol=name):
                row = re.search(rf"^\| \[`{name}`\]\(protocols/([\w-]+)\.md\)", index, re.M)
                self.assertIsNotNone(row, f"docs/protocols.md has no row of {name}")
                assert row is not None
                page = (PAGES / f"{row.group(1)}.md").read_text(encoding="utf-8")
                self.assertIn(f"(figures/{name}.svg)", page)

    def test_every_figure_is_of_todays_trace(self) -> None:
        for name in own_protocols():
            with self.subTest(protocol=name):
                shown = (PAGES / "figures" / f"{name}.svg").read_text(encoding="utf-8")
                self.assertEqual(
                    shown, sequence.diagram(name, [], PROGRAM), f"the figure of {name} is of another trace: {DRAW}"
                )


class Diagrams(unittest.TestCase):
    """The diagrams show the requests of the trace, and differ if the protocol's requests differ."""

    def test_another_protocol_is_drawn_otherwise(self) -> None:
        shown = (PAGES / "figures/nessie.svg").read_text(encoding="utf-8")
        self.assertNotEqual(shown, sequence.diagram("nessie", ["--nessie.hash-functions", "2"], PROGRAM))
        self.assertNotEqual(shown, sequence.diagram("nessie", ["--value-size", "1025"], PROGRAM))

    def test_arrows_are_the_counted_work_requests(self) -> None:
        """Each operation of NessieSD is drawn as a request WRITE and a reply WRITE, as many as the result of the run
        counts."""
        with tempfile.TemporaryDirectory() as folder:
            words = [
                PROGRAM,
                "bench",
                "--protocol",
                "nessie-sd",
                *sequence.RUN,
                "--nodes",
                "2",
                "--server-nodes",
                "1",
                "--operations",
                "12",
                "--get",
                "1",
                "--json",
                f"{folder}/r.json",
            ]
            subprocess.run(words, check=True, capture_output=True, env={"LOCH_HOME": str(ROOT), **os.environ})
            counted = json.loads(Path(folder, "r.json").read_text(encoding="utf-8"))["verbs"]["per_get"]["write"]
        drawn = sequence.panel(sequence.bench("nessie-sd", ["--get", "1"], [], PROGRAM), "GET")
        posted = [
            step
            for step in drawn.steps
            if step.text.startswith("WRITE") and step.start.startswith(("client", "memory"))
        ]
        self.assertEqual(len(posted), counted["mean"] if isinstance(counted, dict) else counted)

    def test_a_request_goes_through_both_nics_in_order(self) -> None:
        drawn = sequence.panel(sequence.bench("nessie-hy", ["--get", "1"], [], PROGRAM), "GET")
        read = [step for step in drawn.steps if step.start != step.end][:5]
        self.assertEqual(
            [step.start.split("|")[0] for step in read], ["client worker, memory", "NIC", "NIC", "NIC", "NIC"]
        )
        self.assertEqual([step.text for step in read], ["READ 8 B", "READ request", "8 B read", "8 B", "8 B in place"])
        self.assertEqual(sorted(step.time for step in drawn.steps), [step.time for step in drawn.steps])

    def test_bad_input_is_one_line(self) -> None:
        none: list[str] = []
        for words, said in (
            (["nosuch"], "nosuch"),
            (none, "PROTOCOL"),
            (["nessie", "--all"], "PROTOCOL"),
            (["nessie", "--out", "/no/such/folder"], "/no/such/folder"),
            (["nessie", "--", "--value-size", "many"], "value-size"),
        ):
            with self.subTest(words=words):
                done = subprocess.run(
                    [sys.executable, str(ROOT / "tools/loch/__main__.py"), "--no-setup", "sequence", *words],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={**os.environ, "LOCH_BIN": PROGRAM},
                )
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr.splitlines()[-1])
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
