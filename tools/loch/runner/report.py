"""Makes report.md and manifest.json: the experiment, the machine, the outcome, and the comparison with published
numbers."""

from __future__ import annotations

import json
import re
from typing import Any

from . import auto_repeats, band_report, blocks, intervals, per_axis, power, published
from .blocks import Block, Code, Heading, Lines, Paragraph, Place, Plain, Point, Strong
from .claims import Verdict, judge_all, summary
from .execute import rerun
from .grid import choice_key, show
from .model import System
from .points import PointSource, Store
from .result import Build, Host
from .tables import Results, Row, failed_share
from .units import about

GAVE_UP_LIMIT = 0.01  # share of a point's operations that may give up before the report warns
TAIL_WARNING = (
    "Simulated percentiles above the median say little: of what delays a thread now and then, only the kernel's"
    " scheduler is modelled."
)
# a percentile above the median, or the maximum, of a latency, as fields of results are named
TAIL = re.compile(r"_us\.(?:\w+\.)?(?:p9\d(?:_9)?|max)\b")


def origin(results: Results, system: System, place: tuple[tuple[str, Any], ...] = ()) -> str:
    """Where a system's values come from: "simulated (connectx3-10gbe, seeds 1 to 3)", "measured (shm on AMD EPYC, 2
    cores)" or "measured on mlx5_0".

    With `place`, only runs at these axis values count. A transport other than the fabric's verbs is named: "simulated
    (modelled tcp over ipoib, …)", "measured (unix socket on …)".
    """
    measure = results.experiment.measure
    row = next((row for row in results.rows if row.ok and row.point.system == system.name), None)
    transport = row.result.known.transport if row else "verbs"
    if not system.is_measured:
        last = measure.seed + measure.repeats - 1
        if measure.is_auto:
            last = max((r.point.seed for r in results.rows if r.point.system == system.name), default=last)
        seeds = f"seed {measure.seed}" if last == measure.seed else f"seeds {measure.seed} to {last}"
        model = "" if transport == "verbs" else f"{transport}, "
        return f"simulated ({model}{hardware(results, system, place)}, {seeds})"
    capabilities = row.result.known.capabilities if row else None
    device = capabilities.device if capabilities is not None else None
    if device and system.params["fabric"] == "verbs" and transport == "verbs":
        return f"measured on {device}"
    host = row.stored.runner.host if row and row.stored is not None else Host()
    where = f" on {host.cpu}, {host.cores} cores" if host.cpu else ""
    return f"measured ({system.params['fabric'] if transport == 'verbs' else transport}{where})"


def label(results: Results, system: System) -> str:
    """A system's label; where its results say that its transport is not the published one, with words for that: "HERD
    over RC"."""
    rows = (row for row in results.rows if row.ok and row.point.system == system.name)
    departure = next((said for row in rows if (said := row.result.known.departure)), "")
    return system.label if not departure or departure in system.label else f"{system.label} {departure}"


def hardware(results: Results, system: System, place: tuple[tuple[str, Any], ...] = ()) -> str:
    """The hardware profile of a simulated system, or all profiles if the hardware is an axis."""
    among = [value for key, value in place if key == "hardware"] or results.experiment.axes.get("hardware")
    return ", ".join(map(str, among)) if among else str(system.params.get("hardware", "default hardware"))


