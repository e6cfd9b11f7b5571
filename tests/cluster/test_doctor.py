"""Tests of ./loch doctor on fake machines made of files."""

from __future__ import annotations

import json
import unittest

from support import FakeMachine, InAFolder


class Doctor(InAFolder):
    def setUp(self) -> None:
        super().setUp()
        self.machine = FakeMachine(self.folder)

    def verdict(self, ready: bool) -> dict:
        done = self.loch("doctor", "--root", ".", "--json")
        self.assertEqual(done.returncode, 0 if ready else 1, done.stdout.decode() + done.stderr.decode())
        answer = json.loads(done.stdout)
        self.assertEqual(answer["ready"], ready)
        return answer["hosts"][0]

    def line(self, verdict: dict, name: str) -> dict:
        return next(line for line in verdict["lines"] if line["name"] == name)

    def assert_line(self, verdict: dict, name: str, status: str, *words: str) -> None:
        line = self.line(verdict, name)
        self.assertEqual(line["status"], status, line)
        for word in words:
            self.assertIn(word, f"{line['text']} {line['mend']}")
        if status != "ok":
            self.assertTrue(line["mend"], f"{line} says not what to do")

    def test_the_choice_is_the_programs(self) -> None:
        self.machine.device("mlx5_0", p1={"rate": 200})
        self.machine.device("mlx5_1", p1={"rate": 25, "gid": (3, "10.0.0.1", "RoCE v2"), "gids": 4})
        verdict = self.verdict(ready=True)
        choice = verdict["choice"]
        self.assertEqual(
            (choice["device"], choice["gid_index"], choice["gid"], choice["mtu"]), ("mlx5_1", 3, "10.0.0.1", 4096)
        )
        self.assert_line(verdict, "mlx5_1 GID", "ok", "index 3", "3 others")
        self.assert_line(verdict, "mlx5_1 port", "ok", "25 Gbit/s")
        self.assert_line(verdict, "mlx5_0 reads", "ok", "16")
        self.assert_line(verdict, "mlx5_0 atomics", "ok", "not against the CPU")

    def test_a_gid_without_ipv4_is_a_warning(self) -> None:
        self.machine.device("mlx5_0", p1={"gid": (2, "fd00::7", "RoCE v2")})
        self.assert_line(self.verdict(ready=True), "mlx5_0 GID", "warn", "index 2", "ip addr add", "eth7")

    def test_only_roce_v1_is_a_warning(self) -> None:
        self.machine.device("mlx4_0", p1={"gid": (1, "10.0.0.1", "RoCE v1")})
        self.assert_line(self.verdict(ready=True), "mlx4_0 GID", "warn", "one Ethernet segment")

    def test_an_infiniband_port_needs_a_lid(self) -> None:
        self.machine.device("mlx4_0", p1={"link": "InfiniBand", "refusal": "has no LID (subnet manager)"})
        self.assert_line(self.verdict(ready=False), "mlx4_0 port", "no", "no LID", "opensm")
        self.machine.port("mlx4_0", 1, link="InfiniBand", lid=4, gid=(0, "fe80::1", "InfiniBand"))
        verdict = self.verdict(ready=True)
        self.assertEqual((verdict["choice"]["link_layer"], verdict["choice"]["gid_index"]), ("InfiniBand", 0))
        self.assert_line(verdict, "mlx4_0 GID", "ok", "LID 4")

    def test_a_port_that_is_down_is_named_with_its_network_device(self) -> None:
        self.machine.device("mlx5_0", p1={"state": "DOWN", "refusal": "is not active"})
        verdict = self.verdict(ready=False)
        self.assertIsNone(verdict["choice"])
        self.assert_line(verdict, "mlx5_0 port", "no", "DOWN", "ip link set eth7 up", "cable")

    def test_one_port_that_works_is_enough(self) -> None:
        self.machine.device("mlx5_0", p1={"state": "DOWN", "refusal": "is not active"}, p2={"rate": 25})
        verdict = self.verdict(ready=True)
        self.assertEqual((verdict["choice"]["device"], verdict["choice"]["port"]), ("mlx5_0", 2))
        self.assert_line(verdict, "mlx5_0/1 port", "warn", "DOWN")
        self.assert_line(verdict, "mlx5_0/2 port", "ok", "25 Gb")

    def test_a_refused_device_is_not_enough(self) -> None:
        self.machine.device("siw0", p1={"gids": 0, "refusal": "is an iWARP device's: no UC, no UD, no atomics"})
        verdict = self.verdict(ready=False)
        self.assert_line(verdict, "siw0 port", "no", "iWARP", "no UC", "no atomics", "Soft-RoCE")
        self.assertIsNone(verdict["choice"])

    def test_a_device_without_atomics_or_uc_serves_some_protocols(self) -> None:
        self.machine.device("irdma0", {"atomic_scope": "none", "uc": False, "receives_connected": False})
        verdict = self.verdict(ready=True)
        self.assert_line(verdict, "irdma0 atomics", "warn", "compare-and-swap")
        self.assert_line(verdict, "irdma0 transports", "warn", "RC, UD alone", "no shared receive queues")

    def test_no_device_and_no_provider(self) -> None:
        self.assert_line(self.verdict(ready=False), "devices", "no", "softroce")
        self.machine.device("mlx5_0")
        self.machine.ports.clear()
        self.machine.says(None)
        self.assert_line(self.verdict(ready=False), "mlx5_0", "no", "ibverbs-providers")

    def test_hosts_without_a_choice_are_not_ready_though_every_port_is_usable(self) -> None:
        self.machine.device("mlx5_0")
        self.machine.says(None, "no partition of which all hosts are full members")
        self.assert_line(self.verdict(ready=False), "choice", "no", "no partition")

    def test_without_the_program_nobody_is_ready(self) -> None:
        self.machine.device("mlx5_0")
        (self.folder / "said/devices").unlink()
        self.assert_line(self.verdict(ready=False), "devices", "no", "loch-bench is missing", "./loch devices")

    def test_a_port_without_any_gid(self) -> None:
        self.machine.device("mlx5_0", p1={"gids": 0, "refusal": "mlx5_0 port 1 has no GID: give it an IP address"})
        self.assert_line(self.verdict(ready=False), "mlx5_0 port", "no", "ip addr add ADDRESS/24 dev eth7")

    def test_the_limit_of_locked_memory(self) -> None:
        self.machine.device("mlx5_0")
        limits = "Max locked memory         {0}            {0}            bytes\n"
        self.machine.file("proc/self/limits", limits.format(65536))
        self.assert_line(self.verdict(ready=False), "memory lock", "no", "limits.conf")
        self.machine.file("proc/self/limits", limits.format(2 << 30))
        self.assert_line(self.verdict(ready=True), "memory lock", "warn", "2048 MiB")
        self.machine.file("proc/self/limits", limits.format(65536))
        self.machine.file("proc/self/status", "CapEff:\t0000000000004000\n")
        self.assert_line(self.verdict(ready=True), "memory lock", "ok", "CAP_IPC_LOCK")

    def test_what_makes_figures_worse_is_a_warning(self) -> None:
        self.machine.device("mlx5_0", p1={"mtu": 1024})
        self.machine.file("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n")
        self.machine.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
        verdict = self.verdict(ready=True)
        self.assert_line(verdict, "CPU governor", "warn", "powersave on 1 CPUs", "cpupower")
        self.assert_line(verdict, "huge pages", "warn", "madvise", "vm.nr_hugepages")
        self.assert_line(verdict, "IPMI", "warn", "ipmi")
        self.assert_line(verdict, "mlx5_0 port", "ok", "MTU 1024", "mtu 4200")

    def test_no_launcher(self) -> None:
        self.machine.device("mlx5_0")
        (self.folder / "said/mpirun").unlink()
        self.assert_line(self.verdict(ready=True), "launcher", "warn", "ssh", "openmpi-bin")

    def test_for_people_it_says_the_fix_below_the_fault(self) -> None:
        done = self.loch("doctor", "--root", ".")
        lines = done.stdout.decode().splitlines()
        self.assertEqual(done.returncode, 1)
        fault = next(index for index, line in enumerate(lines) if "no RDMA device" in line)
        self.assertIn("→", lines[fault + 1])
        self.assertEqual(lines[-1], "not ready for verbs: 1 thing to fix")

    def test_what_a_protocol_needs_is_compared_with_what_the_device_has(self) -> None:
        def asked(protocol: str, status: int) -> dict:
            done = self.loch("--no-setup", "doctor", "--root", ".", "--json", "--protocol", protocol)
            self.assertEqual(done.returncode, status, done.stderr.decode())
            return json.loads(done.stdout)["hosts"][0]

        self.assert_line(asked("nessie", 1), "protocol nessie", "no", "RC", "no device can be used", "--fabric shm")
        self.assert_line(asked("redis", 1), "protocol redis", "ok", "nothing")
        self.machine.device("mlx5_0")
        self.assert_line(asked("nessie", 0), "protocol nessie", "ok", "RC", "compare-and-swap", "mlx5_0 has them")
        self.assert_line(asked("herd", 0), "protocol herd", "ok", "UC, UD")
        needs = {"rc": True, "uc": False, "ud": False, "atomic_scope": "global", "untorn_bytes": 64}
        needs |= {"in_order_placement": True, "max_inline_bytes": 0, "max_rd_atomic": 32}
        stand_in = self.folder / "program"
        stand_in.write_text("#!/bin/sh\necho '" + json.dumps([{"name": "mine", "needs": needs}]) + "'\n")
        stand_in.chmod(0o755)
        arguments = ("--no-setup", "doctor", "--root", ".", "--json", "--protocol")
        done = self.loch(*arguments, "mine", LOCH_BIN=str(stand_in))
        self.assertEqual(done.returncode, 1, done.stderr.decode())
        self.assert_line(
            json.loads(done.stdout)["hosts"][0],
            "protocol mine",
            "no",
            "64 aligned bytes",
            "in the order",
            "lacks atomics against the CPU's accesses",
            "32 outstanding READs and atomics: the device has 16",
        )
        self.assert_refused(self.loch(*arguments, "mien", LOCH_BIN=str(stand_in)), "mien", "did you mean mine?")
        stand_in.write_text("#!/bin/sh\nexit 3\n")
        self.assert_refused(self.loch(*arguments, "mine", LOCH_BIN=str(stand_in)), "does not list its protocols")


