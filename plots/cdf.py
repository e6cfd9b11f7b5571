"""Distributions: latency as a CCDF (the tail is the point), counts and bytes per operation as a CDF."""

from __future__ import annotations

from matplotlib.ticker import MaxNLocator

from runner.grid import show
from runner.tables import Results

from . import frame, stats, style, words
from .frame import Panel
from .series import groups

_PERCENTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def _node(document: dict, field: str) -> object:
    node: object = document
    for part in field.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def distribution(document: dict, field: str) -> tuple[list[tuple[float, float]], float] | None:
    """[(value, share at or below)…] and the samples behind it, from a result.

    The field is a list of [value, share] (verbs.per_get.cdf.read), or a latency (latency_us.get): its histogram of
    [upper bound, count], or else its percentiles.
    """
    node = _node(document, field)
    if isinstance(node, list):
        return ([(float(value), float(share)) for value, share in node], _samples(document, field)) if node else None
    if not isinstance(node, dict):
        return None
    count = float(node.get("count") or 0)
    buckets = node.get("histogram")
    if isinstance(buckets, list) and buckets:
        total, running, out = sum(n for _, n in buckets), 0, []
        for value, n in buckets:
            running += n
            out.append((float(value), running / total))
        return out, float(total)
    known = [(float(node[key]), share) for key, share in _PERCENTILES.items() if key in node]
    return (known, count) if len(known) > 1 and count else None


def _samples(document: dict, field: str) -> float:
    """How many operations a distribution under verbs.per_KIND counts; they weigh it when repeats are merged."""
    kind = next((part[4:] for part in field.split(".") if part.startswith("per_")), "total")
    return float(document.get("operations", {}).get(kind) or 1)


def is_exact(document: dict, field: str) -> bool:
    """Whether the result holds the whole distribution rather than percentiles."""
    node = _node(document, field)
    return isinstance(node, list) or (isinstance(node, dict) and isinstance(node.get("histogram"), list))


def draw(results: Results):
    """The figure: one panel a field and kind of series."""
    figure = results.experiment.figure
    found = [Panel(group, y, [], False) for group in groups(results) for y in figure.y]
    by_column = figure.width == "two" and len(found) > 1
    columns = [[panel] for panel in found] if by_column else [found]
    page = frame.page(results, columns)
    exact = True
    for panel in found:
        exact &= _panel(results, panel)
    frame.align(page, columns)
    frame.foot(page, results, "Distributions of all repeats merged." if exact
               else "Lines through stored percentiles, one line a repeat (percentiles are never averaged).")
    return page


def _panel(results: Results, panel: Panel) -> bool:
    looks = style.looks(results.experiment.systems)
    is_tail = panel.y.startswith("latency")
    exact = True
    for system in panel.group.systems:
        for i, axes in enumerate(results.axes_of(system.name)):
            look = looks[system.name]
            line = look.line if len(results.axes_of(system.name)) == 1 else style.LINES[i % len(style.LINES)]
            label = " ".join([system.label, *(f"{k}={show(k, v)}" for k, v in axes.items())])
            documents = [row.stored.document for row in results.at(system.name, axes) if row.ok]
            parts = [part for document in documents if (part := distribution(document, panel.y))]
            whole = all(is_exact(document, panel.y) for document in documents)
            exact &= whole
            if whole and parts:
                parts = [(stats.merge_cdfs(parts), 1.0)]
            for cdf, _ in parts:
                _curve(panel.axes, cdf, is_tail, whole, color=look.color, linestyle=line, label=label)
                label = "_again"
            if results.has_failures(system.name, axes) and not parts:
                panel.axes.plot([], [], marker="x", color=look.color, linestyle="none", label=f"{label}: failed", gid="failed")
    if is_tail:
        panel.axes.set_yscale("log")
        panel.axes.set_xscale("log")
        frame.plain_log_ticks(panel.axes.xaxis, *panel.axes.get_xlim())
        frame.plain_log_ticks(panel.axes.yaxis)
        panel.axes.set_ylabel("share above")
    else:
        panel.axes.set_ylim(0, 1.03)
        panel.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.axes.set_ylabel("share at or below")
    panel.axes.set_xlabel(words.of(panel.y).label)
    if panel.axes.get_legend_handles_labels()[0]:
        panel.axes.legend(loc="best")
    return exact


def _curve(axes, cdf: list[tuple[float, float]], is_tail: bool, whole: bool, **look) -> None:
    if is_tail:
        points = [(value, 1 - share) for value, share in cdf if share < 1 - 1e-12]
    else:
        points = [(cdf[0][0], 0.0), *cdf]
    axes.plot([x for x, _ in points], [y for _, y in points], drawstyle="steps-post" if whole else "default",
              marker="" if whole else ".", **look)
