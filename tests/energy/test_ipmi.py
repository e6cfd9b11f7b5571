"""Tests of `loch power` with a BMC: OpenIPMI's simulator on the loopback, with and without DCMI."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import unittest
from typing import Any

import bmc
from bmc import PASSWORD, SENSOR, USER, Bmc
from support import Power

from loch.power import samples as trace
from loch.power.samples import Span, integrate


@unittest.skipIf(bmc.missing(), f"no {bmc.missing()} here")
class Ipmi(Power):
    def start(self, has_dcmi: bool, **more: Any) -> Bmc:
        started = Bmc(has_dcmi, **more)
        self.addCleanup(started.close)
        return started

    def test_dcmi_where_the_bmc_has_it(self) -> None:
        started = self.start(True)
        started.draw(143)  # an odd number, which the sensor with its steps of 2 W cannot report
        report = self.report(*started.flags, "--rate", "10", "--duration", "600ms", IPMI_PASSWORD=PASSWORD)
        self.assertAlmostEqual(report["mean"], 143.0)
        self.assertEqual(report["per_node"], [report["mean"]])
        self.assertEqual(
            report["source"] | {"tool": ""},
            {
                "kind": "ipmi",
                "reading": "dcmi",
                "sensor": None,
                "bmc": "127.0.0.1",
                "interface": "lanplus",
                "tool": "",
                "why_no_dcmi": None,
            },
        )
        self.assertIn("ipmitool", report["source"]["tool"])

    def test_a_sensor_where_it_has_none(self) -> None:
        started = self.start(False)
        started.draw(142)
        time.sleep(0.2)  # the simulated BMC reads its file at intervals
        report = self.report(*started.flags, "--rate", "10", "--duration", "600ms", IPMI_PASSWORD=PASSWORD)
        self.assertAlmostEqual(report["mean"], 142.0)
        self.assertEqual((report["source"]["reading"], report["source"]["sensor"]), ("sensor", SENSOR))
        self.assertIn("Invalid command", report["source"]["why_no_dcmi"])
        self.assertEqual(report["hosts"][0]["source"], f"ipmi sensor {SENSOR}")

    def test_a_sensor_where_dcmi_is_switched_off_or_another_is_wanted(self) -> None:
        started = self.start(True)
        started.draw("off")
        started.watts.write_text("80\n", encoding="ascii")
        time.sleep(0.2)
        report = self.report(*started.flags, "--rate", "10", "--duration", "300ms", IPMI_PASSWORD=PASSWORD)
        self.assertAlmostEqual(report["mean"], 80.0)
        self.assertEqual(report["source"]["why_no_dcmi"], "its DCMI power reading is deactivated")
        started.draw(90)
        time.sleep(0.2)
        report = self.report(
            *started.flags, "--sensor", SENSOR, "--rate", "10", "--duration", "300ms", IPMI_PASSWORD=PASSWORD
        )
        self.assertAlmostEqual(report["mean"], 90.0)
        self.assertEqual(report["source"]["reading"], "sensor")

    def test_several_sensors_are_for_people_to_choose_from(self) -> None:
        started = self.start(False, sensors=("PSU1 Power", "PSU2 Power"))
        self.assert_refused(self.call(*started.flags, IPMI_PASSWORD=PASSWORD), "--sensor", "PSU1 Power, PSU2 Power")
        self.assert_refused(
            self.call(*started.flags, "--sensor", "PSU3 Power", IPMI_PASSWORD=PASSWORD), "PSU3", "PSU1 Power"
        )

    def test_a_silent_bmc_is_told_within_seconds(self) -> None:
        # this socket receives requests but never reads them, like a BMC that does not answer
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            began = time.monotonic()
            done = self.call(
                "--bmc", "127.0.0.1", "--port", str(udp.getsockname()[1]), "--user", USER, IPMI_PASSWORD=PASSWORD
            )
            self.assert_refused(done, "127.0.0.1 port", "no BMC answers there")
            # ipmitool waits 2 s and the presence ping half a second; the other seconds allow for a busy machine
            self.assertLess(time.monotonic() - began, 8)

    def test_a_wrong_password_is_told_apart(self) -> None:
        started = self.start(True)
        self.assert_refused(self.call(*started.flags, IPMI_PASSWORD="wrong"), "gives no session", "IPMI_PASSWORD")
        self.assert_refused(self.call(*started.flags), "IPMI_PASSWORD", "not set")

    def test_a_known_trapezoid_of_power(self) -> None:
        """The energy of a command of two seconds is that of the power drawn meanwhile: 200 W in the first second, else
        100 W."""
        started = self.start(True)
        draw = f"echo %d > next && mv next '{started.dcmi_watts}'"
        command = f"{draw % 200}; sleep 1; {draw % 100}; sleep 1"
        report = self.report(
            *started.flags,
            "--rate",
            "10",
            "--idle",
            "300ms",
            "--samples",
            "raw.csv",
            "--",
            "sh",
            "-c",
            command,
            IPMI_PASSWORD=PASSWORD,
        )
        raw = trace.read(self.folder / "raw.csv")
        self.assertEqual({each.watts for each in raw}, {100.0, 200.0})
        for name in ("run", "idle_before", "idle_after"):
            energy = integrate(raw, Span(*report["marks"][name]))
            told = report["hosts"][0] if name == "run" else report["hosts"][0][name]
            self.assertAlmostEqual(energy.mean_w, told["mean_w"], places=9)
        self.assertAlmostEqual(integrate(raw, Span(*report["marks"]["run"])).joules, report["joules"], places=9)
        # The power is 200 W for one second and 100 W otherwise. The tolerance of the energy allows for the spacing
        # of samples, and for sleeps that last longer on a busy machine.
        gap = report["hosts"][0]["longest_gap_s"]
        more = report["seconds"] - 2
        self.assertAlmostEqual(report["joules"], 100 * report["seconds"] + 100, delta=100 * (gap + more + 0.1))

    def test_a_bmc_that_goes_away_fails_the_measurement(self) -> None:
        started = self.start(True)
        command = f"kill -9 {started.pid}; sleep 3"
        done = self.call(*started.flags, "--rate", "10", "--", "sh", "-c", command, IPMI_PASSWORD=PASSWORD)
        self.assert_refused(done, "no sample in", status=1)

    @unittest.skipUnless(shutil.which("ipmi-dcmi"), "no ipmi-dcmi (Debian: freeipmi-tools)")
    def test_the_stand_in_answers_another_tool_alike(self) -> None:
        started = self.start(True)
        started.draw(99)
        done = subprocess.run(
            [
                "ipmi-dcmi",
                "-D",
                "LAN_2_0",
                "-h",
                f"127.0.0.1:{started.port}",
                "-u",
                USER,
                "-p",
                PASSWORD,
                "-W",
                "opensesspriv",
                "--get-system-power-statistics",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertRegex(done.stdout, r"Current Power\s*: 99 Watts", done.stderr)


if __name__ == "__main__":
    unittest.main()
