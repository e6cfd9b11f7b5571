"""The checked form of an experiment's YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .expression import Claim
from .per_axis import PerAxis

POWER_SOURCES = ("ipmi", "rapl", "replay")
FIGURE_KINDS = ("line", "bars", "table", "cdf", "curve", "map", "timeline")
SYSTEMS = "systems"  # the name that stands for the systems where a figure wants an axis


@dataclass(frozen=True)
class Paper:
    """The published figure or table that the experiment is about."""

    source: str
    item: str
    score: bool = True  # whether `loch score` takes its numbers from this experiment


@dataclass(frozen=True)
class Power:
    """Where the watts of measured points are read (`measure: {power: …}`): what `loch power` is told, value by value. Nothing
    of it is a command; each value is one argument, checked for what it is."""

    source: str  # POWER_SOURCES
    bmc: tuple[str, ...] = ()  # ipmi: names or addresses; {host} stands for the name of each of the point's hosts
    port: int | None = None  # ipmi: the UDP port of every BMC
    user: str = ""  # ipmi
    sensor: str = ""  # ipmi: in the place of the DCMI reading
    trace: str = ""  # replay: the file
    rate_hz: float | None = None  # samples a second; None: as `loch power` has it
    idle_ns: int = 0  # of the baseline before a point, and of that after it


@dataclass(frozen=True)
class Measure:
    repeats: int = 3
    seed: int = 1  # of the first repeat; the next has seed + 1
    timeout_s: float | None = None  # real seconds a point may take; None: by fabric
    power: Power | None = None  # around measured points (power.py)
    tune_duration: int | None = None  # ns; None: a quarter of the system's duration
    tune_at: dict[str, Any] = field(default_factory=dict)  # axis -> value: tuned there, and kept at its others


@dataclass
class System:
    """One series. `params` are canonical bench options: bytes, nanoseconds, numbers, text; or one such value for each place."""

    name: str
    label: str
    published: str  # the published series that it is compared with
    params: dict[str, Any]
    data_per_node: int | PerAxis | None = None  # bytes of values, before scale
    scale: float = 1.0
    tune: dict[str, Any] = field(default_factory=dict)  # option -> list of values, or an expression tree
    goal: str = ""  # the result field that tuning maximizes or minimizes
    maximize: bool = True
    where: str = ""  # file:line, for errors found later
    hardened_of: str = ""  # the system whose hardened variant this is: its colour, dashed
    is_drawn: bool = True  # false: claims and published numbers alone need it
    only: dict[str, list[Any]] = field(default_factory=dict)  # axis -> the values that it runs at

    @property
    def is_measured(self) -> bool:
        """Real time on a real machine, as opposed to simulated."""
        return self.params.get("fabric") != "sim"


@dataclass(frozen=True)
class Figure:
    kind: str
    x: str = ""  # an axis, the first one by default; a result field (curve); SYSTEMS (bars)
    y: tuple[str, ...] = ()  # result fields, one panel each
    along: str = ""  # curve: the axis along which points are joined
    down: str = ""  # map: the axis of its rows
    across: str = ""  # table: SYSTEMS as columns, axes as rows
    panels: str = ""  # an axis: one panel for each of its values
    panel_labels: dict[Any, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()  # result fields, one row a system each (table)
    published: bool = True  # draw the paper's values beside ours
    ratio: bool = True  # with a panel of obtained / published
    log: bool | None = None  # y axis; None: by the field
    x_log: bool | None = None  # x axis; None: by the axis
    y_max: float | None = None  # in the unit of the field
    relative_to: str = ""  # line: a system; the others are drawn over its median at the same place
    width: str = "one"  # one column (3.4 in) or two (7 in)
    note: str = ""  # a note that is printed under the figure


@dataclass(frozen=True)
class ClaimText:
    text: str
    claim: Claim
    explained: str = ""  # docs/fidelity.md#anchor, where it is explained if it does not hold
    ids: tuple[str, ...] = ()  # the published values and sentences that it is about


@dataclass
class Experiment:
    file: str
    name: str
    title: str
    paper: Paper | None
    notes: str
    systems: list[System]
    axes: dict[str, list[Any]]
    zips: list[list[str]]
    excludes: list[dict[str, list[Any]]]
    measure: Measure
    figure: Figure
    claims: list[ClaimText]
    derive: dict[str, Any]  # name -> expression tree over result fields
    derive_text: dict[str, str]
    overrides: list[str]  # --set and --fabric, as given
    document: dict[str, Any]  # the YAML after overrides, plain

    def system(self, name: str) -> System:
        return next(each for each in self.systems if each.name == name)
