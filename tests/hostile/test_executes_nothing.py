"""Tests that data never runs commands: hosts, sensors and programs named in files and flags."""

from __future__ import annotations

import json
import shutil
import unittest

from support import BINARY, EXPERIMENT, PYTHON, ROOT, Hostile

POWER = EXPERIMENT.replace("fabric: sim", "fabric: shm").replace("repeats: 1}", "repeats: 1, power: {power}}")
HOSTS = (
    "-oProxyCommand=touch ran",
    "x; touch ran",
    "$(touch ran)",
    "`touch ran`",
    "a b",
    "a\nb",
    "",
    "-",
    "--",
    "me@-x",
    "a|b",
    "x" * 300,
    "ü",
    "a\x00b".replace("\x00", "\x01"),
)
SENSORS = ("x; touch ran; :", "$(touch ran)", "`touch ran`", "it's & touch ran", 'a" && touch ran "', "a\ttouch", "*")


class Hosts(Hostile):
    def test_a_host_is_a_name_for_loch_power(self) -> None:
        for host in HOSTS:
            with self.subTest(host):
                done = self.power(f"--host={host}", "--source", "rapl", "--duration", "1s", **self.fake_ssh())
                self.assert_refused(done, "--host")
                self.assertFalse({"ran", "ran-by-ssh", "asked-by-ssh"} & set(self.left()))

    def test_a_bmc_is_a_name_or_an_address(self) -> None:
        for name in ("-x", "a;b", "a b", "$(x)", ""):
            self.assert_refused(self.power(f"--bmc={name}", "--source", "ipmi", IPMI_PASSWORD="x"), "--bmc")
        self.write("e.yaml", POWER.replace("{power}", '{source: ipmi, bmc: "{host};id"}'))
        self.assert_refused(self.loch("run", "e.yaml"), "e.yaml:9", "bmc")

    def test_hostfiles_are_names_for_run_and_doctor(self) -> None:
        self.write("e.yaml", EXPERIMENT.replace("fabric: sim", "fabric: shm"))
        for host in ("-oProxyCommand=touch", "x;touch", "$(touch)", "a|b", "x" * 300):
            self.write("hosts", f"{host} slots=2\n")
            with self.subTest(host):
                self.assert_refused(self.loch("run", "e.yaml", "--hostfile", "hosts", **self.fake_ssh()), "hosts:1")
                done = self.call(
                    [PYTHON, str(ROOT / "tools/loch"), "--no-setup", "doctor", "--hostfile", "hosts"], **self.fake_ssh()
                )
                self.assert_refused(done, "hosts:1")
                self.assertNotIn("asked-by-ssh", self.left())
        self.write("endless", "a\n" * (1 << 20))
        self.assert_refused(self.loch("run", "e.yaml", "--hostfile", "endless"), "endless", "MiB")
        self.assert_refused(self.loch("run", "e.yaml", "--hostfile", "/dev/zero"), "/dev/zero", "MiB")

    def test_an_interface_is_a_name_or_a_range(self) -> None:
        self.write("e.yaml", EXPERIMENT)
        self.write("hosts", "localhost slots=2\n")
        for name in ("eth0; touch ran", "$(touch ran)", "--x", "a b", ""):
            done = self.loch("run", "e.yaml", "--hostfile", "hosts", f"--interface={name}")
            self.assert_refused(done, "--interface")
        self.assertNotIn("ran", self.left())


