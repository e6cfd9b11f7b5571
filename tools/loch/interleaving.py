"""Draws the interleavings of work requests by which `loch explore` shows the holes of a protocol, as sequence diagrams."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path

from loch import places
from loch.ending import CommandError, one_line

SCENARIOS = Path(places.SOURCE) / "tests/explore/scenarios.txt"
LANE_GAP, ROW, LEFT, HEAD = 300, 21, 40, 96
LETTERS = 7  # width of a letter of the text below the diagram, in pixels, at most
MOVE = re.compile(r" *\d+\. client (?P<who>\w+): (?P<what>.*)")
REQUEST = re.compile(
    r"(?P<verb>[A-Z]+) (?P<region>\S+) of node (?P<node>\d+) at (?P<at>\d+), (?P<of>[^:;]*): (?P<outcome>.*)"
)


def style(more: str = "") -> str:
    """The look of sequence diagrams, `more` lines of it between those of the arrows and of the points."""
    return f"""<style>
text {{ font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 11px; fill: #222; }}
.title {{ font-size: 13px; font-weight: bold; }}
.lane {{ text-anchor: middle; font-weight: bold; }}
.time {{ text-anchor: end; fill: #666; }}
.what {{ text-anchor: middle; font-size: 10px; }}
.said {{ font-style: italic; font-size: 10px; }}
.lane-line {{ stroke: #aaa; stroke-dasharray: 2 3; }}
.go {{ stroke: #1f5fa8; stroke-width: 1.4; }}
.back {{ stroke: #888; stroke-width: 1.2; stroke-dasharray: 5 3; }}
{more}circle {{ fill: #b3541e; }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="3" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>"""


STYLE = style(".bad { fill: #b3261e; font-weight: bold; }\n.change { stroke: #b3541e; stroke-width: 1.8; }\n")


@dataclass(frozen=True)
class Hole:
    """A hole of a protocol and the scenario that shows it: `name` as on the protocol's page, `words` of loch explore."""

    name: str
    text: str
    words: list[str]

    def file(self, protocol: str) -> str:
        return f"{protocol}-{self.name.lower()}.svg"


@dataclass(frozen=True)
class Row:
    """A row of the diagram: a request of a client to a node's memory, or (without `node`) what a client does itself."""

    number: int
    client: str
    text: str
    node: str = ""
    kind: str = ""


def holes_of(protocol: str, scenarios: Path = SCENARIOS) -> list[Hole]:
    """The holes of the protocol: the scenarios that a line `# hole NAME: TEXT` stands before."""
    if not scenarios.is_file():
        raise CommandError(f"{scenarios}: no such file; --holes needs the source tree")
    lines = scenarios.read_text(encoding="utf-8").splitlines()
    found = []
    for line, after in zip(lines, lines[1:]):
        named = re.fullmatch(r"# hole ([\w-]+): (.*)", line)
        words = shlex.split(after) if named else []
        if named and words[1:3] == ["found", protocol]:
            found.append(Hole(named[1], named[2], words[2:]))
    return found


def explored(words: list[str], program: str) -> dict[str, object]:
    """What `loch explore` writes about a scenario, which has to show a violation."""
    with tempfile.TemporaryDirectory(prefix="loch-interleaving-") as folder:
        done = subprocess.run(
            [program, "explore", *words, "--json", f"{folder}/found.json"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={"LOCH_HOME": places.SOURCE, **os.environ},
        )
        if done.returncode == 1:
            found: dict[str, object] = json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))
            return found
    error = CommandError(one_line(done.stderr.strip()) or f"nothing found: loch explore {shlex.join(words)}")
    error.status = 2 if done.returncode == 2 else 1
    raise error


def shorter(words: str) -> str:
    """The words of a CAS without the zeros that they begin with."""
    return re.sub(r"\b0+(?=[0-9a-f])", "", words).replace("->", "→")


def rows_of(trace: list[str], protocol: str) -> list[Row]:
    rows = []
    for number, line in enumerate(trace, 1):
        moved = MOVE.fullmatch(line)
        if moved is None:  # a move of nobody's, such as of all clocks
            rows.append(Row(number, "", re.sub(r"^ *\d+\. ", "", line)))
            continue
        client = f"client {moved['who']}"
        request = REQUEST.fullmatch(moved["what"])
        if request is None:
            rows.append(Row(number, client, re.sub(r"^begins (.*)", r"\1 begins", moved["what"])))
            continue
        outcome, *later = request["outcome"].split("; ")
        region = request["region"].removeprefix(f"{protocol}.")
        of = shorter(request["of"]).replace(" bytes", " B")
        text = f"{request['verb']} {region} {request['at']}: {of}"
        changes = outcome in ("swapped", "executed") and request["verb"] != "READ"
        kind = "change" if changes else "go" if outcome == "executed" else "back"
        if outcome.startswith("executed, "):  # and not heard of: too long for the arrow
            later = [outcome, *later]
        elif outcome not in ("swapped", "executed"):
            text += f" — {shorter(outcome)}"
        rows.append(Row(number, client, text, f"node {request['node']}", kind))
        rows += [Row(number, client, each) for each in later]
    return rows


def draw_row(row: Row, lanes: dict[str, int], y: int) -> list[str]:
    lines = [f'<text x="{LEFT - 12}" y="{y + 4}" class="time">{row.number}</text>']
    x = lanes.get(row.client, LEFT + 20)
    if not row.node:
        is_left = x != max(lanes.values())
        place, anchor = (x + 9, "start") if is_left else (x - 9, "end")
        return [
            *lines,
            f'<circle cx="{x}" cy="{y}" r="3"/>',
            f'<text x="{place}" y="{y + 4}" class="said" text-anchor="{anchor}">{escape(row.text)}</text>',
        ]
    end = lanes[row.node]
    tip = end - 5 if end > x else end + 5
    near = x + LANE_GAP // 2 if end > x else x - LANE_GAP // 2
    return [
        *lines,
        f'<line x1="{x}" y1="{y}" x2="{tip}" y2="{y}" class="{row.kind}" marker-end="url(#tip)"/>',
        f'<text x="{near}" y="{y - 4}" class="what">{escape(row.text)}</text>',
    ]


def svg(hole: Hole, found: dict[str, object], protocol: str) -> str:
    """The diagram of what `explored()` has found."""
    trace, reasons, rerun = found["trace"], found["reasons"], found["rerun"]
    assert isinstance(trace, list) and isinstance(reasons, list) and isinstance(rerun, str)
    rows = rows_of(trace, protocol)
    clients = sorted({row.client for row in rows if row.client})
    nodes = sorted({row.node for row in rows if row.node})
    names = [*clients[:1], *nodes, *clients[1:]]
    lanes = {name: LEFT + 60 + LANE_GAP * at for at, name in enumerate(names)}
    bottom = HEAD + ROW * len(rows)
    width = max(LEFT + 60 + LANE_GAP * (len(names) - 1) + 80, 700)
    lines = [f'<text x="16" y="28" class="title">{escape(f"{protocol}, {hole.name}: {hole.text}")}</text>']
    for name, x in lanes.items():
        lines.append(f'<text x="{x}" y="56" class="lane">{name}</text>')
        if name in nodes:
            lines.append(f'<text x="{x}" y="69" class="lane">memory</text>')
        lines.append(f'<line x1="{x}" y1="74" x2="{x}" y2="{bottom - 6}" class="lane-line"/>')
    for at, row in enumerate(rows):
        lines += draw_row(row, lanes, HEAD + ROW * at)
    for kind, text in [*(("bad", str(each)) for each in reasons), ("said", rerun)]:
        for piece in textwrap.wrap(text, (width - 32) // LETTERS, break_long_words=False):
            bottom += 15
            lines.append(f'<text x="16" y="{bottom}" class="{kind}">{escape(piece)}</text>')
    bottom += 18
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom}" width="{width}" height="{bottom}" role="img">\n'
        f"<title>{escape(protocol)}, {escape(hole.name)}: {escape(hole.text)}</title>\n{STYLE}\n"
        f'<rect width="{width}" height="{bottom}" fill="#fff"/>\n'
    )
    return head + "\n".join(lines) + "\n</svg>\n"


def diagram(hole: Hole, protocol: str, program: str) -> str:
    return svg(hole, explored(hole.words, program), protocol)