def number(value: float | None) -> str:
    """A number as text: three significant digits, all digits from 100 on, a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(error: float | None) -> str:
    if error is None:
        return "–"
    return "0.0%" if abs(error) < 5e-4 else f"{error:+.1%}".replace("-", "−")


def comparison_table(comparisons: list[published.Comparison]) -> list[list[str]]:
    """The comparison as rows of text: id, what or field, system, place, published, obtained, error."""
    return [
        [
            c.cell.id,
            c.cell.field,
            c.system,
            published.place(c),
            "withheld" if c.cell.value is None else number(c.cell.value),
            number(c.obtained),
            percent(c.error),
        ]
        for c in comparisons
    ]


def comparison_head(called: str = "published") -> list[str]:
    """The head of comparison_table()."""
    return ["id", "result", "system", "at", called, "obtained", "error"]


def obtained_tables(results: Results) -> list[tuple[list[str], list[list[str]]]]:
    """Medians of the figure's fields as tables (head, rows), one for each field, so that they can be read without a
    figure."""
    figure, every = results.experiment.figure, results.experiment.axes
    axis = next((name for name in (figure.x, figure.along, *every) if name in every), "")
    together = {axis, *(name for group in results.experiment.zips if axis in group for name in group)}
    others = [name for name in every if name not in together]
    out = []
    for field in (*([figure.x] if figure.along else []), *(figure.rows or figure.y)):
        rows = []
        for system in results.experiment.systems:
            grouped: dict[tuple, dict[Any, str]] = {}
            for axes in results.axes_of(system.name):
                key = tuple((name, axes[name]) for name in others)
                failed = results.has_failures(system.name, axes)
                value = results.median(system.name, axes, field)
                grouped.setdefault(key, {})[axes.get(axis)] = number(value) + (" (x)" if failed else "")
            for key, cells in grouped.items():
                title = " ".join([label(results, system), *(f"{n}={show(n, v)}" for n, v in key)])
                rows.append([title, *(cells.get(at, "") for at in every.get(axis, [None]))])
        out.append(([field, *([show(axis, at) for at in every[axis]] if axis else ["median"])], rows))
    return out


def write_up(
    results: Results, verdicts: list[Verdict], choices: list[dict], stale: int, store: PointSource
) -> blocks.Report:
    """The report of an experiment; the same stored points give the same report."""
    experiment = results.experiment
    out: list[Block] = [Heading(1, (Plain(experiment.title),))]
    if experiment.paper:
        item = published.of(results)
        cited = f" ({item.citation})" if item else ""
        out.append(Paragraph((Plain(f"Paper item: {experiment.paper.item} of {experiment.paper.source}{cited}."),)))
    if experiment.notes:
        moved = next((text for text in experiment.overrides if text.startswith("--fabric ")), None)
        of_file: tuple[blocks.Inline, ...] = ()
        if moved:
            of_file = (Plain("Of the experiment without "), Code(moved), Plain(": "))
        out.append(Paragraph((*of_file, Lines(experiment.notes))))
    out += _caveats(results)
    out.append(_systems(results))
    out += _comparisons(results)
    if verdicts:
        out.append(Heading(2, (Plain(f"Claims: {summary(verdicts)}"),)))
        out.append(blocks.List(tuple(_verdict(each) for each in verdicts)))
    out += band_report.section(results, published.compare(results), verdicts)
    detail = len(out)
    out.append(Heading(2, (Plain("Obtained"),)))
    out.append(Paragraph((Plain(_how_many_runs(results)),)))
    out += [blocks.table(head, rows, slice(1, None)) for head, rows in obtained_tables(results)]
    if choices:
        out += [Heading(2, (Plain("Tuned"),)), _choices(choices)]
    if experiment.derive_text:
        out.append(Heading(2, (Plain("Derived"),)))
        derived = experiment.derive_text.items()
        out.append(blocks.List(tuple(Point((Code(name), Plain(" = "), Code(text))) for name, text in derived)))
    out += _failures(results)
    out += _provenance(results, stale, store)
    return blocks.Report(tuple(out), detail)


def _comparisons(results: Results) -> list[Block]:
    comparisons = published.compare(results)
    if not comparisons:
        return []
    called = published.called(results.experiment)
    head = comparison_head(called)
    # A trend (words such as "at least twice") has no relative error: a result that is far from the number in the
    # words may agree with the paper.
    errors = {len(head) - 1: [None if each.cell.kind == "T" else each.error for each in comparisons]}
    return [
        Heading(2, (Plain(f"{called.capitalize()} against obtained"),)),
        blocks.table(head, comparison_table(comparisons), slice(4, None), errors),
        Paragraph((Plain(published.score(comparisons).text() + "."),)),
    ]


def _verdict(verdict: Verdict) -> Point:
    told: list[blocks.Inline] = [
        Strong("NOT held") if verdict.held is False else Plain("held" if verdict.held else "not evaluated"),
        Plain(": "),
        Code(verdict.text),
        Plain(f": {verdict.why}" if verdict.why else f" ({verdict.places} place{'s' if verdict.places != 1 else ''})"),
    ]
    if verdict.explained and verdict.held is not True:
        told += [Plain(" ("), Place(verdict.explained), Plain(")")]
    return Point(tuple(told), verdict.held)


def caption(results: Results) -> str:
    """The figure's caption: in how many runs operations often waited for free entries or were retried, or the rate was
    not steady; then what the marks mean, with the number of repeats."""
    doubtful = len(caveats(results))
    said = (
        f"{doubtful} of {len(results.rows)} runs waited for room or were not steady (see the report). "
        if doubtful
        else ""
    )
    kind, n = results.experiment.figure.kind, _number_of_runs(results)
    if n == "1":
        return said + "One run a point (n = 1)." + _tails(results)
    if kind == "cdf":
        return said + f"n = {n} runs." + _tails(results)
    bars = f"; bars are {interval_name(results)}" if kind in ("line", "bars") else ""
    return said + f"Medians of n = {n} runs{bars}.{_two_groups(results)}{_still_wide(results)}{_tails(results)}"


def _how_many_runs(results: Results) -> str:
    n = _number_of_runs(results)
    runs = f"Medians of n = {n} runs.{_two_groups(results)}{_still_wide(results)}" if n != "1" else "One run a point."
    return runs + _tails(results)


def _tails(results: Results) -> str:
    """A warning if the figure shows percentiles above the median, or a maximum, of simulated latencies; else empty."""
    experiment = results.experiment
    shown = [*experiment.figure.y, *experiment.figure.rows, experiment.figure.x]
    of_tail = any(TAIL.search(f"{name} {experiment.derive_text.get(name, '')}") for name in shown)
    # a distribution of latencies shows its tail; one of bytes or work requests has none that is modelled or not
    of_tail |= experiment.figure.kind == "cdf" and any(name.startswith("latency_us") for name in shown)
    if not of_tail:
        return ""
    if not any(row.point.params.get("fabric") == "sim" for row in results.rows):
        return ""
    return f" {TAIL_WARNING}"


def _number_of_runs(results: Results) -> str:
    """The number of repeats of the points: "3", or "6 to 24" if it differs."""
    found = sorted(
        {
            len(results.at(system.name, axes))
            for system in results.experiment.systems
            for axes in results.axes_of(system.name)
        }
    )
    if not found:
        return str(results.experiment.measure.repeats)
    return str(found[0]) if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def bimodal_points(results: Results) -> list[tuple[str, dict[str, Any], str]]:
    """The values shown in the figure whose repeats fall into two groups far apart, so that their median says little:
    system, axis values and result field."""
    return [
        (system, axes, name) for system, axes, name, values in _shown_values(results) if intervals.is_bimodal(values)
    ]


def _shown_values(results: Results) -> list[tuple[str, dict[str, Any], str, list[float]]]:
    """System, axis values, result field and its repeats for all values that the figure shows."""
    figure = results.experiment.figure
    return [
        (system.name, axes, name, results.values(system.name, axes, name))
        for system in results.experiment.systems
        if system.is_drawn
        for axes in results.axes_of(system.name)
        for name in dict.fromkeys((*figure.y, *figure.rows))
    ]


def _named(results: Results, points: list[tuple[str, dict[str, Any]]]) -> tuple[str, str]:
    """How many different points these are, and the first three: "4 points", "CD value_size=4K, … and 1 more". Of axes
    that advance together the first is named."""
    follow = {axis for group in results.experiment.zips for axis in group[1:]}
    found = list(
        dict.fromkeys(
            " ".join([system, *(f"{k}={show(k, v)}" for k, v in axes.items() if k not in follow)])
            for system, axes in points
        )
    )
    named = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return f"{len(found)} point{'s' if len(found) > 1 else ''}", named


def _two_groups(results: Results) -> str:
    """A sentence that names the points whose repeats fall into two groups; empty if there are none."""
    found = [(system, axes) for system, axes, _ in bimodal_points(results)]
    if not found:
        return ""
    points, named = _named(results, found)
    drawn = ", drawn one by one" if results.experiment.figure.kind in ("line", "bars") else ""
    return f" The repeats of {points} fall into two groups far apart{drawn}: {named}."


def _still_wide(results: Results) -> str:
    """With `repeats: auto` a sentence that names the points whose interval is not narrow; empty if there are none."""
    if not results.experiment.measure.is_auto:
        return ""
    found = [
        (system, axes)
        for system, axes, _, values in _shown_values(results)
        if values and not auto_repeats.is_narrow(values)
    ]
    if not found:
        return ""
    points, named = _named(results, found)
    return f" The interval of {points} is wider than {auto_repeats.NARROW:.0%} of the median: {named}.".replace(
        "%", " %"
    )


def interval_name(results: Results) -> str:
    """What the error bars of a figure are, for its caption: "the 2nd least to the 2nd most of 10, a 98 % interval of
    the median"."""
    sizes = sorted({len(found) for found in repeats(results).values() if found})
    if len(sizes) > 1:
        levels = [intervals.median([float(i) for i in range(n)]).level for n in sizes]
        return f"intervals of the median of {sizes[0]} to {sizes[-1]} runs, level {min(levels):.0%} or more".replace(
            "%", " %"
        )
    n = sizes[0] if sizes else results.experiment.measure.repeats
    found = intervals.median([float(i) for i in range(n)])
    rank = int(found.low) + 1
    ends = "least to most" if rank == 1 else f"the {_ordinal(rank)} least to the {_ordinal(rank)} most"
    return f"{ends} of {n}, a {found.level:.0%} interval of the median".replace("%", " %")


