"""Tests of ./loch new: each kind of protocol, outside and inside a copy of the tree, is built, run, fuzzed and
explored."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "one-sided": ["no-lock"],
    "rpc": ["no-duplicate-detection", "removed-key-found"],
    "log": ["no-duplicate-detection", "compaction-keeps-oldest"],
}
POINT = ["--nodes", "3", "--clients", "2", "--keys", "500", "--value-size", "256", "--operations", "3000", "--verify"]


def source_files() -> list[Path]:
    """The working tree's files that git does not ignore; without a repository, all that are not build output."""
    if not (ROOT / ".git").exists():
        outputs = re.compile(r"(build[^/]*|results|\.git)(/|$)")
        return [path for path in ROOT.rglob("*") if path.is_file() and not outputs.match(str(path.relative_to(ROOT)))]
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z", "-c", "-o", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout
    return [
        ROOT / os.fsdecode(name) for name in filter(None, listing.split(b"\0")) if (ROOT / os.fsdecode(name)).is_file()
    ]


class Built(unittest.TestCase):
    folder: Path
    tree: Path
    work: Path
    before: Any
    own: Any

    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-new-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        cls.tree = cls.folder / "tree"
        # Makes a git repository of its own from the files of the working tree, uncommitted ones included. The build
        # folder lies inside it, because ccache treats only paths below the source folder as relative.
        for file in source_files():
            copy = cls.tree / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        git = ["git", "-C", str(cls.tree), "-c", "user.name=test", "-c", "user.email=test@localhost"]
        for command in ("init --quiet", "add --all", "commit --quiet --message=copy"):
            subprocess.run([*git, *command.split()], check=True)
        cls.before = cls.status()
        cls.work = cls.folder / "work"
        cls.work.mkdir()
        cls.own = {}
        for kind in KINDS:
            name = "own_" + kind.replace("-", "_")
            cls.loch("new", name, "--like", kind, "--at", str(cls.work))
            cls.own[kind] = cls.work / name

    @classmethod
    def status(cls) -> str:
        return subprocess.run(
            ["git", "-C", str(cls.tree), "status", "--porcelain"], check=True, capture_output=True, text=True
        ).stdout

    @classmethod
    def loch(cls, *arguments: str, status: int = 0, protocols: str = "") -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LOCH_")}
        done = subprocess.run(
            [str(cls.tree / "loch"), *arguments],
            cwd=cls.folder,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
            env={**kept, "LOCH_BUILD": str(cls.tree / "build"), "LOCH_PROTOCOLS": protocols},
        )
        if done.returncode != status:
            raise AssertionError(f"{arguments}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        return done

    def look_at(self, folder: Path, kind: str, protocols: str) -> None:
        """Builds a newly made protocol, and runs bench, fuzz, explore and its figures on it."""
        name = folder.name
        listed = self.loch("list", "protocols", protocols=protocols).stdout
        self.assertRegex(listed, rf"(?m)^\s*{name}\s")
        # The runs are limited by operations, not by time, so that a busy machine does not change the counts.
        for fabric in ("sim", "shm"):
            done = self.loch("bench", "--protocol", name, "--fabric", fabric, *POINT, protocols=protocols)
            operations = json.loads(done.stdout)["operations"]
            self.assertGreaterEqual(operations["total"], 3000)
            self.assertGreater(operations["verified"], 1000)
            self.assertEqual(operations["corrupt"], 0)
        found = self.loch("fuzz", "--protocol", name, "--seeds", "200", "--jobs", "1", protocols=protocols)
        self.assertIn("nothing found", found.stdout + found.stderr)
        for mutant in KINDS[kind]:
            self.loch(
                "fuzz",
                "--protocol",
                name,
                "--mutant",
                mutant,
                "--seeds",
                "50",
                "--jobs",
                "1",
                "--no-shrink",
                status=1,
                protocols=protocols,
            )
        explored = self.loch("explore", name, "PUT K | GET K", protocols=protocols)
        self.assertIn("complete:", explored.stdout + explored.stderr)
        out = self.folder / f"out-{name}"
        self.loch("run", str(folder / "experiment.yaml"), "--smoke", "--out", str(out), protocols=protocols)
        figures = list(out.rglob("figure.png"))
        self.assertEqual([path.read_bytes()[:8] for path in figures], [b"\x89PNG\r\n\x1a\n"])
        (table,) = out.rglob("table.csv")
        with table.open(encoding="utf-8", newline="") as rows:
            self.assertEqual({row["system"] for row in csv.DictReader(rows)}, {name, "nessie", "pilaf", "herd"})

    def run_its_tests(self, names: list[str]) -> None:
        """Builds and runs the tests of the new folders; ninja links them with what ./loch has built."""
        release = self.tree / "build/release"
        made = subprocess.run(
            ["cmake", "--build", str(release), "--target", *(f"{name}_test" for name in names)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(made.returncode, 0, made.stdout[-3000:])
        for name in names:
            (program,) = (path for path in release.rglob(f"{name}_test") if path.is_file())
            ran = subprocess.run(
                [str(program)], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
            )
            self.assertEqual(ran.returncode, 0, ran.stdout[-3000:] + ran.stderr[-1000:])
            self.assertRegex(ran.stdout, r"\[  PASSED  \] [4-9] tests")

    def test_outside_the_tree(self) -> None:
        for kind, folder in self.own.items():
            with self.subTest(kind=kind):
                self.look_at(folder, kind, str(self.work))
        self.run_its_tests([folder.name for folder in self.own.values()])
        self.assertEqual(self.status(), self.before, "the tree was changed")
        without = self.loch("list", "protocols").stdout
        self.assertNotIn("own_", without)
        self.assertIn("nessie", without)

    def test_a_folder_that_does_not_build(self) -> None:
        place = self.folder / "elsewhere"
        place.mkdir()
        broken = place / "own_broken"
        self.loch("new", "own_broken", "--like", "rpc", "--at", str(place))
        source = broken / "shard.cc"
        source.write_text(source.read_text(encoding="utf-8") + "\nint broken = undeclared_name;\n", encoding="utf-8")
        self.loch("list", "protocols")
        done = self.loch("list", "protocols", protocols=str(broken), status=2)
        self.assertEqual(done.stdout, "")
        self.assertRegex(
            done.stderr.strip().splitlines()[-1], re.escape(str(source)) + r":\d+:\d+: error: .*undeclared_name"
        )
        self.assertIn("nessie", self.loch("list", "protocols").stdout)
        (broken / "CMakeLists.txt").write_text("no_such_command()\n", encoding="utf-8")
        done = self.loch("list", "protocols", protocols=str(broken), status=2)
        self.assertIn(f"{broken}/CMakeLists.txt:1", done.stderr.strip().splitlines()[-1])
        self.assertIn("nessie", self.loch("list", "protocols").stdout)

    def test_within_the_tree(self) -> None:
        self.loch("new", "own_inside", "--like", "one-sided")
        self.addCleanup(shutil.rmtree, self.tree / "own_inside")
        self.look_at(self.tree / "own_inside", "one-sided", "")
        self.run_its_tests(["own_inside"])
        self.assertEqual(self.status(), self.before + "?? own_inside/\n")
        source = self.tree / "own_inside/module.cc"
        good = source.read_text(encoding="utf-8")
        source.write_text(good + "\nint broken = undeclared_name;\n", encoding="utf-8")
        said = self.loch("list", "protocols", status=1).stderr.strip().splitlines()[-1]
        self.assertRegex(said, r"own_inside does not build: own_inside/module\.cc:\d+:\d+: error: .*undeclared_name")
        self.assertIn("own_inside", self.loch("--no-setup", "list", "protocols").stdout)
        source.write_text(good, encoding="utf-8")
        self.loch("list", "protocols")


if __name__ == "__main__":
    unittest.main()
