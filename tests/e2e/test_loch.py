"""./loch itself, as far as it goes without building."""

from __future__ import annotations

import unittest

from support import ROOT, EndToEnd


class Script(EndToEnd):
    def script(self, *arguments: str):
        return self.call([str(ROOT / "loch"), *arguments])

    def test_help_lists_the_commands(self) -> None:
        done = self.script("--help")
        self.assertEqual(done.returncode, 0)
        for command in ("run", "bench", "check", "fuzz", "score", "plot", "list", "calibrate", "doctor", "softroce", "test"):
            self.assertIn(f"./loch {command}", done.stdout)

    def test_an_unknown_command_is_named_with_the_nearest(self) -> None:
        self.assert_refused(self.script("banch"), "banch", "bench")
        self.assert_refused(self.script("xyzzyxyzzy"), "xyzzyxyzzy", "--help")

    def test_no_command_is_bad_input(self) -> None:
        done = self.script()
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_test_flags_are_checked_before_anything_is_built(self) -> None:
        self.assert_refused(self.script("test", "--quik"), "--quik", "--quick")
        self.assert_refused(self.script("test", "--filter"), "--filter")
        self.assert_refused(self.script("test", "--all"), "--lint")

    def test_it_may_be_a_symbolic_link_elsewhere(self) -> None:
        (self.folder / "linked").symlink_to(ROOT / "loch")
        self.assertEqual(self.call(["./linked", "--help"]).returncode, 0)

    def test_a_build_folder_that_cannot_be_made_is_named(self) -> None:
        self.write("file", "")
        done = self.call([str(ROOT / "loch"), "list", "fabrics"], LOCH_BUILD=str(self.folder / "file" / "build"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("LOCH_BUILD", done.stderr)


if __name__ == "__main__":
    unittest.main()