def _ordinal(number: int) -> str:
    return f"{number}{'nd' if number == 2 else 'rd' if number == 3 else 'th'}"


def repeats(results: Results) -> dict[tuple, list[Row]]:
    """The repeats with a result of each point, by system and axis values (choice_key())."""
    out: dict[tuple, list[Row]] = {}
    for row in results.rows:
        out.setdefault(choice_key(row.point.system, row.point.axes), []).extend([row] if row.ok else [])
    return out


def _systems(results: Results) -> blocks.Table:
    rows = []
    for system in results.experiment.systems:
        keys = sorted(
            {
                row.point.params["keys"]
                for row in results.rows
                if row.point.system == system.name and "keys" in row.point.params
            }
        )
        data = ""
        if system.data_per_node and keys:
            span = f"{keys[0]:,}" if len(keys) == 1 else f"{keys[0]:,} to {keys[-1]:,}"
            sizes = [f"{each / 2**30:g}" for each in per_axis.among(system.data_per_node)]
            data = f"{' or '.join(sizes)} GiB a node × {system.scale:g} = {span} keys"
        elif keys:
            data = f"{keys[-1]:,} keys"
        rest = {k: show(k, v) for k, v in system.params.items() if k not in ("protocol", "fabric", "hardware", "keys")}
        watts = results.experiment.measure.power
        if watts is not None and system.is_measured:
            rest["power"] = power.text(watts)
        rows.append(
            [
                label(results, system),
                str(system.params["protocol"]),
                origin(results, system),
                data,
                ", ".join(f"{k} {v}" for k, v in rest.items()),
            ]
        )
    return blocks.table(["system", "protocol", "simulated or measured", "data", "options"], rows, slice(0))


