"""The report of `loch power`: computes watts, joules, and joules per operation from samples and marks."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loch.ending import reason

from .samples import Energy, Failed, PowerError, Sample, Span, by_host, integrate


GAP_S = 1.0  # seconds without a sample that are always tolerated, because a BMC may be slow


@dataclass
class Marks:
    """The time spans of a measurement: the run, and the idle baselines before and after it (None if not requested)."""

    run: Span
    idle_before: Span | None = None
    idle_after: Span | None = None
    # whether the run is the measurement window of a result, rather than the whole time of the command
    is_window: bool = False


@dataclass
class Context:
    """Facts about the measurement that the report states: sources, sampling rate, failed readings, notes."""

    sources: list[dict[str, object]]
    rate_hz: float | None
    failures: dict[str, int] = field(default_factory=dict)
    operations: int | None = None
    notes: list[str] = field(default_factory=list)


def report(samples: list[Sample], marks: Marks, context: Context) -> dict[str, object]:
    """The report as a JSON document: one entry for each host, and sums over all hosts."""
    hosts: list[dict[str, Any]] = [_host(host, own, marks, context) for host, own in by_host(samples).items()]
    if not hosts:
        raise Failed("no sample of power was taken")
    joules = sum(float(each["joules"]) for each in hosts)
    above: list[Any] = [each["joules_above_idle"] for each in hosts]
    total_above = None if None in above else sum(above)
    out: dict[str, object] = {
        "mean": statistics.fmean(float(each["mean_w"]) for each in hosts),
        "per_node": [each["mean_w"] for each in hosts],
        "above_idle": None if total_above is None else total_above / marks.run.seconds / len(hosts),
        "joules": joules,
        "joules_above_idle": total_above,
        "operations": context.operations,
        "joules_per_operation": _per(joules, context.operations),
        "joules_above_idle_per_operation": None if total_above is None else _per(total_above, context.operations),
        "seconds": marks.run.seconds,
        "span": "window" if marks.is_window else "command",
        "source": _source(context.sources),
        "rate_hz": context.rate_hz,
        "hosts": hosts,
        "marks": _marks(marks),
        "notes": context.notes,
    }
    return out


def _source(sources: list[dict[str, object]]) -> dict[str, object]:
    return sources[0] if len(sources) == 1 else {"kind": sources[0]["kind"], "each": sources}


def _per(joules: float, operations: int | None) -> float | None:
    return joules / operations if operations else None


def _host(host: str, own: list[Sample], marks: Marks, context: Context) -> dict[str, object]:
    ran = integrate(own, marks.run)
    gap_max = max(ran.seconds / 2, GAP_S, 3 / context.rate_hz) if context.rate_hz else float("inf")
    # missing samples at the end of the run are an error; a gap between two samples is only reported
    silent_s = (marks.run.end_ns - own[-1].t_ns) / 1e9
    if silent_s > min(gap_max, ran.seconds):
        raise Failed(f"{host}: no sample in the last {silent_s:.3g} s of the run, which took {ran.seconds:.3g} s")
    idle = {
        name: integrate(own, span)
        for name, span in (("before", marks.idle_before), ("after", marks.idle_after))
        if span
    }
    idle_w = statistics.fmean(each.mean_w for each in idle.values()) if idle else None
    above = None if idle_w is None else ran.joules - idle_w * ran.seconds
    return {
        "host": host,
        "source": own[0].source,
        "mean_w": ran.mean_w,
        "idle_w": idle_w,
        "above_idle_w": None if above is None else above / ran.seconds,
        "joules": ran.joules,
        "joules_above_idle": above,
        "samples": ran.samples,
        "longest_gap_s": ran.longest_gap_s,
        "failed_readings": context.failures.get(host, 0),
        "idle_before": _idle(idle.get("before")),
        "idle_after": _idle(idle.get("after")),
    }


def _idle(energy: Energy | None) -> dict[str, object] | None:
    if energy is None:
        return None
    return {"mean_w": energy.mean_w, "seconds": energy.seconds, "samples": energy.samples}


def _marks(marks: Marks) -> dict[str, object]:
    """The spans of the measurement in ns since 1970, so that every figure can be recomputed from the raw samples."""
    spans = {"idle_before": marks.idle_before, "run": marks.run, "idle_after": marks.idle_after}
    return {name: [span.begin_ns, span.end_ns] if span else None for name, span in spans.items()}


def read_result(path: Path) -> dict[str, object]:
    """Reads a result file of `loch bench`; refuses a simulated run, whose power no machine has drawn."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Failed(f"{path}: no readable result: {reason(error)}") from None
    if not isinstance(document, dict) or document.get("schema") != 1 or not _has_what_counts(document):
        raise PowerError(f"{path}: expected the result of one point, as loch bench writes it")
    if document.get("fabric") == "sim":
        raise PowerError(f"{path}: a simulated run draws the power of no machine; its own power_w is the model's")
    return document


def _has_what_counts(document: dict) -> bool:
    """Whether a result has the operation counts and, if it has a measurement window, the window's start and end times
    that energy is computed for."""
    counts, window = document.get("operations"), document.get("window")
    if not isinstance(counts, dict) or not all(type(counts.get(key)) is int for key in ("ok", "not_found")):
        return False
    return window is None or (
        isinstance(window, dict) and all(type(window.get(key)) is int for key in ("from_unix_ns", "to_unix_ns"))
    )


def window_of(result: dict) -> Span | None:
    """The measurement window of a result in wall-clock time, or None if the result has none."""
    window = result.get("window")
    if not isinstance(window, dict):
        return None
    return Span(int(window["from_unix_ns"]), int(window["to_unix_ns"]))


def operations_of(result: dict) -> int:
    """The number of operations that completed in the measurement window of a result."""
    return int(result["operations"]["ok"]) + int(result["operations"]["not_found"])
