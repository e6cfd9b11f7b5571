"""The bands (intervals of results when hardware constants are drawn at random, `loch run --samples`) as text: for the
terminal, and as a section of report.md and report.html."""

from __future__ import annotations

from typing import Any

from . import blocks, claims, published
from .bands import Band, Bands, is_inside, other_window, window as window_of
from .blocks import Block, Code, Heading, Paragraph, Plain
from .tables import Results

SHOWN = 8  # a table lists at most this many of the hardware constants with most influence on the results


def inside(bands: Bands, comparisons: list[published.Comparison]) -> tuple[int, int]:
    """How many published numbers lie within the interval (band) of the sampled results, and how many have one; numbers
    to which the simulator was calibrated are left out."""
    found = [
        is_inside(band, each.cell.value)
        for each in comparisons
        if each.cell.value is not None and not each.cell.calibration and (band := bands.of_number(each))
    ]
    return sum(found), len(found)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def span(band: Band) -> str:
    return f"{number(band.low)} to {number(band.high)}"


def decided(band: Band) -> str:
    """The constants that decide a result most, with rank correlations: "pcie.read +0.61 (Sobol 0.42), nic.pipeline
    −0.40"."""
    out = []
    for each in band.decided:
        text = f"{each['factor']} " + f"{each['correlation']:+.2f}".replace("-", "−")
        out.append(text + (f" (Sobol {each['first']:.2f})" if each.get("first") is not None else ""))
    return ", ".join(out) if out else "none stands out"


def number_rows(bands: Bands, comparisons: list[published.Comparison]) -> list[list[str]]:
    """A row for each published number: id, field, published value, obtained value (measured for as long as the band, if
    that is stored), interval of the sampled results (band), whether the published value is in it, and which constants
    decide the result."""
    rows = []
    for each in comparisons:
        band = bands.of_number(each)
        if band is None:
            continue
        value = each.cell.value
        where = " ".join(filter(None, [each.system if not each.cell.is_single else "", published.place(each)]))
        rows.append(
            [
                each.cell.id,
                f"{each.cell.field} {where}".strip(),
                "withheld" if value is None else number(value),
                _obtained(band, each),
                span(band),
                "" if value is None else "in" if is_inside(band, value) else "out",
                decided(band),
            ]
        )
    return rows


def _obtained(band: Band, comparison: published.Comparison) -> str:
    value = band.base if band.base is not None else comparison.obtained
    return "–" if value is None else number(value)


def title(bands: Bands, window: str) -> str:
    """What a band is called; `window`: how long its draws were measured, if the results beside it were not."""
    return f"{bands.name}, each measured for {window}" if window else bands.name


def head(bands: Bands, window: str) -> list[str]:
    same = f"obtained in {window}" if window and any(band.base is not None for band in bands.published.values()) else ""
    return ["id", "what", "published", same or "obtained", title(bands, window), "", "decided by (rank correlation)"]


def _of_other_window(results: Results, window: str) -> str:
    has_base = results.bands is not None and any(band.base is not None for band in results.bands.published.values())
    beside = (
        "and so are the obtained values beside them here" if has_base else "the obtained values beside them are not"
    )
    return (
        f"The draws were measured for {window} each, {beside}; figure and other tables are of points of "
        f"{window_of(results.experiment) or 'several lengths'}."
    )


def sentence(bands: Bands, comparisons: list[published.Comparison]) -> str:
    held, of = inside(bands, comparisons)
    failed = f"; {bands.failed} drawn points failed" if bands.failed else ""
    return (
        f"{bands.samples} draws of {len(bands.factors)} constants and readings (Latin hypercube, seed {bands.seed}), band: "
        f"{bands.name}; {held} of {of} published numbers in it{failed}"
    )


def claim_rows(bands: Bands, verdicts: list[claims.Verdict]) -> list[list[str]]:
    """A row for each claim (a paper's conclusion): in how many draws of the constants it holds, their share, the
    verdict."""
    rows = []
    for verdict in verdicts:
        held, of = bands.claims.get(verdict.text, (0, 0))
        if of:
            rows.append([verdict.text, f"{held} of {of}", f"{held / of:.0%}".replace("%", " %"), standing(held, of)])
    return rows


def standing(held: int, of: int) -> str:
    """A claim's verdict over all draws of the constants: "held" or "not held" if at least 95 % agree, else
    "undecided"."""
    share = held / of
    return "held" if share >= 0.95 else "not held" if share <= 0.05 else "undecided"


def section(results: Results, comparisons: list[published.Comparison], verdicts: list[claims.Verdict]) -> list[Block]:
    """The report's section on the sampled results; empty without --samples."""
    bands = results.bands
    if bands is None:
        return []
    out: list[Block] = [Heading(2, (Plain("Bands"),)), Paragraph((Plain(sentence(bands, comparisons) + "."),))]
    rows = number_rows(bands, comparisons)
    if window := other_window(results):
        out.append(Paragraph((Plain(_of_other_window(results, window)),)))
    if rows:
        out.append(blocks.table(head(bands, other_window(results)), rows, slice(2, 4)))
    if bands.deciding:
        table = [[name, str(count), f"{mean:.2f}"] for name, count, mean in bands.deciding[:SHOWN]]
        out.append(Paragraph((Plain("Constants and readings that decide most points of the figure:"),)))
        out.append(blocks.table(["", "strongest at", "mean |correlation| there"], table, slice(1, None)))
    said = claim_rows(bands, verdicts)
    if said:
        out.append(blocks.table(["claim", "draws in which it holds", "share", ""], said, slice(1, 3)))
    named: list[Any] = []
    for factor in bands.factors:
        named += [Plain(", ") if named else Plain("Drawn: "), Code(factor["name"])]
    out.append(
        Paragraph(
            (
                *named,
                Plain(
                    "; ranges and sources are in the hardware profiles and plots/published (readings.yaml, assumptions.yaml)."
                ),
            )
        )
    )
    return out


def lines(results: Results, comparisons: list[published.Comparison], verdicts: list[claims.Verdict]) -> list[str]:
    """The intervals of the sampled results (bands) as lines for the terminal; empty without --samples."""
    bands = results.bands
    if bands is None:
        return []
    out = [sentence(bands, comparisons)]
    for row in number_rows(bands, comparisons):
        out.append(f"  {row[0]:<6} {row[2]:>10}  {row[4]:<22} {row[5]:<4} {row[6]}")
    for name, count, mean in bands.deciding[:SHOWN]:
        out.append(f"  {name} decides {count} points (mean |rank correlation| {mean:.2f})")
    for text, held, share, said in claim_rows(bands, verdicts):
        out.append(f"  claim {said}: holds in {held} draws ({share}): {text}")
    return out
