"""Tests with one Soft-RoCE machine: the environment of the command in it, and the ways in which it ends."""

from __future__ import annotations

import glob
import hashlib
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from support import LOCH, InAFolder

SCRIPT = r"""
echo to standard output
echo to standard error >&2
ibv_rc_pingpong -d rxe0 -g 1 >server.txt & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do
  sleep 1
  if ibv_rc_pingpong -d rxe0 -g 1 10.77.0.1 >client.txt 2>client.err; then break; fi
done
wait $server && echo pingpong ended well
ibv_devinfo -v | grep -E 'atomic_cap|active_mtu' | tr -s '\t' ' '
echo "$LOCH_OF_THE_CALLER, memlock $(ulimit -l), $(pwd -P)"
sha1sum
"$LOCH" doctor --json >doctor.json && echo doctor: ready
sleep 1000 &
exit 43
"""


class OneMachine(InAFolder):
    def left_over(self) -> list[str]:
        """Leftover files of runs that this test started; files of other tests' runs are ignored."""
        here, found = str(self.folder.resolve()), []
        for path in glob.glob("/tmp/loch-softroce-*/folder"):
            try:
                found += [path] if Path(path).read_text() == here else []
            except OSError:
                continue  # another run removed its folder in the meantime
        return found

    def children(self, running: subprocess.Popen[bytes]) -> list[str]:
        found = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        self.assertEqual(len(found), 1, "one QEMU")
        return found

    def test_a_command_runs_as_if_it_were_here_but_with_a_nic(self) -> None:
        data = os.urandom(1 << 20)
        done = self.loch(
            "softroce",
            "--timeout",
            "10m",
            "--",
            "bash",
            "-c",
            SCRIPT,
            stdin=data,
            LOCH_OF_THE_CALLER="hello",
            LOCH=LOCH,
        )
        said, faults = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, 43, said + faults)
        self.assertTrue(said.startswith("to standard output\n"), said)
        self.assertNotIn("to standard error", said)
        self.assertIn("to standard error\n", faults)
        self.assertIn("pingpong ended well", said, (self.folder / "client.err").read_text())
        self.assertIn("1000 iters", (self.folder / "client.txt").read_text())
        self.assertIn("atomic_cap: ATOMIC_HCA", said)
        self.assertIn(f"hello, memlock unlimited, {self.folder.resolve()}", said)
        self.assertIn(hashlib.sha1(data).hexdigest(), said)
        self.assertIn("doctor: ready", said, (self.folder / "doctor.json").read_text())
        self.assertEqual(self.left_over(), [])

    def test_a_time_limit_ends_it(self) -> None:
        started = time.monotonic()
        done = self.loch("softroce", "--timeout", "3s", "--", "sh", "-c", "echo begun; sleep 500")
        self.assertEqual((done.returncode, done.stdout), (124, b"begun\n"), done.stderr.decode())
        self.assertIn("did not end within 3 s", done.stderr.decode())
        self.assertLess(time.monotonic() - started, 400)

    def test_an_interrupt_ends_it_at_once_and_leaves_nothing(self) -> None:
        running = subprocess.Popen(
            [LOCH, "softroce", "--", "sh", "-c", "echo begun; sleep 500"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert running.stdout
        self.assertEqual(running.stdout.readline(), b"begun\n")
        children = self.children(running)
        running.send_signal(signal.SIGINT)
        started = time.monotonic()
        running.communicate(timeout=30)
        self.assertEqual(running.returncode, 130)
        self.assertLess(time.monotonic() - started, 10)
        self.assertFalse(os.path.exists(f"/proc/{children[0]}"))
        self.assertEqual(self.left_over(), [])

    def test_a_killed_launcher_takes_the_machine_with_it_and_the_next_run_clears_up(self) -> None:
        running = subprocess.Popen(
            [LOCH, "softroce", "--", "sh", "-c", "echo begun; sleep 500"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert running.stdout
        self.assertEqual(running.stdout.readline(), b"begun\n")
        children = self.children(running)
        running.kill()
        running.communicate(timeout=30)
        for _ in range(100):
            if not os.path.exists(f"/proc/{children[0]}"):
                break
            time.sleep(0.1)
        else:
            self.fail("QEMU outlives the launcher")
        self.assertEqual(len(self.left_over()), 1)
        self.loch("softroce", "--timeout", "100ms", "--", "true")
        self.assertEqual(self.left_over(), [])


if __name__ == "__main__":
    unittest.main()
