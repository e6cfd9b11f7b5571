"""Reads a machine's power from its BMC by ipmitool: the DCMI power reading if the BMC has one, else a power sensor."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .samples import PowerError

CALL_TIMEOUT_S = 10.0
PING_TIMEOUT_S = 0.5
# RMCP presence ping: a BMC that answers it but refuses a session is distinguished from one that cannot be reached.
_PING = bytes([6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x80, 0, 0, 0])
_WATTS = re.compile(r"Instantaneous power reading:\s*(\d+)\s*Watts")
_STATE = re.compile(r"Power reading state is:\s*(\w+)")


@dataclass(frozen=True)
class Bmc:
    """How to reach a BMC. The password is only read from IPMI_PASSWORD: never from a file or a flag, never put in a
    result."""

    address: str | None = None  # address of a BMC on the network; None: the BMC of this machine, through /dev/ipmi0
    port: int = 623
    user: str | None = None

    @property
    def name(self) -> str:
        return self.address or socket.gethostname()


class Ipmi:
    """Reads the power of one BMC, by DCMI or from a sensor."""

    def __init__(self, bmc: Bmc, sensor: str | None = None) -> None:
        self.bmc, self.host = bmc, bmc.name
        if shutil.which("ipmitool") is None:
            raise PowerError("--source ipmi: ipmitool is not here (Debian: apt-get install ipmitool)")
        if bmc.address is not None and "IPMI_PASSWORD" not in os.environ:
            raise PowerError(
                "--bmc: the password is taken from the environment variable IPMI_PASSWORD, which is not set"
            )
        self.sensor: str | None = None
        self.unit_note = ""
        self._cache: Path | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        why_not = self._without_dcmi() if sensor is None else None
        if sensor is not None or why_not is not None:
            self._use_sensor(sensor, why_not)

    @property
    def name(self) -> str:
        return "ipmi dcmi" if self.sensor is None else f"ipmi sensor {self.sensor}"

    def describe(self) -> dict[str, object]:
        version = self._run(["-V"], bare=True).stdout.strip()
        return {
            "kind": "ipmi",
            "reading": "dcmi" if self.sensor is None else "sensor",
            "sensor": self.sensor,
            "bmc": self.bmc.address,
            "interface": "lanplus" if self.bmc.address else "open",
            "tool": version,
            "why_no_dcmi": self.unit_note or None,
        }

    def read(self) -> float:
        if self.sensor is None:
            watts, why_not = self._dcmi()
            if watts is None:
                raise PowerError(f"{self.host}: {why_not}")
            return watts
        done = self._call(["-c", "sdr", "get", self.sensor], cached=True)
        return self._sensor_value(done.stdout)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # ---- Choice between the DCMI reading and a sensor ---------------------------------------------

    def _without_dcmi(self) -> str | None:
        """Why the BMC's DCMI power reading cannot be used; None if it can."""
        watts, why_not = self._dcmi()
        return None if watts is not None else why_not

    def _dcmi(self) -> tuple[float | None, str]:
        done = self._call(["dcmi", "power", "reading"], may_fail=True)
        found, state = _WATTS.search(done.stdout), _STATE.search(done.stdout)
        if done.returncode != 0 or not found:
            return None, "no DCMI power reading: " + (_last_line(done.stdout + done.stderr) or "ipmitool says nothing")
        if not state or state[1] != "activated":
            return None, f"its DCMI power reading is {state[1] if state else 'in no known state'}"
        return float(found[1]), ""

    def _use_sensor(self, wanted: str | None, why_not: str | None) -> None:
        sensors = self._power_sensors()
        if wanted is None:
            if not sensors:
                raise PowerError(f"{self.host}: {why_not}; and it has no sensor in watts")
            if len(sensors) > 1:
                raise PowerError(
                    f"{self.host}: {why_not}; several sensors are in watts: choose with --sensor: " + ", ".join(sensors)
                )
            wanted = sensors[0]
        elif wanted not in sensors:
            raise PowerError(
                f"--sensor {wanted}: {self.host} has no such sensor in watts; it has " + (", ".join(sensors) or "none")
            )
        self.sensor, self.unit_note = wanted, why_not or ""
        # ipmitool finds a sensor by reading all sensor records, which takes seconds on a large machine: dump them once.
        self._folder = tempfile.TemporaryDirectory(prefix="loch-power-")
        cache = Path(self._folder.name) / "sdr"
        if self._call(["sdr", "dump", str(cache)], may_fail=True).returncode == 0 and cache.is_file():
            self._cache = cache

    def _power_sensors(self) -> list[str]:
        rows = [line.split(",") for line in self._call(["-c", "sdr", "list", "full"]).stdout.splitlines()]
        return [row[0] for row in rows if len(row) >= 3 and row[2] == "Watts"]

    def _sensor_value(self, text: str) -> float:
        row = text.strip().split(",")
        try:
            if row[2] == "Watts" and row[3] == "ok":
                return float(row[1])
        except (IndexError, ValueError):
            pass
        raise PowerError(f"{self.host}: sensor {self.sensor} gave no watts: {text.strip()[:100] or 'nothing'}")

    # ---- Calls of ipmitool ------------------------------------------------------------------------

    def _call(self, words: list[str], may_fail: bool = False, cached: bool = False) -> subprocess.CompletedProcess[str]:
        """Calls ipmitool; raises PowerError if the BMC does not answer.

        With `may_fail` the result of a call that the BMC answered with an error is returned as well.
        """
        done = self._run((["-S", str(self._cache)] if cached and self._cache else []) + words)
        no_session = "Unable to establish" in done.stderr
        if done.returncode == 0 or (may_fail and not no_session and "Could not open device" not in done.stderr):
            return done
        if "Could not open device" in done.stderr:
            raise PowerError(
                f"{self.host}: no BMC here: /dev/ipmi0 cannot be opened (root? modules ipmi_si, ipmi_devintf?); "
                "or name one with --bmc"
            )
        if no_session:
            raise PowerError(self._why_no_session())
        raise PowerError(f"{self.host}: ipmitool {' '.join(words)}: {_last_line(done.stderr or done.stdout)}")

    def _run(self, words: list[str], bare: bool = False) -> subprocess.CompletedProcess[str]:
        # Two tries of one second each: by default ipmitool waits about twenty seconds for a silent BMC.
        flags = (
            []
            if bare or self.bmc.address is None
            else [
                "-I",
                "lanplus",
                "-C",
                "3",
                "-H",
                self.bmc.address,
                "-p",
                str(self.bmc.port),
                "-E",
                "-N",
                "1",
                "-R",
                "1",
                *(["-U", self.bmc.user] if self.bmc.user else []),
            ]
        )
        try:
            return subprocess.run(
                ["ipmitool", *flags, *words],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=CALL_TIMEOUT_S,
                check=False,
                errors="replace",
            )
        except OSError as error:
            raise PowerError(f"{self.host}: cannot start ipmitool: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise PowerError(f"{self.host}: ipmitool did not end within {CALL_TIMEOUT_S:g} s") from None

    def _why_no_session(self) -> str:
        where = f"{self.bmc.address} port {self.bmc.port}"
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                udp.settimeout(PING_TIMEOUT_S)
                udp.connect((str(self.bmc.address), self.bmc.port))
                udp.send(_PING)
                udp.recv(100)
        except OSError:
            return f"--bmc {where}: no BMC answers there"
        return f"--bmc {where}: the BMC answers but gives no session: user, password (IPMI_PASSWORD) or its privilege?"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
