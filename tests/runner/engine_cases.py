"""The test cases common to the engines that run points on Slurm and on Dask (test_slurm.py, test_dask.py), with a fake
loch-bench.

LOCH_ENGINE_POINTS=200 runs 200 points instead of 40. Folders have names with shell commands, which must not run.
"""

import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import FAKE, ROOT, SMALL, call

HOSTILE = "a 'b\" $(touch pwned) `touch pwned` %j \\\n#SBATCH --hold\n;touch pwned"
REPEATS = max(1, int(os.environ.get("LOCH_ENGINE_POINTS", "40")) // 4)
POINTS = 4 * REPEATS
RUN = (sys.executable, str(ROOT / "tools/loch"), "--no-setup", "run", "x.yaml")
MANY = SMALL.replace("[2K, 4K, 8K]", "[1K, 2K, 4K, 8K]").replace("repeats: 2", f"repeats: {REPEATS}")
FEW = SMALL.replace("repeats: 2", "repeats: 1")
# An experiment with a point for each kind of failure, and with one system (`here`) that is measured in real time.
TROUBLED = (
    FEW.replace("paper: {source: nessie-2017, item: Table 1}\n", "")
    .replace("[2K, 4K, 8K]", "[1K, 2K, 4K, 8K, 16K]")
    .replace("repeats: 1}", "repeats: 1, timeout: 3s}")
    .replace(
        "  CD: {protocol: nessie, clients: 12}",
        (
            "  CD: {protocol: nessie, clients: 12}\n  here: {protocol: nessie, fabric: shm, cluster: {nodes: 2},"
            " clients: 1}"
        ),
    )
)
# The fake loch-bench reads its settings from a file next to it, so that the fake's own hash does not depend on the
# settings.
WRAPPER = f"""#!/bin/sh
folder=${{0%/*}}
. "$folder/settings"
export FAKE_COUNT="$folder/count"
case $* in
*--dry-run* | *'--fabric shm'*) ;;
*"--value-size ${{ONCE:-none}} "*) mkdir "$folder/once" 2>/dev/null && kill -9 $PPID ;;
*"--value-size ${{ALWAYS:-none}} "*) echo last words; kill -9 $PPID ;;
esac
exec {shlex.quote(str(FAKE))} "$@"
"""


class EngineCases:
    """A mixin with the test cases of an engine, for a TestCase class with `flags`, a tuple, and `cluster_environment`, a
    mapping."""

    flags: tuple[str, ...] = ()
    cluster_environment: dict[str, str] = {}

    @classmethod
    def setUpClass(cls):
        cls.local = run_here()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name).resolve() / HOSTILE
        self.folder.mkdir()
        self.traces = traces()

    def run_on(self, text=MANY, more=(), **settings):
        prepare(self.folder, text, **settings)
        return call(
            self.folder,
            *RUN[3:],
            "--out",
            "there",
            *self.flags,
            *more,
            **{"LOCH_BIN": str(self.folder / "bench"), **self.cluster_environment},
        )

    def start_on(self, **settings):
        """Starts a run in the background; returns when a tenth of its points has ended."""
        prepare(self.folder, MANY, **settings)
        runner = subprocess.Popen(
            [*RUN, "--out", "there", *self.flags],
            cwd=self.folder,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LOCH_BIN": str(self.folder / "bench"), **self.cluster_environment},
        )
        self.addCleanup(runner.stderr.close)
        self.addCleanup(runner.kill)
        self.wait_for(lambda: len(self.stored()) >= POINTS // 10, "nothing ended")
        self.assertLess(len(self.stored()), POINTS)
        return runner

    def ran(self):
        """The number of points that have started."""
        count = self.folder / "count"
        return count.read_text(encoding="utf-8").count(" --protocol ") if count.exists() else 0

    def wait_for(self, is_so, what, seconds=90):
        deadline = time.monotonic() + seconds
        while not is_so():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def stored(self):
        return sorted((self.folder / "there" / "points").glob("*.json"))

    def assert_same(self):
        """Asserts that all outputs of a run on the engine equal those of a run on this machine, except for
        durations."""
        there, local = self.folder / "there", self.local / "local"
        for name in ("table.csv", "figure.svg", "figure.pdf"):
            self.assertEqual((there / name).read_bytes(), (local / name).read_bytes(), name)
        reports = [
            [
                line
                for line in (place / "report.md").read_text(encoding="utf-8").splitlines()
                if not line.startswith("* The points took")
            ]
            for place in (there, local)
        ]
        self.assertEqual(*reports)
        self.assertEqual(plain(there), plain(local))

    def assert_clean(self):
        """Asserts that no folder of the engine and no process is left, and that no command in a folder's name has
        run."""
        self.assertEqual([path.name for path in self.folder.glob("*/points/.*") if path.name != ".lock"], [])
        self.assertEqual(list(self.folder.parent.rglob("pwned")), [])
        self.assertEqual(traces(), self.traces)
        self.wait_for(lambda: not processes_of(self.folder), "a process of the run is left", 20)
        self.assert_nothing_queued()

    # ---- The test cases of all engines ----
    def test_the_tables_are_those_of_this_machine(self):
        done = self.run_on()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.stored()), POINTS)
        for path in self.stored():  # each point ran on the engine and not in the local pool
            self.assertTrue(ran_elsewhere(path))
        self.assert_same()
        self.assert_clean()

    def test_interrupted_then_killed_then_resumed(self):
        runner = self.start_on(FAKE_SLEEP="0.3")
        runner.send_signal(signal.SIGINT)
        said = runner.communicate(timeout=60)[1]
        self.assertEqual(runner.returncode, 130, said)
        self.assertIn("finished points are kept; the same command goes on from there", said)
        self.assert_clean()
        interrupted = {path: path.read_bytes() for path in self.stored()}
        runner = self.start_on(FAKE_SLEEP="0.3")
        self.wait_for(lambda: len(self.stored()) > len(interrupted), "nothing more ended")
        runner.kill()
        runner.communicate()
        kept = {path: path.read_bytes() for path in self.stored()}
        done = self.run_on()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"[{POINTS - len(kept)}/{POINTS - len(kept)}]", done.stderr)
        for path, data in kept.items():
            self.assertEqual(path.read_bytes(), data)
        self.assert_same()
        self.assert_clean()

    def test_points_that_fail_die_and_hang(self):
        done = self.run_on(
            TROUBLED,
            ONCE=2048,
            ALWAYS=4096,
            FAKE_FAIL="value-size=8192,fabric=sim",
            FAKE_HANG="value-size=16384,fabric=sim",
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, self.told_again)
        failed = [line for line in done.stderr.splitlines() if line.startswith("failed ")]
        self.assertEqual(len(failed), 3, done.stderr)
        self.assertRegex(failed[0], r"failed CD value_size=4K repeat 1: .*" + self.told_lost + ": last words")
        self.assertRegex(failed[1], r"failed CD value_size=8K repeat 1: exit status 1: the store is full")
        self.assertRegex(failed[2], r"failed CD value_size=16K repeat 1: timed out after 3 s")
        self.assertTrue((self.folder / "once").is_dir())
        fabrics = {True: [], False: []}
        for path in self.stored():
            if not path.name.endswith(".failed.json"):
                fabrics[ran_elsewhere(path)].append(json.loads(path.read_text(encoding="utf-8"))["fabric"])
        self.assertEqual(fabrics, {True: ["sim"] * 2, False: ["shm"] * 5})
        self.assert_clean()


