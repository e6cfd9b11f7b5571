"""`loch power`: samples the power of machines, alone or while a command runs, and computes the energy."""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

from loch.ending import one_line, status_of, without_value
from loch.flags import Parser
from loch.hosts import is_address, is_host
from loch.places import HAND_OVER
from loch.power import measured, samples as trace
from loch.power.ipmi import Bmc
from loch.power.measured import Context, Marks
from loch.power.sampler import Sampler
from loch.power.samples import PowerError, Sample, Span
from loch.power.sources import POWERCAP, IpmiSource, Rapl, Remote, Source, now_ns
from loch.written import why_not, write_atomically

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
KINDS = ("ipmi", "rapl", "replay")
RATE_MAX_HZ = 100.0
SECONDS_MAX = 1e8
FIRST_SAMPLE_S = 15.0
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
EPILOG = """\
examples:
  IPMI_PASSWORD=… ./loch power --source ipmi --bmc node7-ipmi --user admin --idle 10s -- ./loch bench … --json a.json
  ./loch power --source rapl --rate 10 --duration 30s --samples watts.csv
  ./loch power --source replay --trace watts.csv --result a.json

Exit status: 0, or COMMAND's; 1 the measurement failed; 2 bad input, or a source that cannot be read."""


class _Parser(Parser):
    hint = " (loch power --help)"


def seconds(text: str) -> float:
    """A duration with its unit, such as "500ms", "10s" or "2m", in seconds."""
    for unit, factor in UNITS.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdecimal():
            if float(number) * factor <= SECONDS_MAX:
                return float(number) * factor
    raise argparse.ArgumentTypeError(f"{one_line(text)!r} is not a time with its unit, such as 500ms, 10s or 2m")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.001 <= rate <= RATE_MAX_HZ:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of samples a second, 0.001 to {RATE_MAX_HZ:g}")
    return rate


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a UDP port")
    return int(text)


def _host(text: str) -> str:
    if not is_host(text):
        raise argparse.ArgumentTypeError(f"{one_line(text)!r} is not the name of a host, such as node7 or me@node7")
    return text


def _address(text: str) -> str:
    if not is_address(text):
        raise argparse.ArgumentTypeError(f"{one_line(text)!r} is not the name or address of a BMC")
    return text


