"""Tests of `loch power` without a BMC: integration, traces, RAPL and the command line."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import unittest
from pathlib import Path
from collections.abc import Sequence

from support import TOOL, S, Power

from loch.power import samples as trace
from loch.power.samples import PowerError, Sample, Span, integrate
from loch.power.sources import Rapl

# Power rises from 100 W to 200 W within a second, stays for two, and falls again; above the zero line this is
# an energy of 100·6 + 100·(2 + ½ + ½) J.
TRAPEZOID = [(0, 100), (1, 100), (2, 200), (4, 200), (5, 100), (6, 100)]


def samples(rows: Sequence[tuple[float, float]]) -> list[Sample]:
    return [Sample(round(t * S), "a", "test", w) for t, w in rows]


class Integration(unittest.TestCase):
    def test_a_known_trapezoid_comes_out_exactly(self) -> None:
        whole = integrate(samples(TRAPEZOID), Span(0, 6 * S))
        self.assertEqual((whole.joules, whole.mean_w, whole.samples, whole.longest_gap_s), (900.0, 150.0, 6, 2.0))

    def test_the_ends_of_a_span_lie_on_the_line_between_samples(self) -> None:
        # In this span power rises from 150 W to 200 W in half a second, and then stays at 200 W.
        part = integrate(samples(TRAPEZOID), Span(round(1.5 * S), 3 * S))
        self.assertEqual((part.joules, part.samples), (0.5 * 175 + 200.0, 1))
        self.assertEqual(part.longest_gap_s, 1.0)
        within = integrate(samples(TRAPEZOID), Span(round(2.25 * S), round(2.5 * S)))
        self.assertEqual((within.mean_w, within.samples), (200.0, 0))

    def test_outside_of_the_samples_it_is_flat(self) -> None:
        self.assertEqual(integrate(samples([(1, 50)]), Span(0, 4 * S)).joules, 200.0)
        self.assertEqual(integrate(samples([(1, 50), (2, 70)]), Span(2 * S, 4 * S)).joules, 140.0)

    def test_uneven_samples_are_not_averaged(self) -> None:
        dense = [(t / 100, 10.0) for t in range(100)] + [(1.0, 10.0), (11.0, 30.0)]
        self.assertAlmostEqual(integrate(samples(dense), Span(0, 11 * S)).joules, 10.0 + 200.0)

    def test_nothing_to_integrate_is_an_error(self) -> None:
        with self.assertRaises(PowerError):
            integrate([], Span(0, S))
        with self.assertRaises(PowerError):
            integrate(samples(TRAPEZOID), Span(S, S))


class Counters(Power):
    """Tests of power from the processors' energy counters (RAPL), with fake files of the kernel's counters."""

    def zone(self, name: str, label: str, uj: int, wrap: int = 1_000_000_000) -> Path:
        folder = self.folder / "powercap" / name
        folder.mkdir(parents=True)
        for file, text in (("name", label), ("energy_uj", uj), ("max_energy_range_uj", wrap)):
            (folder / file).write_text(f"{text}\n", encoding="ascii")
        return folder / "energy_uj"

    def machine(self) -> dict[str, Path]:
        (self.folder / "powercap/intel-rapl").mkdir(parents=True)
        return {
            "package": self.zone("intel-rapl:0", "package-0", 999_000_000),
            "core": self.zone("intel-rapl:0:0", "core", 5),
            "dram": self.zone("intel-rapl:0:1", "dram", 100),
            "psys": self.zone("intel-rapl:1", "psys", 7),
            "again": self.zone("intel-rapl-mmio:0", "package-0", 999_000_000),
        }

    def test_watts_are_the_counters_difference_and_survive_the_wrap(self) -> None:
        energy, clock = self.machine(), iter([0, 2 * S, 4 * S])
        rapl = Rapl(self.folder / "powercap", lambda: next(clock))
        energy["package"].write_text("49000000\n")  # 1 J up to the counter's end and 49 J after the wrap
        energy["dram"].write_text("10000100\n")  # 10 J since the start value of 100 µJ
        # RAPL zones that count (a part of) the package's energy again, so that they must be left out
        for name in ("core", "psys", "again"):
            energy[name].write_text("900000000\n")
        first = rapl.sample()
        self.assertEqual((first.watts, first.t_ns), (30.0, S))
        energy["package"].write_text("50000000\n")
        second = rapl.sample()
        self.assertEqual((second.watts, second.t_ns), (0.5, 3 * S))
        self.assertEqual(rapl.describe(), {"kind": "rapl", "zones": ["intel-rapl:0 package-0", "intel-rapl:0:1 dram"]})

    def test_the_command_reads_it(self) -> None:
        energy, done = self.machine(), threading.Event()

        def draw() -> None:  # increases the counter as if the package drew 40 W
            began = time.monotonic()
            while not done.wait(0.002):
                beside = energy["package"].with_name("next")
                beside.write_text(f"{int(1e6 * (100 + 40 * (time.monotonic() - began)))}\n")
                beside.replace(energy["package"])

        thread = threading.Thread(target=draw)
        thread.start()
        try:
            report = self.report(
                "--source",
                "rapl",
                "--rate",
                "10",
                "--idle",
                "500ms",
                "--samples",
                "raw.csv",
                "--",
                "sleep",
                "1",
                LOCH_POWERCAP=str(self.folder / "powercap"),
            )
        finally:
            done.set()
            thread.join()
        self.assertEqual(report["source"]["kind"], "rapl")
        self.assertGreater(report["mean"], 10)  # 40 W is drawn; the lower bound is for a thread that runs late
        self.assertLess(report["mean"], 160)
        self.assertAlmostEqual(report["above_idle"], report["mean"] - report["hosts"][0]["idle_w"])
        self.assertGreaterEqual(report["hosts"][0]["samples"], 3)
        raw = trace.read(self.folder / "raw.csv")
        begin, end = report["marks"]["run"]
        self.assertAlmostEqual(integrate(raw, Span(begin, end)).joules, report["joules"], places=2)

    def test_no_processor_and_no_permission_are_told(self) -> None:
        self.assert_refused(self.call("--source", "rapl", LOCH_POWERCAP=str(self.folder)), "rapl", "no package")
        self.machine()
        (self.folder / "powercap/intel-rapl:0/energy_uj").write_text("many\n")
        self.assert_refused(self.call("--source", "rapl", LOCH_POWERCAP=str(self.folder / "powercap")), "intel-rapl:0")


class Replay(Power):
    def test_a_trace_is_integrated_as_it_is(self) -> None:
        report = self.report(
            "--source", "replay", "--trace", self.trace(TRAPEZOID), "--idle", "1s", "--samples", "raw.csv"
        )
        self.assertEqual((report["joules"], report["mean"], report["above_idle"]), (700.0, 175.0, 75.0))
        self.assertEqual((report["joules_above_idle"], report["seconds"], report["rate_hz"]), (300.0, 4.0, None))
        host = report["hosts"][0]
        self.assertEqual(
            (host["samples"], host["longest_gap_s"], host["idle_w"], host["source"]), (4, 2.0, 100.0, "test")
        )
        self.assertEqual((self.folder / "raw.csv").read_text(), (self.folder / "watts.csv").read_text())

    def test_the_window_of_a_result_is_what_counts(self) -> None:
        report = self.report("--trace", self.trace(TRAPEZOID), "--result", self.result((2, 4)))
        self.assertEqual((report["span"], report["joules"], report["operations"]), ("window", 400.0, 1000))
        self.assertEqual(report["joules_per_operation"], 0.4)
        self.assertIsNone(report["joules_above_idle_per_operation"])

    def test_it_goes_into_a_copy_of_the_result(self) -> None:
        done = self.call(
            "--trace", self.trace(TRAPEZOID), "--idle", "1s", "--result", self.result((2, 4)), "--into", "out.json"
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        out = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(out["operations"]["ok"], 900)
        self.assertEqual((out["power_w"]["mean"], out["power_w"]["per_node"]), (200.0, [200.0]))
        self.assertEqual(out["power_w"]["joules_above_idle_per_operation"], 0.2)
        self.assertEqual(out["power_w"]["source"]["kind"], "replay")

    def test_hosts_are_summed_and_told_apart(self) -> None:
        self.trace(TRAPEZOID)
        more = self.trace([(0, 50), (6, 50)], "b.csv", host="b")
        with open(self.folder / "watts.csv", "a", encoding="ascii") as file:
            file.write("".join((self.folder / more).read_text().splitlines(keepends=True)[1:]))
        report = self.report("--trace", "watts.csv")
        self.assertEqual((report["joules"], report["per_node"], report["mean"]), (1200.0, [150.0, 50.0], 100.0))

    def test_with_a_command_the_trace_begins_when_it_does(self) -> None:
        report = self.report("--trace", self.trace([(0, 70), (100, 70)], first_ns=5 * S), "--", "sh", "-c", "sleep 0.2")
        self.assertAlmostEqual(report["joules"], 70 * report["seconds"], places=6)
        self.assertGreaterEqual(report["seconds"], 0.2)
        self.assertEqual((report["span"], report["command"]), ("command", ["sh", "-c", "sleep 0.2"]))

    def test_damaged_traces_name_file_and_line(self) -> None:
        for text, where in (
            ("t,w\n1,2\n", "bad.csv:1"),
            ("t_ns,host,source,watts\n1,a,x\n", "bad.csv:2"),
            ("t_ns,host,source,watts\n1,a,x,1\n2,a,x,many\n", "bad.csv:3"),
            ("t_ns,host,source,watts\n1,a,x,-1\n", "bad.csv:2"),
            ("t_ns,host,source,watts\n1,a,x,nan\n", "bad.csv:2"),
            ("t_ns,host,source,watts\n5,a,x,1\n5,a,x,1\n", "forward in time"),
            ("t_ns,host,source,watts\n", "no sample"),
        ):
            with self.subTest(text):
                (self.folder / "bad.csv").write_text(text)
                self.assert_refused(self.call("--trace", "bad.csv"), "bad.csv", where)
        self.assert_refused(self.call("--trace", "none.csv"), "none.csv")

    def test_results_that_watts_cannot_be_about(self) -> None:
        self.trace(TRAPEZOID)
        self.assert_refused(
            self.call("--trace", "watts.csv", "--result", self.result((2, 4), fabric="sim")), "simulated"
        )
        (self.folder / "list.json").write_text("[]")
        self.assert_refused(self.call("--trace", "watts.csv", "--result", "list.json"), "list.json")


class Flags(Power):
    def test_refusals_name_the_flag(self) -> None:
        self.trace(TRAPEZOID)
        for words, names in (
            (["--sorce", "ipmi"], ["--sorce"]),
            (["--source", "psu"], ["--source", "ipmi"]),
            (["--rate", "0"], ["--rate", "samples a second"]),
            (["--idle", "10"], ["--idle", "unit"]),
            (["--port", "99999"], ["--port"]),
            (["--source", "replay"], ["--trace"]),
            (["--source", "rapl", "--bmc", "x"], ["--bmc", "ipmi"]),
            (["--into", "x"], ["--result"]),
            (["--json", "/nonexistent/x"], ["/nonexistent/x"]),
            (["--"], ["COMMAND"]),
            (["--host", "-x"], ["--host"]),
            (["--host=-oProxyCommand=x"], ["--host", "name of a host"]),
            (["--host=--"], ["--host", "value"]),
            (["--duration", "9" * 400 + "s"], ["--duration", "unit"]),
            (["stray"], ["stray"]),
            (["--trace", "watts.csv", "--duration", "1s", "--", "true"], ["--duration"]),
            (["--trace", "watts.csv", "--idle", "3s"], ["baseline"]),
            (["--trace", "watts.csv", "--", "no-such-command"], ["no-such-command"]),
        ):
            with self.subTest(words):
                self.assert_refused(self.call(*words), *names)

    def test_a_failing_command_gives_its_status_and_no_joules(self) -> None:
        self.assert_refused(
            self.call("--trace", self.trace(TRAPEZOID), "--", "sh", "-c", "exit 3"), "status 3", status=3
        )

    def test_help_has_units_and_defaults(self) -> None:
        done = self.call("--help")
        self.assertEqual(done.returncode, 0)
        for text in ("(1)", "60s", "0s", "IPMI_PASSWORD", "Exit status"):
            self.assertIn(text, done.stdout)

    def test_another_host_is_read_by_ssh(self) -> None:
        """The samples of `--host` come through a fake ssh, which runs the remote command on this machine.

        As with real ssh, the command's words are joined with blanks and read by a shell.
        """
        ssh = self.folder / "bin/ssh"
        ssh.parent.mkdir()
        ssh.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec sh -c "$*"\n')
        ssh.chmod(0o755)
        tree = self.folder / "powercap/intel-rapl:0"
        tree.mkdir(parents=True)
        for file, text in (("name", "package-0"), ("energy_uj", "1"), ("max_energy_range_uj", "1000")):
            (tree / file).write_text(text + "\n")
        report = self.report(
            "--source",
            "rapl",
            "--host",
            "node7",
            "--rate",
            "20",
            "--duration",
            "500ms",
            PATH=f"{ssh.parent}:/usr/bin:/bin",
            LOCH_POWERCAP=str(tree.parent),
        )
        self.assertEqual([each["host"] for each in report["hosts"]], ["node7"])
        self.assertEqual((report["source"]["kind"], report["mean"]), ("remote", 0.0))

    def test_an_end_by_a_signal_reaches_the_command(self) -> None:
        trap = "trap 'echo told > told; exit 5' TERM; echo > ready; while :; do sleep 0.05; done"
        process = subprocess.Popen(
            ["/usr/bin/python3", *TOOL, "--trace", self.trace(TRAPEZOID), "--", "sh", "-c", trap],
            cwd=self.folder,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 20
        while not (self.folder / "ready").exists() and time.monotonic() < until:
            time.sleep(0.02)
        process.terminate()
        self.assertEqual(process.wait(timeout=20), 5)
        self.assertTrue((self.folder / "told").exists())


if __name__ == "__main__":
    unittest.main()
