"""The look of all figures: fonts, sizes, and a colour, marker and line style for each design, the same in every
figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib

from loch.runner.drawing import Series

matplotlib.use("Agg")

COLUMN_IN = 3.4  # width of a figure that spans one column of a two-column page, in inches
PAGE_IN = 7.0  # width of a figure that spans both columns, in inches
MEASURED_GROUND = "#f1f1ee"  # background of panels with measured series; panels of simulated series are white
MARK = "#b03000"  # colour of what a reader must not miss, such as a conclusion that the results contradict

# Okabe and Ito's colours, which colour-blind readers can tell apart, also when printed in grey.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#4d4d4d"  # a dark grey: to red-green blind readers a middle grey looks like GREEN and PURPLE

RC: dict[str, Any] = {
    "text.parse_math": False,  # draw a dollar sign in a title as it is, instead of as TeX
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "loch",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 7,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#d9d9d9",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "hatch.linewidth": 0.5,
}


@dataclass(frozen=True)
class Look:
    color: str
    marker: str
    line: str | tuple[Any, ...]
    # True: the hardened variant of a published design, in the design's colour with dashed lines and hatched bars
    hardened: bool = False


# The look of each design (protocol), the same in every figure.
LOOKS = {
    "nessie": Look(BLUE, "o", "-"),
    "nessie-sd": Look(VERMILION, "s", "--"),
    "nessie-hy": Look(GREEN, "^", "-."),
    "pilaf": Look(ORANGE, "D", "-"),
    "pilaf-vo": Look(ORANGE, "d", ":"),
    "herd": Look(PURPLE, "v", "-"),
    "race": Look(SKY, "d", "-"),
    "farm-em": Look(SKY, "P", "--"),
    "farm-em-var": Look(GREY, "X", ":"),
    "drtm-em": Look(BLACK, "*", "-."),
    "seq-rpc": Look(PURPLE, "<", "--"),
    "seq-spec": Look(BLUE, ">", ":"),
    "seq-atomic": Look(BLACK, "p", "--"),
    "memcached": Look(GREY, "h", "--"),
    "redis": Look(BLACK, ">", ":"),
    "micro-verbs": Look(BLUE, "o", ":"),
    "micro-echo": Look(VERMILION, "s", ":"),
    "micro-atomic": Look(BLACK, "p", ":"),
    "micro-cuckoo": Look(GREEN, "^", "-"),
}
# The looks of the second and further systems of one design in a figure (its variants).
SPARE = [
    Look(ORANGE, "D", "--"),
    Look(GREEN, "^", ":"),
    Look(PURPLE, "v", "-."),
    Look(SKY, "P", "-"),
    Look(VERMILION, "s", ":"),
    Look(BLACK, "X", "--"),
    Look(GREY, "h", "-"),
    Look(YELLOW, "*", "-"),
]
DASHED, DOTTED = (0, (3, 2)), (0, (1, 1.2))
LINES: list[str | tuple[Any, ...]] = ["-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3))]


def looks(series: list[Series]) -> dict[str, Look]:
    """The look of each series of a figure, by name.

    The simulated and the measured series of one design have the same look: they are never in the same panel.
    """
    out: dict[str, Look] = {}
    used: dict[bool, set[str]] = {True: set(), False: set()}
    own = {LOOKS[each.protocol].color for each in series if each.is_drawn and each.protocol in LOOKS}
    # spare looks in a colour that no design of this figure has are used first
    spare = iter((sorted(SPARE, key=lambda look: look.color in own)) * 4)
    for system in sorted(series, key=lambda each: not each.is_drawn):
        if system.hardened_of:
            continue
        taken = used[system.is_measured]
        if system.protocol in LOOKS and system.protocol not in taken:
            out[system.name] = LOOKS[system.protocol]
        else:
            out[system.name] = next(spare)
        taken.add(system.protocol)
    for system in series:
        if system.hardened_of:
            base = out.get(system.hardened_of, SPARE[0])
            out[system.name] = Look(base.color, base.marker, DASHED if base.line == "-" else DOTTED, hardened=True)
    return out


# The looks of published values that are lines across a panel: first, second and third one of a figure.
LEVELS: list[dict[str, Any]] = [
    {"color": "#333333", "linewidth": 0.9, "linestyle": each} for each in ((0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)))
]

# Kinds of published numbers, and what the caption says of their marks; of ratios series.ratio_note() says more.
KINDS = {
    "published": "Hollow marks: published values.",
    "derived": "Small grey-filled marks: derived from published values.",
    "bound": "Triangles: published bounds.",
    "calibrated": "Crosses: calibrated on, no prediction.",
}


def mark_of(kind: str, look: Look) -> dict[str, Any]:
    """The arguments of a plot of published numbers of one kind."""
    plain: dict[str, Any] = {"linestyle": "none", "markeredgecolor": look.color, "markerfacecolor": "none"}
    if kind == "derived":
        return {**plain, "marker": look.marker, "markersize": 5.5, "markeredgewidth": 0.6, "markerfacecolor": "#dddddd"}
    if kind == "bound":
        return {**plain, "marker": "^", "markersize": 7.5, "markeredgewidth": 0.9}
    if kind == "ratio":
        return {**plain, "marker": "_", "markersize": 11, "markeredgewidth": 1.6}
    if kind == "calibrated":
        return {**plain, "marker": "x", "markersize": 6, "markeredgewidth": 1.0}
    return {**plain, "marker": look.marker, "markersize": 7.5, "markeredgewidth": 0.9}


def explain(kinds: set[str]) -> str:
    """The caption's sentences on the marks of published numbers that a figure has."""
    return " ".join(said for kind, said in KINDS.items() if kind in kinds)