class Hostfile(InAFolder):
    def test_bad_hostfiles_are_refused_in_one_line(self) -> None:
        self.assert_refused(self.loch("doctor", "--hostfile", "none"), "none", "No such file")
        (self.folder / "h").write_text("# nobody\n\n")
        self.assert_refused(self.loch("doctor", "--hostfile", "h"), "h", "no host")
        (self.folder / "h").write_text("one slots=2\n-oProxyCommand=x\n")
        self.assert_refused(self.loch("doctor", "--hostfile", "h"), "h:2", "-oProxyCommand")
        (self.folder / "h").write_text("one two three\n")
        self.assert_refused(self.loch("doctor", "--hostfile", "h"), "h:1")
        for word in ("slots=x", "slots=0", "slts=2"):
            (self.folder / "h").write_text(f"one slots = 2\ntwo {word}\n")
            self.assert_refused(self.loch("doctor", "--hostfile", "h"), "h:2", word, "expected slots=N")
        self.assert_refused(self.loch("doctor", "--root", "nowhere"), "nowhere")
        self.assert_refused(self.loch("doctor", "--jsn"), "--jsn")

    def stand_in_for_ssh(self, body: str) -> str:
        """Makes a fake ssh that runs `body`, with the host in $host and the remote command in $remote; returns a PATH
        with it."""
        (self.folder / "bin").mkdir()
        script = self.folder / "bin/ssh"
        script.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nhost=$2 remote=$3\n{body}\n')
        script.chmod(0o755)
        return f"{self.folder}/bin:/usr/bin:/bin"

    def test_each_host_is_asked_and_hosts_are_compared(self) -> None:
        path = self.stand_in_for_ssh(
            'case $host in lost) echo "ssh: no route" >&2; exit 255;; loud) echo welcome; exit 0;; esac\n'
            "cat >probe.$host; python3 probe.$host $host"
        )
        for host, link in (("one", "Ethernet"), ("two", "InfiniBand")):
            FakeMachine(self.folder / host).device("mlx5_0", p1={"link": link, "lid": 1})
        (self.folder / "h").write_text("one slots=4  # the first\ntwo\nlost\nloud\none\n")
        done = self.loch("doctor", "--hostfile", "h", "--no-ping", "--json", PATH=path)
        self.assertEqual(done.returncode, 1, done.stderr.decode())
        answer = json.loads(done.stdout)
        self.assertEqual(
            [(host["host"], host["ready"]) for host in answer["hosts"]],
            [("one", True), ("two", True), ("lost", False), ("loud", False)],
        )
        self.assertEqual(answer["hosts"][2]["lines"][0]["text"], "ssh: no route")
        self.assertEqual(answer["among_hosts"][0]["name"], "link layer")
        self.assertEqual(answer["among_hosts"][0]["status"], "no")

    def test_hosts_that_are_alike_are_ready(self) -> None:
        path = self.stand_in_for_ssh("cat >probe.$host; python3 probe.$host $host")
        for host in ("one", "two"):
            FakeMachine(self.folder / host).device("mlx5_0")
        (self.folder / "h").write_text("one\ntwo\n")
        done = self.loch("doctor", "--hostfile", "h", "--no-ping", PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertTrue(done.stdout.decode().endswith("ready for verbs\n"))

    def test_a_clock_that_is_far_off_is_named(self) -> None:
        path = self.stand_in_for_ssh(
            "cat >probe.$host\n" """python3 probe.$host $host | sed 's/"time": [0-9.]*/"time": 1000/'"""
        )
        FakeMachine(self.folder / "one").device("mlx5_0")
        (self.folder / "h").write_text("one\n")
        done = self.loch("doctor", "--hostfile", "h", "--no-ping", "--json", PATH=path)
        line = json.loads(done.stdout)["among_hosts"][0]
        self.assertEqual((line["name"], line["status"]), ("clocks", "warn"))
        self.assertIn("one is -", line["text"])


if __name__ == "__main__":
    unittest.main()
