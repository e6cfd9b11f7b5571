"""Tests of ./loch's commands: the contents of each --help, completion in bash, and a machine without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import unittest
from typing import Any

from small_tree import SmallTree
from support import BINARY, ROOT, EndToEnd

OF_PACKAGE = (
    "new",
    "run",
    "plot",
    "score",
    "compare",
    "reference",
    "schema",
    "mutate",
    "bench-suite",
    "doctor",
    "sequence",
    "softroce",
    "power",
    "test",
    "completion",
)


class Help(SmallTree):
    def test_each_ends_with_an_example_and_the_exit_statuses(self) -> None:
        for command in (*OF_PACKAGE, ""):
            with self.subTest(command=command):
                done = self.small(*filter(None, (command, "--help")), MISSING="cmake")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                end = "\n".join(done.stdout.rstrip().splitlines()[-8:]).lower()
                self.assertRegex(end, r"(?s)examples?:.*\./?loch.*exit status: .*2 ")
        self.assertEqual(self.calls(""), [], "something was installed or built for a --help")

    def test_the_command_itself_is_short(self) -> None:
        self.assertLessEqual(len((ROOT / "loch").read_text(encoding="utf-8").splitlines()), 40)


class Completion(EndToEnd):
    def complete(self, *words: str) -> list[str]:
        """The words that bash offers as completions of the last of `words`."""
        asked = (
            'eval "$("$1" completion bash)"; shift; COMP_CWORD=$(($# - 1)); COMP_WORDS=("$@"); _loch; '
            'for each in "${COMPREPLY[@]}"; do printf "%s\\n" "$each"; done'
        )
        done = self.call(["bash", "-c", asked, "bash", str(ROOT / "loch"), "loch", *words], LOCH_BIN=BINARY)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_commands(self) -> None:
        self.assertEqual(self.complete("be"), ["bench", "bench-suite"])
        self.assertEqual(self.complete("s"), ["schema", "score", "sequence", "softroce"])
        self.assertLess({*OF_PACKAGE, "bench", "fuzz", "explore", "list"}, set(self.complete("")))

    def test_flags_are_those_of_the_help(self) -> None:
        self.assertEqual(self.complete("bench", "--proto"), ["--protocol"])
        self.assertLess(
            {"--value-size", "--duration", "--json"}, set(self.complete("bench", "--protocol", "nessie", "--"))
        )
        self.assertEqual(self.complete("run", "x.yaml", "--sm"), ["--smoke"])
        self.assertEqual(self.complete("softroce", "--ho"), ["--hosts"])
        self.assertEqual(self.complete("test", "--q"), ["--quick"])

    def test_names_are_those_of_the_lists(self) -> None:
        self.assertEqual(self.complete("bench", "--protocol", "nessie-"), ["nessie-hy", "nessie-sd"])
        self.assertEqual(self.complete("bench", "--fabric", ""), ["ofi", "shm", "sim", "verbs"])
        self.assertEqual(self.complete("explore", "pil"), ["pilaf", "pilaf-vo"])
        self.assertEqual(self.complete("list", "fa"), ["fabrics", "faults"])
        experiments = os.path.relpath(ROOT / "experiments", self.folder)
        self.assertEqual(self.complete("run", f"{experiments}/quick"), [f"{experiments}/quickstart.yaml"])

    def test_where_nothing_is_known_files_are_left(self) -> None:
        self.assertEqual(self.complete("check", "hist"), [])
        self.assertEqual(self.complete("bench", "--json", "x"), [])

    def test_nothing_is_built_for_it(self) -> None:
        done = self.call(
            [str(ROOT / "loch"), "completion", "words", "2", "loch", "bench", "--pro"],
            LOCH_BIN="",
            LOCH_BUILD=str(self.folder / "none"),
        )
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, "", ""))
        self.assertFalse((self.folder / "none").exists())

    def test_another_shell_is_refused(self) -> None:
        self.assert_refused(self.call([str(ROOT / "loch"), "completion", "fish"]), "bash", "fish")
        self.assert_refused(self.call([str(ROOT / "loch"), "completion"]), "bash")


HIDDEN = """\
mount --bind /dev/null /usr/bin/python3
PATH=$1
shift
exec "$@"
"""


class WithoutPython(SmallTree):
    """/usr/bin/python3 is hidden, in a mount namespace of the test's own."""

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("mount namespaces need root")
        if self.hidden("/usr/bin/test", "!", "-x", "/usr/bin/python3").returncode:
            self.skipTest("no mount namespace can be had here")

    def hidden(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", HIDDEN, "sh", str(self.stand_ins), *words],
            cwd=self.folder,
            text=True,
            env=self.surroundings(**more),
            capture_output=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def loch_without(self, *programs: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs `./loch --help` with only the given programs in PATH."""
        shutil.rmtree(self.stand_ins)
        for name in ("readlink", "id", "mktemp", "tail", "rm", "env", "umount", "sh"):
            found = shutil.which(name)
            assert found
            self.program(name, f'#!/bin/sh\nexec {found} "$@"\n')
        for name in programs:
            self.program(
                name,
                '#!/bin/sh\necho "$$ apt-get $*" >> "$CALLS"\n'
                'case "$*" in *python3*) [ -n "$APT_FAILS" ] || umount /usr/bin/python3 ;; esac\necho "E: said"\n',
            )
        return self.hidden(str(self.tree / "loch"), "--help", **more)

    def test_it_is_installed(self) -> None:
        done = self.loch_without("apt-get")
        self.assertEqual((done.returncode, done.stderr), (0, "loch: installing python3\n"))
        self.assertIn("./loch run FILE.yaml", done.stdout)
        self.assertEqual(len(self.calls("install python3")), 1)

    def test_where_it_cannot_be_one_line_says_so(self) -> None:
        self.assert_refused(self.loch_without(), "needs /usr/bin/python3", "no Debian")
        done = self.loch_without("apt-get", APT_FAILS="yes")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("E: said\nloch: apt-get could not install python3 (", done.stderr)


if __name__ == "__main__":
    unittest.main()
