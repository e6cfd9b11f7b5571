"""Tests of what ./loch does before a command: packages, builds, the lock, and their failures and interruptions."""

from __future__ import annotations

import fcntl
import os
import pty
import pwd
import signal
import subprocess
import time
import unittest
from functools import partial
from typing import Any, Callable

from small_tree import SmallTree


class Building(SmallTree):
    def test_what_is_built_is_run_without_another_build(self) -> None:
        first = self.small("list", "protocols")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("built: list protocols\n", first.stdout)
        began = len(self.calls(""))
        with (self.folder / "build/lock").open("w") as lock:
            # with an unchanged tree, ./loch does not even wait for another ./loch's build
            fcntl.flock(lock, fcntl.LOCK_EX)
            again = self.small("list", "fabrics")
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertIn("built: list fabrics\n", again.stdout)
        self.assertEqual(len(self.calls("")), began, "cmake or dpkg-query was started though nothing had changed")

    def test_the_program_has_its_surroundings(self) -> None:
        done = self.small("bench", "--json", "a file")
        self.assertIn("built: bench --json a file\n", done.stdout)
        self.assertIn(f"home: {self.tree}\n", done.stdout)
        self.assertIn("tunables: glibc.malloc.hugetlb=1\n", done.stdout)
        self.assertIn("tunables: mine\n", self.small("bench", GLIBC_TUNABLES="mine").stdout)
        ignored = int(done.stdout.split("SigIgn:")[1].split()[0], 16)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            self.assertFalse(ignored & 1 << (number - 1), f"{number!r} is ignored in the program")

    def test_a_changed_source_is_built(self) -> None:
        self.small("list", "protocols")
        for name in ("nessie/new.cc", "CMakeLists.txt", "tools/loch/hosts.py"):
            builds = len(self.calls("--build"))
            time.sleep(0.02)
            path = self.tree / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
            self.small("list", "protocols")
            self.assertEqual(len(self.calls("--build")), builds + 1, name)

    def test_what_people_write_into_the_tree_is_no_change(self) -> None:
        for folder in ("docs", "results", "build-mine"):
            (self.tree / folder).mkdir()
        self.small("list", "protocols")
        time.sleep(0.02)
        for name in ("docs/page.md", "results/x.yaml", "build-mine/x.cc"):
            (self.tree / name).touch()
        self.small("list", "protocols")
        self.assertEqual(len(self.calls("--build")), 1)

    def test_running_leaves_the_tree_as_it_is(self) -> None:
        before = sorted(self.tree.rglob("*"))
        for words in (
            ["list", "protocols"],
            ["list", "fabrics"],
            ["doctor", "--help"],
            ["run", "none.yaml"],
            ["banch"],
        ):
            self.small(*words)
        self.assertEqual(sorted(self.tree.rglob("*")), before)

    def test_a_build_folder_may_be_named_from_here(self) -> None:
        done = self.small("list", "protocols", LOCH_BUILD="below/../mine")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "mine/release/bin/loch-bench").exists())
        self.assertFalse((self.folder / "build").exists())

    def test_a_build_that_fails_says_its_last_lines(self) -> None:
        done = self.small("list", "protocols", BUILD_FAILS="yes")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        said = done.stderr.splitlines()
        log = self.folder / "build/release.build.log"
        self.assertEqual(said[-2:], ["x.cc:1:1: error: no such thing", f"loch: the build failed ({log})"])
        self.assertEqual(said[0], "line 22")  # the compiler's last 40 lines are printed, without ninja's progress lines
        self.assertIn("[1/2] Building", log.read_text(encoding="utf-8"))
        self.assertIn("built: list", self.small("list", "protocols").stdout, "it is built anew")

    def test_two_at_a_time_wait_for_each_other(self) -> None:
        first = self.start("list", "protocols", BUILD_S="1.5")
        self.wait_for("--build")
        second = self.start("list", "fabrics", BUILD_S="1.5")
        (_, _), (out, err) = first.communicate(timeout=60), second.communicate(timeout=60)
        self.assertEqual((first.returncode, second.returncode), (0, 0), err)
        self.assertIn(f"loch: waiting for another ./loch that builds in {self.folder / 'build'}\n", err)
        self.assertIn("built: list fabrics", out)
        self.assertEqual(len(self.calls("--build")), 1)

    def test_a_build_that_takes_longer_says_how_far_it_is(self) -> None:
        done = self.small("list", "protocols", BUILD_S="2.5")
        # progress is printed at most once in 15 s
        self.assertEqual(done.stderr, "loch: building (release) [1/2] Building CXX object\n")
        self.assertEqual(self.small("list", "protocols").stderr, "")

    def test_on_a_terminal_the_line_is_rewritten_and_gone_at_the_end(self) -> None:
        ours, theirs = pty.openpty()
        started = subprocess.Popen(
            [str(self.tree / "loch"), "list", "protocols"],
            env=self.surroundings(BUILD_S="3.5"),
            stderr=theirs,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(theirs)
        self.assertEqual(started.wait(timeout=60), 0)
        said = os.read(ours, 1 << 16).decode()
        os.close(ours)
        self.assertGreaterEqual(said.count("\r\x1b[Kloch: building (release) [1/2] Building CXX object"), 2)
        self.assertTrue(said.endswith("\r\x1b[K"), repr(said))
        self.assertNotIn("\n", said)

    def test_no_setup_runs_what_is_there(self) -> None:
        done = self.small("--no-setup", "bench", LOCH_BIN=str(self.folder / "program"))
        self.assertIn("built: bench\n", done.stdout)
        self.assert_refused(self.small("--no-setup", "bench"), "loch-bench", "cannot be started")
        self.assertEqual(self.calls(""), [])

    def wait_for(self, call: str) -> None:
        deadline = time.monotonic() + 60
        while not self.calls(call) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(self.calls(call), f"{call} was not started")


class Packages(SmallTree):
    def without_root(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs ./loch as a user other than root, with a fake sudo that fails."""
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.folder.chmod(0o777)
        become: Callable[[], None] | None = partial(os.setuid, user.pw_uid) if user else None
        return subprocess.run(
            [str(self.tree / "loch"), *words],
            cwd=self.folder,
            env=self.surroundings(NO_ROOT="yes", **more),
            timeout=60,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            preexec_fn=become,
        )

    def test_without_root_they_are_named_in_one_line(self) -> None:
        done = self.without_root("list", "protocols", MISSING="ninja-build libfmt-dev")
        self.assert_refused(
            done, "loch: these Debian packages are missing: ninja-build libfmt-dev (as root: apt-get install ninja"
        )
        self.assertEqual((self.calls("apt-get"), self.calls("--build")), ([], []))

    def test_with_root_they_are_installed_and_only_they(self) -> None:
        done = self.small("list", "protocols", MISSING="ninja-build libfmt-dev")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.calls("apt-get -y")), 2)  # apt-get update and apt-get install
        self.assertEqual(len(self.calls("install ninja-build libfmt-dev")), 1)

    def test_what_apt_get_says_of_its_failure_is_shown(self) -> None:
        done = self.small("list", "protocols", MISSING="ninja-build", APT_FAILS="yes")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(
            done.stderr.splitlines(),
            [
                "E: Unable to locate package",
                f"loch: apt-get failed ({self.folder / 'build/packages.log'}); still missing: ninja-build",
            ],
        )

    def test_a_library_with_the_ending_of_64_bit_times_is_there(self) -> None:
        self.program(
            "dpkg-query",
            '#!/bin/sh\nshift 3\nfor name; do [ "$name" = libevent-2.1-7 ] || echo "$name installed"; done\n',
        )
        done = self.small("list", "protocols")
        self.assertEqual((done.returncode, self.calls("apt-get")), (0, []), done.stderr)

    def test_dask_is_installed_where_points_are_to_run_on_it(self) -> None:
        self.write("x.yaml", "")
        none: list[str] = []
        for words, installs in ((["--on", "slurm"], 0), (none, 0), (["--on=dask"], 1), (["--on", "dask"], 2)):
            self.small("run", "x.yaml", *words, MISSING="python3-distributed")
            self.assertEqual(len(self.calls("install python3-distributed")), installs, words)
            (self.folder / "build/packages.dask").unlink(missing_ok=True)

    def test_bad_flags_and_help_install_nothing(self) -> None:
        for words, status in (
            (["mutate", "--edits", "0"], 2),
            (["softroce", "--hosts", "0", "--", "true"], 2),
            (["run", "--jbs", "2"], 2),
            (["power", "--bmc", "x", "--rate", "0"], 2),
            (["test", "--quik"], 2),
            (["run", "--help"], 0),
            (["run", "--on", "dask", "--help"], 0),
            (["run", "x.yaml", "--on", "dask", "--jbs", "2"], 2),
        ):
            self.assertEqual(self.small(*words, MISSING="cmake").returncode, status, words)
        self.assertEqual(self.calls(""), [])
        self.assertFalse((self.folder / "build").exists())


class Interrupted(SmallTree):
    def interrupt(self, words: list[str], call: str, everybody: bool, **more: Any) -> tuple[int, str, str]:
        (self.folder / "calls").write_text("")
        started = self.start(*words, **more)
        deadline = time.monotonic() + 60
        while not self.calls(call) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(self.calls(call), f"{call} was not started")
        (os.killpg if everybody else os.kill)(started.pid, signal.SIGINT)
        out, err = started.communicate(timeout=30)
        return started.returncode, out, err

    def test_a_build(self) -> None:
        # SIGINT to the whole process group, as from a terminal, and to ./loch alone, as by `kill -INT`
        for everybody in (True, False):
            with self.subTest(everybody=everybody):
                status, out, err = self.interrupt(["list", "protocols"], "--build", everybody, BUILD_S="60")
                self.assertEqual((status, out), (130, ""), err)
                self.assertEqual(
                    err.splitlines()[-1], "loch: interrupted; the next ./loch goes on where this one stopped"
                )
                self.assertTrue(all(map(self.has_ended, self.calls("--build"))), "cmake goes on")
        self.assertIn("built: list", self.small("list", "protocols").stdout)

    def test_the_tests(self) -> None:
        for everybody in (True, False):
            with self.subTest(everybody=everybody):
                status, out, err = self.interrupt(["test", "--quick"], "sleep", everybody, CTEST_S="60")
                self.assertEqual(status, 130, out + err)
                self.assertIn("loch: interrupted", err)
                self.assertTrue(all(map(self.has_ended, self.calls("ctest ") + self.calls("sleep"))), "a test goes on")


class Testing(SmallTree):
    def test_it_ends_with_the_summary_of_ctest(self) -> None:
        done = self.small("test", "--quick", "--filter=^toy")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(
            lines[-3:], ["100% tests passed, 0 tests failed out of 1", "", "Total Test time (real) =   0.01 sec"]
        )
        self.assertRegex(done.stderr, r"loch: fresh seeds from LOCH_FRESH_BASE=[1-9]\d*000000000\n")
        self.assertEqual(len(self.calls("--output-on-failure --no-tests=error -L ^quick$ -R ^toy")), 1)
        self.assertEqual(len(self.calls("--target loch-bench loch_quick_tests")), 1)

    def test_a_test_that_fails_is_status_1(self) -> None:
        self.program("ctest", "#!/bin/sh\necho '50% tests passed, 1 tests failed out of 2'\nexit 8\n")
        done = self.small("test", "--filter", "x", LOCH_FRESH_BASE="7")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("LOCH_FRESH_BASE=7\n", done.stderr)
        self.assertTrue(done.stdout.endswith("50% tests passed, 1 tests failed out of 2\n"))

    def test_all_of_them_are_built_four_times(self) -> None:
        done = self.small("test", CI="yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in (
            "build/release --target all",
            "build/asan --target loch_sanitize_tests",
            "build/tsan --target loch_sanitize_tests",
            "build/fuzz --target loch_fuzzers",
            "--test-dir",
            "-LE ^long$",
        ):
            self.assertEqual(len(self.calls(line)), 1, line)
        listed = (self.folder / "build/all-tests/CTestTestfile.cmake").read_text(encoding="utf-8")
        self.assertEqual(listed.count('"'), 8, listed)


if __name__ == "__main__":
    unittest.main()
