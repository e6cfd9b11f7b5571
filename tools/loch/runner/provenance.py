"""Facts on this machine that affect a measurement: CPU, frequency governor, load by other processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def cpu_model() -> str:
    """The processor's name from /proc/cpuinfo."""
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            return value.strip()
    return os.uname().machine


def host() -> dict[str, Any]:
    """Facts on this machine that do not change during a run."""
    return {
        "name": os.uname().nodename,
        "kernel": os.uname().release,
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt": _read("/sys/devices/system/cpu/smt/active"),
        "autogroup": _read("/proc/sys/kernel/sched_autogroup_enabled"),
        "transparent_huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
    }


def busy_seconds() -> float:
    """CPU seconds that all cores of this machine have worked since it started."""
    fields = [float(each) for each in (_read("/proc/stat") or "cpu 0").splitlines()[0].split()[1:9]]
    fields += [0.0] * (8 - len(fields))
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class OthersMeter:
    """Measures the share of all CPU time that processes other than the runner's used between creation and share()."""

    def __init__(self, now: float) -> None:
        self._began, self._busy, self._own = now, busy_seconds(), _own_seconds()

    def share(self, now: float, child_cpu_s: float) -> float:
        """The share from 0 to 1; `child_cpu_s`: CPU seconds of the measured process, which do not count."""
        elapsed = max(1e-3, now - self._began) * (os.cpu_count() or 1)
        others = busy_seconds() - self._busy - (_own_seconds() - self._own) - child_cpu_s
        return min(1.0, max(0.0, others / elapsed))


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system
