"""Tests of what ./loch new and LOCH_PROTOCOLS refuse: one line, status 2, and nothing is built."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Refused(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="loch-new-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def loch(self, *arguments: str, **env: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(ROOT / "loch"), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "LOCH_BUILD": str(self.folder / "build"), **env},
        )

    def assert_refused(self, done: subprocess.CompletedProcess[str], said: str) -> None:
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(said, done.stderr)
        self.assertFalse((self.folder / "build").exists(), "something was built")

    def test_names(self) -> None:
        for name, said in (
            ("Mine", "small letters"),
            ("1mine", "small letters"),
            ("my-own", "small letters"),
            ("../x", "small letters"),
            ("class", "that word"),
            ("kv", "that word"),
            ("nessie", "folder of Loch"),
            ("tests", "folder of Loch"),
            ("pilaf", "pilaf_em of Loch"),
            ("seq_rpc", "sequencer of Loch"),
            ("memcached", "baselines of Loch"),
        ):
            self.assert_refused(self.loch("new", name, "--like", "rpc", "--at", "."), said)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_places_and_kinds(self) -> None:
        self.assert_refused(self.loch("new", "mine", "--like", "rpc", "--at", "nowhere"), "no such folder")
        self.assert_refused(self.loch("new", "mine", "--like", "rpc", "--at", str(ROOT / "docs")), "lies in the tree")
        self.assert_refused(self.loch("new", "mine", "--like", "tree", "--at", "."), "tree")
        self.assert_refused(self.loch("new", "mine", "--at", "."), "--like")
        (self.folder / "a:b").mkdir()
        self.assert_refused(self.loch("new", "mine", "--like", "rpc", "--at", "a:b"), "no colon")
        (self.folder / "mine").mkdir()
        (self.folder / "mine/kept").write_text("mine", encoding="utf-8")
        self.assert_refused(self.loch("new", "mine", "--like", "rpc", "--at", "."), "exists already")
        self.assertEqual([path.name for path in (self.folder / "mine").iterdir()], ["kept"])

    def test_folders_of_the_variable(self) -> None:
        (self.folder / "mine").mkdir()
        (self.folder / "nessie").mkdir()
        (self.folder / "empty").mkdir()
        for name in ("module.h", "CMakeLists.txt"):
            for place in ("mine", "."):
                self.assert_refused(self.loch("list", "protocols", LOCH_PROTOCOLS=place), f"no {name} there")
            (self.folder / "mine" / name).touch()
            (self.folder / "nessie" / name).touch()
        self.assert_refused(self.loch("list", "protocols", LOCH_PROTOCOLS="nowhere"), "no such folder")
        self.assert_refused(self.loch("list", "protocols", LOCH_PROTOCOLS="nessie"), "a folder of Loch has that name")
        self.assert_refused(self.loch("list", "protocols", LOCH_PROTOCOLS="mine:mine"), "named twice")
        self.assert_refused(
            self.loch("list", "protocols", LOCH_PROTOCOLS="."), "nessie: a folder of Loch has that name"
        )
        self.assert_refused(
            self.loch("list", "protocols", LOCH_PROTOCOLS="empty"), "no module.h there, nor in a folder there"
        )
        self.assert_refused(self.loch("list", "protocols", LOCH_PROTOCOLS=str(ROOT)), "lies in the tree")
        self.assert_refused(self.loch("list", "protocols", LOCH_PROTOCOLS=str(ROOT / "nessie")), "lies in the tree")

    def test_help_has_examples(self) -> None:
        done = self.loch("new", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("examples:", done.stdout)


if __name__ == "__main__":
    unittest.main()
