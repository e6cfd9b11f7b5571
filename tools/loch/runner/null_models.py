"""Two null models, against which a simulator has to show what it adds.

interpolation: a published number on an axis from its published neighbours alone, log-log; it models no hardware.
bandwidth:     a closed loop of clients whose operations take round trips of 2 us (3 us on ConnectX-2) and share the links;
               no NIC, no bus, no processor. The protocol's messages and their bytes are given to it."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

from . import expression, published
from .grid import choice_key
from .model import Experiment
from .published import Cell, Comparison, PublishedItem
from .tables import Results, Row

# Result fields that the bandwidth model predicts.
ANSWERED = ("throughput_ops_s", "goodput_bytes_s", "latency_us.all.mean", "latency_us.get.mean", "latency_us.put.mean")
# Further result fields that the bandwidth model needs of every simulated point.
NEEDED = (
    "wire_bytes.total",
    "operations.total",
    "operations.get",
    *(f"verbs.per_{kind}.{verb}" for kind in ("get", "put") for verb in ("read", "write", "send", "cas", "faa")),
)
GBITS_S = {
    "connectx3-10gbe": 10.0,
    "connectx3-56g-ib": 54.5,
    "connectx2-20g-ib": 16.0,
    "connectx-20g-ib": 16.0,
    "connect-ib-2x56g": 109.1,
    "susitna": 40.0,
}
ROUND_TRIP_S = {"connectx2-20g-ib": 3e-6}


def interpolated(item: PublishedItem, cell: Cell) -> float | None:
    """A number on an axis from the nearest published ones below and above it in the same series; None at the ends."""
    if cell.is_single or not isinstance(cell.at, (int, float)) or isinstance(cell.at, bool) or cell.at <= 0:
        return None
    others = sorted(
        (float(each.at), float(each.value))
        for each in item.cells
        if (each.field, each.series, each.axis, each.where) == (cell.field, cell.series, cell.axis, cell.where)
        and each.id != cell.id
        and each.value
        and isinstance(each.at, (int, float))
        and each.at > 0
        and each.value > 0
    )
    below = [pair for pair in others if pair[0] < cell.at]
    above = [pair for pair in others if pair[0] > cell.at]
    if not below or not above:
        return None
    (x0, y0), (x1, y1) = below[-1], above[0]
    share = (math.log(cell.at) - math.log(x0)) / (math.log(x1) - math.log(x0))
    return math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0)))


def bandwidth(results: Results) -> list[Comparison]:
    """The bandwidth model's predictions beside an experiment's published numbers, as far as it can predict them."""
    out = copy.copy(results)
    out.rows = [replace(row, fields={**row.fields, **_answers(row)}) if row.ok else row for row in results.rows]
    out._by_place = {}
    for row in out.rows:
        out._by_place.setdefault(choice_key(row.point.system, row.point.axes), []).append(row)
    return [each for each in published.compare(out) if each.obtained is not None and _is_answered(results, each)]


def _is_answered(results: Results, comparison: Comparison) -> bool:
    cell = comparison.cell
    if not cell.is_single:
        fields = [cell.field]
        systems = [comparison.system]
    else:
        paths = [name.path.partition(".") for name in expression.names(cell.obtained)]
        systems, fields = [path[0] for path in paths], [path[2] for path in paths]
    known = {row.point.system for row in results.rows if row.ok and _answers(row)}
    return all(each in ANSWERED for each in fields) and set(systems) <= known


def _answers(row: Row) -> dict[str, float]:
    """The fields that the model gives for one point; empty where it does not apply (open loops, modelled TCP)."""
    params, fields = row.point.params, row.fields
    gbits = GBITS_S.get(str(params.get("hardware", "connectx3-10gbe")))
    total, sent = fields.get("operations.total"), fields.get("wire_bytes.total")
    if not gbits or params.get("rate") or not total or not sent or fields.get("transport", "verbs") != "verbs":
        return {}
    trip = ROUND_TRIP_S.get(str(params.get("hardware")), 2e-6)
    gets = float(fields.get("operations.get") or 0) / total
    alone = {kind: max(0.5, _trips(fields, kind)) * trip for kind in ("get", "put")}
    unloaded = gets * alone["get"] + (1 - gets) * alone["put"]
    nodes, servers = int(params["nodes"]), int(params.get("server_nodes") or 0)
    under_way = (nodes - servers) * int(params.get("clients", 1)) * int(params.get("window", 1))
    # In a symmetric cluster every node's link sends data; with servers apart from the clients, data flows over each
    # server's link in both directions, so it counts twice.
    links = gbits / 8 * 1e9 * (2 * servers if servers else nodes)
    rate = min(links * total / sent, under_way / unloaded)
    waiting = under_way / rate - unloaded
    return {
        "throughput_ops_s": rate,
        "goodput_bytes_s": rate * float(params.get("value_size", 0)),
        "latency_us.all.mean": (unloaded + waiting) * 1e6,
        "latency_us.get.mean": (alone["get"] + waiting) * 1e6,
        "latency_us.put.mean": (alone["put"] + waiting) * 1e6,
    }


def _trips(fields: dict[str, Any], kind: str) -> float:
    """Round trips of an operation: one for each READ and atomic, half of one for each WRITE and SEND."""

    def count(verb: str) -> float:
        return float(fields.get(f"verbs.per_{kind}.{verb}") or 0)

    return count("read") + count("cas") + count("faa") + 0.5 * (count("write") + count("send"))


def columns(experiment: Experiment) -> set[str]:
    """The result fields that reference results keep for the bandwidth model."""
    return set(NEEDED) if experiment.paper is not None and experiment.paper.score else set()
