"""Names and units of result fields and of experiments' axes, in the words that figures show."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KINDS = {"get": "GET", "put": "PUT", "delete": "DELETE", "all": "all"}
_PER_KIND = re.compile(r"(.+) per (get|put|delete)")
_PERCENTILES = {
    "p50": "median",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "p99_9": "99.9th percentile",
    "mean": "mean",
    "max": "maximum",
    "min": "minimum",
}
_PLAIN = {
    "gb_sent": "sent (GB)",
    "gb_sent_all": "sent by all (GB)",
    "network_gbit_s": "network throughput (Gb/s)",
    "probes_mean": "slots probed, mean",
    "probes_max": "slots probed, most",
    "extent_conflicts_percent": "conflicts in extents (% of attempts)",
    "entry_conflicts_percent": "conflicts in entries (% of attempts)",
    "power_w.mean": "power a node (W)",
    "cpu.busy_fraction": "CPU busy (share)",
    "alloc_us": "time of an ALLOC (µs)",
    "bytes_to_nic": "bytes on the bus a transfer",
    "request_region_mib": "request region (MiB)",
    "cpu.client_busy": "CPU busy, clients (share)",
    "cpu.server_busy": "CPU busy, servers (share)",
}
_RATES = {
    "requests_s": "requests",
    "work_requests_s": "work requests",
    "misses_s": "PCIe reads",
    "bus_limit_s": "limit of the bus",
}
_COUNTS = {
    "total": "work requests",
    "read": "READs",
    "write": "WRITEs",
    "cas": "CASes",
    "faa": "FAAs",
    "send": "SENDs",
    "recv": "RECVs",
    "index_read": "index READs",
    "index_cas": "index CASes",
    "cache_hits": "cache hits",
    "payload_bytes": "payload bytes",
    "local_accesses": "local accesses",
}
_AXES = {
    "micro-cuckoo.fill": "share of slots that are filled",
    "value_size": "value size (bytes)",
    "key_size": "key size (bytes)",
    "get": "share of GETs",
    "nodes": "nodes",
    "servers": "server cores",
    "clients": "client workers a node",
    "hogs": "background CPU workers a machine",
    "window": "outstanding operations a worker",
    "zipf_theta": "Zipf θ",
    "rate": "offered load (operations/s)",
    "share_of_max": "load (share of each system's own maximum)",
    "micro-verbs.round": "window N",
    "micro-atomic.counters": "counters Z",
    "think": "computation before each operation",
    "race.chunk-blocks": "blocks in a chunk",
    "nessie.filter-bits": "filter bits",
    "locality": "share of accesses to the node's own keys",
}


@dataclass(frozen=True)
class Words:
    """The text of an axis label, and the factor that converts values to the label's unit."""

    label: str
    factor: float = 1.0

    @property
    def unit(self) -> str:
        """The unit in the label's brackets; empty without one."""
        return self.label.partition(" (")[2].rstrip(")")


def of(field: str, largest: float = 0.0) -> Words:
    """The label of a result field; `largest`, the largest value drawn, decides its unit (kops/s or Mops/s, bytes or
    KB)."""
    parts = field.split(".")
    if parts[0] == "latency_us":
        kind = _KINDS.get(parts[1], parts[1]) if len(parts) > 1 else "all"
        kind = "" if kind == "all" else kind + " "
        which = f", {_PERCENTILES.get(parts[2], parts[2])}" if len(parts) > 2 else ""
        return Words(f"{kind}latency{which} (µs)")
    if field == "throughput_ops_s":
        return Words("throughput (Mops/s)", 1e-6) if largest >= 1e6 else Words("throughput (kops/s)", 1e-3)
    if field in _RATES:
        return Words(f"{_RATES[field]} (M/s)", 1e-6)
    if field.endswith("bytes_s"):
        return Words(f"{parts[0].split('_')[0]} (GB/s)", 1e-9)
    if field in _PLAIN:
        return Words(_PLAIN[field])
    per = next(
        (part for part in parts if part.startswith(("per_", "payload_per_")) and part.split("_")[-1] in _KINDS), None
    )
    if per and parts[0] in ("verbs", "wire_bytes"):
        kind = _KINDS[per.split("_")[-1]]
        what = "payload bytes" if per.startswith("payload") else "wire bytes"
        if parts[-1] == "payload_bytes" and largest >= 4096:
            return Words(f"payload per {kind} (KB)", 1 / 1024)
        return Words(f"{_COUNTS.get(parts[-1], parts[-1]) if parts[0] == 'verbs' else what} per {kind}")
    plain = field.replace("_", " ").replace(".", ", ")
    of_kind = _PER_KIND.fullmatch(plain)
    return Words(f"{of_kind[1]} per {_KINDS[of_kind[2]]}" if of_kind else plain)


def unscaled(field: str) -> str:
    """The label of a result field whose values are shown in the result file's unit."""
    plain = {"throughput_ops_s": "throughput (ops/s)", "goodput_bytes_s": "goodput (B/s)"}
    if field in _RATES:
        return f"{_RATES[field]} (/s)"
    found = of(field)
    return plain.get(field, found.label if found.factor == 1.0 else field.replace("_", " "))


def is_less_better(field: str) -> bool:
    """Whether the least value of several systems is the best one."""
    return field.startswith(("latency_us.", "gb_sent"))


def value(axis_name: str, at: object) -> str:
    """What the tick of an axis value says where that is not the value itself; else empty. A load below one per cent
    stands for an idle machine."""
    if axis_name == "share_of_max" and isinstance(at, float):
        return "idle" if at < 0.01 else f"{100 * at:g} %"
    return ""


def axis(name: str, shown_as: str = "") -> str:
    """The label of an experiment's axis, such as "value size (bytes)" for value_size; `shown_as`: the figure's `x_as:`,
    for the x axis."""
    return "PUTs (%)" if shown_as else _AXES.get(name, name.replace("_", " "))
