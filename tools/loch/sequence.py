"""./loch sequence PROTOCOL: draws a GET, a PUT and a DELETE as sequence diagrams, from the trace of a simulated run."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from statistics import median_low
from typing import Any, Callable

from loch import interleaving, places
from loch.ending import CommandError, one_line, status_of
from loch.flags import Parser
from loch.written import write_atomically

EPILOG = """The run has one client worker with one operation at a time. Drawn is the operation of median latency, of those after
the first three of each client. Flags of loch bench after -- change the run.

examples:
  ./loch sequence nessie                                     ./nessie.svg
  ./loch sequence herd --out /tmp -- --value-size 64 --hardware connectx3-56g-ib
  ./loch sequence --all --out docs/protocols/figures         the figures of docs/protocols, after the simulator's times changed
  ./loch sequence race --holes --out docs/protocols/figures  the orders of requests that show race's holes

exit status: 0 drawn, 1 the run failed, 2 bad input"""
OPERATIONS = (("GET", ["--get", "1"]), ("PUT", ["--get", "0"]), ("DELETE", ["--get", "0", "--delete", "1"]))
RUN = [
    "--fabric",
    "sim",
    "--clients",
    "1",
    "--window",
    "1",
    "--keys",
    "1000",
    "--key-size",
    "16",
    "--value-size",
    "1024",
    "--warmup",
    "0ms",
]
SKIPPED = 3  # each client's first operations are not drawn: they fill caches and exchange addresses
# The names of the tracks of a trace (common/fabric/sim/tracing.cc) on which a work request appears.
POSTED, OUT, IN, REMOTE, ANSWERED = (
    "NIC: work requests",
    "link: out",
    "link: in",
    "NIC: incoming requests, memory",
    "NIC: responses, completions",
)
LANE_GAP, ROW, MARGIN, HEAD = 168, 21, 74, 64


@dataclass
class Box:
    """A span on a track of the trace; `start` and `end` in nanoseconds of simulated time."""

    node: int
    track: str
    name: str
    start: int
    end: int
    args: dict[str, Any]


@dataclass
class Request:
    """A work request, with its spans on the tracks of NICs and links."""

    verb: str
    size: int
    source: int
    to: int
    owner: str  # the worker that posted the work request: "client 0 of node 1"
    boxes: list[Box] = field(default_factory=list)

    def at(self, track: str, node: int) -> Box | None:
        return next((box for box in self.boxes if box.track == track and box.node == node), None)


@dataclass(frozen=True)
class Step:
    """An arrow between two lanes (vertical lines) of the diagram, or a note at one lane."""

    time: int  # nanoseconds since the operation began
    start: str
    end: str
    text: str
    is_dashed: bool = False


@dataclass
class Panel:
    """The diagram of one operation: its lanes (vertical lines) from left to right, and its steps in the order of
    time."""

    title: str
    lanes: list[str]
    steps: list[Step]
    later: list[str]

    def shape(self) -> tuple[Any, ...]:
        """What a panel shows apart from times: operations for which this is equal are drawn once."""
        return (
            tuple(self.lanes),
            tuple((step.start, step.end, step.text) for step in self.steps[1:-1]),
            tuple(self.later),
        )


def bench(protocol: str, operation: list[str], more: list[str], program: str) -> list[Box]:
    """The trace of a simulated run with one kind of operation. If the protocol has dedicated servers, node 0 is the
    only server."""
    roles = [["--nodes", "2", "--server-nodes", "1", "--operations", "12"], ["--nodes", "3", "--operations", "36"]]
    done = None
    with tempfile.TemporaryDirectory(prefix="loch-sequence-") as folder:
        for role in roles:
            words = [
                program,
                "bench",
                "--protocol",
                protocol,
                *unless_given([*RUN, *role, *operation], more),
                *more,
                "--trace",
                f"{folder}/trace.json",
                "--json",
                f"{folder}/result.json",
            ]
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env={"LOCH_HOME": places.SOURCE, **os.environ},
            )
            if done.returncode == 0:
                return boxes_of(json.loads(Path(folder, "trace.json").read_text(encoding="utf-8")))
            if "server-nodes:" not in done.stderr:
                break
    assert done is not None
    error = CommandError(one_line(done.stderr.strip()) or f"loch bench ended with status {done.returncode}")
    error.status = 2 if done.returncode == 2 else 1
    raise error


def unless_given(flags: list[str], more: list[str]) -> list[str]:
    """The flags and values of `flags` without those that `more` has, because bench refuses a flag given twice."""
    given = {word.split("=")[0] for word in more}
    return [word for flag, value in zip(flags[::2], flags[1::2]) if flag not in given for word in (flag, value)]


def boxes_of(document: dict[str, Any]) -> list[Box]:
    tracks: dict[tuple[int, int], str] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            tracks[event["pid"], event["tid"]] = event["args"]["name"].split(" (")[0]
    found = []
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            found.append(
                Box(
                    event["pid"],
                    tracks[event["pid"], event["tid"]],
                    event["name"],
                    start,
                    start + round(event["dur"] * 1000),
                    event.get("args", {}),
                )
            )
    return sorted(found, key=lambda box: (box.start, box.node, box.track, box.end))


def typical(boxes: list[Box], kind: str) -> Box:
    """The operation of `kind` with the median latency; the earliest if several have it."""
    of_client: dict[tuple[int, str], list[Box]] = {}
    for box in boxes:
        if box.name == kind and box.track.startswith("client"):
            of_client.setdefault((box.node, box.track), []).append(box)
    rest = [box for each in of_client.values() for box in each[SKIPPED:]]
    if not rest:
        raise CommandError(f"the run has no {kind} after the first {SKIPPED} of a client: --operations is too low")
    middle = median_low(box.end - box.start for box in rest)
    return min((box for box in rest if box.end - box.start == middle), key=lambda box: (box.start, box.node))


def requests_of(boxes: list[Box], operation: Box) -> list[Request]:
    """The work requests that the operation's worker posts during the operation, and those of servers to the client's
    node."""
    found: dict[tuple[Any, ...], Request] = {}
    for box in boxes:
        if "request" not in box.args:
            continue
        owner, to = box.args["from"], box.args["to"]
        key = (owner, to, box.args["lane"], box.args["request"])
        source = int(owner.rsplit(" ", 1)[1])
        is_own = owner == f"{operation.track} of node {operation.node}"
        is_reply = owner.startswith("server") and to == operation.node
        if box.track == POSTED and (is_own or is_reply) and operation.start <= box.start <= operation.end:
            found[key] = Request(box.name, box.args["bytes"], source, to, owner)
        if key in found:
            found[key].boxes.append(box)
    return list(found.values())


def worker_lane(node: int, client: int, servers: set[int]) -> str:
    what = "client worker, memory" if node == client else "memory, server worker" if node in servers else "memory"
    return f"{what}|of node {node}"


def nic_lane(node: int) -> str:
    return f"NIC|of node {node}"


def steps_of(request: Request, client: int, servers: set[int]) -> list[Step]:
    """The steps of a work request: through both NICs to the remote memory and back, as far as the trace shows them."""
    own, far = worker_lane(request.source, client, servers), worker_lane(request.to, client, servers)
    nic, far_nic = nic_lane(request.source), nic_lane(request.to)
    verb, size = request.verb, f"{request.size} B"
    has_answer = verb in ("READ", "CAS", "FAA")
    answer = {"READ": size, "CAS": "old word", "FAA": "old word"}.get(verb, "ACK")
    done = {
        "READ": f"{size} read",
        "WRITE": f"{size} written",
        "SEND": f"{size} into a RECV's buffer",
        "CAS": "compare, swap",
        "FAA": "fetch, add",
    }.get(verb, verb)
    posted, arrived = request.at(POSTED, request.source), request.at(IN, request.to)
    served, back = request.at(REMOTE, request.to), request.at(IN, request.source)
    landed = request.at(ANSWERED, request.source)
    steps = []
    if posted:
        steps.append(Step(posted.start, own, nic, f"{verb} {size}"))
    if arrived and request.source != request.to:
        steps.append(Step(arrived.end, nic, far_nic, f"{verb} request" if has_answer else f"{verb} {size}"))
    if served:
        steps.append(Step(served.end, far_nic, far, done))
    if back and request.source != request.to:
        steps.append(Step(back.end, far_nic, nic, answer, not has_answer))
    if landed and has_answer:
        steps.append(Step(landed.end, nic, own, f"{answer} in place"))
    return steps


def panel(boxes: list[Box], kind: str) -> Panel:
    operation = typical(boxes, kind)
    client = operation.node
    requests = requests_of(boxes, operation)
    nodes = sorted({node for request in requests for node in (request.source, request.to)} - {client})
    servers = {request.source for request in requests if request.owner.startswith("server")}
    lanes = [worker_lane(client, client, servers)]
    if requests:
        lanes.append(nic_lane(client))
    for node in nodes:
        lanes += [nic_lane(node), worker_lane(node, client, servers)]
    begin = lanes[0]
    steps = [Step(0, begin, begin, f"{kind} begins")]
    later = []
    for request in requests:
        of_request = steps_of(request, client, servers)
        steps += [
            Step(step.time - operation.start, step.start, step.end, step.text, step.is_dashed)
            for step in of_request
            if step.time <= operation.end
        ]
        if of_request[-1].time > operation.end:
            left = sum(step.time > operation.end for step in of_request)
            what = "its ACK" if of_request[-1].is_dashed and left == 1 else f"{left} steps"
            later.append(f"{request.verb} {request.size} B: {what}")
    if not requests:
        steps.append(Step(operation.end - operation.start, begin, begin, "no request leaves the worker"))
    steps.sort(key=lambda step: step.time)
    span = operation.end - operation.start
    steps.append(Step(span, begin, begin, f"{kind} ends"))
    return Panel(f"{kind}: {span / 1000:.2f} µs, {count(len(requests), 'work request')}", lanes, steps, later)


def count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def merged(panels: list[Panel]) -> list[Panel]:
    """Merges panels that differ only in their times; the title of the remaining panel names the merged operations."""
    kept: list[Panel] = []
    for each in panels:
        same = next((other for other in kept if other.shape() == each.shape()), None)
        if same is None:
            kept.append(each)
        else:
            same.title += f" ({each.title.split(':')[0]}: the same steps)"
    return kept


def draw_step(step: Step, places_x: dict[str, int], y: int) -> list[str]:
    time = f'<text x="{MARGIN - 18}" y="{y + 4}" class="time">{step.time / 1000:.2f}</text>'
    start, end = places_x[step.start], places_x[step.end]
    if start == end:
        return [
            time,
            f'<circle cx="{start}" cy="{y}" r="3"/>',
            f'<text x="{start + 9}" y="{y + 4}" class="said">{escape(step.text)}</text>',
        ]
    kind = "back" if step.is_dashed else "go"
    tip = end - 5 if end > start else end + 5
    return [
        time,
        f'<line x1="{start}" y1="{y}" x2="{tip}" y2="{y}" class="{kind}" marker-end="url(#tip)"/>',
        f'<text x="{(start + end) // 2}" y="{y - 4}" class="what">{escape(step.text)}</text>',
    ]


def draw_panel(each: Panel, top: int) -> tuple[list[str], int]:
    """The SVG lines of a panel whose upper edge is at y = `top`, and the y coordinate of its lower edge."""
    places_x = {lane: MARGIN + 50 + at * LANE_GAP for at, lane in enumerate(each.lanes)}
    bottom = top + HEAD + ROW * len(each.steps) + 4
    lines = [
        f'<text x="{MARGIN - 58}" y="{top + 14}" class="title">{escape(each.title)}</text>',
        f'<text x="{MARGIN - 18}" y="{top + 50}" class="time">µs</text>',
    ]
    for lane, x in places_x.items():
        first, second = lane.split("|")
        lines.append(f'<text x="{x}" y="{top + 36}" class="lane">{escape(first)}</text>')
        lines.append(f'<text x="{x}" y="{top + 49}" class="lane">{escape(second)}</text>')
        lines.append(f'<line x1="{x}" y1="{top + 54}" x2="{x}" y2="{bottom}" class="lane-line"/>')
    for at, step in enumerate(each.steps):
        lines += draw_step(step, places_x, top + HEAD + 10 + ROW * at)
    for text in each.later:
        bottom += 16
        lines.append(f'<text x="{MARGIN - 58}" y="{bottom}" class="said">after the end: {escape(text)}</text>')
    return lines, bottom + 26


STYLE = interleaving.style()


def svg(protocol: str, panels: list[Panel]) -> str:
    lines: list[str] = []
    bottom = 14
    for each in panels:
        drawn, bottom = draw_panel(each, bottom)
        lines += drawn
    width = MARGIN + 50 + LANE_GAP * max(len(each.lanes) for each in panels) - LANE_GAP // 2 + 30
    width = max(width, MARGIN + 460)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom}" width="{width}" height="{bottom}" role="img">\n'
        f"<title>{escape(protocol)}: one operation of each kind, from a simulated run</title>\n{STYLE}\n"
        f'<rect width="{width}" height="{bottom}" fill="#fff"/>\n'
    )
    return head + "\n".join(lines) + "\n</svg>\n"


def diagram(protocol: str, more: list[str], program: str) -> str:
    return svg(protocol, merged([panel(bench(protocol, flags, more, program), kind) for kind, flags in OPERATIONS]))


def protocols(program: str) -> list[str]:
    said = subprocess.run(
        [program, "list", "protocols"],
        capture_output=True,
        text=True,
        check=True,
        env={"LOCH_HOME": places.SOURCE, **os.environ},
    ).stdout
    return [line.split()[0] for line in said.splitlines() if line and not line.startswith(" ")]


def parse(argv: list[str]) -> tuple[list[str], bool, bool, Path, list[str]]:
    """The arguments of `loch sequence`: protocols, whether all are drawn, whether their holes are, output folder, and
    flags for loch bench."""
    at = argv.index("--") if "--" in argv else len(argv)
    parser = Parser(
        prog="loch sequence", description=(__doc__ or "").split(": ", 1)[1], epilog=EPILOG, allow_abbrev=False
    )
    parser.add_argument(
        "protocols", nargs="*", metavar="PROTOCOL", help="whose operations are drawn: loch list protocols"
    )
    parser.add_argument("--all", action="store_true", help="all protocols")
    parser.add_argument(
        "--holes", action="store_true", help="instead, the interleavings of loch explore that show the protocol's holes"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=".",
        help="folder of the files PROTOCOL.svg, PROTOCOL-HOLE.svg (the current one)",
    )
    given = parser.parse_args(argv[:at])
    if given.all == bool(given.protocols):
        parser.error("expected one PROTOCOL or more, or --all (loch list protocols)")
    if not os.path.isdir(given.out):
        parser.error(f"--out {given.out}: no such folder")
    if given.holes and argv[at + 1 :]:
        parser.error("--holes: flags of loch bench change nothing; expected none after --")
    for name in given.protocols if given.holes else []:
        if not interleaving.holes_of(name):
            parser.error(f"--holes: {name} has none in {interleaving.SCENARIOS.name}")
    return given.protocols, given.all, given.holes, Path(given.out), argv[at + 1 :]


def main(argv: list[str], set_up: Callable[[], int], program: str) -> int:
    """Runs `loch sequence`. `set_up` builds loch-bench (at path `program`); it is called after the flags have been
    checked."""

    def called() -> int:
        names, is_all, has_holes, folder, more = parse(argv)
        status = set_up()
        if status:
            return status
        for name in protocols(program) if is_all else names:
            if not has_holes:
                write_atomically(folder / f"{name}.svg", diagram(name, more, program))
                print(folder / f"{name}.svg")
                continue
            for hole in interleaving.holes_of(name):
                write_atomically(folder / hole.file(name), interleaving.diagram(hole, name, program))
                print(folder / hole.file(name))
        return 0

    return status_of(called, "loch sequence")
