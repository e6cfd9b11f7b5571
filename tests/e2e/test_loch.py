"""Tests of ./loch with a fake cmake, which takes a while and leaves a fake loch-bench."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import unittest

from support import ROOT, EndToEnd

CMAKE = r"""#!/bin/sh
# A fake cmake: `cmake --preset P -B DIR` makes DIR; `cmake --build DIR ...` takes $BUILD_S seconds.
echo "$$ $*" >> "$CALLS"
if [ "$1" = --build ]; then
  echo '[1/2] Building CXX object'
  sleep "$BUILD_S"
  mkdir -p "$2/bin"
  printf '#!/bin/sh\necho "built: $*"\n' > "$2/bin/loch-bench"
  chmod +x "$2/bin/loch-bench"
else
  mkdir -p "$4"
fi
"""


class Script(EndToEnd):
    def script(self, *arguments: str):
        return self.call([str(ROOT / "loch"), *arguments])

    def test_help_lists_the_commands(self) -> None:
        done = self.script("--help")
        self.assertEqual(done.returncode, 0)
        for command in (
            "run",
            "bench",
            "check",
            "fuzz",
            "explore",
            "score",
            "plot",
            "list",
            "calibrate",
            "devices",
            "ping",
            "litmus",
            "doctor",
            "softroce",
            "test",
        ):
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

    def start(self, seconds: float) -> subprocess.Popen[str]:
        """Starts `./loch list protocols` in a new build folder; the fake build takes `seconds`."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        # the fake memcached keeps ./loch from downloading the package
        for name, text in (("cmake", CMAKE), ("memcached", "#!/bin/sh\n")):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        more = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "LOCH_BUILD": str(self.folder / "build"),
            "BUILD_S": str(seconds),
            "CALLS": str(self.folder / "calls"),
        }
        return subprocess.Popen(
            [str(ROOT / "loch"), "list", "protocols"],
            env={**os.environ, **more},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # SIGINT is ignored in background jobs, so it is enabled again

    def builds(self) -> int:
        calls = self.folder / "calls"
        return calls.read_text().count("--build") if calls.exists() else 0

    def wait_for_build(self) -> None:
        deadline = time.monotonic() + 60
        while self.builds() == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.builds(), 1)

    def test_an_interrupted_build_goes_on_next_time(self) -> None:
        first = self.start(60)
        self.wait_for_build()
        os.killpg(first.pid, signal.SIGINT)  # sends SIGINT to the process group, as Ctrl-C on a terminal does
        out, err = first.communicate(timeout=20)
        self.assertEqual((first.returncode, out), (130, ""), err)
        self.assertIn("loch: interrupted; the next ./loch goes on", err)
        out, err = (again := self.start(0)).communicate(timeout=60)
        self.assertEqual((again.returncode, out), (0, "built: list protocols\n"), err)

    def test_two_at_once_build_once(self) -> None:
        first = self.start(1.5)
        self.wait_for_build()
        second = self.start(1.5)
        ends = [each.communicate(timeout=60) for each in (first, second)]
        for each, (out, err) in zip((first, second), ends):
            self.assertEqual((each.returncode, out), (0, "built: list protocols\n"), err)
        self.assertIn("waiting for another ./loch", ends[1][1])
        self.assertEqual(self.builds(), 1)

    def test_a_build_folder_that_cannot_be_made_is_named(self) -> None:
        self.write("file", "")
        done = self.call([str(ROOT / "loch"), "list", "fabrics"], LOCH_BUILD=str(self.folder / "file" / "build"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("LOCH_BUILD", done.stderr)


if __name__ == "__main__":
    unittest.main()
