"""Tests with three Soft-RoCE machines on one network: mpirun over them, RDMA between two of them, and a machine that
crashes."""

from __future__ import annotations

import unittest

from support import LOCH, InAFolder

SCRIPT = r"""
mpirun --hostfile "$LOCH_HOSTFILE" -n 3 sh -c 'echo "$LOCH_OF_THE_CALLER" >rank-$(hostname)' || exit 1
"$LOCH" doctor --hostfile "$LOCH_HOSTFILE" --no-ping >doctor.txt && echo all are ready for verbs
ssh loch2 'ib_read_lat -d rxe0 -x 1 -n 100 -s 64' >/dev/null 2>&1 &
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
  sleep 2
  if ib_read_lat -d rxe0 -x 1 -n 100 -s 64 loch2 >latency.txt 2>latency.err; then break; fi
done
grep -E '^ *64 +100 ' latency.txt | tr -s ' ' | cut -d ' ' -f 2,3
echo kill 3 >"$LOCH_MACHINES"
sleep 1
ssh -o ConnectTimeout=5 loch3 true 2>/dev/null || echo loch3 is gone
ssh loch2 'echo $(hostname) is here; exit 9'
exit $?
"""


class Machines(InAFolder):
    def test_three_machines(self) -> None:
        done = self.loch(
            "softroce",
            "--hosts",
            "3",
            "--timeout",
            "15m",
            "--",
            "bash",
            "-c",
            SCRIPT,
            timeout=1500,
            LOCH_OF_THE_CALLER="hello",
            LOCH=LOCH,
        )
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 9, said + done.stderr.decode())
        self.assertEqual(said, "all are ready for verbs\n64 100\nloch3 is gone\nloch2 is here\n")
        for machine in (1, 2, 3):
            self.assertEqual((self.folder / f"rank-loch{machine}").read_text(), "hello\n")

    def test_a_machine_that_is_killed_at_a_time_takes_the_command_with_it_only_if_it_runs_there(self) -> None:
        done = self.loch(
            "softroce", "--hosts", "2", "--kill", "1@2s", "--timeout", "5m", "--", "sleep", "250", timeout=800
        )
        self.assertEqual(done.returncode, 137, done.stderr.decode())
        self.assertIn("machine 1", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
