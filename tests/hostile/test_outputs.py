"""Tests that outputs destroy nothing: devices, links and pipes as output files, limits, full or read-only file
systems."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

from support import BINARY, EXPERIMENT, ROOT, Hostile, is_root, may_mount

from loch.written import place_of, why_not, write_atomically

FLAGS = ("--json", "--histogram", "--history", "--trace")
HOG = ["hog", "--duration", "50ms"]
SIM_LONG = [
    "bench",
    "--protocol",
    "nessie",
    "--fabric",
    "sim",
    "--nodes",
    "2",
    "--clients",
    "2",
    "--keys",
    "200",
    "--value-size",
    "64",
    "--warmup",
    "50us",
    "--duration",
    "3ms",
]


class Devices(Hostile):
    """Outputs to device files, made for the test where the user may make them, else those in /dev."""

    def device(self, minor: int) -> str:
        """Makes a device file like /dev/null (minor number 3) or /dev/full (7)."""
        path = self.folder / f"device{minor}"
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            self.skipTest("no devices can be made here")
        return str(path)

    def assert_device(self, path: str) -> None:
        self.assertTrue(stat.S_ISCHR(os.stat(path).st_mode), f"{path} is a device no more")
        self.assertEqual([name for name in self.left() if "tmp" in name or "partial" in name], [])

    def test_bench_writes_to_a_device_as_it_is(self) -> None:
        null = self.device(3)
        for flag in FLAGS:
            with self.subTest(flag):
                done = self.bench(flag, null)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assert_device(null)

    def test_bench_says_that_a_device_is_full(self) -> None:
        full = self.device(7)
        for flag in FLAGS:
            with self.subTest(flag):
                done = self.bench(flag, full, stdout=subprocess.DEVNULL)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertIn("No space left", done.stderr)
                self.assert_device(full)

    def test_the_other_commands_do_so_too(self) -> None:
        null, full = self.device(3), self.device(7)
        self.write("watts.csv", "t_ns,host,source,watts\n0,a,x,5\n1000000000,a,x,5\n")
        (self.folder / "none").mkdir()
        for command in ([BINARY, *HOG, "--json"], [BINARY, "calibrate", "--hardware", "connectx3-10gbe", "--json"]):
            self.assertEqual(self.call([*command, null]).returncode, 0)
            done = self.call([*command, full], stdout=subprocess.DEVNULL)
            self.assert_refused(done, "No space left")
            self.assert_device(null)
            self.assert_device(full)
        for flag in ("--json", "--samples"):
            self.assertEqual(self.power("--trace", "watts.csv", flag, null).returncode, 0)
            self.assert_refused(
                self.power("--trace", "watts.csv", flag, full, stdout=subprocess.DEVNULL), "No space left"
            )
            self.assert_device(null)
            self.assert_device(full)
        self.assertEqual(self.loch("score", "none", "--json", null, timeout=120).returncode, 0)
        self.assert_refused(self.loch("score", "none", "--json", full, timeout=120), "No space left")
        self.assert_device(null)
        self.assert_device(full)


class LinksAndPipes(Hostile):
    def test_a_link_stays_and_its_target_is_written(self) -> None:
        (self.folder / "other").mkdir()
        for flag in FLAGS:
            for exists in (False, True):
                with self.subTest(f"{flag} {exists}"):
                    target, link = self.folder / "other/target", self.folder / "link"
                    target.unlink(missing_ok=True)
                    link.unlink(missing_ok=True)
                    if exists:
                        target.write_text("before")
                    link.symlink_to("other/target")
                    done = self.bench(flag, "link")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(link.is_symlink())
                    self.assertGreater(target.stat().st_size, 20)
                    self.assertEqual(self.left(), ["link", "other/target"])

    def test_a_pipe_gets_all_of_it(self) -> None:
        os.mkfifo(self.folder / "pipe")
        for flag in FLAGS:
            # cat writes to a file, because a pipe that nobody reads meanwhile could fill up and block it.
            with tempfile.TemporaryFile() as received:
                reader = subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=received)
                done = self.bench(flag, "pipe")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(reader.wait(timeout=20), 0)
                self.assertGreater(os.fstat(received.fileno()).st_size, 100)
            self.assertTrue(stat.S_ISFIFO(os.stat(self.folder / "pipe").st_mode))
            self.assertEqual(self.left(), ["pipe"])

    def test_a_dash_and_dev_stdout_are_standard_output(self) -> None:
        for name in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            with self.subTest(name):
                done = self.bench("--json", name)
                self.assertEqual(done.returncode, 0, done.stderr)
                # a summary may follow the JSON document on standard output, except with --json -
                at = done.stdout.index("\n}") + 3
                self.assertEqual(json.loads(done.stdout[:at])["schema"], 1)
                self.assertEqual(self.left(), [])
        self.assertEqual(json.loads(self.bench("--json", "-").stdout)["protocol"], "nessie")
        self.assertEqual(json.loads(self.call([BINARY, *HOG, "--json", "-"]).stdout)["schema"], 1)
        (self.folder / "none").mkdir()
        self.assertEqual(json.loads(self.loch("score", "none", "--json", "-", timeout=120).stdout)["schema"], 1)

    def test_what_stands_in_a_redirected_file_is_not_overwritten(self) -> None:
        done = self.in_shell('echo before >out; "$@" --json /dev/stdout >>out', BINARY, *HOG)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.folder / "out").read_text()
        self.assertTrue(text.startswith("before\n"), text[:50])
        self.assertEqual(json.loads(text[7:])["schema"], 1)

    def test_a_folder_and_a_loop_are_refused_before_the_run(self) -> None:
        (self.folder / "folder").mkdir()
        (self.folder / "loop").symlink_to("loop")
        for flag in FLAGS:
            for name in ("folder", "loop", "no/such/file", "/dev/null/x"):
                with self.subTest(f"{flag} {name}"):
                    self.assert_refused(self.bench(flag, name), flag, name)


class PythonOutputs(Hostile):
    """Output files of the Python commands follow the same rules as those of loch-bench."""

    def test_links_pipes_and_folders(self) -> None:
        link, target = self.folder / "link", self.folder / "deep/target"
        target.parent.mkdir()
        link.symlink_to("deep/target")
        write_atomically(link, "text")
        self.assertTrue(link.is_symlink())
        self.assertEqual((target.read_text(), self.left()), ("text", ["deep/target", "link"]))
        with self.assertRaises(OSError):
            write_atomically(self.folder / "deep", "text")
        os.mkfifo(self.folder / "pipe")
        with tempfile.TemporaryFile() as received:
            reader = subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=received)
            write_atomically(self.folder / "pipe", b"x" * 50_000)
            self.assertEqual(reader.wait(timeout=20), 0)
            self.assertEqual(os.fstat(received.fileno()).st_size, 50_000)
        for name, descriptor in (("-", 1), ("/dev/stdout", 1), ("/dev/fd/7", 7), ("/dev/../dev/stderr", 2)):
            self.assertEqual(place_of(name).descriptor, descriptor)
        self.assertEqual((why_not("/dev/null"), why_not(self.folder / "x")), ("", ""))
        self.assertIn("folder", why_not(self.folder))

    def test_a_write_that_fails_leaves_what_was_there(self) -> None:
        text = (
            "import sys, resource; sys.path[:0] = sys.argv[2:]; from loch.written import"
            " write_atomically\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\ntry:\n   "
            " write_atomically(sys.argv[1], 'y' * 5000)\nexcept OSError as error:\n    print(error.filename,"
            " error.strerror)\n"
        )
        self.write("kept", "before")
        done = self.call([sys.executable, "-c", text, "kept", str(ROOT / "tools")])
        self.assertEqual(done.stdout, "kept File too large\n", done.stderr)
        self.assertEqual(((self.folder / "kept").read_text(), self.left()), ("before", ["kept"]))


class Limits(Hostile):
    def test_a_limit_on_the_size_of_files_leaves_nothing(self) -> None:
        for flag in FLAGS:
            with self.subTest(flag):
                done = self.in_shell('ulimit -f 1; exec "$@"', BINARY, *SIM_LONG, flag, "x", stdout=subprocess.DEVNULL)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertIn("File too large", done.stderr)
                self.assertEqual(self.left(), [])

    def test_programs_that_are_started_have_the_limit_as_ever(self) -> None:
        """SIGXFSZ, which Loch ignores for itself, has its default effect again in programs that Loch starts."""
        done = self.in_shell('ulimit -f 1; exec "$@"', BINARY, "hog", "--", "sh", "-c", "head -c 100000 /dev/zero >big")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["command"]["exit_status"], done.returncode)

    def test_a_run_within_the_limit_of_file_size_fails_in_lines(self) -> None:
        self.write("e.yaml", EXPERIMENT)
        done = self.in_shell(
            'ulimit -f 1; exec "$@"',
            "/usr/bin/python3",
            str(ROOT / "tools/loch"),
            "--no-setup",
            "run",
            "e.yaml",
            "--out",
            "out",
            timeout=120,
        )
        self.assertIn(done.returncode, (1, 2))
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([name for name in self.left() if name.endswith(".tmp")], [])


class FileSystems(Hostile):
    """Output on file systems that are read-only or full, or below a path that is no folder."""

    def setUp(self) -> None:
        super().setUp()
        self.write("e.yaml", EXPERIMENT)

    def on(self, mount: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs tools/loch in a new mount namespace, which the line of shell in `mount` prepares."""
        if not may_mount():
            self.skipTest("no mount namespace can be had here")
        (self.folder / "m").mkdir(exist_ok=True)
        self.write("mount.sh", mount + '\nexec "$@"\n')
        return self.call(
            ["unshare", "-m", "sh", "mount.sh", "/usr/bin/python3", str(ROOT / "tools/loch"), "--no-setup", *arguments],
            timeout=timeout,
        )

    def test_an_output_folder_under_a_file(self) -> None:
        self.write("file", "text")
        self.assert_refused(self.loch("run", "e.yaml", "--out", "file/out"), "file")
        self.assert_refused(self.loch("run", "e.yaml", "--out", "file"), "file")
        self.assertEqual((self.folder / "file").read_text(), "text")

    def test_read_only_ground(self) -> None:
        self.assertEqual(self.loch("run", "e.yaml", "--out", "out", timeout=120).returncode, 0)
        frozen = "mount --bind . m && mount -o remount,ro,bind m"
        for arguments in (
            ("run", "e.yaml", "--out", "m/new"),
            ("plot", "m/out"),
            ("score", "m/out", "--json", "m/s.json"),
            ("reference", "m/out", "--out", "m/reference"),
            ("run", "e.yaml", "--out", "m/out", "--fresh"),
        ):
            with self.subTest(arguments):
                self.assert_refused(self.on(frozen, *arguments), "m/")

    def test_full_ground(self) -> None:
        """On a full file system each point is stored as a whole or not at all, and the same command completes it with
        more space."""
        for size in ("16k", "64k", "120k"):
            with self.subTest(size):
                text = (
                    f'mount -t tmpfs -o size={size} none m && trap \'find m -name "*.tmp" >left; '
                    "cat m/points/*.json >points 2>/dev/null' EXIT"
                )
                self.write("full.sh", text + '\n"$@"\n')
                (self.folder / "m").mkdir(exist_ok=True)
                if not may_mount():
                    self.skipTest("no mount namespace can be had here")
                done = self.call(
                    [
                        "unshare",
                        "-m",
                        "sh",
                        "full.sh",
                        "/usr/bin/python3",
                        str(ROOT / "tools/loch"),
                        "--no-setup",
                        "run",
                        "e.yaml",
                        "--out",
                        "m",
                        "--jobs",
                        "1",
                    ],
                    timeout=120,
                )
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                self.assertIn("No space left", done.stderr)
                self.assertEqual((self.folder / "left").read_text(), "")
                decoder, text = json.JSONDecoder(), (self.folder / "points").read_text().strip()
                while text:
                    _, at = decoder.raw_decode(text)
                    text = text[at:].strip()


@unittest.skipIf(is_root(), "root may write anywhere")
class Permissions(Hostile):
    def test_a_folder_without_permission_is_told_before_the_run(self) -> None:
        (self.folder / "locked").mkdir(mode=0o500)
        for flag in FLAGS:
            self.assert_refused(self.bench(flag, "locked/x"), flag, "locked")


if __name__ == "__main__":
    unittest.main()
