"""Tests of closed, full and unread standard streams: a command that cannot print neither succeeds nor crashes."""

from __future__ import annotations

import unittest

from support import BINARY, EXPERIMENT, ROOT, SIM, Hostile

HISTORY = '{"client":0,"op":"put","key":"a","value":"1","invoke_ns":1,"return_ns":2,"outcome":"ok"}\n'
LOCH = ["/usr/bin/python3", str(ROOT / "tools/loch"), "--no-setup"]
POWER = ["/usr/bin/python3", str(ROOT / "tools/loch"), "--no-setup", "power"]


class Output(Hostile):
    """Every command that prints something, with a standard output that cannot be written."""

    def setUp(self) -> None:
        super().setUp()
        self.write("h.jsonl", HISTORY)
        self.write("e.yaml", EXPERIMENT)
        self.write("watts.csv", "t_ns,host,source,watts\n0,a,x,5\n1000000000,a,x,5\n")
        (self.folder / "none").mkdir()

    def commands(self) -> list[list[str]]:
        return [
            [BINARY, *SIM],
            [BINARY, *SIM, "--json", "x.json"],
            [BINARY, *SIM, "--json", "-"],
            [BINARY, "bench", "--help"],
            [BINARY, "bench", "--help", "nessie"],
            [BINARY, "list", "protocols"],
            [BINARY, "list", "experiments", "--json"],
            [BINARY, "list", "--help"],
            [BINARY, "check", "h.jsonl"],
            [BINARY, "check", "--help"],
            [BINARY, "fuzz", "--protocol", "nessie", "--seeds", "2"],
            [BINARY, "fuzz", "--help"],
            [BINARY, "calibrate", "--pcie"],
            [BINARY, "calibrate", "--help"],
            [BINARY, "--help"],
            [BINARY, "hog", "--duration", "50ms"],
            [BINARY, "hog", "--help"],
            [*LOCH, "run", "e.yaml", "--dry-run"],
            [*LOCH, "run", "--help"],
            [*LOCH, "score", "none"],
            [*POWER, "--trace", "watts.csv"],
            [*POWER, "--check", "--trace", "watts.csv"],
            [*POWER, "--help"],
        ]

    def assert_all_fail(self, redirection: str, *names: str) -> None:
        for command in self.commands():
            with self.subTest(f"{' '.join(command[:4])} {redirection}"):
                done = self.in_shell(f'"$@" {redirection}', *command, timeout=120)
                lines = [line for line in done.stderr.splitlines() if "seeds/s" not in line]
                self.assertEqual((done.returncode, len(lines)), (2, 1), done.stderr)
                for name in ("standard output", *names):
                    self.assertIn(name, lines[0])

    def test_full(self) -> None:
        self.assert_all_fail(">/dev/full", "No space left")

    def test_closed(self) -> None:
        self.assert_all_fail(">&-")
        self.assertEqual(self.left(), ["e.yaml", "h.jsonl", "watts.csv", "x.json"])

    def test_a_closed_output_is_not_the_next_file_that_is_opened(self) -> None:
        self.in_shell('"$@" --history h.out --json x.json >&-', BINARY, *SIM)
        self.assertTrue((self.folder / "h.out").read_text().startswith('{"client"'))
        self.assertTrue((self.folder / "x.json").read_text().startswith("{\n"))

    def test_a_reader_that_is_gone_is_no_success(self) -> None:
        for command in (
            [BINARY, "list", "experiments", "--json"],
            [BINARY, "check", "h.jsonl"],
            [*LOCH, "score", "none"],
            [*LOCH, "run", "e.yaml", "--dry-run"],
        ):
            with self.subTest(command):
                done = self.in_shell('{ sleep 1; "$@"; echo "status $?" >&2; } | true', *command, timeout=120)
                # 128 + SIGPIPE, the shell's status for a program that this signal ended
                self.assertEqual(done.stderr, "status 141\n")
                done = self.in_shell(
                    'trap "" PIPE; { sleep 1; "$@"; echo "status $?" >&2; } | true', *command, timeout=120
                )
                self.assertRegex(
                    done.stderr, r"(^loch \w+: standard output: Broken pipe\nstatus 2\n$)|(^status 141\n$)"
                )

    def test_what_check_found_is_said_by_its_status_even_so(self) -> None:
        """Without a writable output, `loch check` exits with status 1 for a violation and never with status 0."""
        read = '{"client":1,"op":"get","key":"a","value":"2","invoke_ns":3,"return_ns":4,"outcome":"ok"}\n'
        self.write("bad.jsonl", HISTORY + read)
        self.assertEqual(self.call([BINARY, "check", "bad.jsonl", "--initial", "absent"]).returncode, 1)
        self.assertEqual(
            self.in_shell('"$@" >/dev/full', BINARY, "check", "bad.jsonl", "--initial", "absent").returncode, 1
        )
        self.assertEqual(self.call([BINARY, "check", "h.jsonl"]).returncode, 0)


class Errors(Hostile):
    def test_nowhere_to_complain_to(self) -> None:
        self.write("e.yaml", EXPERIMENT + "unknown: 1\n")
        for redirection in ("2>&-", "2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"):
            for command in (
                [BINARY, *SIM, "--no-such-flag"],
                [BINARY, "list", "nothing"],
                [BINARY, "check", "none.jsonl"],
                [BINARY, "fuzz", "--protocol", "none"],
                [BINARY, "hog", "--workers", "x"],
                [BINARY, "nothing"],
                [*LOCH, "run", "e.yaml"],
                [*LOCH, "nothing"],
                [*POWER, "--rate", "x"],
            ):
                with self.subTest(f"{command} {redirection}"):
                    self.assertEqual(self.in_shell(f'"$@" {redirection}', *command).returncode, 2)

    def test_a_run_that_goes_well_needs_no_standard_error(self) -> None:
        for redirection in ("2>&-", "2>/dev/full"):
            done = self.in_shell(f'"$@" {redirection}', BINARY, *SIM)
            self.assertEqual((done.returncode, done.stdout[:1]), (0, "{"))
            done = self.in_shell(f'"$@" {redirection}', BINARY, "fuzz", "--protocol", "nessie", "--seeds", "2")
            self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
