"""A BMC for tests: OpenIPMI's ipmi_sim on a UDP port of the loopback, with a power sensor that reads a file, and
DCMI."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
USER, PASSWORD = "admin", "correct-horse"
STEP_W = 2  # watts for each step of the 8-bit sensor
SENSOR = "PW Consumption"
CONFIG = """\
name "loch"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  user 1 true "" "test" user 10 none md2 md5 straight
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
{loadlib}"""


def ipmi_sim() -> str | None:
    """The path of ipmi_sim: installed, or unpacked into the build folder by ./loch; None if it is missing."""
    unpacked = Path(os.environ.get("LOCH_BUILD", ROOT / "build")) / "servers/usr/bin/ipmi_sim"
    return shutil.which("ipmi_sim") or (str(unpacked) if unpacked.is_file() else None)


def missing() -> str | None:
    """The missing prerequisite of the BMC tests; None if all are present."""
    if ipmi_sim() is None:
        return "ipmi_sim (Debian: openipmi)"
    if shutil.which("ipmitool") is None:
        return "ipmitool"
    if not Path("/usr/include/OpenIPMI/serv.h").is_file():
        return "libopenipmi-dev"
    return None


def full_sensor_record(number: int, name: str, step: int, unit: int = 6) -> list[int]:
    """A sensor data record (IPMI SDR) of type 01h: a sensor with `step` units per count, in watts by default, readable,
    without thresholds."""
    text = name.encode("ascii")
    body = [
        0x20,
        0,
        number,
        7,
        1,
        0x01,
        0x40,
        0x0B,
        0x01,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        unit,
        0,
        0,
        step,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0xFF,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0xC0 | len(text),
        *text,
    ]
    return [0, 0, 0x51, 0x01, len(body), *body]


class Bmc:
    """One simulated BMC; `watts` and `dcmi_watts` are the files from which its sensor and its DCMI reading take their
    values."""

    def __init__(self, has_dcmi: bool, sensors: tuple[str, ...] = (SENSOR,)) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="loch-bmc-")
        self.folder = Path(self._folder.name)
        self.watts, self.dcmi_watts = self.folder / "watts", self.folder / "dcmi"
        self.draw(100)
        self.port = _free_port()
        loadlib = f'loadlib "{self._module()}" "{self.dcmi_watts}"\n' if has_dcmi else ""
        config = CONFIG.format(port=self.port, user=USER, password=PASSWORD, loadlib=loadlib)
        (self.folder / "lan.conf").write_text(config, encoding="ascii")
        (self.folder / "state").mkdir()
        commands = [
            "mc_setbmc 0x20",
            "mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr",
            "sel_enable 0x20 1000 0x0a",
        ]
        for number, name in enumerate(sensors, 1):
            record = " ".join(f"0x{byte:02x}" for byte in full_sensor_record(number, name, STEP_W))
            commands += [
                f'sensor_add 0x20 0 {number} 0x0b 0x01 poll 20 file "{self.watts}" div={STEP_W}',
                (
                    f"sensor_set_event_support 0x20 0 {number} enable scanning per-state 000000000000000 "
                    "000000000000000 000000000000000 000000000000000"
                ),
                f"main_sdr_add 0x20 {record}",
            ]
        (self.folder / "emu").write_text("\n".join([*commands, "mc_enable 0x20"]) + "\n", encoding="ascii")
        self._process = subprocess.Popen(
            [
                str(ipmi_sim()),
                "-n",
                "-c",
                str(self.folder / "lan.conf"),
                "-f",
                str(self.folder / "emu"),
                "-s",
                str(self.folder / "state"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._await()

    def _module(self) -> Path:
        module = self.folder / "dcmi.so"
        compiler = next(c for c in ("clang-19", "cc", "gcc") if shutil.which(c))
        subprocess.run(
            [
                compiler,
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-shared",
                "-fPIC",
                "-o",
                str(module),
                str(HERE / "dcmi_module.c"),
            ],
            check=True,
        )
        return module

    def _await(self) -> None:
        """Waits until the BMC answers an RMCP presence ping."""
        ping = bytes([6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x80, 0, 0, 0])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(0.1)
            until = time.monotonic() + 20
            while time.monotonic() < until and self._process.poll() is None:
                try:
                    udp.sendto(ping, ("127.0.0.1", self.port))
                    udp.recvfrom(100)
                    return
                except OSError:
                    time.sleep(0.02)
        self.close()
        raise RuntimeError("ipmi_sim does not answer")

    def draw(self, watts: int | str) -> None:
        """Sets the power that the BMC reports, in watts; "off" deactivates its DCMI power reading."""
        for path in (self.watts, self.dcmi_watts):
            beside = path.with_suffix(".new")
            beside.write_text(
                f"{watts if path == self.dcmi_watts or isinstance(watts, int) else 0}\n", encoding="ascii"
            )
            beside.replace(path)

    @property
    def flags(self) -> list[str]:
        """The flags with which `loch power` reads this BMC."""
        return ["--source", "ipmi", "--bmc", "127.0.0.1", "--port", str(self.port), "--user", USER]

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._folder.cleanup()

    def __enter__(self) -> "Bmc":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        return udp.getsockname()[1]
