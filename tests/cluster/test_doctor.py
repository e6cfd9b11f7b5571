"""Tests of ./loch doctor on fake machines made of files."""

from __future__ import annotations

import json
import unittest

from support import FakeMachine, InAFolder

IPV4, ULA, LINK_LOCAL = "0000:0000:0000:0000:0000:ffff:0a00:0001", "fd00::7", "fe80::21a:4aff:fe16:151"
# GIDs in the order in which a ConnectX NIC lists them: each address first as RoCE v1, then as RoCE v2.
CONNECTX = ((LINK_LOCAL, "IB/RoCE v1"), (LINK_LOCAL, "RoCE v2"), (IPV4, "IB/RoCE v1"), (IPV4, "RoCE v2"))


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

    def test_a_roce_nic_is_ready_and_its_ipv4_gid_of_roce_v2_is_chosen(self) -> None:
        self.machine.device("mlx5_0", p1={"gids": CONNECTX})
        verdict = self.verdict(ready=True)
        choice = verdict["choice"]
        self.assertEqual(
            (choice["device"], choice["gid_index"], choice["gid"], choice["mtu"]), ("mlx5_0", 3, "10.0.0.1", 4096)
        )
        self.assert_line(verdict, "mlx5_0 GID", "ok", "index 3", "3 others")
        self.assert_line(verdict, "mlx5_0 reads", "ok", "16")
        self.assert_line(verdict, "mlx5_0 atomics", "ok", "not against the CPU")

    def test_what_is_chosen_without_an_ipv4_gid(self) -> None:
        self.machine.device("mlx5_0", p1={"gids": ((LINK_LOCAL, "RoCE v2"), (IPV4, "IB/RoCE v1"), (ULA, "RoCE v2"))})
        verdict = self.verdict(ready=True)
        self.assertEqual(verdict["choice"]["gid_index"], 2)
        self.assert_line(verdict, "mlx5_0 GID", "warn", "ip addr add")

    def test_only_roce_v1_is_a_warning(self) -> None:
        self.machine.device("mlx4_0", p1={"gids": ((LINK_LOCAL, "IB/RoCE v1"), (IPV4, "IB/RoCE v1"))})
        verdict = self.verdict(ready=True)
        self.assertEqual(verdict["choice"]["gid_index"], 1)
        self.assert_line(verdict, "mlx4_0 GID", "warn", "one Ethernet segment")

    def test_an_infiniband_port_needs_a_lid(self) -> None:
        gids = (("fe80::2:c903:0:1", "IB/RoCE v1"),)
        self.machine.device("mlx4_0", p1={"link": "InfiniBand", "lid": "0x0", "gids": gids})
        self.assert_line(self.verdict(ready=False), "mlx4_0 port", "no", "opensm")
        self.machine.port("mlx4_0", "1", link="InfiniBand", lid="0x4", gids=gids)
        verdict = self.verdict(ready=True)
        self.assertEqual((verdict["choice"]["link_layer"], verdict["choice"]["gid_index"]), ("InfiniBand", 0))

    def test_a_port_that_is_down_is_named_with_its_network_device(self) -> None:
        self.machine.device("mlx5_0", p1={"state": "1: DOWN"})
        verdict = self.verdict(ready=False)
        self.assertIsNone(verdict["choice"])
        self.assert_line(verdict, "mlx5_0 port", "no", "DOWN", "ip link set eth7 up", "cable")

    def test_one_port_that_works_is_enough_and_the_fastest_is_chosen(self) -> None:
        self.machine.device("mlx5_0", p1={"state": "1: DOWN"}, p2={"rate": "25 Gb/sec (1X EDR)"})
        self.machine.device("mlx5_1", p1={"rate": "200 Gb/sec (4X HDR)"})
        verdict = self.verdict(ready=True)
        self.assertEqual((verdict["choice"]["device"], verdict["choice"]["port"]), ("mlx5_1", 1))
        self.assert_line(verdict, "mlx5_0/1 port", "warn", "DOWN")
        self.assert_line(verdict, "mlx5_0/2 port", "ok", "25 Gb")

    def test_siw_is_refused_with_the_reason(self) -> None:
        self.machine.device("siw0", node_type="4: RNIC", atomic="ATOMIC_NONE (0)")
        verdict = self.verdict(ready=False)
        self.assert_line(verdict, "siw0", "no", "iWARP", "no UC", "no atomics", "Soft-RoCE")
        self.assertIsNone(verdict["choice"])

    def test_a_nic_without_atomics_is_not_enough(self) -> None:
        self.machine.device("mlx5_0", atomic="ATOMIC_NONE (0)")
        verdict = self.verdict(ready=False)
        self.assertIsNone(verdict["choice"])
        self.assert_line(verdict, "mlx5_0 atomics", "no", "compare-and-swap")

    def test_no_device_and_no_provider(self) -> None:
        self.assert_line(self.verdict(ready=False), "devices", "no", "softroce")
        self.machine.device("mlx5_0")
        self.machine.file("said/ibv_devinfo", "hca_id:\tanother\n")
        self.assert_line(self.verdict(ready=False), "mlx5_0", "no", "ibverbs-providers")

    def test_a_port_without_any_gid(self) -> None:
        self.machine.device("mlx5_0", p1={"gids": ()})
        self.assert_line(self.verdict(ready=False), "mlx5_0 GID", "no", "ip addr add")

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
        self.machine.device("mlx5_0", p1={"mtu": "1024 (3)"})
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
        self.assert_line(self.verdict(ready=False), "launcher", "no", "openmpi-bin")

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
            FakeMachine(self.folder / host).device("mlx5_0", p1={"link": link, "lid": "0x1"})
        (self.folder / "h").write_text("one slots=4  # the first\ntwo\nlost\nloud\none\n")
        done = self.loch("doctor", "--hostfile", "h", "--json", PATH=path)
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
        done = self.loch("doctor", "--hostfile", "h", PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertTrue(done.stdout.decode().endswith("ready for verbs\n"))

    def test_a_clock_that_is_far_off_is_named(self) -> None:
        path = self.stand_in_for_ssh(
            "cat >probe.$host\n" """python3 probe.$host $host | sed 's/"time": [0-9.]*/"time": 1000/'"""
        )
        FakeMachine(self.folder / "one").device("mlx5_0")
        (self.folder / "h").write_text("one\n")
        done = self.loch("doctor", "--hostfile", "h", "--json", PATH=path)
        line = json.loads(done.stdout)["among_hosts"][0]
        self.assertEqual((line["name"], line["status"]), ("clocks", "warn"))
        self.assertIn("one is -", line["text"])


if __name__ == "__main__":
    unittest.main()
