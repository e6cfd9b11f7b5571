"""Tests of memcached and Redis under `loch bench`: clean runs, several processes, and no process left after any end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

from support import BINARY, EndToEnd, without

SYSTEMS = ("memcached", "redis")


def flags(system: str, *more: str) -> list[str]:
    return [
        "bench",
        "--protocol",
        system,
        "--fabric",
        "shm",
        "--nodes",
        "2",
        "--keys",
        "500",
        "--key-size",
        "24",
        "--value-size",
        "256",
        "--warmup",
        "100ms",
        "--verify",
        *more,
    ]


def missing(system: str) -> str | None:
    """Why the server of `system` cannot run on this machine; None if it can."""
    done = subprocess.run([BINARY, *flags(system, "--operations", "10")], capture_output=True, text=True, check=False)
    return done.stderr.strip() if "is not on this machine" in done.stderr else None


WHY_NOT = {system: missing(system) for system in SYSTEMS}


def descendants(pid: int) -> list[int]:
    """The processes that process `pid` has started, and their descendants."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
            below = [int(word) for word in listed.read().split()]
    except OSError:
        return []
    return below + [deeper for child in below for deeper in descendants(child)]


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Baselines(EndToEnd):
    def each(self) -> list[str]:
        """The systems whose servers run on this machine; prints why others are skipped."""
        for system, why in WHY_NOT.items():
            if why:
                print(f"without {system}: {why}")
        return [system for system in SYSTEMS if not WHY_NOT[system]]

    def assert_clean(self, got: dict, transport: str = "unix socket") -> None:
        operations = got["operations"]
        self.assertGreater(operations["total"], 500)
        self.assertGreater(operations["verified"], 0)
        for trouble in ("corrupt", "error", "timeout", "conflict", "not_found"):
            self.assertEqual(operations[trouble], 0, operations)
        self.assertEqual(got["transport"], transport)

    def test_clean(self) -> None:
        for system in self.each():
            self.assert_clean(self.result(*flags(system, "--duration", "1s")))
            self.assert_clean(
                self.result(*flags(system, "--duration", "500ms", "--window", "8", f"--{system}.socket", "loopback")),
                "tcp (127.0.0.1)",
            )

    def test_a_history_is_linearizable(self) -> None:
        for system in self.each():
            self.result(
                *without(flags(system), "--keys"),
                "--keys",
                "5",
                "--get",
                "0.5",
                "--delete",
                "0.1",
                "--clients",
                "2",
                "--operations",
                "4000",
                "--history",
                f"{system}.jsonl",
            )
            checked = self.loch("check", f"{system}.jsonl")
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not here")
    def test_one_process_a_node(self) -> None:
        for system in self.each():
            done = self.call(
                [
                    "mpirun",
                    "--allow-run-as-root",
                    "--oversubscribe",
                    "-np",
                    "2",
                    BINARY,
                    *flags(system, "--duration", "500ms", "--json", f"{system}.json"),
                ]
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            got = json.loads((self.folder / f"{system}.json").read_text())
            self.assert_clean(got)
            self.assertEqual(got["protocol_counters"][f"{system}.servers_started"], 2)
            self.assertTrue(all(node["throughput_ops_s"] > 0 for node in got["nodes"]))

    def test_nothing_is_left_however_it_ends(self) -> None:
        for system in self.each():
            for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                run = subprocess.Popen(
                    [BINARY, *flags(system, "--duration", "60s")],
                    cwd=self.folder,
                    env={**os.environ, "TMPDIR": str(self.folder)},
                    start_new_session=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                deadline = time.monotonic() + 30
                while len(descendants(run.pid)) < 2 and time.monotonic() < deadline:
                    time.sleep(0.02)
                time.sleep(0.3)
                started = descendants(run.pid)
                self.assertEqual(len(started), 2)
                os.killpg(run.pid, how)  # Ctrl-C on a terminal also signals the whole process group
                run.communicate(timeout=20)
                while any(is_running(pid) for pid in started) and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.assertEqual([pid for pid in started if is_running(pid)], [], how)
                if how != signal.SIGKILL:
                    self.assertEqual(run.returncode, 130)
                    self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("loch-servers")], [])

    def test_addresses_that_are_wrong(self) -> None:
        for system in SYSTEMS:
            self.assert_refused(
                self.loch(*flags(system, f"--{system}.address", "nowhere")), f"--{system}.address", "nowhere"
            )
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                nobody = f"127.0.0.1:{free.getsockname()[1]}"
                done = self.loch(*flags(system, f"--{system}.address", nobody))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertIn(f"--{system}.address {nobody}: nothing answers there", done.stderr)
            self.assert_refused(
                self.loch(*flags(system, f"--{system}.binary", "/nowhere/server")), "/nowhere/server is no program"
            )

    def test_a_missing_program_is_one_line(self) -> None:
        for system in SYSTEMS:
            done = self.call([BINARY, *flags(system)], PATH="/nowhere")
            if done.returncode == 0:
                continue  # ./loch has unpacked this server into the build folder, where loch-bench finds it
            self.assert_refused(done, f"--{system}.binary", "is not on this machine")

    def test_the_model_says_that_it_is_one(self) -> None:
        for system in SYSTEMS:
            sim = [
                "bench",
                "--protocol",
                system,
                "--fabric",
                "sim",
                "--hardware",
                "connectx2-20g-ib",
                "--nodes",
                "3",
                "--server-nodes",
                "1",
                "--keys",
                "200",
                "--value-size",
                "64",
                "--duration",
                "5ms",
                "--verify",
            ]
            got = self.result(*sim)
            self.assert_clean({**got, "operations": {**got["operations"], "total": 501}}, "modelled tcp over ipoib")
            self.assertEqual(got["protocol_counters"][f"{system}.modelled"], 1)
            self.assert_refused(self.loch(*sim, f"--{system}.address", "host:1"), f"--{system}.address")


if __name__ == "__main__":
    unittest.main()
