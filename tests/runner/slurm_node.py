"""A Slurm cluster of one node, or of several on this machine, for a test: with its own munged, slurmctld and a slurmd a node
in a folder and on free ports.

The programs are from Debian's packages, either installed or unpacked into the build folder, as ./loch test does,
because installing the packages would start services and enable them for every boot.
"""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmstepd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
READY_S = 60.0

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmSchedLogFile={folder}/sched.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000
SwitchType=switch/none
ReturnToService=2
KillWait=2
MinJobAge=300
MaxArraySize=1001
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN\n"


def missing():
    """Why a Slurm cannot be started on this machine; empty if it can."""
    return "" if all(map(_found, PROGRAMS)) and _plugins() else "no Slurm and no munge here"


def _prefixes():
    """Folders that may contain the programs: unpacked by ./loch test, or installed."""
    build = Path(os.environ.get("LOCH_BUILD", ROOT / "build"))
    return (build.absolute() / "servers" / "usr", Path("/usr"))


def _found(program):
    """The path of a Slurm program; Debian names the daemons slurmd-wlm and slurmctld-wlm."""
    places = (
        prefix / folder / name
        for prefix in _prefixes()
        for folder in ("bin", "sbin")
        for name in (program, f"{program}-wlm")
    )
    return next((place for place in places if place.is_file()), None)


def _plugins():
    """The folder with Slurm's plugins and library."""
    return next(
        (path.parent for prefix in _prefixes() for path in prefix.glob("lib/*/slurm-wlm/libslurmfull.so")), None
    )


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class SlurmNode:
    """A context manager that starts the cluster; `environment` lets sbatch and the other commands find it."""

    def __init__(self, cpus=2, names=("only",)):
        self.cpus = cpus
        self.names = names
        self.folder = Path(tempfile.mkdtemp(prefix="slurm."))
        self.processes = {}
        library = _plugins()
        path = f"{_found('sbatch').parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
        self.environment = {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": path,
            "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
        }
        self._configure(library)

    def _configure(self, library):
        for name in ("state", *(f"spool-{name}" for name in self.names)):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(64))
        host = socket.gethostname().split(".")[0]
        values = {
            "host": host,
            "controller_port": _free_port(),
            "user": getpass.getuser(),
            "folder": self.folder,
            "plugins": library,
        }
        nodes = [NODE.format(name=name, host=host, port=_free_port(), cpus=self.cpus) for name in self.names]
        configuration = CONFIGURATION.format(**values)
        at = configuration.index("PartitionName")
        text = configuration[:at] + "".join(nodes) + configuration[at:]
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")

    def __enter__(self):
        try:
            self._start(
                "munged",
                "--foreground",
                "--force",
                "--num-threads=1",
                f"--socket={self.folder}/munge.socket",
                f"--key-file={self.folder}/munge.key",
                f"--pid-file={self.folder}/munge.pid",
                f"--log-file={self.folder}/munge.log",
                f"--seed-file={self.folder}/munge.seed",
            )
            self._wait(lambda: (self.folder / "munge.socket").exists(), "munged")
            self._start("slurmctld", "-D", "-c", "-f", self.environment["SLURM_CONF"])
            for name in self.names:
                self.start_node(name)
            self._wait(
                lambda: self.said("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(self.names), "a node"
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(list(self.processes.values())):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_node(self, name="only"):
        """Starts a node's slurmd, for the first time or after it was stopped."""
        argv = ["-D", "-N", name, "-f", self.environment["SLURM_CONF"], "-d", str(_found("slurmstepd"))]
        self._start("slurmd", *argv, key="slurmd" if name == "only" else f"slurmd {name}")

    def said(self, program, *argv):
        """The output of a Slurm command."""
        return subprocess.run(
            [_found(program), *argv],
            env={**os.environ, **self.environment},
            text=True,
            capture_output=True,
            check=False,
            timeout=30,
        ).stdout

    def _start(self, program, *argv, key=None):
        with open(self.folder / f"{program}.out", "ab") as out:
            self.processes[key or program] = subprocess.Popen(
                [_found(program), *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.environment},
            )

    def _wait(self, is_there, what):
        deadline = time.monotonic() + READY_S
        while not is_there():
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                told = "\n".join(
                    f"{path.name}:\n{path.read_text(errors='replace')[-3000:]}"
                    for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out"))
                )
                raise RuntimeError(f"{what} is not ready ({', '.join(dead) or 'too late'})\n{told}")
            time.sleep(0.1)