def parser() -> Parser:
    top = _Parser(
        prog="loch power",
        usage="loch power [flags] [-- COMMAND…]",
        epilog=EPILOG,
        add_help=True,
        allow_abbrev=False,
        description=(
            "Samples the power of machines while COMMAND runs (or for a duration, or from a trace) and prints as\n"
            "JSON what they drew: mean watts, watts above idle, joules, joules per operation."
        ),
    )
    add = top.add_argument
    add(
        "--source",
        metavar="KIND",
        choices=(*KINDS, "auto"),
        default="auto",
        help=(
            "ipmi: a BMC, by ipmitool; rapl: this machine's processors; replay: a trace; auto (default): ipmi with"
            " --bmc, replay with --trace, else rapl where it can be read, else this machine's BMC"
        ),
    )
    add(
        "--bmc",
        metavar="HOST",
        type=_address,
        action="append",
        default=[],
        help=(
            "ipmi: a BMC on the network (lanplus), password in "
            "IPMI_PASSWORD; again for each machine (default: this machine's, /dev/ipmi0)"
        ),
    )
    add("--port", metavar="N", type=_port, default=623, help="ipmi: its UDP port (623)")
    add("--user", metavar="NAME", help="ipmi: its user")
    add(
        "--sensor",
        metavar="NAME",
        help=(
            "ipmi: a sensor in watts, in the place of the DCMI power reading (default: DCMI, and "
            "where the BMC has none, its only sensor in watts)"
        ),
    )
    add(
        "--host",
        metavar="NAME",
        type=_host,
        action="append",
        default=[],
        help="another machine, whose own source is read by ssh (rapl, or ipmi without --bmc); again for each",
    )
    add("--trace", metavar="FILE", help="replay: t_ns,host,source,watts; its first sample is the beginning")
    add("--rate", metavar="HZ", type=_rate, default=1.0, help="samples a second (1)")
    add(
        "--duration",
        metavar="TIME",
        type=seconds,
        help="how long, without COMMAND: 500ms, 10s, 2m (60s; replay: all of it)",
    )
    add("--settle", metavar="TIME", type=seconds, default=0.0, help="the beginning of the run that does not count (0s)")
    add(
        "--idle",
        metavar="TIME",
        type=seconds,
        default=0.0,
        help="baseline before the run and as long after it (0s: none)",
    )
    add(
        "--result",
        metavar="FILE",
        help=(
            "result of loch bench, which COMMAND may be writing: its measurement window is what "
            "counts, by its operations"
        ),
    )
    add("--into", metavar="FILE", help="write that result here, with what was measured as its power_w")
    add("--samples", metavar="FILE", help="write the raw samples here: t_ns,host,source,watts")
    add("--json", metavar="FILE", help="write the JSON here, not to standard output")
    add("--check", action="store_true", help="read every source once, print what was found, run nothing")
    # `loch power --host` starts this command with --stream on the other machine: it prints samples until its standard
    # input ends
    add("--stream", action="store_true", help=argparse.SUPPRESS)
    return top


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The parsed flags, and the words of COMMAND after `--`."""
    at = argv.index("--") if "--" in argv else len(argv)
    top = parser()
    if wrong := without_value(argv[:at]):
        top.error(f"{wrong}: expected a value")
    args, command = top.parse_args(argv[:at]), argv[at + 1 :]
    if at < len(argv) and not command:
        top.error("expected COMMAND after --")
    if args.source == "auto":
        args.source = (
            "ipmi" if args.bmc or args.sensor else "replay" if args.trace else "rapl" if _has_rapl(args) else "ipmi"
        )
    for flag, kind in (("bmc", "ipmi"), ("user", "ipmi"), ("sensor", "ipmi"), ("trace", "replay")):
        if getattr(args, flag) and args.source != kind:
            top.error(f"--{flag}: goes with --source {kind}, not {args.source}")
    if args.source == "replay" and not args.trace:
        top.error("--source replay: expected --trace FILE")
    if args.host and (args.bmc or args.source == "replay"):
        top.error("--host: goes with a source that only the machine itself can read")
    if command and args.duration is not None:
        top.error("--duration: with COMMAND, it lasts as long as COMMAND does")
    if args.into and not args.result:
        top.error("--into: expected --result, the result to add to")
    for flag in ("into", "samples", "json"):
        path = getattr(args, flag)
        if path and (wrong := why_not(path)):
            top.error(f"--{flag} {path}: {wrong}")
    return args, command


def _has_rapl(args: argparse.Namespace) -> bool:
    return bool(args.host) or any(POWERCAP.glob("intel-rapl:*"))


def open_sources(args: argparse.Namespace) -> list[Source]:
    """Opens every requested source of power readings; a source that may fail only when it is read is read once."""
    if args.source == "ipmi" and args.bmc:
        return [IpmiSource(Bmc(address, args.port, args.user), args.sensor) for address in args.bmc]
    if args.host:
        flags = [
            "--source",
            args.source,
            "--rate",
            f"{args.rate:g}",
            *([f"--sensor={args.sensor}"] if args.sensor else []),
        ]
        command = [*HAND_OVER, "power", "--stream", *flags]
        return [
            _own(args) if host in ("localhost", socket.gethostname()) else Remote(host, command) for host in args.host
        ]
    return [_own(args)]


def _own(args: argparse.Namespace) -> Source:
    """The source of power readings of this machine: RAPL or the machine's BMC."""
    if args.source == "rapl":
        return Rapl()
    return IpmiSource(Bmc(), args.sensor)


