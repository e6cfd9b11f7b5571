"""An experiment in checked form, as schema.py makes it from YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .expression import Claim
from .options import Option
from .per_axis import PerAxis

POWER_SOURCES = ("ipmi", "rapl", "replay")
FIGURE_KINDS = ("line", "bars", "table", "cdf", "curve", "map", "timeline")
PUTS = "puts"
X_AS = (PUTS,)  # what `x_as:` of a figure takes: the axis get shown as the percentage of PUTs
# With `repeats: auto`: the fewest repeats of a point (with fewer than 6 no interval of the median has a confidence
# level of 95 %), and the most, however wide the interval still is.
AUTO_LEAST, AUTO_MOST = 6, 24
AUTO = "auto"  # in place of a number in `repeats:`
REPEATS = Option("count", 1, 1000)  # what `repeats:` takes
PRELOADS = Option("count", 1, 1000)  # what `preloads:` takes
SYSTEMS = "systems"  # in place of an axis in `figure:`, stands for the list of systems


@dataclass(frozen=True)
class Paper:
    """The published figure or table that the experiment reproduces."""

    source: str
    item: str
    score: bool = True  # whether `loch score` counts the published numbers for this experiment


@dataclass(frozen=True)
class Power:
    """The flags of `loch power` for measured points (`measure: {power: …}`).

    Every value is a single checked argument, and none is a command.
    """

    source: str  # one of POWER_SOURCES: where watts are read
    # with source ipmi: the BMCs' names or addresses; {host} stands for the name of each host of the point
    bmc: tuple[str, ...] = ()
    port: int | None = None  # with source ipmi: the UDP port of every BMC
    user: str = ""  # with source ipmi: the user of the BMC
    sensor: str = ""  # with source ipmi: the sensor to read instead of the DCMI power reading
    trace: str = ""  # with source replay: the file of recorded samples
    rate_hz: float | None = None  # samples a second; None: the default of `loch power`
    idle_ns: int = 0  # ns for which the idle machine's power is sampled before the point, and again after it


@dataclass(frozen=True)
class Measure:
    repeats: int = 3  # runs of each point; with is_auto, the fewest
    is_auto: bool = False  # whether points are repeated until their medians are known well (auto_repeats.py)
    seed: int = 1  # random seed of the first repeat; each further repeat adds 1
    # how many preloaded clusters the simulated repeats of a point share; None: each repeat has its own
    preloads: int | None = None
    # wall-clock seconds that a point may take; None: a default that depends on the fabric
    timeout_s: float | None = None
    power: Power | None = None  # how power is read during measured points; None: power is not read
    tune_duration: int | None = None  # length of a tuning run in ns; None: a quarter of the system's duration
    # axis -> value at which the system is tuned; the choice is used at all values of that axis
    tune_at: dict[str, Any] = field(default_factory=dict)

    @property
    def most_repeats(self) -> int:
        """The largest number of repeats that a point can get."""
        return AUTO_MOST if self.is_auto else self.repeats


@dataclass
class System:
    """One system of the experiment: a series of its figure.

    `params` has options of loch bench by canonical name, in bytes and nanoseconds; a value may depend on the axes
    (PerAxis).
    """

    name: str
    label: str
    published: str  # name of the published series to compare with
    params: dict[str, Any]
    data_per_node: int | PerAxis | None = None  # bytes of values on each node, before `scale`; gives the number of keys
    scale: float = 1.0
    # option -> list of values to try, or an expression over other options
    tune: dict[str, Any] = field(default_factory=dict)
    goal: str = ""  # the result field that tuning maximizes or minimizes
    maximize: bool = True
    where: str = ""  # file:line of the system, for later error messages
    hardened_of: str = ""  # name of the system of which this is the hardened variant, drawn dashed in the same colour
    is_drawn: bool = True  # false: the system is used only by claims and published numbers, and is not drawn
    # axis -> the only values of the axis at which this system runs
    only: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        """Whether the system runs in real time on a real machine, rather than in the simulator."""
        return self.params.get("fabric") != "sim"


@dataclass(frozen=True)
class Figure:
    kind: str
    x: str = ""  # an axis (default: the first), a result field (for curve), or SYSTEMS (for bars)
    y: tuple[str, ...] = ()  # result fields; each has a panel, unless `together`
    together: str = ""  # for line: the label of the y axis of one panel that shows all fields; "": a panel for each
    along: str = ""  # for curve: the axis along which points are joined
    down: str = ""  # for map: the axis of the rows
    across: str = ""  # for table: SYSTEMS, if the columns are the systems
    panels: str = ""  # axis of the small multiples: each of its values has a panel
    panel_labels: dict[Any, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()  # for table: result fields; each system has a row for each field
    published: bool = True  # whether the paper's values are drawn next to the obtained ones
    source: bool = True  # whether a line below the caption names paper, verdict and commit
    ratio: bool = True  # whether a panel shows the ratio obtained / published
    log: bool | None = None  # whether the y axis is logarithmic; None: decided by the field
    x_log: bool | None = None  # whether the x axis is logarithmic; None: decided by the axis
    x_as: str = ""  # one of X_AS, if the x axis does not show its values as they are
    tail: bool | None = (
        None  # for cdf: whether the share above is shown, which has the tail; None: decided by the field
    )
    y_max: float | None = None  # upper end of the y axis, in the unit of the result field
    relative_to: str = ""  # for line: name of a system by whose median at the same axis values the others are divided
    width: str = "one"  # "one" column of a paper (3.4 in) or "two" (7 in)
    note: str = ""  # text to print below the figure


@dataclass(frozen=True)
class ClaimText:
    text: str
    claim: Claim
    explained: str = ""  # section docs/fidelity.md#anchor that explains why the claim does not hold
    ids: tuple[str, ...] = ()  # ids of the published values and sentences that the claim is about


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
    derive: dict[str, Any]  # name of a derived field -> expression tree over result fields
    derive_text: dict[str, str]
    overrides: list[str]  # the changes that --set and --fabric made, as given
    document: dict[str, Any]  # the experiment file after overrides, without line numbers

    def system(self, name: str) -> System:
        return next(each for each in self.systems if each.name == name)
