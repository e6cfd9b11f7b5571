"""Tests of damaged or malicious replay files and folders of fuzz campaigns, and of those of other versions."""

from __future__ import annotations

import json
import os
import unittest
from pathlib import Path
from typing import Any

from support import BINARY, Hostile

SEED = ["--protocol", "herd", "--mutant", "reply-not-awaited", "--seeds", "1", "--shrink-runs", "60"]


class Replays(Hostile):
    """Tests on the stored replay file of one fuzzer's finding: each test changes the file and replays it."""

    def setUp(self) -> None:
        super().setUp()
        done = self.call([BINARY, "fuzz", *SEED])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.stored = json.loads((self.folder / "fuzz-herd-1.replay.json").read_text(encoding="utf-8"))

    def replay(self, content: str | bytes | dict, *flags: str):
        self.write("f.json", content if isinstance(content, (str, bytes)) else json.dumps(content))
        return self.call([BINARY, "fuzz", "--replay", "f.json", *flags])

    def changed(self, *path: str | int, to: object) -> dict:
        document = json.loads(json.dumps(self.stored))
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to
        return document

    def test_what_was_stored_shows_again(self) -> None:
        done = self.replay(self.stored, "--html", "again.html")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the same run, event by event", done.stdout)
        self.assertEqual(
            (self.folder / "again.html").read_text(encoding="utf-8"),
            (self.folder / "fuzz-herd-1.html").read_text(encoding="utf-8"),
        )
        done = self.replay(self.stored, "--mutant", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing shows", done.stdout)

    def test_junk(self) -> None:
        text = json.dumps(self.stored)
        junk: dict[str, str | bytes] = {
            "brackets": "[" * 1_000_000,
            "maps": '{"a":' * 100_000,
            "empty": "",
            "cut": text[:400],
            "binary": bytes(range(256)),
            "nan": text.replace('"version": 1', '"version": NaN'),
            "huge": text.replace('"version": 1', '"version": 1e999'),
            "twice": text.replace('"mutant"', '"mutant": "", "mutant"', 1),
            "list": "[]",
            "two": text + text,
            "yaml": "format: loch-replay\n",
            "latin": text.replace("churn", "ä").encode("latin-1") + b"\xff",
        }
        for name, content in junk.items():
            with self.subTest(name):
                self.assert_refused(self.replay(content), "f.json")
        for name in ("/dev/zero", "none.json", "."):
            with self.subTest(name):
                self.assert_refused(self.call([BINARY, "fuzz", "--replay", name]), name)

    def test_scenarios_that_cannot_run(self) -> None:
        changes: list[tuple[tuple[str | int, ...], Any, str]] = [
            (("version",), 2, "version"),
            (("format",), "loch-corpus", "format"),
            (("protocol",), "redi", "protocol"),
            (("mutant",), "no-such", "mutant"),
            (("hardware",), "/etc/passwd", "hardware"),
            (("hardware",), "../x", "hardware"),
            (("settings",), {"herd.log": "-1"}, "herd.log"),
            (("settings",), {"redis.binary": "/bin/sh"}, "redis.binary"),
            (("run",), "touch hurt", "run"),
            (("scenario", "cluster", "nodes"), 10**9, "cluster.nodes"),
            (("scenario", "cluster", "nodes"), "3", "cluster.nodes"),
            (("scenario", "cluster", "value_bytes"), 1 << 40, "value_bytes"),
            (("scenario", "cluster", "server_workers"), 0, "server_workers"),
            (("scenario", "load", "duration_ns"), 10**15, "duration_ns"),
            (("scenario", "load", "script", "clients", 0, "node"), 7, "clients"),
            (("scenario", "load", "script", "clients", 0, "operations", 0, "record"), 4_000, "record"),
            (("scenario", "load", "mix", "get"), 0.9999, "mix"),
            (("scenario", "knobs"), {"herd.batch": "x\ny"}, "knobs"),
        ]
        for path, value, said in changes:
            with self.subTest(f"{path} {value}"):
                self.assert_refused(self.replay(self.changed(*path, to=value)), "f.json", said)
        self.assertNotIn("hurt", self.left())

    def test_no_program_is_named_by_a_file(self) -> None:
        program = self.write("program", "#!/bin/sh\ntouch ran\n")
        os.chmod(self.folder / program, 0o755)
        for protocol, option in (("redis", "redis.binary"), ("memcached", "memcached.binary"), ("pilaf", "pilaf.log")):
            document = self.changed("protocol", to=protocol)
            document["mutant"] = ""
            document["scenario"]["knobs"] = {}
            document["settings"] = {option: str(self.folder / "program")}
            with self.subTest(option):
                self.assert_refused(self.replay(document), "f.json", option)
        self.assertNotIn("ran", self.left())

    def test_flags(self) -> None:
        self.write("f.json", json.dumps(self.stored))
        for flags in (
            ["--replay", "f.json", "--protocol", "herd"],
            ["--html", "x.html"],
            ["--replay", "f.json", "--mutant", "x"],
            ["--shrunk"],
            ["--corpus", "c", "--unfair", "clock"],
            ["--shrink-runs", "0"],
        ):
            with self.subTest(flags):
                self.assert_refused(self.call([BINARY, "fuzz", *flags]), "--")
        self.assert_refused(self.call([BINARY, "fuzz", "--replay", "f.json", "--set", "herd.no=1"]), "herd.no")

    def test_outputs_destroy_nothing(self) -> None:
        os.mkfifo(self.folder / "pipe")
        (self.folder / "dir.html").mkdir()
        self.assert_refused(self.replay(self.stored, "--html", "dir.html"), "dir.html")
        self.write("file", "kept")
        done = self.call([BINARY, "fuzz", *SEED, "--findings", "file"])
        self.assertEqual(done.returncode, 2)
        self.assertEqual((self.folder / "file").read_text(encoding="utf-8"), "kept")


class Corpora(Hostile):
    def campaign(self, *flags: str):
        return self.call([BINARY, "fuzz", "--protocol", "herd", "--corpus", "c", "--jobs", "1", *flags])

    def test_another_version_or_protocol(self) -> None:
        self.assertEqual(self.campaign("--seeds", "8").returncode, 0)
        index = self.folder / "c/corpus.json"
        text = index.read_text(encoding="utf-8")
        for name, content, said in (
            ("version", text.replace('"version": 1', '"version": 9'), "version"),
            ("protocol", text.replace('"herd"', '"pilaf"', 1), "protocol"),
            ("junk", "{", "corpus.json:1"),
            ("way out", text.replace('"s000000', '"../s000000', 1), "plain file names"),
        ):
            index.write_text(content, encoding="utf-8")
            with self.subTest(name):
                self.assert_refused(self.campaign("--seeds", "8"), "c/corpus.json", said)
        index.write_text(text, encoding="utf-8")
        kept = sorted(Path(self.folder / "c/scenarios").iterdir())[0]
        whole = kept.read_bytes()
        kept.write_bytes(whole[:300])
        self.assert_refused(self.campaign("--seeds", "8"), kept.name)
        kept.write_bytes(whole)
        self.assertEqual(self.campaign("--seeds", "8").returncode, 0)

    def test_a_campaign_that_is_killed_goes_on(self) -> None:
        """After a campaign has ended by SIGINT, SIGTERM or SIGKILL, every scenario that its index names exists."""
        steps = 0
        for signal in ("INT", "TERM", "KILL"):
            # After SIGKILL the index lacks the counts since it was last written, of at most five seconds, so the
            # campaign that SIGKILL ends runs for longer.
            seconds = "12" if signal == "KILL" else "3"
            self.in_shell(
                'timeout --signal="$1" --kill-after=20 "$2" "$3" fuzz --protocol herd --corpus c --for 60s --jobs 2',
                signal,
                seconds,
                BINARY,
            )
            index = json.loads((self.folder / "c/corpus.json").read_text(encoding="utf-8"))
            for entry in index["scenarios"]:
                self.assertTrue((self.folder / "c/scenarios" / entry["file"]).is_file(), entry)
            self.assertGreater(index["next_step"], steps, signal)
            steps = index["next_step"]
        self.assertEqual(self.campaign("--seeds", "4").returncode, 0)


if __name__ == "__main__":
    unittest.main()