# ---- Measuring: idle baseline, COMMAND, trace -----------------------------------------------------


def _die_with_parent() -> None:
    """Runs in the child before exec: has the kernel kill the child when this process ends, even by SIGKILL."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Command:
    """The measured COMMAND as a child process; signals to this process are passed on to it."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self._is_running = self.was_told = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._pass_on)

    def run(self) -> int:
        """Runs the command and returns its exit status as a shell would (128 + N for signal N)."""
        self._is_running = True
        try:
            self._process = subprocess.Popen(self._words, preexec_fn=_die_with_parent)
        except OSError as error:
            raise PowerError(f"{self._words[0]}: {error.strerror}") from None
        if self.was_told:  # a signal arrived while the process was being started
            self._process.terminate()
        status = self._process.wait()
        self._is_running = False
        return status if status >= 0 else 128 - status

    def _pass_on(self, number: int, _: object) -> None:
        self.was_told = True
        if not self._is_running:
            raise KeyboardInterrupt
        # Ctrl-C on a terminal sends SIGINT to the whole foreground process group, so the command has it already.
        if self._process and (number != signal.SIGINT or not sys.stdin.isatty()):
            self._process.send_signal(number)


def _idle(span_s: float) -> Span:
    began = now_ns()
    time.sleep(span_s)
    return Span(began, now_ns())


def live(args: argparse.Namespace, command: list[str]) -> tuple[list[Sample], Marks, Context, int]:
    """Runs COMMAND, or waits for --duration, while the sources are sampled; returns samples, marks, context, exit
    status."""
    sources = open_sources(args)
    runner = Command(command) if command else None
    status = 0
    with Sampler(sources, args.rate) as sampler:
        sampler.await_first(FIRST_SAMPLE_S + 1 / args.rate)
        before = _idle(args.idle) if args.idle else None
        began = now_ns()
        if runner:
            status = runner.run()
        else:
            time.sleep(args.duration if args.duration is not None else 60.0)
        marks = Marks(Span(began, now_ns()), before)
        if args.idle and not (runner and runner.was_told):
            marks.idle_after = _idle(args.idle)
    context = Context([source.describe() for source in sources], args.rate, sampler.failures)
    if any(sampler.failures.values()):
        context.notes.append(f"readings failed, the last: {sampler.last_failure}")
    return sampler.samples(), marks, context, status


def replayed(args: argparse.Namespace, command: list[str]) -> tuple[list[Sample], Marks, Context, int]:
    """Takes the samples from a recorded trace (--trace) instead of a source; returns samples, marks, context, exit
    status.

    With COMMAND the trace's times are moved so that its first sample is at the start of the idle baseline.
    """
    samples = trace.read(Path(args.trace))
    context = Context(
        [{"kind": "replay", "trace": Path(args.trace).name, "sources": sorted({s.source for s in samples})}], None
    )
    first, last = min(s.t_ns for s in samples), max(s.t_ns for s in samples)
    idle_ns, status = int(args.idle * 1e9), 0
    if command:
        shift, runner = now_ns() - first, Command(command)
        before = _idle(args.idle) if args.idle else None
        began = now_ns()
        status = runner.run()
        marks = Marks(Span(began, now_ns()), before)
        if args.idle and not runner.was_told:
            marks.idle_after = _idle(args.idle)
        samples = [Sample(s.t_ns + shift, s.host, s.source, s.watts) for s in samples]
        end = marks.idle_after.end_ns if marks.idle_after else marks.run.end_ns
        if last + shift < end:
            context.notes.append(f"the trace ended {(end - last - shift) / 1e9:.3g} s before the run did")
    else:
        window = measured.window_of(measured.read_result(Path(args.result))) if args.result else None
        end = last if args.duration is None else first + 2 * idle_ns + int(args.duration * 1e9)
        if window is None and end - idle_ns <= first + idle_ns:
            raise PowerError(
                f"--trace {args.trace}: its {(last - first) / 1e9:g} s leave nothing between two baselines of "
                f"{args.idle:g} s"
            )
        marks = Marks(Span(first + idle_ns, end - idle_ns))
        if idle_ns:
            marks.idle_before, marks.idle_after = Span(first, first + idle_ns), Span(end - idle_ns, end)
    return samples, marks, context, status


