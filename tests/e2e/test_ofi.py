"""Tests of --fabric ofi between hosts, emulated by network namespaces, over TCP: protocols whose GETs are checked, and
what the result says of the provider. On one host, processes over libfabric's shared memory."""

from __future__ import annotations

import json
import subprocess
import unittest

from namespaces import NamespaceHosts, missing
from support import BINARY, EndToEnd

from loch.runner import launch
from loch.runner.grid import Point

WHY_NOT = missing(BINARY)
# A number of operations, not a time: on a busy machine TCP between two processes does few of them a second.
LOAD = ["--keys", "300", "--value-size", "256", "--operations", "200", "--verify", "--json", "-"]


def bench(protocol: str, provider: str, *more: str) -> list[str]:
    flags = ["--protocol", protocol, "--fabric", "ofi", "--ofi-provider", provider, "--nodes", "2", "--clients", "1"]
    return [BINARY, "bench", *flags, *LOAD, *more]


class Results(EndToEnd):
    def holds(self, done: subprocess.CompletedProcess[str], protocol: str) -> dict:
        """The result of a run that has to have verified GETs and found none corrupt."""
        self.assertEqual(done.returncode, 0, f"{protocol}: {done.stdout}{done.stderr}")
        result = json.loads(done.stdout)
        operations = result["operations"]
        self.assertGreater(operations["ok"], 20, protocol)
        self.assertGreater(operations["verified"], 0, protocol)
        self.assertEqual((operations["corrupt"], operations["error"]), (0, 0), protocol)
        return result


@unittest.skipIf(WHY_NOT, str(WHY_NOT))
class BetweenHosts(NamespaceHosts, Results):
    host_count = 2

    def test_protocols_read_what_was_written(self) -> None:
        hostfile = self.folder / self.write("hosts", "".join(f"{name}\n" for name in self.hosts))
        where = launch.from_flags(str(hostfile), "10.77.0.0/24", {})
        assert where is not None
        systems: dict[str, list[str]] = {"nessie": [], "nessie-sd": ["--servers", "1"], "pilaf": ["--servers", "1"]}
        for protocol, more in systems.items():
            point = Point("", {}, 0, {"fabric": "ofi", "nodes": 2})
            line = where.command(point, bench(protocol, "tcp", *more), self.environment)
            done = subprocess.run(
                self.on_head(line),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            result = self.holds(done, protocol)
            can = result["capabilities"]
            self.assertEqual((can["fabric"], can["device"]), ("ofi", "tcp;ofi_rxm"))
            self.assertEqual((can["write_then_read"], can["write_then_atomic"]), ("waits", "waits"))
            self.assertTrue(can["target_cpu"])


class OnOneHost(Results):
    def test_providers_of_every_machine(self) -> None:
        for provider, order, target_cpu in (("shm", "waits", True), ("sockets", "device", False)):
            result = self.holds(self.call(bench("nessie", provider)), provider)
            can = result["capabilities"]
            self.assertEqual((can["device"], can["write_then_read"]), (provider, order))
            self.assertEqual(can["target_cpu"], target_cpu)

    def test_a_protocol_that_needs_order_is_refused(self) -> None:
        done = self.call(bench("nessie", "tcp", "--ofi-order", "provider"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("ofi (tcp;ofi_rxm) lets a READ overtake the WRITE before it (write_then_read)", done.stderr)

    def test_bad_flags_are_refused(self) -> None:
        done = self.call(bench("nessie", "carrier-pigeon"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("carrier-pigeon", done.stderr)
        done = self.call([BINARY, "bench", "--fabric", "shm", "--ofi-provider", "tcp"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ofi-provider: for --fabric ofi, not shm", done.stderr)


if __name__ == "__main__":
    unittest.main()