@functools.cache
def run_here():
    """The folder of a run of all points on this machine, without an engine."""
    folder = Path(tempfile.mkdtemp()).resolve()
    unittest.addModuleCleanup(shutil.rmtree, folder)
    prepare(folder, MANY)
    done = call(folder, *RUN[3:], "--out", "local", LOCH_BIN=str(folder / "bench"))
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return folder


def traces():
    """Files that a shell would have created by running a command in a folder's name."""
    return [path for path in (ROOT / "pwned", Path("/pwned"), Path.home() / "pwned") if path.exists()]


def prepare(folder, text, **settings):
    """Puts the experiment and the fake loch-bench into a folder."""
    (folder / "x.yaml").write_text(text, encoding="utf-8")
    lines = (f"export {key}={shlex.quote(str(value))}\n" for key, value in settings.items())
    (folder / "settings").write_text("".join(lines), encoding="utf-8")
    if not (folder / "bench").exists():
        (folder / "bench").write_text(WRAPPER, encoding="utf-8")
        (folder / "bench").chmod(0o755)


def plain(out):
    """The stored points without the fields that differ from run to run."""
    points = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in (out / "points").glob("*.json")}
    for document in points.values():
        for section, key in (
            ("runner", "elapsed_s"),
            ("runner", "argv"),
            ("sim", "wall_s"),
            ("provenance", "argv"),
            ("provenance", "time"),
        ):
            del document[section][key]
    return points


def ran_elsewhere(path):
    """Whether a stored point was written in an engine's folder."""
    return any("/.engine." in word for word in json.loads(path.read_text(encoding="utf-8"))["provenance"]["argv"])


def processes_of(folder):
    """Command lines of other processes that have a path in this folder among their arguments or environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes()
            if path.name != str(os.getpid()) and str(folder).encode() in line + (path / "environ").read_bytes():
                found.append(line)
        except OSError:
            continue
    return found
