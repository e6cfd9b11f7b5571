"""Tests of `loch check`: recorded histories pass, a wrong history is found, an unreadable one is refused."""

from __future__ import annotations

import json
import unittest

from support import SHM, SIM, EndToEnd


def line(
    client: int, op: str, value: str | None, begin: int, end: int | None, outcome: str = "ok", key: str = "k"
) -> str:
    return (
        json.dumps(
            {
                "client": client,
                "op": op,
                "key": key,
                "value": value,
                "invoke_ns": begin,
                "return_ns": end,
                "outcome": outcome,
            }
        )
        + "\n"
    )


class Check(EndToEnd):
    def test_what_the_fabrics_record_holds(self) -> None:
        for fabric in (SIM, SHM):
            with self.subTest(fabric[4]):
                made = self.loch(
                    *fabric,
                    "--get",
                    "0.6",
                    "--delete",
                    "0.1",
                    "--distribution",
                    "zipfian-n",
                    "--history",
                    "h.jsonl",
                    "--json",
                    "out.json",
                )
                self.assertEqual(made.returncode, 0, made.stderr)
                done = self.loch("check", "h.jsonl")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertGreater(len((self.folder / "h.jsonl").read_text().splitlines()), 100)

    def test_a_binary_history_says_what_a_text_history_says(self) -> None:
        for flags in (("h.bin",), ("h.none", "--history-format", "binary")):
            name = flags[0]
            made = self.loch(*SIM, "--get", "0.6", "--delete", "0.1", "--history", *flags, "--json", "out.json")
            self.assertEqual(made.returncode, 0, made.stderr)
            recorded = json.loads((self.folder / "out.json").read_text())["history"]
            self.assertEqual(recorded["format"], "binary")
            self.assertEqual(recorded["bytes"], (self.folder / name).stat().st_size)
            made = self.loch(*SIM, "--get", "0.6", "--delete", "0.1", "--history", "h.jsonl", "--json", "text.json")
            self.assertEqual(made.returncode, 0, made.stderr)
            text = (self.folder / "h.jsonl").read_text().splitlines()
            printed = self.loch("check", "--print", name)
            self.assertEqual(printed.returncode, 0, printed.stderr)
            self.assertEqual(sorted(printed.stdout.splitlines()), sorted(text), "a simulation repeats itself")
            self.assertEqual(recorded["operations"], len(text))
            self.assertEqual(self.loch("check", name).stdout, self.loch("check", "h.jsonl").stdout)
            whole = (self.folder / name).read_bytes()
            (self.folder / name).write_bytes(whole[:-1000])
            cut = self.loch("check", name)
            self.assertEqual(cut.returncode, 2)
            self.assertRegex(cut.stderr, rf"^{name}: byte {len(whole) - 1000}: expected .*: the file was cut short\n$")

    def test_a_stale_read_is_found_and_shown(self) -> None:
        noise = "".join(line(9, "put", f"n{i}", 100 * i, 100 * i + 50, key=f"other{i}") for i in range(50))
        self.write(
            "stale.jsonl",
            noise + line(1, "put", "a", 0, 10) + line(1, "put", "b", 20, 30) + line(2, "get", "a", 40, 50),
        )
        done = self.loch("check", "stale.jsonl")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        shown = done.stdout + done.stderr
        self.assertRegex(shown, r"key k: violated \(3 operations\)")
        self.assertNotRegex(shown, r"key other\d", "only the key that contradicts itself is shown")

    def test_an_unknown_put_may_or_may_not_have_happened(self) -> None:
        self.write(
            "unknown.jsonl",
            line(1, "put", "a", 0, 10)
            + line(1, "put", "b", 20, None, "unknown")
            + line(2, "get", "a", 40, 50)
            + line(2, "get", "b", 60, 70),
        )
        self.assertEqual(self.loch("check", "unknown.jsonl").returncode, 0)
        self.write(
            "back.jsonl",
            line(1, "put", "a", 0, 10)
            + line(1, "put", "b", 20, None, "unknown")
            + line(2, "get", "b", 40, 50)
            + line(2, "get", "a", 60, 70),
        )
        self.assertEqual(self.loch("check", "back.jsonl").returncode, 1)

    def test_a_value_that_nobody_wrote_is_found(self) -> None:
        self.write("corrupt.jsonl", line(1, "put", "a", 0, 10) + line(2, "get", "corrupt:3f", 20, 30))
        self.assertEqual(self.loch("check", "corrupt.jsonl").returncode, 1)

    def test_unreadable_histories_are_refused_by_file_and_line(self) -> None:
        good = line(1, "put", "a", 0, 10)
        for name, text in (
            ("truncated", good + good[:-20]),
            ("not-json", good + "hello\n"),
            ("wrong-type", good + good.replace('"client": 1', '"client": "one"')),
            ("unknown-key", good + good.replace('"key"', '"kee"')),
            ("wrong-op", good + good.replace("put", "scan")),
            ("backwards", good + line(1, "put", "b", 30, 20)),
        ):
            with self.subTest(name):
                self.write(f"{name}.jsonl", text)
                self.assert_refused(self.loch("check", f"{name}.jsonl"), f"{name}.jsonl:2")
        self.assert_refused(self.loch("check", "missing.jsonl"), "missing.jsonl")
        self.assert_refused(self.loch("check"), "history")
        self.assert_refused(self.loch("check", "--modle", "none", "x"), "--model")


if __name__ == "__main__":
    unittest.main()