def stream(args: argparse.Namespace) -> int:
    """Runs `loch power --stream`, which --host starts on another machine: prints one sample a line until stdin ends."""
    with Sampler(open_sources(args), args.rate) as sampler:
        told = 0
        os.set_blocking(sys.stdin.fileno(), False)
        while _is_listened_to():
            for each in sampler.samples()[told:]:
                print(f"{each.t_ns},{each.host},{each.source},{each.watts:g}", flush=True)
                told += 1
            time.sleep(min(0.05, 0.5 / args.rate))
    return 0


def _is_listened_to() -> bool:
    """Whether the process that reads the samples still runs: it holds this process's standard input open."""
    try:
        return os.read(sys.stdin.fileno(), 1) != b""
    except BlockingIOError:  # standard input is open and has no data
        return True


def check(args: argparse.Namespace) -> int:
    """Runs --check: reads every source once and prints one line for each."""
    if args.source == "replay":
        for host, own in trace.by_host(trace.read(Path(args.trace))).items():
            print(f"{host}: {len(own)} samples over {(own[-1].t_ns - own[0].t_ns) / 1e9:g} s")
        return 0
    for source in open_sources(args):
        if isinstance(source, Rapl):
            time.sleep(0.1)
        sample = source.sample()
        print(f"{source.host}: {sample.watts:g} W ({sample.source})")
        source.close()
    return 0


# ---- Printing the report --------------------------------------------------------------------------


def with_result(args: argparse.Namespace, marks: Marks, context: Context) -> dict | None:
    """Reads the result that --result names; if the result has a measurement window, energy is computed for that
    window."""
    if not args.result:
        return None
    result = measured.read_result(Path(args.result))
    context.operations = measured.operations_of(result)
    window = measured.window_of(result)
    if window is not None:
        marks.run, marks.is_window = window, True
    else:
        context.notes.append("the result names no measurement window: joules are those of the whole command")
    return result


def run(args: argparse.Namespace, command: list[str]) -> int:
    samples, marks, context, status = (replayed if args.source == "replay" else live)(args, command)
    if args.samples:
        raw = io.StringIO()
        trace.write(raw, samples)
        write_atomically(args.samples, raw.getvalue())
    if status != 0:
        print(f"loch power: COMMAND ended with status {status}; nothing was integrated", file=sys.stderr)
        return status
    result = with_result(args, marks, context)
    settled = marks.run.begin_ns + int(args.settle * 1e9)
    if settled >= marks.run.end_ns:
        raise PowerError(f"--settle: the run of {marks.run.seconds:.3g} s has nothing left after {args.settle:g} s")
    if not marks.is_window:
        marks.run = Span(settled, marks.run.end_ns)
    document = measured.report(samples, marks, context)
    if args.into and result is not None:
        _write(args.into, {**result, "power_w": document})
    told: dict[str, object] = {"schema": 1, "command": command or None, **document}
    if args.json:
        _write(args.json, told)
    elif not args.into:
        print(json.dumps(told, indent=1))
    return 0


def _write(path: str, document: dict) -> None:
    write_atomically(path, json.dumps(document, indent=1) + "\n")


def main(argv: list[str], set_up: Callable[[], int]) -> int:
    def called() -> int:
        args, command = parse(argv)
        status = set_up()
        if status:
            return status
        if args.check:
            return check(args)
        if args.stream:
            return stream(args)
        return run(args, command)

    return status_of(called, "loch power", "interrupted; nothing was integrated")
