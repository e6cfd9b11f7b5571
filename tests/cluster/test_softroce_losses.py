"""Tests with three Soft-RoCE machines under load, of which one first loses its process and then crashes: the other two
finish and name the lost node."""

from __future__ import annotations

import json
import os
import unittest

from support import ROOT, InAFolder

BENCH = os.environ.get("LOCH_BIN", str(ROOT / "build/release/bin/loch-bench"))
LOST_AFTER_S = 20
# Seconds of load by what is killed: a process, or a whole machine, whose silence is noticed later. The load must
# last until the loss is noticed, because the repair of what the dead clients left (scrub) follows the load.
LOAD_S = {"child": 20, "machine": 45}
# Seconds between the death and the result, beyond the load: for fencing the dead process off, the repair of what it
# left (scrub), the declaration of the loss, a second repair, and collecting the result. A request to a dead node
# takes seconds to fail in an emulated machine.
MARGIN_S = 90
# The mpirun command line of tools/loch/runner/launch.py, with which no rank is ended because another rank died.
SCRIPT = r"""
say() { echo "$1 $EPOCHREALTIME" >>times; }
launch() {
  mpirun --enable-recovery --hostfile "$LOCH_HOSTFILE" -n 3 --map-by slot --oversubscribe --bind-to none \
    --wdir "$PWD" -x LOCH_LOST_AFTER --mca routed direct --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_keepalive_time 10 \
    --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 "$BENCH" bench --protocol nessie --fabric verbs \
    --nodes 3 --clients 1 --keys 100 --value-size 64 --get 0.5 --nessie.expiry 500ms --verify --warmup 100ms \
    --duration "$2" --history "$1.jsonl" --history-sync true --json "$1.json" >"$1.out" 2>"$1.err" </dev/null &
  mpirun=$!
}
await() {  # waits until the file is not empty (status 0) or the launch has ended (status 1)
  local tries
  for ((tries = 0; tries < 800; tries++)); do
    [[ ! -s $1 ]] || return 0
    kill -0 $mpirun 2>/dev/null || return 1
    read -r -t 0.2 -u 9
  done
}
mkfifo "$TMPDIR/pause" "$TMPDIR/kill-child"
exec 9<>"$TMPDIR/pause" 8<>"$TMPDIR/kill-child"
lose() {
  launch "$1" "$3"
  await "$1.jsonl.rank0.partial" && say "$1-load"
  read -r -t 5 -u 9
  say "$1-dead"
  "$2"
  await "$1.json" && say "$1-result"
  # After the loss of a machine mpirun never ends (docs/cluster.md), so it is killed here, as the runner does.
  for ((tries = 0; tries < 100; tries++)); do
    kill -0 $mpirun 2>/dev/null || break
    read -r -t 0.2 -u 9
  done
  kill -9 $mpirun 2>/dev/null && say "$1-mpirun"
  wait $mpirun
  say "$1-over"
}
kill_child() { echo now >"$TMPDIR/kill-child"; }
kill_machine() { echo kill 3 >"$LOCH_MACHINES"; }
# Connects to machine 2 in advance, since connecting to an emulated machine takes seconds, and kills a rank's
# child there once a line comes through the pipe (of a rank's two processes the newer one is the child). The
# pipe is open for writing as well, so that ssh does not wait for a writer.
ssh loch2 'read -r; pkill -9 -n -x loch-bench' <&8 &
lose child kill_child "$CHILD_LOAD"
lose machine kill_machine "$MACHINE_LOAD"
"""


class Losses(InAFolder):
    def test_the_others_end_and_name_who_is_gone(self) -> None:
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
            BENCH=BENCH,
            CHILD_LOAD=f"{LOAD_S['child']}s",
            MACHINE_LOAD=f"{LOAD_S['machine']}s",
        )
        said = done.stdout.decode() + done.stderr.decode() + self.of_the_folder()
        self.assertEqual(done.returncode, 0, said)
        times = dict((name, float(at)) for name, at in map(str.split, self.read("times").splitlines()))
        self.assertLessEqual({"child-load", "machine-load"}, times.keys(), said)
        for case, victim in (("child", 1), ("machine", 2)):
            with self.subTest(case=case):
                self.assertIn(f"{case}-result", times, said)
                self.assertLess(times[f"{case}-result"] - times[f"{case}-dead"], LOAD_S[case] + MARGIN_S, said)
                self.assert_result(case, victim, said)
        self.assertIn("node 1 (process ", self.read("child.err"))
        self.assertNotIn("child-mpirun", times, "mpirun ended by itself")
        self.assertIn(f"node 2 (loch3) is lost: nothing was heard of it for {LOST_AFTER_S}s", self.read("machine.err"))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def of_the_folder(self) -> str:
        return "".join(
            f"\n--- {path.name}\n{self.read(path.name)[-3000:]}"
            for path in sorted(self.folder.iterdir())
            if path.suffix in (".err", ".out", ".json") or path.name == "times"
        )

    def assert_result(self, case: str, victim: int, said: str) -> None:
        got = json.loads(self.read(f"{case}.json"))
        self.assertEqual(got["lost_nodes"], [victim], said)
        self.assertEqual((got["run_end"], got["operations"]["corrupt"]), ("finished", 0), said)
        # The victim's memory is lost with its process or machine. So the victim is fenced off, the first repair
        # (scrub) cannot reach all copies, the victim is declared lost, every survivor is notified, and the victim's
        # remaining entries on other nodes are repaired. No entry is left unrepaired.
        self.assertEqual(got["declared_lost"], [victim], said)
        self.assertTrue(any(f"node {victim} was declared lost" in note for note in got["notes"]), said)
        self.assertFalse([note for note in got["notes"] if "not repaired" in note or "not be fenced" in note], said)
        self.assertIn("entries_examined", got["scrub"] or {}, said)
        for node in got["nodes"]:
            self.assertEqual(node["operations"]["ok"] > 0, node["node"] != victim, said)
        checked = self.loch("check", f"{case}.jsonl")
        self.assertEqual(checked.returncode, 0, checked.stdout.decode() + checked.stderr.decode())


if __name__ == "__main__":
    unittest.main()