def _choices(choices: list[dict]) -> blocks.Table:
    rows = [
        [
            c["system"],
            " ".join(f"{k}={show(k, v)}" for k, v in c["axes"].items()),
            " ".join(f"{k}={v}" for k, v in c["chosen"].items()),
            c["goal"],
            number(c["value"]),
            str(c["tried"]),
        ]
        for c in choices
    ]
    return blocks.table(["system", "at", "chosen", "goal", "value", "tried"], rows, slice(4, None))


def caveats(results: Results) -> list[tuple[Row, list[str]]]:
    """The points whose throughput is not that of the design in a steady state, with the reasons that their results
    give."""
    return [(row, said) for row in results.rows if row.ok and (said := row.result.known.caveats)]


def _caveats(results: Results) -> list[Block]:
    found = caveats(results)
    if not found:
        return []
    points = [Point((Plain(f"{row.point.title()}: {'; '.join(said)}"),)) for row, said in found[:10]]
    rest = [Point((Plain(f"and {len(found) - 10} more"),))] if len(found) > 10 else []
    return [Paragraph((Strong(f"In what follows {not_steady(results)}:"),)), blocks.List((*points, *rest))]


def not_steady(results: Results) -> str:
    """A warning on throughputs that were limited by waiting or changed within the measured time; empty if there are
    none."""
    found = caveats(results)
    return (
        f"the rates of {len(found)} of {len(results.rows)} points are not the designs' own in a steady state"
        if found
        else ""
    )


