"""Installs missing Debian packages, by sudo if the user is not root; of some packages only a program is unpacked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from glob import escape, glob

from loch.places import BUILD
from loch.setup import current
from loch.setup.children import run_logged
from loch.setup.outcome import SetUpError, say

TO_BUILD = """
  ccache clang-19 lld-19 libclang-rt-19-dev libstdc++-12-dev libc6-dev cmake ninja-build pkg-config
  libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libxxhash-dev libisal-dev libssl-dev libgtest-dev libgmock-dev
  libbenchmark-dev libpmix-dev openmpi-bin openssh-client libhwloc-dev libibverbs-dev ibverbs-providers
  libfabric-dev
  libmemcached-dev libhiredis-dev redis-tools libevent-2.1-7
  python3 python3-pydantic python3-ruamel.yaml python3-jinja2 python3-scipy python3-matplotlib python3-rich
  python3-markdown-it""".split()
PYTHON_TESTS = ["python3-pytest", "python3-jsonschema", "python3-simpy3", "black", "flake8", "mypy", "git"]
SANITIZER = ["llvm-19"]  # has llvm-symbolizer, for names and lines in sanitizer reports
ZOO = ["valgrind"]
COVERAGE = ["llvm-19"]  # has llvm-profdata and llvm-cov
SOFTROCE = """
  python3 qemu-system-x86 busybox-static cpio kmod rdma-core ibverbs-providers ibverbs-utils
  rdmacm-utils perftest strace iproute2 openssh-client""".split()
# clang's parser for Python, which gives the positions of operators and statements; git lists the tree's files
MUTATE = ["python3-clang-19", "git"]
POWER = ["ipmitool"]
# For tests of BMC readings: ipmitool and the libraries of OpenIPMI's BMC simulator; bring_ipmi_sim fetches the
# simulator.
POWER_TESTS = ["ipmitool", "freeipmi-tools", "libopenipmi-dev", "libpopt0"]
PAGE_TESTS = ["chromium"]  # opens report.html in tests
BUDGET_TESTS = ["valgrind", "binutils", "llvm-19"]  # count instructions per operation (tests/budget)
GDB_TESTS = ["gdb"]  # shows the coroutines of a stopped program (tools/gdb)
DASK = ["python3-distributed", "python3-cryptography"]  # for running experiment points on Dask (./loch run --on dask)
# Libraries that the Slurm programs of bring_slurm need.
SLURM_TESTS = ["libhwloc15", "libnuma1", "libreadline8", "libgcrypt20", "libmunge2", "libpam0g"]
LINT = ["clang-format-19", "clang-tidy-19", "shellcheck", "git", "black", "flake8", "mypy"]


def missing(names: list[str]) -> list[str]:
    """Those of `names` that are not installed.

    Since Debian 13 and Ubuntu 24.04, libraries whose time_t became 64 bits wide have names that end in t64, which are
    looked up as well; apt-get install accepts both names.
    """
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names, *(f"{name}t64" for name in names)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    ).stdout
    installed = {line.partition(" ")[0] for line in asked.splitlines() if line.endswith(" installed")}
    return [name for name in names if not {name, f"{name}t64"} & installed]


def install(names: list[str]) -> None:
    if not shutil.which("dpkg-query"):
        if all(map(shutil.which, ("clang++-19", "cmake", "ninja"))):
            return
        raise SetUpError(f"this is no Debian: install what these packages hold: {' '.join(names)}")
    wanted = missing(names)
    if not wanted:
        return
    apt = [
        *_as_root(wanted),
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "LC_ALL=C.UTF-8",
        "apt-get",
        "-y",
        "-o",
        "DPkg::Lock::Timeout=600",
        "-o",
        "APT::Install-Recommends=false",
    ]
    log = os.path.join(BUILD, "packages.log")
    if not run_logged([[*apt, "update"], [*apt, "install", *wanted]], f"installing {len(wanted)} Debian packages", log):
        _show_errors(log)
        raise SetUpError(f"apt-get failed ({log}); still missing: {' '.join(missing(wanted))}")


def _as_root(wanted: list[str]) -> list[str]:
    """The words before a command that must run as root: sudo, or none if this process is root."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        if subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return ["sudo", "-n"]
        if os.isatty(0) and os.isatty(2):
            say(f"installing Debian packages needs root: {' '.join(wanted)}")
            if subprocess.run(["sudo", "true"], check=False).returncode:
                raise SetUpError(f"no root, so these packages are still missing: {' '.join(wanted)}")
            return ["sudo"]
    raise SetUpError(
        f"these Debian packages are missing: {' '.join(wanted)} (as root: apt-get install {' '.join(wanted)})"
    )


def _show_errors(log: str) -> None:
    with open(log, encoding="utf-8", errors="replace") as opened:
        lines = opened.read().splitlines()
    for line in [line for line in lines if re.match(r"(E|W|Err):", line)] or lines[-5:]:
        print(line, file=sys.stderr)


def ensure(stamp: str, names: list[str]) -> None:
    """Installs the missing packages of `names`. If no package has changed since the last check, only a file is read."""
    path = os.path.join(BUILD, f"packages.{stamp}")
    want = f"{os.uname().nodename} {' '.join(names)}"
    if current.packages_are_current(stamp) and current.text_of(path) == want:
        return
    install(names)
    with open(path, "w", encoding="utf-8") as written:
        written.write(want + "\n")


# ---- Programs unpacked from packages that are not installed -----------------------------------------
#
# Installing some of Debian's packages would start a service and enable it for every boot. Of these packages only the
# program is unpacked, into the build folder; the libraries that it needs are in the lists above. (Redis' server comes
# with the package redis-tools, which has no service.)
def _bring(package: str, program: str, without: str) -> None:
    folder, coming = os.path.join(BUILD, "servers"), os.path.join(BUILD, "servers.next")
    if (
        shutil.which(program)
        or glob(os.path.join(escape(folder), "usr", "*bin", program))
        or not shutil.which("apt-get")
    ):
        return
    shutil.rmtree(coming, ignore_errors=True)
    fetched = os.path.join(coming, "package")
    os.makedirs(fetched)
    os.makedirs(folder, exist_ok=True)
    log = os.path.join(BUILD, f"{package}.log")
    if _unpack(package, fetched, coming, log):
        shutil.rmtree(fetched)
        shutil.copytree(coming, folder, symlinks=True, dirs_exist_ok=True)
    else:
        say(f"{package} cannot be fetched ({log}): {without}")
    shutil.rmtree(coming, ignore_errors=True)


def _unpack(package: str, fetched: str, into: str, log: str) -> bool:
    with open(log, "wb") as said:

        def went_well(*command: str) -> bool:
            return subprocess.run(command, cwd=fetched, stdout=said, stderr=said, check=False).returncode == 0

        if not went_well("apt-get", "download", package):
            return False
        archives = glob(os.path.join(fetched, f"{package}_*.deb"))
        return bool(archives) and all(went_well("dpkg-deb", "-x", archive, into) for archive in archives)


def bring_memcached() -> None:
    _bring("memcached", "memcached", "--protocol memcached will need --memcached.binary")


def bring_ipmi_sim() -> None:
    _bring("openipmi", "ipmi_sim", "tests against a BMC are skipped")


def bring_slurm() -> None:
    for package, program in (
        ("munge", "munged"),
        ("slurmctld", "slurmctld-wlm"),
        ("slurmd", "slurmd-wlm"),
        ("slurm-client", "sbatch"),
        ("slurm-wlm-basic-plugins", "../lib/*/slurm-wlm/libslurmfull.so"),
    ):
        _bring(package, program, "tests against a Slurm are skipped")
