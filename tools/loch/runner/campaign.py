"""One call of `loch run`: the points (runs of loch-bench) of all experiments run in one pool; an experiment's outputs
are written once its points are complete."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import auto_repeats, band_report, bands, claims, costs, factors, grid, launch, outputs, published, report, tuning
from .engine import Engine
from .execute import OTHERS_LIMIT, Executor, Outcome
from .model import Experiment
from .points import Store, file_hash, point_hash
from .pool import Pool
from .progress import Progress
from .units import about


@dataclass
class _Run:
    """The state of one running experiment, through its stages: tuning, maxima for relative loads, the figure's points,
    outputs."""

    experiment: Experiment
    folder: Path
    store: Store
    executor: Executor
    costs: costs.Costs
    left: set[str] = field(default_factory=set)  # names of the current stage's points (runs) that have not ended
    tuned: list[dict] | None = None  # the parameters that tuning chose; None before tuning has ended
    choices: list[dict] | None = None  # tuned parameters, and the rates computed from shares of the maximum throughput
    counts: dict[tuple, int] = field(default_factory=dict)  # with `repeats: auto`: the repeats of each point so far
    samples: factors.Samples | None = None  # with --samples: the random draws of the hardware constants
    stale: int = 0
    failures: list[str] = field(default_factory=list)
    verdicts: list[claims.Verdict] = field(default_factory=list)
    comparisons: list[published.Comparison] = field(default_factory=list)
    # tables of the figure's values, as (head, rows)
    obtained: list[tuple[list[str], list[list[str]]]] = field(default_factory=list)
    # with --samples: lines on the intervals of the sampled results, and on the hardware constants that decide their
    # widths
    banded: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # warnings that are printed at the end of the run
    peak: tuple[int, str] = (0, "")  # memory in bytes and title of the simulated point that used most


class Campaign:
    """Runs experiments; points that an earlier run stored are not run again."""

    def __init__(
        self,
        loaded: list[tuple[Experiment, Path]],
        binary: str,
        args: argparse.Namespace,
        launched: launch.Launch | None,
        engine: Engine | None = None,
        samples: list[factors.Samples | None] | None = None,
    ) -> None:
        self._args, self._engine = args, engine
        self._width = engine.width if engine else args.jobs  # number of simulated points that run at the same time
        self._pool = Pool(args.jobs, engine)
        self._runs: list[_Run] = []
        self._warned_stale = False
        self._can_draw = False
        self._progress: Progress | None = None
        for (experiment, folder), drawn in zip(loaded, samples or [None] * len(loaded)):
            store = Store(folder / "points", binary)
            self._runs.append(
                _Run(
                    experiment,
                    folder,
                    store,
                    Executor(experiment, store, launched),
                    costs.Costs(experiment, folder),
                    samples=drawn,
                )
            )

    def run(self) -> int:
        """Runs all experiments; returns 0 if every point succeeded and every figure was drawn, else 1."""
        began = time.monotonic()
        try:
            for each in self._runs:
                each.store.open()
            if self._engine:
                self._engine.open(self._runs[0].store.folder)
            for each in self._runs:
                if self._args.fresh:
                    each.store.forget_all()
                    outputs.clear(each.folder)
            self._announce()
            for each in self._runs:
                for damaged in each.store.damaged.values():
                    print(f"warning: {damaged}; it runs again", file=sys.stderr)
            for each in self._runs:
                self._tune(each)
            self._pool.run(self._tick)
            self._overview()
        finally:
            if self._progress:
                self._progress.close()
            if self._engine:
                self._engine.stop()
            for each in self._runs:
                each.store.close()
        return self._tell(time.monotonic() - began)

    def _announce(self) -> None:
        expected = 0.0
        total = 0
        for each in self._runs:
            todo = [*self._todo(each, grid.tuning_points(each.experiment)), *self._planned(each)]
            total += len(todo)
            span = costs.of_points(todo, each.costs, self._width if self._engine else costs.slots(self._args.jobs))
            expected += sum(each.costs.of(point) for point in todo)
            if len(self._runs) == 1:
                print(f"{each.experiment.name}: {grid.plan(each.experiment)}, {about(span)}", file=sys.stderr)
            _warn_governor(each)
        title = self._runs[0].experiment.name
        if len(self._runs) > 1:
            title = f"{len(self._runs)} experiments"
            print(f"{title}: {total} points to run, {about(expected / self._width)}", file=sys.stderr)
        if total:
            self._progress = Progress(title, total, expected, self._width, len(self._runs))

    def _planned(self, run: _Run) -> list[grid.Point]:
        """The points of the figure that have to run, as far as they are known before tuning."""
        untuned = {system.name for system in run.experiment.systems if not system.tune}
        counts = auto_repeats.counts(run.experiment, run.store, {})
        points = [*grid.points(run.experiment, None, counts), *_drawn(run, [])]
        known = self._todo(run, [point for point in points if point.system in untuned])
        return known + [point for point in points if point.system not in untuned]

    def _todo(self, run: _Run, points: list[grid.Point], is_plan: bool = True) -> list[grid.Point]:
        """The points that have to run: not stored yet, stored as failed, or stored by another build of loch-bench."""
        todo, names, stale = [], set(), 0
        for point in points:
            name = point_hash(point)
            if name in names:
                continue
            names.add(name)
            stored = run.store.find(name)
            if stored is not None and not stored.failed:
                if not run.store.is_stale(stored, point):
                    continue
                stale += 1
                if self._args.keep_stale:
                    continue
            todo.append(point)
        if self._args.keep_stale and not is_plan:
            run.stale += stale
        if stale and not self._warned_stale:
            what = "kept as they are (--keep-stale)" if self._args.keep_stale else "run again (--keep-stale keeps them)"
            print(
                f"warning: stored points were made by another binary or hardware file; they are {what}", file=sys.stderr
            )
            self._warned_stale = True
        return todo

    def _tune(self, run: _Run) -> None:
        todo = self._todo(run, grid.tuning_points(run.experiment), is_plan=False)
        self._start(run, todo, first=False)
        if not todo:
            self._find_maxima(run)

    def _find_maxima(self, run: _Run) -> None:
        """Called once all tuning candidates have run: chooses the best, and starts the closed-loop runs for loads
        relative to a maximum."""
        run.tuned = tuning.choose(run.experiment, run.store)
        maxima = grid.maximum_points(run.experiment, report.choices_by_key(run.tuned))
        todo = self._todo(run, maxima, is_plan=False)
        self._start(run, todo, first=False)
        if not todo:
            self._measure(run)

    def _measure(self, run: _Run) -> None:
        """Starts the points of the figure, once tuned parameters and rates are known."""
        run.choices = tuning.with_rates(run.experiment, run.store, run.tuned or [])
        thought = self._planned(run) if run.choices else None
        run.counts = auto_repeats.counts(run.experiment, run.store, report.choices_by_key(run.choices))
        todo = self._todo(run, [*_chosen(run), *_drawn(run, run.choices)], is_plan=False)
        if thought is not None and self._progress:
            self._progress.changed(
                len(todo) - len(thought), sum(map(run.costs.of, todo)) - sum(map(run.costs.of, thought))
            )
        self._start(run, todo, first=thought is not None)
        if not todo:
            self._write(run)

    def _repeat(self, run: _Run) -> None:
        """Called once the started points of the figure have run: with `repeats: auto` starts the further repeats that
        the results call for, and writes the outputs when there are none."""
        before = run.counts
        run.counts = auto_repeats.counts(run.experiment, run.store, report.choices_by_key(run.choices or []))
        further = [
            point for point in _chosen(run) if point.repeat >= before.get(_key(point), run.experiment.measure.repeats)
        ]
        todo = self._todo(run, further, is_plan=False)
        if not todo:
            self._write(run)
            return
        if self._progress:
            self._progress.changed(len(todo), sum(map(run.costs.of, todo)))
        self._start(run, todo, first=True)

    def _start(self, run: _Run, todo: list[grid.Point], first: bool) -> None:
        run.left = {point_hash(point) for point in todo}
        self._pool.add(
            run.executor,
            grid.shuffled(todo, run.experiment.measure.seed),
            lambda outcome: self._ended(run, outcome),
            first,
        )

    def _ended(self, run: _Run, outcome: Outcome) -> None:
        if self._progress:
            self._progress.ended(outcome, run.costs.of(outcome.point))
        run.left.discard(outcome.hash)
        if not run.left:
            if run.tuned is None:
                self._find_maxima(run)
            elif run.choices is None:
                self._measure(run)
            else:
                self._repeat(run)

    def _write(self, run: _Run) -> None:
        """Called once every point has run: writes the outputs. Figures are drawn while other experiments still run."""
        results = outputs.collect(run.experiment, run.store, run.choices or [])
        if run.samples is not None:
            by_key = report.choices_by_key(run.choices or [])
            results.bands = bands.compute(run.experiment, run.store, by_key, run.samples, run.store.binary, results)
            bands.write(run.folder, results.bands)
        elif (kept := bands.read(run.folder)) is not None:
            if kept.binary == file_hash(run.store.binary):
                results.bands = kept
            else:
                (run.folder / bands.NAME).unlink()
                run.said.append(f"{bands.NAME} was of another program and is gone; run again with --samples")
        run.verdicts, written = outputs.write(run.folder, results, run.choices or [], run.stale, run.store)
        run.comparisons = published.compare(results)
        run.obtained = report.obtained_tables(results)
        run.banded = band_report.lines(results, run.comparisons, run.verdicts)
        run.failures = [report.failure_text(row) for row in results.rows if not row.ok]
        run.said += _warnings(results)
        run.peak = max(((_peak_bytes(row), row.point.title()) for row in results.rows if row.ok), default=(0, ""))
        run.store.let_go()
        if outputs.is_drawn(run.folder, results):
            self._drawn(run, True)
            return
        self._prepare_drawing()
        self._pool.chore(lambda: outputs.draw_all(run.folder, results, written), lambda well: self._drawn(run, well))

    def _prepare_drawing(self) -> None:
        """Imports the drawing code before child processes that draw are forked, so that each does not import it
        itself."""
        import plots.draw

        if not self._can_draw and len(self._runs) > 1:
            plots.draw.prepare()
        self._can_draw = True

    def _drawn(self, run: _Run, well: bool) -> None:
        if not well:
            run.failures.append(f"{run.experiment.name}: its figure could not be drawn (see above)")
        if len(self._runs) > 1 and self._progress:
            self._progress.experiment_done(self._line(run))

    def _line(self, run: _Run) -> str:
        """The summary of one experiment in a line, printed when several experiments run."""
        parts = [grid.plan(run.experiment).split(" = ")[-1]]
        if run.failures:
            parts.append(f"{len(run.failures)} FAILED")
        counted = published.score(run.comparisons)
        if counted.numbers:
            parts.append(f"{counted.numbers} numbers, median error {counted.median_error:.1%}")
        if run.verdicts:
            parts.append(claims.summary(run.verdicts))
        return f"{run.experiment.name}: {', '.join(parts)}"

    def _tick(self) -> None:
        if self._progress:
            self._progress.tick()

    def _overview(self) -> None:
        """Writes one report.html for all experiments of this run."""
        if len(self._runs) > 1 and self._args.out:
            outputs.write_overview(Path(self._args.out))

    def _tell(self, took_s: float) -> int:
        failed = [failure for run in self._runs for failure in run.failures]
        if len(self._runs) == 1:
            tell_one(self._runs[0])
        else:
            tell_many(self._runs, took_s)
        for run in self._runs:
            for warning in run.said:
                print(
                    f"warning: {run.experiment.name}: {warning}" if len(self._runs) > 1 else f"warning: {warning}",
                    file=sys.stderr,
                )
        for failure in failed:
            print(f"failed {failure}", file=sys.stderr)
        return 1 if failed else 0


def _chosen(run: _Run) -> list[grid.Point]:
    """The points of the figure with the parameters that tuning chose, in as many repeats as `run.counts` has."""
    return grid.points(run.experiment, report.choices_by_key(run.choices or []), run.counts)


def _key(point: grid.Point) -> tuple:
    return grid.choice_key(point.system, point.axes)


def _drawn(run: _Run, choices: list[dict]) -> list[grid.Point]:
    """The runs of --samples: each point of the figure with each draw of the hardware constants."""
    if run.samples is None:
        return []
    return factors.all_points(run.experiment, report.choices_by_key(choices), run.samples)


def _warn_governor(run: _Run) -> None:
    governor = run.executor.host["governor"]
    if governor not in (None, "performance") and any(system.is_measured for system in run.experiment.systems):
        print(f"warning: the CPU governor is {governor}, not performance; measured points will vary", file=sys.stderr)


def _warnings(results: outputs.Results) -> list[str]:
    stored = [row.stored for row in results.rows if row.ok and row.stored is not None]
    out = [said for said in (report.not_steady(results), report.many_gave_up(results)) if said]
    builds = [each.result.known.loch for each in stored if each.result is not None]
    if any(build is not None and build.dirty for build in builds):
        out.append("the tree has uncommitted changes; the commit in the results does not say all")
    shares = [each.runner.others_cpu_share or 0 for each in stored]
    busy = sum(share > OTHERS_LIMIT for share in shares)
    if busy:
        out.append(
            f"others used over {OTHERS_LIMIT:.0%} of the CPU during {busy} measured points "
            f"(at most {max(shares):.0%}); compare them with care"
        )
    return out


def _peak_bytes(row: outputs.Row) -> int:
    simulated = row.result.known.sim
    return int(simulated.peak_memory_bytes or 0) if simulated is not None else 0


def tell_one(run: _Run) -> None:
    """Prints the comparison with published numbers, or the obtained values if there are none; then claims and output
    paths."""
    if run.comparisons:
        _print_table(
            report.comparison_head(published.called(run.experiment)), report.comparison_table(run.comparisons), texts=4
        )
        print(published.score(run.comparisons).text())
    else:
        for head, rows in run.obtained:
            _print_table(head, rows, texts=1)
    for line in run.banded:
        print(line)
    for verdict in run.verdicts:
        state = "not evaluated" if verdict.held is None else "held" if verdict.held else "NOT held"
        print(f"claim {state}: {verdict.text}" + (f" ({verdict.why})" if verdict.why else ""))
    print(f"{run.folder}: {' '.join(outputs.NAMES)}")


def _print_table(head: list[str], rows: list[list[str]], texts: int) -> None:
    """Prints aligned columns: the first `texts` columns are text, the others numbers."""
    lines = [head, *rows]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(head))]
    for line in lines:
        print(
            "  ".join(
                str(cell).ljust(width) if i < texts else str(cell).rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths))
            ).rstrip()
        )


def tell_many(runs: list[_Run], took_s: float) -> None:
    """Prints the claims that do not hold, the failed points, and the total score of several experiments."""
    for run in runs:
        for verdict in run.verdicts:
            if verdict.held is not True:
                state = "not evaluated" if verdict.held is None else "NOT held"
                print(f"{run.experiment.name}: claim {state}: {verdict.text} ({verdict.why})")
    print(published.score([each for run in runs for each in run.comparisons]).text())
    print(claims.summary([verdict for run in runs for verdict in run.verdicts]))
    (peak, point), name = max((run.peak, run.experiment.name) for run in runs)
    if peak:
        print(f"largest point: {peak / 2**20:,.0f} MiB, {point} of {name}")
    bad = [run.experiment.name for run in runs if run.failures]
    print(
        f"{len(runs)} experiments in {about(took_s)}"
        + (f"; with failures: {', '.join(bad)}" if bad else "; none failed")
    )