class Sensors(Hostile):
    def ipmitool(self) -> None:
        """Makes a fake ipmitool without DCMI and with one sensor, whose name is in the file ./sensor."""
        self.write(
            "bin/ipmitool",
            (
                '#!/bin/sh\nname=$(cat "$SSH_NOTES/sensor")\ncase "$*" in\n*"sdr list"*) printf "%s,42,Watts,ok\\n"'
                ' "$name" ;;\n*"sdr get"*) printf "%s\\n" "$*" >>"$SSH_NOTES/asked"\n  printf "%s,42,Watts,ok\\n"'
                ' "$name" ;;\n*-V*) echo "ipmitool 1" ;;\n*) exit 1 ;;\nesac\n'
            ),
        )
        (self.folder / "bin/ipmitool").chmod(0o755)

    def test_a_sensor_reaches_the_other_host_as_one_word(self) -> None:
        """A sensor with shell syntax in its name is found on the other host by that name, and no command in the name
        runs."""
        environment = self.fake_ssh()
        self.ipmitool()
        for sensor in SENSORS:
            with self.subTest(sensor):
                self.write("sensor", sensor)
                done = self.power(
                    "--source",
                    "ipmi",
                    "--host",
                    "node7",
                    "--sensor",
                    sensor,
                    "--rate",
                    "20",
                    "--duration",
                    "300ms",
                    **environment,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertAlmostEqual(json.loads(done.stdout)["mean"], 42)
                self.assertNotIn("ran", self.left())
                self.assertIn(f"sdr get {sensor}", (self.folder / "asked").read_text())

    def test_a_checkout_with_a_blank_in_its_path_works_there(self) -> None:
        here = self.folder / "a blank; touch ran"
        shutil.copytree(ROOT / "tools/loch", here / "tools/loch", ignore=shutil.ignore_patterns("__pycache__"))
        environment = self.fake_ssh()
        self.ipmitool()
        self.write("sensor", "Total Power")
        done = self.call(
            [
                PYTHON,
                str(here / "tools/loch"),
                "--no-setup",
                "power",
                "--source",
                "ipmi",
                "--host",
                "node7",
                "--sensor",
                "Total Power",
                "--rate",
                "20",
                "--duration",
                "300ms",
            ],
            **environment,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["mean"], 42)
        self.assertNotIn("ran", self.left())

    def test_a_plan_asks_no_other_machine(self) -> None:
        """--dry-run of an experiment file with a malicious sensor name or BMC runs nothing on other hosts and contacts
        none."""
        environment = self.fake_ssh()
        self.ipmitool()
        self.write("hosts", "node7 slots=2\n")
        for power in ('{source: ipmi, sensor: "x; touch ran; :"}', "{source: rapl}", "{source: ipmi, bmc: node7-ipmi}"):
            self.write("evilpower.yaml", POWER.replace("{power}", power))
            with self.subTest(power):
                done = self.loch(
                    "run", "evilpower.yaml", "--hostfile", "hosts", "--dry-run", **environment, IPMI_PASSWORD="x"
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("2 points", done.stdout)
                self.assertFalse({"ran", "asked-by-ssh", "asked"} & set(self.left()), done.stderr)

    def test_a_run_asks_in_words_and_runs_nothing_else(self) -> None:
        environment = self.fake_ssh()
        self.ipmitool()
        self.write("sensor", "Total")
        self.write("hosts", "node7 slots=2\n")
        self.write("evilpower.yaml", POWER.replace("{power}", '{source: ipmi, sensor: "x; touch ran; :"}'))
        done = self.loch("run", "evilpower.yaml", "--hostfile", "hosts", **environment)
        self.assert_refused(done, "evilpower.yaml:9", "x; touch ran; :", "no such sensor")
        self.assertNotIn("ran", self.left())

    def test_control_characters_are_no_part_of_a_name(self) -> None:
        self.write("e.yaml", POWER.replace("{power}", '{source: ipmi, sensor: "a\\nb"}'))
        self.assert_refused(self.loch("run", "e.yaml"), "e.yaml:9", "sensor")


class Programs(Hostile):
    def setUp(self) -> None:
        super().setUp()
        self.write("evil.sh", "#!/bin/sh\ntouch ran\n")
        (self.folder / "evil.sh").chmod(0o755)

    def refuse(self, text: str, *arguments: str) -> None:
        self.write("evil.yaml", text)
        with self.subTest(arguments or text):
            self.assert_refused(self.loch("run", "evil.yaml", *arguments), "binary", "command line")
            self.assertEqual(self.left(), ["evil.sh", "evil.yaml"])

    def test_no_file_and_no_set_names_a_program(self) -> None:
        redis = EXPERIMENT.replace("fabric: sim", "fabric: shm").replace("protocol: nessie", "protocol: redis")
        for name in ("redis", "memcached"):
            text = redis.replace("redis", name)
            self.refuse(text.replace("clients: 1}", f"clients: 1, {name}.binary: ./evil.sh}}"))
            self.refuse(text.replace("keys: 200}", f"keys: 200, {name}.binary: ./evil.sh}}"))
            self.refuse(text.replace("axes: {", f"axes: {{{name}.binary: [./evil.sh], "))
            self.refuse(
                text.replace(
                    "clients: 1}", f"tune: {{clients: [1], {name}.binary: [./evil.sh]}}, maximize: throughput_ops_s}}"
                )
            )
            self.refuse(text, "--set", f"{name}.binary=./evil.sh")
            self.refuse(text, "--set", f"systems.CD.{name}.binary=./evil.sh")
            self.refuse(text + f"smoke: {{{name}.binary: ./evil.sh}}\n")

    def test_every_option_that_is_text_is_known_to_start_nothing(self) -> None:
        """A new option with a text value fails this test until someone has checked whether it names a program."""
        harmless = {"redis.address", "memcached.address", "pilaf.log", "pilaf.log-dir", "pilaf.log-folder"}
        protocols = self.call([BINARY, "list", "protocols"]).stdout.splitlines()
        found = set()
        for line in protocols:
            for each in self.call([BINARY, "bench", "--help", line.split()[0]]).stdout.splitlines():
                if each.strip().endswith(" TEXT"):
                    found.add(each.split()[0].removeprefix("--"))
        self.assertLessEqual({"redis.binary", "memcached.binary"}, found)
        unknown = {name for name in found if not name.endswith(".binary")} - harmless
        self.assertEqual(
            unknown, set(), "an option of type text: name it harmless here, or let options.names_program know it"
        )


if __name__ == "__main__":
    unittest.main()
