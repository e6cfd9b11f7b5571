"""Tests of experiments with measured power: experiments/energy.yaml with a simulated BMC, and refused settings."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import unittest
from typing import Any

import bmc
from bmc import PASSWORD, USER, Bmc
from support import ROOT, Power

from loch.power import samples as trace
from loch.power.samples import Span, integrate

BINARY = os.environ.get("LOCH_BIN", str(ROOT / "build/release/bin/loch-bench"))


class Experiment(Power):
    def run_file(
        self, *arguments: str, file: str = str(ROOT / "experiments/energy.yaml"), **env: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key != "IPMI_PASSWORD"}
        return subprocess.run(
            ["/usr/bin/python3", str(ROOT / "tools/loch"), "--no-setup", "run", file, "--out", "out", *arguments],
            cwd=self.folder,
            env={**environment, "LOCH_BIN": BINARY, **env},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def points(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "out/points").glob("*.json"))]

    @unittest.skipIf(bmc.missing(), f"no {bmc.missing()} here")
    def test_watts_of_a_bmc_are_in_every_point_and_in_the_figure(self) -> None:
        with Bmc(True) as started:
            started.draw(121)
            done = self.run_file(
                "--smoke",
                "--set",
                "rate=500",
                "--set",
                f"measure.power.port={started.port}",
                "--set",
                "measure.power.bmc=127.0.0.1",
                "--set",
                f"measure.power.user={USER}",
                IPMI_PASSWORD=PASSWORD,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        points = self.points()
        self.assertEqual(sorted(point["runner"]["system"] for point in points), ["CD", "SD"])
        for point in points:
            power = point["power_w"]
            self.assertAlmostEqual(power["mean"], 121.0)
            self.assertAlmostEqual(power["above_idle"], 0.0)
            self.assertEqual(
                (power["per_node"], power["span"], power["source"]["reading"]), ([power["mean"]], "window", "dcmi")
            )
            self.assertAlmostEqual(power["seconds"], point["duration_s"], places=6)
            self.assertAlmostEqual(power["joules"], 121 * point["duration_s"], places=3)
            completed = point["operations"]["ok"] + point["operations"]["not_found"]
            self.assertAlmostEqual(power["joules_per_operation"] * completed, power["joules"], places=6)
            self.assertGreaterEqual(power["hosts"][0]["samples"], 1)
            raw = trace.read(self.folder / "out/points" / f"{self.name_of(point)}.watts.csv")
            self.assertEqual(integrate(raw, Span(*power["marks"]["run"])).joules, power["joules"])
            self.assertNotIn(PASSWORD, json.dumps(point))
        with open(self.folder / "out/table.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        self.assertEqual({round(float(row["power_w.mean"]), 6) for row in rows}, {121.0})
        self.assertTrue((self.folder / "out/figure.png").is_file())

    def name_of(self, point: dict) -> str:
        return next(
            path.stem
            for path in (self.folder / "out/points").glob("*.json")
            if json.loads(path.read_text())["runner"]["system"] == point["runner"]["system"]
        )

    def test_a_trace_takes_the_place_of_a_machine(self) -> None:
        self.trace([(0, 100), (5, 100), (6, 100), (600, 100)])
        done = self.run_file(
            "--smoke",
            "--set",
            "rate=500",
            "--set",
            "measure.power.source=replay",
            "--set",
            f"measure.power.trace={self.folder / 'watts.csv'}",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        for point in self.points():
            self.assertAlmostEqual(point["power_w"]["mean"], 100.0)
            self.assertEqual(point["power_w"]["source"]["kind"], "replay")

    def refuse(self, power: str, *names: str, **env: Any) -> None:
        text = (ROOT / "experiments/energy.yaml").read_text(encoding="utf-8")
        changed = text.replace("power: {source: ipmi, rate: 1, idle: 10s}", f"power: {power}")
        self.assertNotEqual(changed, text)
        (self.folder / "e.yaml").write_text(changed, encoding="utf-8")
        with self.subTest(power):
            done = self.run_file(file="e.yaml", **env)
            self.assert_refused(done, "e.yaml", *names)
            self.assertFalse((self.folder / "out").exists())

    def test_bad_settings_name_file_line_and_key(self) -> None:
        self.refuse("{source: psu}", "source", "ipmi")
        self.refuse("{rate: 1}", "source", "missing")
        self.refuse("{source: rapl, idel: 10s}", "idel", "idle")
        self.refuse("{source: rapl, idle: 10}", "idle", "unit")
        self.refuse("{source: ipmi, password: secret}", "IPMI_PASSWORD")
        self.refuse("{source: rapl}", "power", "no package", LOCH_POWERCAP=str(self.folder))
        self.refuse("{source: replay, trace: none.csv}", "none.csv")
        self.refuse('{source: ipmi, bmc: "{host}-ipmi"}', "{host}", "--hostfile")


if __name__ == "__main__":
    unittest.main()
