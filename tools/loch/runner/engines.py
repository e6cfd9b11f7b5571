"""Chooses by which scheduler (engine: Slurm or Dask) `loch run --on` runs simulated points, and defines its flags."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from .dask_engine import Dask
from .engine import Engine
from .errors import BadInput, did_you_mean
from .slurm import Slurm

ENGINES = ("local", "slurm", "dask")
TASKS_AT_ONCE = 64
# environment variable with the scheduler's address, as Dask's own tools use it
SCHEDULER_VARIABLE = "DASK_SCHEDULER_ADDRESS"
OPTIONS_FLAG = "--slurm-options"
_OWNERS = {"slurm_options": "slurm", "slurm_points": "slurm", "slurm_tasks": "slurm", "dask_scheduler": "dask"}


def add_arguments(run: argparse.ArgumentParser) -> None:
    """Adds the flags of `loch run` that say where simulated points run."""
    run.add_argument(
        "--on",
        default="local",
        metavar="ENGINE",
        help="where simulated points run: local (this machine), slurm (job arrays) or dask (a Dask cluster); the "
        "result folder and this project must be where all its nodes see them; measured points stay here or "
        "where --hostfile says",
    )
    run.add_argument(
        OPTIONS_FLAG,
        metavar="TEXT",
        help='more options of sbatch, such as "--partition=short --time=10 --mem=4G" (minutes, bytes)',
    )
    run.add_argument(
        "--slurm-points",
        type=int,
        metavar="N",
        help="points that one array task runs, one after the other (default: so many that each simultaneous "
        "task gets about four turns)",
    )
    run.add_argument(
        "--slurm-tasks", type=int, metavar="N", help=f"array tasks at once, over all arrays (default {TASKS_AT_ONCE})"
    )
    run.add_argument(
        "--dask-scheduler",
        metavar="ADDRESS",
        help=f"a scheduler such as tcp://10.0.0.1:8786 (default: {SCHEDULER_VARIABLE} of the environment; without "
        "both, a cluster of --jobs processes is started on this machine)",
    )


def joined(argv: list[str]) -> list[str]:
    """Joins `--slurm-options TEXT` to one word, since argparse would take a TEXT that begins with dashes for another
    flag."""
    if OPTIONS_FLAG not in argv[:-1]:
        return argv
    at = argv.index(OPTIONS_FLAG)
    return [*argv[:at], f"{OPTIONS_FLAG}={argv[at + 1]}", *joined(argv[at + 2 :])]


def from_flags(args: argparse.Namespace, environment: Mapping[str, str]) -> Engine | None:
    """The engine (Slurm or Dask) that the flags choose, not yet checked; None if simulated points run on this
    machine."""
    if args.on not in ENGINES:
        raise BadInput(f"--on {args.on}: expected local, slurm or dask{did_you_mean(args.on, ENGINES)}")
    for key, owner in _OWNERS.items():
        flag = "--" + key.replace("_", "-")
        value = getattr(args, key)
        if value is not None and args.on != owner:
            raise BadInput(f"{flag} goes with --on {owner}")
        if isinstance(value, int) and value < 1:
            raise BadInput(f"{flag} {value}: expected at least 1")
    if args.on == "slurm":
        at_once = TASKS_AT_ONCE if args.slurm_tasks is None else args.slurm_tasks
        return Slurm(args.slurm_options or "", args.slurm_points, at_once)
    if args.on == "dask":
        if args.dask_scheduler is not None:
            return Dask(args.dask_scheduler, "--dask-scheduler", args.jobs)
        return Dask(environment.get(SCHEDULER_VARIABLE) or None, SCHEDULER_VARIABLE, args.jobs)
    return None
