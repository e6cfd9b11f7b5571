"""Tests of damaged, endless or malicious input files and flags of loch-bench."""

from __future__ import annotations

import json
import os
import time
import unittest

from support import BINARY, ROOT, SIM, Hostile

HARDWARE = (ROOT / "experiments/hardware/connectx3-10gbe.yaml").read_text(encoding="utf-8")
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)
JUNK: dict[str, str | bytes] = {
    "brackets": "[" * 200_000,
    "maps": "{a: " * 5_000,
    "itself": "uc_loss: &a [*a]\n",
    "bomb": BOMB,
    "nan": "uc_loss: .nan\n",
    "huge": "uc_loss: 1e300\n",
    "cut": HARDWARE[:500] + '"',
    "latin": "näme: x\n".encode("latin-1"),
    "nul": b"a: \x00\n",
    "binary": bytes(range(256)) * 40,
    "list": "- 1\n",
    "word": "word\n",
}


class Yaml(Hostile):
    def test_junk_as_workload_faults_and_hardware(self) -> None:
        for name, content in JUNK.items():
            self.write(f"{name}.yaml", content)
            for flag in ("--workload", "--faults", "--hardware"):
                with self.subTest(f"{flag} {name}"):
                    self.assert_refused(self.bench(flag, f"{name}.yaml", "--json", "x.json"), f"{name}.yaml")
                    self.assertNotIn("x.json", self.left())

    def test_devices_and_folders_as_files(self) -> None:
        (self.folder / "folder").mkdir()
        for flag in ("--workload", "--faults", "--hardware", "--property-file"):
            for name in ("/dev/zero", "folder", "none.yaml"):
                with self.subTest(f"{flag} {name}"):
                    self.assert_refused(self.bench(flag, name), name)

    def test_a_key_that_is_there_twice(self) -> None:
        """A key that occurs twice in a file is refused; loch-bench does not choose one of its values."""
        last = HARDWARE.splitlines(keepends=True)[-1]
        for flag, text in (
            ("--faults", "uc_loss: 0.1\nud_loss: 0\nuc_loss: 0.2\n"),
            ("--faults", "schedule:\n  - {kind: cut, kind: kill, node: 0, at: 1us, span: 1us}\n"),
            ("--hardware", HARDWARE + last),
            ("--hardware", HARDWARE + "power:\n" + last),
            ("--workload", "get: 0.5\nget: 0.6\n"),
        ):
            self.write("twice.yaml", text)
            with self.subTest(f"{flag} {text[-40:]!r}"):
                self.assert_refused(self.bench(flag, "twice.yaml"), "twice.yaml:", "twice")

    def test_numbers_are_decimal_and_finite(self) -> None:
        for text in ("0x1p-3", "0x0", "nan", "inf", " 0.5x", "1e999", "0.5.5", "+-1", "-0.5", "1,0"):
            self.write("faults.yaml", f"uc_loss: {text}\n")
            with self.subTest(text):
                self.assert_refused(
                    self.bench("--faults", "faults.yaml"), "faults.yaml:1", "uc_loss", "a number from 0 to 1"
                )
        self.write("faults.yaml", "uc_loss: 1.5e-3\njitter: 5us\n")
        self.assertEqual(self.bench("--faults", "faults.yaml").returncode, 0)

    def test_property_files(self) -> None:
        files: list[tuple[str, str | bytes]] = [
            ("huge", "recordcount=" + "9" * 400),
            ("negative", "recordcount=-1"),
            ("nan", "readproportion=nan"),
            ("escape", "recordcount=\\u00"),
            ("bytes", b"\xff\x00=\xfe"),
            ("over", "readproportion=0.9\nupdateproportion=0.9"),
        ]
        for name, text in files:
            self.write(name, text)
            with self.subTest(name):
                done = self.bench("--workload", name)
                self.assertIn(done.returncode, (0, 2), done.stderr)
                self.assertTrue(done.returncode == 0 or len(done.stderr.strip().splitlines()) == 1, done.stderr)

    def test_bytes_that_are_no_text_end_no_run(self) -> None:
        """Bytes that are not UTF-8, in an unknown property or a file name, do not end a run, and no escape reaches the
        terminal."""
        name = b"n\xe4me\x1b[2J"
        self.write("plain", b"\xff\x1b[2J=1\n")
        os.rename(os.fsencode(self.folder / "plain"), os.path.join(os.fsencode(self.folder), name))
        done = self.bench("--workload", name, "--json", "x.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stderr + done.stdout)
        json.loads((self.folder / "x.json").read_text(encoding="utf-8"))


class Histories(Hostile):
    LINE = '{"client":0,"op":"put","key":"a","value":"1","invoke_ns":1,"return_ns":2,"outcome":"ok"}\n'

    def test_junk(self) -> None:
        lines: dict[str, str | bytes] = {
            "brackets": "[" * 1_000_000,
            "number": self.LINE.replace('"invoke_ns":1', '"invoke_ns":' + "9" * 400),
            "nan": self.LINE.replace('"invoke_ns":1', '"invoke_ns":NaN'),
            "twice": self.LINE.replace('"op":"put"', '"op":"put","op":"put"'),
            "cut": self.LINE[:40],
            "no_newline": self.LINE[:-1],
            "nul": b"\x00\n",
            "long": '{"client":' + " " * 50_000_000 + "0}\n",
            "latin": self.LINE.replace("a", "ä").encode("latin-1"),
            "empty_line": "\n",
        }
        for name, content in lines.items():
            self.write(name, self.LINE.encode() + (content.encode() if isinstance(content, str) else content))
            with self.subTest(name):
                self.assert_refused(self.call([BINARY, "check", name]), f"{name}:2")
        for name in ("/dev/zero", str(self.folder), "none"):
            self.assert_refused(self.call([BINARY, "check", name]), name)

    def test_an_undecidable_history_ends_soon(self) -> None:
        lines = "".join(
            f'{{"client":{i},"op":"{op}","key":"k","value":"{i // 2 % 2}","invoke_ns":0,"return_ns":1000000,"outcome":"ok"}}\n'
            for i, op in enumerate(("put", "get") * 275)
        )
        self.write("many", lines)
        began = time.monotonic()
        done = self.call([BINARY, "check", "many"])
        self.assertLess(time.monotonic() - began, 20)
        self.assertIn(done.returncode, (0, 2))


class Rates(Hostile):
    def test_a_rate_of_nearly_nothing_ends_with_the_duration(self) -> None:
        for rate in ("1e-9", "1e-300", "1e-3", "5e-324"):
            for arrivals in ("poisson", "fixed"):
                with self.subTest(f"{rate} {arrivals}"):
                    done = self.bench("--rate", rate, "--arrivals", arrivals)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn('"total": 0,', done.stdout)
        done = self.call(
            [
                BINARY,
                *SIM[:3],
                "--fabric",
                "shm",
                "--nodes",
                "2",
                "--keys",
                "100",
                "--warmup",
                "10ms",
                "--duration",
                "100ms",
                "--rate",
                "1e-9",
            ]
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_operations_that_would_take_years_are_refused(self) -> None:
        command = [BINARY, *SIM[:-2], "--operations", "10", "--rate", "1e-9"]
        self.assert_refused(self.call(command), "--rate", "simulated seconds", "3600")

    def test_impossible_sizes_are_refused(self) -> None:
        for flag, value in (
            ("--keys", "1000000000000"),
            ("--nodes", "1025"),
            ("--value-size", "2G"),
            ("--keys", "9" * 400),
        ):
            words = [each for i, each in enumerate(SIM) if each != flag and (i == 0 or SIM[i - 1] != flag)]
            with self.subTest(f"{flag} {value}"):
                self.assert_refused(
                    self.call([BINARY, *words, flag, value], timeout=60), flag.lstrip("-").partition("-")[0]
                )
        done = self.in_shell('ulimit -n 6; exec "$@"', BINARY, *SIM)
        self.assertIn(done.returncode, (0, 1, 2))
        self.assertLessEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