def _failures(results: Results) -> list[Block]:
    failed = [row for row in results.rows if row.stored is not None and row.stored.failed]
    missing = sum(row.stored is None for row in results.rows)
    out: list[Block] = []
    if failed:
        out.append(Heading(2, (Plain(f"Failed points: {len(failed)} of {len(results.rows)}"),)))
        told = (Point((Plain(_failed(row)),), more=(Plain("rerun: "), Code(rerun(row.point)))) for row in failed)
        out.append(blocks.List(tuple(told)))
    if missing:
        out.append(Paragraph((Plain(f"{missing} points have not run."),)))
    return out


def failure_text(row: Row) -> str:
    """The failure of a point: reason, last line of output, and the command that runs it again."""
    return f"{_failed(row)}\n  rerun: `{rerun(row.point)}`"


def _failed(row: Row) -> str:
    if row.failure is None:
        return f"{row.point.title()}: it has not run"
    tail = row.failure.stderr_tail.splitlines()
    return f"{row.point.title()}: {row.failure.reason}" + (f": {tail[-1]}" if tail else "")


def _provenance(results: Results, stale: int, store: PointSource) -> list[Block]:
    heading = Heading(2, (Plain("Provenance"),))
    if not isinstance(store, Store):
        kept = "These are reference results: report.md beside this page says which program made them, and where."
        return [heading, Paragraph((Plain(kept),))]
    stored = [row.stored for row in results.rows if row.stored is not None]
    took = sum(float(each.runner.elapsed_s or 0) for each in stored)
    builds = [each.result.known.loch for each in stored if each.result is not None]
    versions = sorted({_version(build) for build in builds if build is not None})
    binaries = sorted({str(each.runner.stamp.get("binary", "") if each.runner.stamp else "")[:12] for each in stored})
    hosts = sorted({_host(each.runner.host) for each in stored})
    others = [each.runner.others_cpu_share for each in stored if each.runner.others_cpu_share is not None]
    changed = results.experiment.overrides
    lines: list[blocks.Inline] = [
        Plain(f"Loch {', '.join(versions) or 'unknown'}; binary sha256 {', '.join(binaries)}"),
        Plain(f"Ran on {'; '.join(hosts)}"),
        Plain(f"The points took {about(took)} in all"),
        Plain(f"Experiment file {results.experiment.file}{', with ' if changed else ''}{' '.join(changed)}"),
    ]
    gave_up = many_gave_up(results)
    if gave_up:
        lines.append(Strong(gave_up))
    if others:
        lines.append(Plain(f"CPU used by others while measuring: at most {max(others):.1%}"))
    if stale:
        lines.append(Strong(f"{stale} points come from another binary than the present one (--keep-stale)"))
    return [heading, blocks.List(tuple(Point((each,)) for each in lines), is_tight=True)]


