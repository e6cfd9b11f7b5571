"""Starts a point as several processes: by mpirun over the hosts of a hostfile, where that is missing by ssh, or by srun
inside a Slurm allocation."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from loch import ssh_launch
from loch.hosts import SLOTS_WANTED, is_host, slots_of
from loch.mpirun import mpirun

from .errors import BadInput
from .grid import Point
from .model import Experiment

TERM_GRACE_S = 5.0  # seconds for a launcher to end its ranks after SIGTERM
# First words of command lines that start several processes.
LAUNCHERS = ("mpirun", "srun", ssh_launch.__file__)
HOSTFILE_MAX = 1 << 20  # size limit of a hostfile in bytes


@dataclass(frozen=True)
class Host:
    name: str
    slots: int  # number of ranks that the host may run


@dataclass(frozen=True)
class Launch:
    """Where the ranks of a run are started. `hosts` is empty in a Slurm allocation without a hostfile: srun knows the
    hosts."""

    launcher: str
    hosts: tuple[Host, ...]
    where: str  # the hostfile or the allocation, for error messages
    node_count: int  # number of machines
    interface: str | None = None

    def check(self, experiment: Experiment, points: list[Point]) -> None:
        """Refuses points that need more ranks than the hosts have slots, before anything runs."""
        for point in points:
            if not self.is_for(point):
                continue
            needed = int(point.params["nodes"])
            have = self._room(point)
            if needed > have:
                raise BadInput(
                    f"{experiment.file}: system {point.system} needs {needed} nodes, one process each; "
                    f"{self.where} has {self._describe(point)}: name more hosts, or use --set nodes={have}"
                )

    @property
    def slots(self) -> int:
        """The number of ranks that fit on all hosts together."""
        return self.node_count if self.launcher == "srun" else sum(host.slots for host in self.hosts)

    def is_for(self, point: Point) -> bool:
        return point.params["fabric"] in ("verbs", "ofi") or (point.params["fabric"] == "shm" and bool(self.hosts))

    def command(self, point: Point, command: list[str], environment: Mapping[str, str]) -> list[str]:
        """The command line that runs `command` in as many ranks as `point` has nodes."""
        ranks = int(point.params["nodes"])
        if self.launcher == "srun":
            return self._srun(point, ranks) + command
        if self.launcher == "ssh":
            used = ",".join(f"{host.name}:{host.slots}" for host in used_hosts(self, point))
            return [ssh_launch.__file__, "--host", used, "--", *command]
        return self._mpirun(point, ranks, environment) + command

    def of_a_rank(self, point: Point) -> dict[str, str]:
        """Environment variables that tell a rank of `point` how many ranks share its machine's memory, so that it can
        check whether they all fit."""
        if not self.is_for(point):
            return {}
        ranks = int(point.params["nodes"])
        hosts = self.hosts[:1] if point.params["fabric"] == "shm" else self.hosts
        here = max((host.slots for host in _spread(hosts, ranks)), default=1)
        return {
            "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_SIZE": str(ranks),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(here),
        }

    def _room(self, point: Point) -> int:
        if point.params["fabric"] == "shm":
            return self.hosts[0].slots
        return self.slots

    def _describe(self, point: Point) -> str:
        if point.params["fabric"] == "shm":
            slots = _count(self.hosts[0].slots, "slot")
            return f"{slots} on {self.hosts[0].name}, its first host (shm is the memory of one machine)"
        if self.launcher == "srun":
            return _count(self.node_count, "host")
        return f"{_count(self.node_count, 'host')} with {_count(sum(host.slots for host in self.hosts), 'slot')}"

    def _mpirun(self, point: Point, ranks: int, environment: Mapping[str, str]) -> list[str]:
        hosts = self.hosts[:1] if point.params["fabric"] == "shm" else self.hosts
        used = _spread(hosts, ranks)
        return mpirun([(host.name, host.slots) for host in used], environment, self.interface)

    def _srun(self, point: Point, ranks: int) -> list[str]:
        machines = 1 if point.params["fabric"] == "shm" else ranks
        argv = [
            "srun",
            f"--nodes={machines}",
            f"--ntasks={ranks}",
            f"--ntasks-per-node={ranks // machines}",
            "--mpi=none",
            "--no-kill",
            "--kill-on-bad-exit=0",
            "--cpu-bind=none",
            f"--chdir={os.getcwd()}",
            "--export=ALL",
        ]
        if self.hosts:
            argv.append("--nodelist=" + ",".join(host.name for host in self.hosts[:machines]))
        return argv


def of_this_machine(point: Point) -> Launch | None:
    """For a point whose nodes are processes (`cluster.processes`): all ranks on this machine; None for other points."""
    if not point.params.get("processes"):
        return None
    return Launch("mpirun", (Host("localhost", int(point.params["nodes"])),), "this machine", 1)


def from_flags(hostfile: str | None, interface: str | None, environment: Mapping[str, str]) -> Launch | None:
    """The launch for --hostfile, --interface and a Slurm allocation; None if every point is a single process."""
    if interface is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]*(,[A-Za-z0-9._:/-]+)*", interface):
        raise BadInput(f"--interface {interface}: expected a network interface or a range, such as eth0 or 10.1.0.0/16")
    in_slurm = bool(environment.get("SLURM_JOB_ID"))
    if hostfile is not None:
        hosts = read_hosts(hostfile)
        without_slurm = "mpirun" if shutil.which("mpirun", path=environment.get("PATH")) else "ssh"
        return Launch("srun" if in_slurm else without_slurm, hosts, hostfile, len(hosts), interface)
    if in_slurm:
        count = environment.get("SLURM_JOB_NUM_NODES", environment.get("SLURM_NNODES", "1"))
        return Launch(
            "srun", (), f"the Slurm job {environment['SLURM_JOB_ID']}", int(count) if count.isdigit() else 1, interface
        )
    if interface is not None:
        raise BadInput("--interface goes with --hostfile")
    return None


def read_hosts(path: str) -> tuple[Host, ...]:
    """Reads a hostfile of Open MPI, or a list of host names. A name without slots= has one slot for each time it is
    listed."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(HOSTFILE_MAX + 1)
        if len(data) > HOSTFILE_MAX:
            raise BadInput(f"--hostfile {path}: larger than {HOSTFILE_MAX >> 20} MiB")
        lines = data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"--hostfile {path}: cannot be read ({getattr(error, 'strerror', None) or 'no UTF-8'})"
        ) from None
    slots: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        name, _, rest = text.partition(" ")
        if not is_host(name):
            raise BadInput(
                f"{path}:{number}: {name[:80]}: expected a host name, then slots=N if it may get several processes"
            )
        try:
            given = dict(slots_of(rest)).get("slots", 1)
        except ValueError as error:
            raise BadInput(f"{path}:{number}: {str(error)[:80]}: {SLOTS_WANTED}") from None
        slots[name] = slots.get(name, 0) + given
    if not slots:
        raise BadInput(f"--hostfile {path}: names no host")
    return tuple(Host(name, count) for name, count in slots.items())


def end_launcher(process: subprocess.Popen) -> None:
    """Sends SIGTERM to mpirun or srun, because only they can end their ranks in other process groups, and waits a
    little."""
    process.send_signal(signal.SIGTERM)
    until = time.monotonic() + TERM_GRACE_S
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.02)


def used_hosts(launched: Launch, point: Point) -> list[Host]:
    """The hosts on which the ranks of a point run."""
    hosts = launched.hosts[:1] if point.params["fabric"] == "shm" else launched.hosts
    return _spread(hosts, int(point.params["nodes"]))


def _spread(hosts: tuple[Host, ...], ranks: int) -> list[Host]:
    """Distributes ranks: one for each host in turn, then a second for each host that has a second slot, and so on."""
    taken = [0] * len(hosts)
    left = min(ranks, sum(host.slots for host in hosts))
    while left > 0:
        for i, host in enumerate(hosts):
            if left > 0 and taken[i] < host.slots:
                taken[i] += 1
                left -= 1
    return [Host(host.name, count) for host, count in zip(hosts, taken) if count]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
