"""Figures of runs over time: one column for each system, throughput above, unwritable keys below, failures as lines."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from loch.runner.drawing import Drawing, Event, Run

from . import style, words
from .frame import HEADING_PT, foot, legend, legend_size, text_in, title
from .series import Group, groups, label_of, origins

THROUGHPUT_IN, UNWRITABLE_IN, LABELS_IN, AROUND_IN = 0.95, 0.5, 0.5, 0.62
CLOSE = 0.025  # events closer than this share of the measured time are drawn as one line with one label
LABEL_PT = 5.5
# Names of events in the result file: failures, and repairs by the surviving nodes.
FAILURES, REPAIRS = ("kill", "crash", "cut", "pause", "nic_stall", "one_way", "lossy", "no_buffers"), (
    "fence",
    "scrub",
    "declare",
)
FAILURE_LINE, REPAIR_LINE, RETURN_LINE = ("#b03000", "-"), ("#0b5d8a", (0, (4, 2))), ("#00694b", (0, (1, 1.2)))
ENDS = "_end"  # suffix of the event that ends a repair with a duration: scrub, then scrub_end
NAMES = {"declare": "declared lost", "restart": "back", "rejoin": "rejoins"}


@dataclass
class Shown:
    """One system at one combination of axis values: its repeats that have a time series, and the reasons of failed
    runs."""

    label: str
    color: str
    runs: list[Run]
    failures: list[str]


def shown(drawing: Drawing, group: Group) -> list[Shown]:
    """The columns of a group of series; a system whose run failed keeps its column."""
    looks = style.looks(drawing.series)
    return [
        Shown(label_of(drawing, series, point.place), looks[series.name].color, point.runs, point.failures)
        for series in group.series
        for point in series.points
    ]


def draw(drawing: Drawing):
    """Draws the figure: one block of columns for simulated runs, and one for measured runs."""
    blocks = [(group, columns) for group in groups(drawing) if (columns := shown(drawing, group))]
    width = style.PAGE_IN if drawing.figure.width == "two" else style.COLUMN_IN
    handles = _handles([column for _, columns in blocks for column in columns])
    legend_columns, legend_in = legend_size(handles, width)
    height = THROUGHPUT_IN + UNWRITABLE_IN + LABELS_IN + AROUND_IN
    page = plt.figure(figsize=(width, len(blocks) * height + legend_in + 0.85), layout="constrained")
    page.get_layout_engine().set(w_pad=0.02, h_pad=0.02, hspace=0.02, wspace=0.03)
    parts = page.subfigures(1 + len(blocks), 1, height_ratios=[max(legend_in, 0.01), *([height] * len(blocks))])
    above = parts[0].add_subplot()
    above.set_axis_off()
    legend(above, handles, legend_columns)
    for part, (group, columns) in zip(parts[1:], blocks):
        _block(part, group, columns)
    title(page, drawing)
    share = {keys for _, columns in blocks for each in columns for run in each.runs if (keys := run.probed_keys)}
    probed = (
        f" a prober writes ({' or '.join(str(int(n)) for n in sorted(share))} keys, once a bin)"
        if share
        else " a prober writes"
    )
    foot(
        page,
        drawing,
        f"Unwritable: of the keys that{probed}, those of which no PUT ended well in the bin, and one failed or "
        "was under way throughout.",
    )
    return page


def _handles(columns: list[Shown]) -> list:
    handles: list = [
        Line2D([], [], color="black", label="completed operations"),
        Line2D([], [], color="#888888", linewidth=0.8, label="failed operations"),
        Patch(facecolor="#bbbbbb", label="unwritable keys"),
    ]
    seen = {event.event.removesuffix(ENDS) for each in columns for run in each.runs for event in run.events}
    for (color, dashes), name, is_here in (
        (FAILURE_LINE, "failure", seen & set(FAILURES)),
        (REPAIR_LINE, "repair", seen & set(REPAIRS)),
        (RETURN_LINE, "return", seen - set(FAILURES) - set(REPAIRS)),
    ):
        if is_here and name == "repair":
            handles.append(Patch(facecolor=color, alpha=0.1, label="repair under way"))
        if is_here:
            handles.append(Line2D([], [], color=color, linestyle=dashes, linewidth=0.9, label=name))
    return handles


def _block(part, group: Group, columns: list[Shown]) -> None:
    """Draws the columns of the simulated or of the measured runs; panels of the same row have the same y range."""
    part.suptitle(
        textwrap.fill("; ".join(origins(group, ())), 150),
        fontsize=HEADING_PT,
        style="italic",
        x=0.01,
        ha="left",
    )
    axes = part.subplots(
        2, len(columns), sharex="col", sharey="row", squeeze=False, height_ratios=[THROUGHPUT_IN, UNWRITABLE_IN]
    )
    bins = [each for column in columns for run in column.runs for each in run.bins]
    scale = words.of("throughput_ops_s", max((each.ops_s for each in bins), default=0.0))
    above = _above(columns)
    for i, each in enumerate(columns):
        upper, lower = axes[0][i], axes[1][i]
        for panel in (upper, lower):
            panel.set_facecolor(style.MEASURED_GROUND if group.is_measured else "white")
        for run in each.runs:
            _run(upper, lower, run, each.color, scale.factor)
        if each.runs:
            end = max(run.duration_s for run in each.runs)
            upper.set_xlim(0, end)
            _events(upper, lower, each.runs[0].events, end)
        _failures(upper, each)
        upper.set_title(each.label, fontsize=7.5, pad=above)
        lower.set_xlabel("time (s)")
        lower.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    axes[0][0].set_ylabel(scale.label.replace("throughput (", "throughput\n("))
    axes[1][0].set_ylabel("unwritable\nkeys (%)")
    axes[0][0].set_ylim(0, _top(each.ops_s * scale.factor for each in bins))
    axes[1][0].set_ylim(0, _top(share for each in columns for run in each.runs for _, share in unwritable(run)))
    part.align_ylabels(list(axes[:, 0]))


def _above(columns: list[Shown]) -> float:
    """The space between a panel and its title for the rotated names of events, in points."""
    names = [
        ", ".join(labels)
        for each in columns
        for run in each.runs[:1]
        for _, labels, _ in marks(run.events, run.duration_s)
    ]
    return 72 * max((text_in(name, LABEL_PT) for name in names), default=0.0) + 6


def _top(values) -> float:
    return 1.08 * max(values, default=0.0) or 1.0


def unwritable(run: Run) -> list[tuple[float, float]]:
    """(start of the bin in s, percent of the probed keys that could not be written), for each bin of the time series in
    which keys were probed."""
    return [
        (each.t_s, 100.0 * each.unwritable_keys / run.probed_keys)
        for each in run.bins
        if run.probed_keys and each.unwritable_keys is not None
    ]


def _run(upper, lower, run: Run, color: str, factor: float) -> None:
    end = run.duration_s
    times = [each.t_s for each in run.bins] + [end]

    def steps(values: list[float]) -> list[float]:
        # repeats the last value, so that the last bin's step reaches the end of the measured time
        return [*values, values[-1]]

    for field, values, look in (
        ("failed_s", [each.failed_s for each in run.bins], {"color": "#888888", "linewidth": 0.7}),
        ("ops_s", [each.ops_s for each in run.bins], {"color": color, "linewidth": 1.0}),
    ):
        upper.plot(
            times,
            steps([value * factor for value in values]),
            drawstyle="steps-post",
            gid=field,
            **look,
        )
    if series := unwritable(run):
        at = [t for t, _ in series] + [end]
        lower.fill_between(at, steps([share for _, share in series]), step="post", color=color, alpha=0.35, linewidth=0)
        lower.plot(
            at,
            steps([share for _, share in series]),
            drawstyle="steps-post",
            color=color,
            linewidth=0.9,
            gid="unwritable",
        )
    else:
        lower.text(0.5, 0.5, "not probed", transform=lower.transAxes, ha="center", va="center", fontsize=LABEL_PT)


def marks(events: list[Event], end: float) -> list[tuple[float, list[str], tuple]]:
    """(time in s, labels, line style) of the events within the measured time; close events of one kind share a mark."""
    out: list[tuple[float, list[str], tuple]] = []
    for event in events:
        at, name = float(event.t_s), event.event
        if not 0 <= at <= end or name.endswith(ENDS):
            continue
        line = FAILURE_LINE if name in FAILURES else REPAIR_LINE if name in REPAIRS else RETURN_LINE
        label = NAMES.get(name, name.replace("_", " "))
        if out and out[-1][2] == line and at - out[-1][0] <= CLOSE * end:
            if label not in out[-1][1]:
                out[-1][1].append(label)
            continue
        out.append((at, [label], line))
    return out


def spans(events: list[Event], end: float) -> list[tuple[float, float]]:
    """(start, end) in s of each repair, cut to the measured time; a repair without an end event lasts until `end`."""
    begun: dict[tuple[str, Any], float] = {}
    out = []
    for event in events:
        name, node, at = event.event, event.node, float(event.t_s)
        if name in REPAIRS and name != "fence":
            begun.setdefault((name, node), at)
        elif name.endswith(ENDS) and (name.removesuffix(ENDS), node) in begun:
            out.append((begun.pop((name.removesuffix(ENDS), node)), at))
    out += [(at, end) for at in begun.values()]
    return [(max(0.0, a), min(b, end)) for a, b in out if a < end and b > 0]


def _events(upper, lower, events: list[Event], end: float) -> None:
    """Draws each event as a line through both panels with its name above; names that would overlap are moved to the
    right."""
    for a, b in spans(events, end):
        for panel in (upper, lower):
            panel.axvspan(a, b, color=REPAIR_LINE[0], alpha=0.1, linewidth=0, zorder=0, gid="repair")
    room = 0.085 * end
    last = -room
    for at, labels, (color, dashes) in marks(events, end):
        for panel in (upper, lower):
            panel.axvline(at, color=color, linestyle=dashes, linewidth=0.8, zorder=3, gid="event")
        place = min(max(at, last + room), end)
        last = place
        upper.annotate(
            ", ".join(labels),
            (at, 1.0),
            (place, 1.03),
            xycoords=upper.get_xaxis_transform(),
            textcoords=upper.get_xaxis_transform(),
            rotation=90,
            fontsize=LABEL_PT,
            color=color,
            ha="center",
            va="bottom",
            annotation_clip=False,
        )


def _failures(axes, each: Shown) -> None:
    """Marks a failed run in its panel with an x, and writes the reason beside it."""
    if not each.failures:
        return
    axes.plot([0.06], [0.1], marker="x", color=each.color, transform=axes.transAxes, linestyle="none", gid="failed")
    axes.text(
        0.12,
        0.1,
        textwrap.shorten(each.failures[0], 40, placeholder=" …"),
        transform=axes.transAxes,
        fontsize=LABEL_PT,
        va="center",
    )