def many_gave_up(results: Results) -> str:
    """A warning if more than GAVE_UP_LIMIT of the operations of some point gave up; else empty."""
    bad = [(failed_share(row), row) for row in results.rows if row.ok and failed_share(row) > GAVE_UP_LIMIT]
    if not bad:
        return ""
    share, row = max(bad, key=lambda pair: pair[0])
    return (
        f"over {GAVE_UP_LIMIT:.0%} of the operations gave up in {len(bad)} points "
        f"(most: {share:.0%}, {row.point.title()}); their latencies are of the others alone"
    )


def _version(build: Build) -> str:
    dirty = ", with uncommitted changes" if build.dirty else ""
    return f"{build.version or '?'} (commit {(build.commit or '?')[:12]}{dirty})"


def _host(host: Host) -> str:
    return (
        f"{host.cpu or '?'}, {host.cores or '?'} cores, Linux {host.kernel or '?'}, "
        f"governor {host.governor or 'unknown'}"
    )


def manifest(results: Results, verdicts: list[Verdict], choices: list[dict], stale: int = 0) -> str:
    """The text of manifest.json: everything that `loch plot` and `loch score` need besides the points."""
    experiment = results.experiment
    points = [
        {
            "point": row.hash,
            "system": row.point.system,
            "axes": row.point.axes,
            "repeat": row.point.repeat,
            "status": "ok" if row.ok else "failed" if row.stored else "missing",
            "elapsed_s": row.stored.runner.elapsed_s if row.stored else None,
            "stamp": row.stored.runner.stamp if row.stored else None,
        }
        for row in results.rows
    ]
    document = {
        "schema": 1,
        "name": experiment.name,
        "title": experiment.title,
        "file": experiment.file,
        "overrides": experiment.overrides,
        "experiment": experiment.document,
        "tuned": choices,
        "claims": [
            {"claim": v.text, "held": v.held, "why": v.why, "places": v.places, "ids": v.ids, "explained": v.explained}
            for v in verdicts
        ],
        "errors": [
            [experiment.paper.source, c.cell.id, c.error]
            for c in published.compare(results)
            if c.counts and experiment.paper is not None and experiment.paper.score
        ],
        **({"stale": stale} if stale else {}),
        "commit": commit_of(results),
        "points": points,
    }
    return json.dumps(document, indent=1, default=str) + "\n"


def commit_of(results: Results) -> str:
    """The commit of the program that ran the points, 12 letters, "mixed" for several; empty if nothing says it."""
    builds = [build for row in results.rows if row.ok and (build := row.result.known.loch) is not None]
    found = {str(build.commit or "")[:12] + ("+" if build.dirty else "") for build in builds} - {"", "+"}
    return results.commit if not found else found.pop() if len(found) == 1 else "mixed"


def source_line(results: Results) -> str:
    """Which paper and figure a picture reproduces, how many claims held, and the commit."""
    paper = results.experiment.paper
    if paper is None:
        return ""
    verdicts = [each for each in judge_all(results) if each.held is not None]
    parts = [f"{paper.source.replace('-', ' ').capitalize()}, {paper.item}"]
    if verdicts:
        parts.append(f"{sum(each.held is True for each in verdicts)} of {len(verdicts)} claims held")
    if (commit := commit_of(results)) != "":
        parts.append(f"commit {commit}")
    return "; ".join(parts) + "."


def choices_by_key(choices: list[dict]) -> dict[tuple, dict[str, Any]]:
    """The tuned parameters by system and axis values (choice_key()), as grid.points() takes them."""
    return {choice_key(c["system"], c["axes"]): c["chosen"] for c in choices}
