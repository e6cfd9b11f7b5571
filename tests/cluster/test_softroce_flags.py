"""Tests of ./loch softroce (virtual machines with a Soft-RoCE NIC) that start no machine: its flags, ./loch inside a
machine, and the Ethernet switch."""

from __future__ import annotations

import unittest
from typing import Any

from loch.softroce import switch
from support import InAFolder


class Flags(InAFolder):
    def test_bad_flags_are_refused_in_one_line(self) -> None:
        self.assert_refused(self.loch("softroce"), "--")
        self.assert_refused(self.loch("softroce", "--"), "command")
        for flags, names in (
            ("--hosts 0", ("--hosts", "1..32")),
            ("--hosts x", ("'x'",)),
            ("--timeout 0", ("--timeout", "90s")),
            ("--memory 12", ("--memory", "1G")),
            ("--kill 3", ("--kill", "3@10s")),
            ("--hosts 2 --kill 3@1s", ("--kill 3", "1..2")),
            ("--host 2", ("--host",)),
        ):
            with self.subTest(flags=flags):
                self.assert_refused(self.loch("softroce", *flags.split(), "--", "true"), *names)

    def test_help(self) -> None:
        done = self.loch("softroce", "--help")
        self.assertEqual(done.returncode, 0)
        for word in (b"--hosts", b"--kill", b"LOCH_HOSTFILE", b"LOCH_MACHINES", b"Exit status"):
            self.assertIn(word, done.stdout)


class Inside(InAFolder):
    """./loch inside a Soft-RoCE machine, which it recognizes by LOCH_MACHINES, neither installs nor builds anything."""

    def test_nothing_is_built_or_installed(self) -> None:
        inside: dict[str, Any] = {"LOCH_MACHINES": "/dev/null", "LOCH_BUILD": str(self.folder / "build")}
        for command in (["list", "fabrics"], ["run", "x.yaml"], ["test", "--quick"], ["softroce", "--", "true"]):
            with self.subTest(command=command):
                self.assert_refused(self.loch(*command, **inside), "machine")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_is_built_runs_though_the_tree_is_newer(self) -> None:
        program = self.folder / "build/release/bin/loch-bench"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho as it was: $*\n")
        program.chmod(0o755)
        done = self.loch("list", "fabrics", LOCH_MACHINES="/dev/null", LOCH_BUILD=str(self.folder / "build"))
        self.assertEqual((done.returncode, done.stdout), (0, b"as it was: list fabrics\n"), done.stderr.decode())
        self.assertEqual(len(list(self.folder.rglob("*"))), 4)  # loch-bench and the three folders above it


class Ethernet(unittest.TestCase):
    def setUp(self) -> None:
        self.switch = switch.Switch()
        self.cards = {number: self.switch.port(number) for number in (1, 2, 3)}
        for card in self.cards.values():
            self.addCleanup(card.close)
            card.settimeout(10)
        self.switch.start()

    def frame(self, to: bytes, text: bytes) -> bytes:
        return to + switch.MAC_PREFIX + b"\1" + b"\x08\x00" + text

    def test_a_frame_goes_to_the_machine_of_its_address_alone(self) -> None:
        self.cards[1].send(self.frame(switch.MAC_PREFIX + b"\3", b"for three"))
        self.cards[1].send(self.frame(b"\xff" * 6, b"for all"))
        self.assertTrue(self.cards[3].recv(4096).endswith(b"for three"))
        self.assertTrue(self.cards[3].recv(4096).endswith(b"for all"))
        self.assertTrue(self.cards[2].recv(4096).endswith(b"for all"))
        self.cards[1].settimeout(0.2)
        with self.assertRaises(TimeoutError):
            self.cards[1].recv(4096)

    def test_the_others_go_on_when_a_machine_is_gone(self) -> None:
        self.cards[2].close()
        for text in (b"first", b"second"):
            self.cards[1].send(self.frame(b"\xff" * 6, text))
            self.assertTrue(self.cards[3].recv(4096).endswith(text))
        self.cards[1].send(self.frame(switch.MAC_PREFIX + b"\x09", b"nobody"))
        self.cards[3].send(self.frame(switch.MAC_PREFIX + b"\1", b"still here"))
        self.assertTrue(self.cards[1].recv(4096).endswith(b"still here"))


if __name__ == "__main__":
    unittest.main()
