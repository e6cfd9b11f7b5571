"""Tests of background CPU workers: alone, next to a command, and next to real-time and simulated points."""

from __future__ import annotations

import json
import os
import time
import unittest

from support import SHM, SIM, EndToEnd, without


class CpuLoad(EndToEnd):
    def test_by_themselves(self) -> None:
        out = self.result("hog", "--workers", "2", "--duration", "500ms")
        self.assertEqual((out["workers"], len(out["hogs"]), out["command"], out["lost"]), (2, 2, None, 0))
        self.assertGreaterEqual(out["duration_s"], 0.5)
        self.assertEqual(out["hashes"], sum(each["hashes"] for each in out["hogs"]))
        for each in out["hogs"]:
            self.assertGreater(each["hashes"], 0)
            self.assertAlmostEqual(each["cpu_share"], each["cpu_s"] / out["duration_s"], places=6)
        self.assertIn(out["group"]["kind"], ("cgroup v2", "cgroup v1", "session", "none"))

    def test_alongside_a_command_with_its_output_and_status(self) -> None:
        done = self.loch("hog", "--json", "hog.json", "--", "sh", "-c", "echo spoken; exit 4")
        self.assertEqual((done.returncode, done.stdout), (4, "spoken\n"), done.stderr)
        out = json.loads((self.folder / "hog.json").read_text())
        self.assertEqual((out["command"]["exit_status"], out["command"]["argv"][0]), (4, "sh"))

    def test_a_command_shares_their_group(self) -> None:
        script = "cat /proc/self/cgroup > groups; cut -d ' ' -f 6 /proc/$$/stat > sid"
        self.loch("hog", "--json", "hog.json", "--", "sh", "-c", script)
        group = json.loads((self.folder / "hog.json").read_text())["group"]
        if group["kind"].startswith("cgroup"):
            self.assertIn(group["path"] + "\n", (self.folder / "groups").read_text())
        self.assertEqual(int((self.folder / "sid").read_text()), group["session"])
        self.assertEqual(group["session"], os.getsid(0))

    def test_a_quota_is_kept_or_refused(self) -> None:
        done = self.loch("hog", "--workers", "2", "--quota", "0.1", "--duration", "1s")
        if done.returncode == 2:
            self.assert_refused(done, "--quota")
            self.skipTest(done.stderr.strip())
        out = json.loads(done.stdout)
        self.assertEqual(out["group"]["quota_cores"], 0.1)
        self.assertLess(sum(each["cpu_s"] for each in out["hogs"]), 0.1 * out["duration_s"] + 0.1)

    def test_bad_input_is_one_line(self) -> None:
        for words, names in (
            (["--workrs", "2"], ["--workers"]),
            (["--pin", "separate"], ["--cores"]),
            (["--duration", "5"], ["--duration"]),
            (
                [
                    "--",
                ],
                ["COMMAND"],
            ),
        ):
            with self.subTest(words):
                self.assert_refused(self.loch("hog", *words), *names)

    def test_help_has_units_and_defaults(self) -> None:
        done = self.loch("hog", "--help")
        self.assertEqual(done.returncode, 0)
        for text in ("--workers N", "(10s)", "(64)", "cgroup", "Exit status"):
            self.assertIn(text, done.stdout)

    def test_alongside_a_point_in_real_time(self) -> None:
        began = time.time_ns()
        point = self.result(*SHM, "--hogs", "2")
        load, window = point["hogs"], point["window"]
        self.assertEqual((load["workers"], load["machines"], load["pin"], load["lost"]), (2, 1, "none", 0))
        self.assertGreater(load["hashes"], 0)
        self.assertGreater(load["cpu_share"], 0)
        self.assertLessEqual(load["cpu_share"], 1.05)
        # The rate of the background workers covers the time that they ran, which on a busy machine differs from the
        # measured time.
        hashes_per_s = load["hashes"] / point["duration_s"]
        self.assertTrue(hashes_per_s / 2 < load["hashes_per_s"] < hashes_per_s * 2)
        self.assertAlmostEqual(load["cores_used"], 2 * load["cpu_share"])
        self.assertEqual(load["group"]["session"], os.getsid(0))
        self.assertTrue(began < window["from_unix_ns"] < window["to_unix_ns"] < time.time_ns())
        self.assertAlmostEqual((window["to_unix_ns"] - window["from_unix_ns"]) / 1e9, point["duration_s"], places=6)

    def test_the_window_begins_before_its_first_operation_ends(self) -> None:
        # Operations take 200 ms each: the first that ends in the measurement window ends 150 ms after its beginning,
        # and the last one 10 ms after its end.
        began = time.time_ns()
        flags = [*without(SHM, "--duration"), "--duration", "1140ms", "--think", "200ms"]
        point = self.result(*flags)
        window = point["window"]
        if window is None:  # on a machine so busy that no operation ended
            self.assertEqual(point["operations"]["total"], 0)
            return
        self.assertTrue(began < window["from_unix_ns"] < window["to_unix_ns"] < time.time_ns())

    def test_pinned_alongside_pinned_workers(self) -> None:
        cores = os.cpu_count() or 1
        self.assert_refused(self.loch(*SHM, "--hogs", "1", "--hog-pin", "shared"), "--hog-pin", "--pin")
        # each client worker is pinned to a core of its own: one worker if there is one node, two with the two nodes of
        # the flags SHM
        alone = ["1" if SHM[i - 1] == "--nodes" else word for i, word in enumerate(SHM)]
        for flags, workers in ((alone, 1), (SHM, 2)):
            separate = self.loch(*flags, "--hogs", "1", "--hog-pin", "separate", "--pin")
            if cores <= workers:
                self.assert_refused(separate, "--hog-pin separate")
                continue
            self.assertEqual(separate.returncode, 0, separate.stderr)
            point = json.loads(separate.stdout)
            free = point["hogs"]["cores"].replace("-", ",").split(",")
            taken = {str(worker["cpu"]) for worker in point["placement"][0]["workers"]}
            self.assertEqual(len(taken), workers)
            self.assertFalse(taken & set(free), free)
        everywhere = [str(cores) if alone[i - 1] == "--clients" else word for i, word in enumerate(alone)]
        self.assert_refused(
            self.loch(*everywhere, "--hogs", "1", "--hog-pin", "separate", "--pin", "--dry-run"), "no core is left"
        )

    def test_simulated_background_workers_are_told_alike(self) -> None:
        # a simulated background worker may start one scheduling period (24 ms) late
        longer = without(without(SIM, "--warmup"), "--duration")
        point = self.result(*longer, "--warmup", "30ms", "--duration", "2ms", "--hogs", "1")
        self.assertEqual((point["hogs"]["workers"], point["hogs"]["machines"], point["window"]), (1, 3, None))
        self.assertAlmostEqual(point["hogs"]["cpu_share"], 1.0, places=2)  # each machine has more cores than workers
        self.assertAlmostEqual(point["hogs"]["cores_used"], 3.0, places=1)
        self.assertGreater(point["hogs"]["hashes"], 0)
        self.assertEqual(self.result(*SIM)["hogs"]["workers"], 0)


if __name__ == "__main__":
    unittest.main()
