"""Tests of Loch installed into a temporary prefix: it runs with the prefix's own files, also after the prefix has
moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from loch.command import COMMANDS  # noqa: E402

POINT = [
    "bench",
    "--protocol",
    "nessie",
    "--fabric",
    "sim",
    "--hardware",
    "connectx3-10gbe",
    "--nodes",
    "3",
    "--clients",
    "2",
    "--keys",
    "2000",
    "--value-size",
    "256",
    "--warmup",
    "200us",
    "--duration",
    "1ms",
]
EXPERIMENT = """
name: small
title: "One simulated point"
systems:
  CD: {label: "Nessie", protocol: nessie, fabric: sim, hardware: connectx3-10gbe, cluster: {nodes: 3}, clients: 2, keys: 2000,
       warmup: 200us, duration: 1ms}
workload: {key_size: 16, get: 0.5, distribution: uniform}
axes: {value_size: [256]}
measure: {repeats: 1}
figure: {kind: line, y: [latency_us.get.mean]}
"""


class Installed(unittest.TestCase):
    folder: Path
    prefix: Path
    share: Path

    @classmethod
    def setUpClass(cls) -> None:
        # the blank in the path tests the quoting in scripts
        holder = tempfile.TemporaryDirectory(prefix="loch install ")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        made = cls.folder / "made"
        subprocess.run(
            [os.environ["LOCH_CMAKE"], "--install", os.environ["LOCH_BUILD_FOLDER"], "--prefix", str(made)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        cls.prefix = cls.folder / "prefix"
        made.rename(cls.prefix)  # moves the prefix, so that any stored absolute path would fail
        cls.share = cls.prefix / "share/loch"

    def loch(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LOCH_")}
        return subprocess.run(
            [str(self.prefix / "bin/loch"), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env={**kept, "XDG_CACHE_HOME": str(self.folder / "cache")},
        )

    def test_runs_a_simulated_point(self) -> None:
        done = self.loch(*POINT)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertGreater(result["sim"]["events"], 1000)
        self.assertGreater(result["throughput_ops_s"], 0)

    def test_reads_the_files_of_the_prefix(self) -> None:
        profile = self.share / "experiments/hardware/connectx3-10gbe.yaml"
        kept = profile.with_suffix(".kept")
        profile.rename(kept)
        self.addCleanup(lambda: kept.rename(profile))
        done = self.loch(*POINT)
        self.assertEqual(done.returncode, 2, "it found the profile of another place")
        self.assertIn("connectx3-10gbe", done.stderr)

    def test_runs_an_experiment_and_redraws_it(self) -> None:
        (self.folder / "small.yaml").write_text(EXPERIMENT, encoding="utf-8")
        before = sorted(self.share.rglob("*"))
        done = self.loch("run", "small.yaml", "--out", "out")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        drawn = {path.name for path in (self.folder / "out").rglob("*")}
        self.assertLessEqual({"report.md", "report.html"}, drawn)
        again = self.loch("plot", "out")
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertEqual(sorted(self.share.rglob("*")), before, "running changed the installation")

    def test_lists_what_it_brought(self) -> None:
        listed = self.loch("list", "experiments")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("nessie-2017-table1", listed.stdout)
        self.assertEqual(self.loch("--where").stdout.strip(), str(self.share.resolve()))
        self.assertEqual(self.loch("--version").stdout.strip(), f"Loch {os.environ['LOCH_VERSION']}")
        for command in set(COMMANDS) - {"new", "test", "mutate", "softroce", "reference", "help"}:
            with self.subTest(command):
                done = self.loch(command, "--help")
                self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        for page in ("README.md", "LICENSE", "CHANGELOG.md", "docs/architecture.md"):
            self.assertTrue((self.prefix / "share/doc/loch" / page).exists(), page)

    def test_completes_by_its_own_path(self) -> None:
        script = self.loch("completion", "bash")
        self.assertEqual(script.returncode, 0, script.stderr)
        self.assertIn(f"'{(self.prefix / 'bin/loch').resolve()}' completion words", script.stdout)
        self.assertEqual(self.loch("completion", "words", "2", "loch", "bench", "--proto").stdout, "--protocol\n")

    def test_what_needs_the_source_tree_says_so(self) -> None:
        for command, said in (
            ("test", "source tree"),
            ("reference", "source tree"),
            ("banch", "unknown command 'banch'"),
        ):
            done = self.loch(command)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(said, done.stderr)

    def test_a_damaged_installation_says_what_is_missing(self) -> None:
        program = self.prefix / "libexec/loch/loch-bench"
        kept = program.with_suffix(".kept")
        program.rename(kept)
        self.addCleanup(lambda: kept.rename(program))
        done = self.loch("list", "fabrics")
        self.assertEqual(done.returncode, 2)
        self.assertIn("libexec/loch/loch-bench", done.stderr)

    def test_holds_no_compiled_python_and_no_tests(self) -> None:
        names = {path.name for path in self.prefix.rglob("*")}
        self.assertFalse({"__pycache__", "CMakeLists.txt"} & names)
        package = {path.name for path in (self.share / "tools/loch").iterdir()}
        # modules that build Loch or need the source tree are not installed
        self.assertFalse({"setup", "softroce", "mutate", "new.py"} & package)
        self.assertTrue(shutil.which(str(self.prefix / "bin/loch")))


if __name__ == "__main__":
    unittest.main()
