#!/usr/bin/python3
"""Entry of `loch run`, `plot`, `score` and `reference`; ./loch calls it with LOCH_BIN set to the built binary."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "experiments"), str(ROOT)]
if "LOCH_BUILD" in os.environ:  # compiled modules go to the build folder, so that running leaves the tree as it is
    sys.pycache_prefix = os.path.join(os.environ["LOCH_BUILD"], "pycache")

from ending import status_of, without_value  # noqa: E402  (after the path is set)
from runner import commands, engines  # noqa: E402


class Parser(argparse.ArgumentParser):
    """Errors in one line, exit status 2."""

    def error(self, message: str) -> None:
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def parser() -> Parser:
    top = Parser(prog="loch", description="Runs experiments, redraws figures, scores them against the papers.")
    commands_ = top.add_subparsers(dest="command", required=True, parser_class=Parser)
    run = commands_.add_parser("run", help="run experiments",
                               description="Runs experiments; resumes what the result folder already holds.")
    run.add_argument("files", nargs="+", metavar="FILE", help="experiment YAML, or a folder of them")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                     help="change one key: a bench option (value_size=4K), or a path (systems.CD.clients=6)")
    run.add_argument("--fabric", metavar="F", help="sim, shm or verbs, for every system")
    run.add_argument("--hostfile", metavar="H", help="run shm and verbs points under mpirun (in a Slurm job: srun) on these hosts, "
                     "one at a time; a hostfile of Open MPI or a list of names")
    run.add_argument("--interface", metavar="I", help="network interface, or range such as 10.1.0.0/16, of Open MPI's "
                     "own connections (with --hostfile; by default all but loopback)")
    run.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                     help="simulated points side by side (default: one a core); measured ones run alone")
    engines.add_arguments(run)
    run.add_argument("--out", metavar="DIR", help="result folder (default results/NAME)")
    run.add_argument("--fresh", action="store_true", help="forget stored points first")
    run.add_argument("--keep-stale", action="store_true", help="keep points that another binary made")
    run.add_argument("--dry-run", action="store_true", help="print the plan, run nothing, write nothing")
    run.add_argument("--smoke", action="store_true", help="the same figure, tiny, under a minute")
    run.set_defaults(call=commands.run)
    plot = commands_.add_parser("plot", help="redraw figures from stored results")
    plot.add_argument("dir", metavar="DIR", help="a result folder, or a folder of them; reference/ holds those of the papers")
    plot.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="figures side by side")
    plot.set_defaults(call=commands.plot)
    score = commands_.add_parser("score", help="published numbers against stored results")
    score.add_argument("dir", nargs="?", default="results", metavar="DIR")
    score.add_argument("--json", metavar="FILE", help="write JSON to FILE instead of Markdown to the terminal")
    score.set_defaults(call=commands.score_command)
    reference = commands_.add_parser("reference", help="make small reference results of finished runs")
    reference.add_argument("dir", metavar="DIR", help="a result folder, or a folder of them")
    reference.add_argument("--out", default="reference", metavar="DIR", help="where to (default reference/)")
    reference.set_defaults(call=commands.reference_command)
    return top


def main(argv: list[str]) -> int:
    def called() -> int:
        top = parser()
        if wrong := without_value(argv):
            top.error(f"{wrong}: expected a value")
        args = top.parse_args(engines.joined(argv))
        return args.call(args)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    return status_of(called,
                     interrupted="interrupted: finished points are kept; the same command goes on from there")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
