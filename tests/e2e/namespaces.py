"""Hosts that are network namespaces of this machine, connected by a bridge; mpirun reaches them without ssh.

Needs root, `ip` and `unshare`. One namespace, `head`, is where mpirun runs; the others have an interface eth0 each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial

from support import EndToEnd

# Replaces ssh: runs a command in the network namespace of the named host.
AGENT = """#!/bin/bash
host=$1; shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; exec $*"
"""


def missing(program: str) -> str | None:
    """Why tests that run `program` on hosts made of network namespaces cannot run on this machine; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("mpirun", "ip", "unshare"):
        if not shutil.which(tool):
            return f"{tool} is not here"
    if not os.access(program, os.X_OK):
        return f"{program} is not built"
    name = f"lt{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "no network namespaces here"
    entered = subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], check=True)
    return f"no way into a network namespace: {entered.stderr.strip()}" if entered.returncode else None


class NamespaceHosts(EndToEnd):
    """Makes the namespaces before each test and removes them after it. The hosts are 10.77.0.2 and following."""

    host_count = 3

    def setUp(self) -> None:
        super().setUp()
        self.head, *self.hosts = (f"l{os.getpid()}{letter}" for letter in "habcdef"[: self.host_count + 1])
        for name in (self.head, *self.hosts):
            self.ip("netns", "add", name)
            self.addCleanup(partial(subprocess.run, ["ip", "netns", "del", name], check=False))
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("-n", self.head, "link", "add", "br0", "type", "bridge")
        self.ip("-n", self.head, "link", "set", "br0", "up")
        self.ip("-n", self.head, "addr", "add", "10.77.0.1/24", "dev", "br0")
        for number, name in enumerate(self.hosts):
            self.ip(
                "link", "add", f"v{number}", "netns", self.head, "type", "veth", "peer", "name", "eth0", "netns", name
            )
            self.ip("-n", self.head, "link", "set", f"v{number}", "master", "br0", "up")
            self.ip("-n", name, "addr", "add", f"10.77.0.{number + 2}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")
        agent = self.folder / self.write("agent", AGENT)
        agent.chmod(0o755)
        self.environment = {
            **os.environ,
            "OMPI_MCA_plm_rsh_agent": str(agent),
            "OMPI_MCA_orte_tmpdir_base": str(self.folder),
            "LOCH_LOST_AFTER": "2s",
        }

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def on_head(self, line: list[str]) -> list[str]:
        """The command line that runs `line` in the namespace `head`, where mpirun runs, under that namespace's host
        name."""
        inner = f'hostname {self.head}; exec "$@"'
        return ["ip", "netns", "exec", self.head, "unshare", "-u", "sh", "-c", inner, "sh", *line]
