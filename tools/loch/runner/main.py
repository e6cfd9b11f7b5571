"""The flags of `loch run`, `plot`, `score`, `compare`, `reference` and `schema`."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Callable

from loch.ending import status_of, without_value
from loch.flags import Parser

from . import engines

RUN_ENDS = """\
example:
  ./loch run experiments/quickstart.yaml --set value_size=4K --out results/mine

exit status: 0 all points ran, 1 some failed, 2 bad input, 130 interrupted (the same command goes on)"""
PLOT_ENDS = """\
example:
  ./loch plot results/quickstart

exit status: 0 drawn, 1 some stored points are damaged, 2 bad input, 130 interrupted"""
SCORE_ENDS = """\
example:
  ./loch score results --json score.json

exit status: 0 scored, whatever the score; 2 bad input"""
COMPARE_ENDS = """\
example:
  ./loch run experiments/quickstart.yaml --set measure.repeats=6 --out results/before
  ./loch run experiments/quickstart.yaml --set measure.repeats=6 --set measure.seed=7 --out results/after
  ./loch compare results/before results/after

exit status: 0 compared and no regression, 1 a regression, 2 bad input"""
REFERENCE_ENDS = """\
example:
  ./loch reference results/quickstart --out reference

exit status: 0 made, 2 bad input"""

SCHEMA_ENDS = """\
example:
  ./loch schema > experiments/experiment.schema.json

exit status: 0 printed, 2 bad input"""


def parser() -> Parser:
    top = Parser(prog="loch", description="Runs experiments, redraws figures, scores them against the papers.")
    commands_ = top.add_subparsers(dest="command", required=True, parser_class=Parser)
    run = commands_.add_parser(
        "run",
        help="run experiments",
        epilog=RUN_ENDS,
        description="Runs experiments; resumes what the result folder already holds.",
    )
    run.add_argument("files", nargs="+", metavar="FILE", help="experiment YAML, or a folder of them")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key: a bench option (value_size=4K), or a path (systems.CD.clients=6)",
    )
    run.add_argument("--fabric", metavar="F", help="sim, shm, verbs or ofi, for every system")
    run.add_argument(
        "--hostfile",
        metavar="H",
        help="run shm, verbs and ofi points under mpirun (in a Slurm job: srun) on these hosts, "
        "one at a time; a hostfile of Open MPI or a list of names",
    )
    run.add_argument(
        "--interface",
        metavar="I",
        help="network interface, or range such as 10.1.0.0/16, of Open MPI's "
        "own connections (with --hostfile; by default all but loopback)",
    )
    run.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="simulated points side by side (default: one a core); measured ones run alone",
    )
    engines.add_arguments(run)
    run.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="also run every simulated point N times with constants drawn from their ranges: bands in figures and reports",
    )
    run.add_argument("--seed", type=int, metavar="S", help="random seed of the draws of --samples (default 1)")
    run.add_argument("--out", metavar="DIR", help="result folder (default results/NAME)")
    run.add_argument("--fresh", action="store_true", help="forget stored points first")
    run.add_argument("--keep-stale", action="store_true", help="keep points that another binary made")
    run.add_argument("--dry-run", action="store_true", help="print the plan, run nothing, write nothing")
    run.add_argument("--smoke", action="store_true", help="the same figure, tiny, under a minute")
    run.set_defaults(call="run")
    plot = commands_.add_parser(
        "plot",
        help="redraw figures from stored results",
        epilog=PLOT_ENDS,
        description="Redraws figures and pages from stored results.",
    )
    plot.add_argument(
        "dir", metavar="DIR", help="a result folder, or a folder of them; reference/ holds those of the papers"
    )
    plot.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="figures side by side")
    plot.set_defaults(call="plot")
    score = commands_.add_parser(
        "score",
        help="published numbers against stored results",
        epilog=SCORE_ENDS,
        description="Sets published numbers against stored results.",
    )
    score.add_argument("dir", nargs="?", default="results", metavar="DIR")
    score.add_argument("--json", metavar="FILE", help="write JSON to FILE instead of Markdown to the terminal")
    score.add_argument(
        "--ablation",
        nargs="*",
        metavar="DIR",
        help="what each mechanism of the simulator buys: DIRs have results of the same experiments without one; none: "
        "the table that is kept in the folder that is scored",
    )
    score.add_argument("--keep", metavar="FILE", help="write the table of --ablation to FILE, reference/ablation.json")
    score.set_defaults(call="score_command")
    compare = commands_.add_parser(
        "compare",
        help="two result folders, point by point",
        epilog=COMPARE_ENDS,
        description="Tests whether two result folders differ: for each system a permutation test over all its points "
        "together, p values corrected by Holm's method. A regression is a difference for the worse (less of a metric; "
        "more, if it is a latency, a power or an energy) that is larger than the tolerance at a level of 5 %%, or a "
        "point that fails in B alone.",
    )
    compare.add_argument("a", metavar="A", help="a result folder, or a folder of them: what was before")
    compare.add_argument("b", metavar="B", help="the same experiments: what is now")
    compare.add_argument(
        "--metric",
        action="append",
        metavar="F",
        help="a field of the result (latency_us.all.p99); may be given several times (default throughput_ops_s)",
    )
    compare.add_argument(
        "--tolerance",
        type=_share,
        default=0.01,
        metavar="X",
        help="the least difference that matters, as a share from 0 to 1: tested is whether B differs from A by more "
        "(default 0.01; 0: whether they differ at all)",
    )
    compare.add_argument("--json", metavar="FILE", help="write JSON to FILE, with every point (-: standard output)")
    compare.set_defaults(call="compare_command")
    reference = commands_.add_parser(
        "reference",
        help="make small reference results of finished runs",
        epilog=REFERENCE_ENDS,
        description="Makes small reference results of finished runs.",
    )
    reference.add_argument("dir", metavar="DIR", help="a result folder, or a folder of them")
    reference.add_argument("--out", default="reference", metavar="DIR", help="where to (default reference/)")
    reference.set_defaults(call="reference_command")
    schema = commands_.add_parser(
        "schema",
        help="the JSON Schema of experiments, for editors",
        epilog=SCHEMA_ENDS,
        description="Prints the JSON Schema of an experiment; experiments/experiment.schema.json is a copy.",
    )
    schema.add_argument(
        "what", nargs="?", choices=["experiment"], default="experiment", help="of what; by default that"
    )
    schema.set_defaults(call="schema_command")
    return top


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a share from 0 to 1, such as 0.02")
    return share


def main(argv: list[str], set_up: Callable[[], int]) -> int:
    """Runs a command after its flags were checked and `set_up`, which builds and installs, has returned 0."""

    def called() -> int:
        top = parser()
        if wrong := without_value(argv):
            top.error(f"{wrong}: expected a value")
        args = top.parse_args(engines.joined(argv))
        status = set_up()
        if status:
            return status
        from loch.runner import commands  # imported after set-up, because it needs packages that set-up installs

        call: Callable[[argparse.Namespace], int] = getattr(commands, args.call)
        return call(args)

    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    return status_of(called, interrupted="interrupted: finished points are kept; the same command goes on from there")
