"""Chooses what runs a command: loch-bench, which is built first if needed, or a module of this package."""

from __future__ import annotations

import os
import sys

from loch import places

TYPE_CHECKING = False
if TYPE_CHECKING:  # has the meaning of typing.TYPE_CHECKING; importing typing would slow down every start
    from collections.abc import Callable
    from types import ModuleType

OF_PROGRAM = ("bench", "check", "fuzz", "explore", "list", "devices", "ping", "litmus", "hog", "calibrate", "cpu")
OF_RUNNER = ("run", "plot", "score", "compare", "reference", "schema")
COMMANDS = (
    "new",
    "run",
    "bench",
    "bench-suite",
    "check",
    "fuzz",
    "explore",
    "mutate",
    "score",
    "compare",
    "plot",
    "reference",
    "schema",
    "list",
    "devices",
    "ping",
    "litmus",
    "doctor",
    "calibrate",
    "cpu",
    "sequence",
    "softroce",
    "hog",
    "power",
    "test",
    "completion",
    "help",
)

USAGE = """\
Loch: published designs of RDMA key-value stores, side by side.

  ./loch new NAME --like KIND  a folder with a small protocol, its tests, an experiment and a page
  ./loch run FILE.yaml…        run experiments and draw their figures
  ./loch bench [flags]         one point; the result as JSON
  ./loch bench-suite           how fast the simulator is on this machine, beside other simulators
  ./loch check HISTORY…        is a recorded history linearizable?
  ./loch fuzz [flags]          many simulated runs with faults, each history checked
  ./loch explore PROTOCOL [SCENARIO] [flags]
                               every interleaving of the protocol's own code for a few operations
  ./loch mutate [flags]        random single edits of the code: do the tests, fuzz and explore see them?
  ./loch score [DIR]           published numbers against what we obtain
  ./loch compare A B           do two result folders differ? exit status 1: B is worse
  ./loch plot DIR              redraw figures from stored results (reference: those of the papers)
  ./loch reference DIR         make small reference results of finished runs
  ./loch schema                the JSON Schema of an experiment, for editors
  ./loch list WHAT             protocols, fabrics, hardware, workloads, experiments, mutants, holes, probes,
                               faults, fields, keys, counters
  ./loch calibrate             the simulator's calibration: published, obtained, error
  ./loch calibrate --samples N  each row with its band: how far the constants' ranges let it vary
  ./loch calibrate --cpu       what servers' work takes on this machine, beside what is simulated
  ./loch cpu                   what this machine's processor takes for the parts of a server's work
  ./loch calibrate --rows FILE.csv --out OUT.csv
                               the rows of a table of measurements, simulated
  ./loch sequence PROTOCOL     sequence diagrams of a GET, a PUT and a DELETE, from a simulated run
  ./loch devices               RDMA devices of this machine as the verbs fabric sees them, and its choice
  ./loch ping                  pings between all pairs of nodes: round trips, rates, loss, and what stands out
  ./loch litmus [--hostfile H] races between two nodes: what a NIC does against what it claims
  ./loch doctor                is this machine ready for verbs?
  ./loch softroce -- COMMAND   run COMMAND in a machine with a Soft-RoCE NIC
  ./loch hog, ./loch power     CPU contention and energy by themselves
  ./loch test [--quick] [--filter REGEX] [--coverage] [--zoo] [--lint [--all]]
                               build and run the tests: unit, protocol, end to end, then the
                               sanitized ones and the parsers' fuzzers; --coverage: lines and branches
                               reached; --zoo: all on NICs that are not here; --lint: format, clang-tidy and house rules instead
  ./loch completion bash       completion of commands, flags and names, for ~/.bashrc

`./loch COMMAND --help` says more. Missing Debian packages are installed first (with sudo where this
is not root), and the program is built when a source has changed; `./loch --no-setup COMMAND` does
neither, and runs the program that is there ($LOCH_BIN, if that is set). LOCH_BUILD=DIR moves the
build folder (default: build/ beside this script). LOCH_PROTOCOLS=DIR[:DIR…] builds in protocols
whose folders lie elsewhere:

  ./loch new mine --like rpc --at ~/stores
  LOCH_PROTOCOLS=~/stores/mine ./loch bench --protocol mine --fabric sim --nodes 3

example: ./loch run experiments/quickstart.yaml
exit status: that of the command; 1 a build failed, 2 bad input or missing packages, 130 interrupted
"""


def main(argv: list[str]) -> int:
    with_setup = argv[:1] != ["--no-setup"]
    command, *words = (argv if with_setup else argv[1:]) or [""]
    try:
        if command == "calibrate" and _calibrates_in_package(words):
            return _of_package(command, words, with_setup)
        if command == "litmus" and _has_hostfile(words):
            return _of_package(command, words, with_setup)
        if command in OF_PROGRAM:
            return _set_up(with_setup) or _become_program(command, words, with_setup)
        return _of_package(command, words, with_setup)
    except KeyboardInterrupt:  # Ctrl-C before set-up or a command has started anything
        print("loch: interrupted", file=sys.stderr)
        return 130


def _has_hostfile(words: list[str]) -> bool:
    from loch import litmus

    return litmus.has_hostfile(words)


def _calibrates_in_package(words: list[str]) -> bool:
    """Whether this package runs `calibrate`: loch-bench has its --pcie and its help alone."""
    return _has_rows(words) or "--cpu" in words or not {"--pcie", "--help", "-h"} & set(words)


def _has_rows(words: list[str]) -> bool:
    """Whether --rows or --out is given: `calibrate` then simulates the rows of a table that the user gives."""
    return any(word.partition("=")[0] in ("--rows", "--out") for word in words)


def _set_up(with_setup: bool) -> int:
    """Builds loch-bench if needed. Returns 0 once it can be run; takes little time if nothing has changed."""
    if not with_setup:
        return 0
    if places.is_softroce_machine():
        if os.access(places.BINARY, os.X_OK):
            return 0
    elif not os.environ.get("LOCH_PROTOCOLS"):
        from loch.setup import current

        if current.nothing_to_do(""):
            return 0
    return _ready(lambda needs: needs.for_program())


def _ready(need: Callable[[ModuleType], None]) -> int:
    """Calls `need` with the module loch.setup.needs, by which it builds or installs what a command needs; returns the
    exit status. Not for an installed Loch, which has no loch.setup."""
    from loch.setup import needs, outcome

    return outcome.status_of(lambda: need(needs))


def _become_program(command: str, words: list[str], with_setup: bool) -> int:
    """Replaces this process with loch-bench; returns an exit status only if loch-bench cannot be started."""
    program = _program(with_setup)
    import _signal  # imports _signal instead of signal, whose enumerations take longer than all other imports together

    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores these signals, and loch-bench would inherit that
        _signal.signal(number, _signal.SIG_DFL)
    _set_environment(with_setup)
    try:
        os.execve(program, [program, command, *words], os.environ)
    except OSError as error:
        print(f"loch: {program} cannot be started: {error.strerror}", file=sys.stderr)
        return 2


def _program(with_setup: bool) -> str:
    return places.BINARY if with_setup else os.environ.get("LOCH_BIN") or places.BINARY


def _set_environment(with_setup: bool) -> None:
    """Sets loch-bench's environment: LOCH_HOME, the folder of Loch's files, and huge pages for the C library's heap.

    A simulated cluster accesses tens of megabytes at random and would mostly miss the TLB; a kernel without huge pages
    ignores the setting.
    """
    if with_setup or "LOCH_HOME" not in os.environ:
        os.environ["LOCH_HOME"] = places.SOURCE
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")


def _of_package(command: str, words: list[str], with_setup: bool) -> int:
    # ./loch starts Python without the module site, by which the commands of this package find Debian's packages
    if sys.flags.no_site:
        import site

        site.main()
    if with_setup:
        os.environ["LOCH_BUILD"] = places.BUILD
    if command == "new":
        from loch import new
        from loch.ending import status_of

        return status_of(lambda: new.main(words), "loch: new")
    if command == "doctor":
        return _doctor(words, with_setup)
    if command == "completion":
        from loch import completion

        return completion.main(words)
    if command == "litmus":
        from loch import litmus

        _set_environment(with_setup)
        return litmus.main(words, lambda: _set_up(with_setup), _program(with_setup))
    if command in ("test", "mutate", "softroce", "power", "sequence", "calibrate", "bench-suite", *OF_RUNNER):
        return _with_needs(command, words, with_setup)
    from loch.ending import status_of

    return status_of(lambda: _say_usage(command), "loch")


def _doctor(words: list[str], with_setup: bool) -> int:
    """Runs `loch doctor` with the loch-bench that is there: a host that is not ready for RDMA may be unable to build.

    With --protocol loch-bench is built, because only loch-bench knows what a protocol needs of the hardware.
    """
    os.environ["LOCH_BIN"] = _program(with_setup)
    asks_of_protocol = any(word.split("=")[0] == "--protocol" for word in words)
    if asks_of_protocol and not {"-h", "--help"} & set(words):
        status = _set_up(with_setup)
        if status:
            return status
    from loch.doctor import main as doctor

    return doctor.main(words)


def _with_needs(command: str, words: list[str], with_setup: bool) -> int:
    """Runs a command of this package that needs a setup step; the command checks its flags first, then runs the
    step."""
    if command == "test":
        from loch.setup import outcome, tests

        return outcome.status_of(lambda: tests.main(words))
    if command == "mutate":  # `loch mutate` builds its own copy of the source tree, so nothing is built before
        from loch.mutate import main as mutate

        return mutate.main(words, lambda: with_setup and _ready(lambda needs: needs.for_mutate()))
    if command == "softroce":
        from loch.softroce import main as softroce

        return softroce.main(words, lambda run: with_setup and _ready(lambda needs: needs.for_softroce(run)))
    # `loch power` reads instruments and builds nothing; the COMMAND that it measures may be a ./loch that builds
    if command == "power":
        from loch.power import main as power

        return power.main(words, lambda: with_setup and _ready(lambda needs: needs.for_power(words)))
    os.environ["LOCH_BIN"] = _program(with_setup)
    _set_environment(with_setup)
    if command == "calibrate":
        from loch.measured_rows import cpu, main as own_rows, samples, tables

        has_samples = any(word.partition("=")[0] == "--samples" for word in words)
        calibrate = (
            cpu.main
            if "--cpu" in words
            else samples.main
            if has_samples
            else own_rows.main
            if _has_rows(words)
            else tables.main
        )
        return calibrate(words, lambda: with_setup and _ready(lambda needs: needs.for_program()), _program(with_setup))
    if command == "sequence":
        from loch import sequence

        return sequence.main(
            words, lambda: with_setup and _ready(lambda needs: needs.for_program()), _program(with_setup)
        )
    if command == "bench-suite":
        from loch.bench_suite import main as bench_suite

        return bench_suite.main(
            words, lambda: with_setup and _ready(lambda needs: needs.for_bench_suite()), _program(with_setup)
        )
    from loch.runner import main as runner

    return runner.main([command, *words], lambda: with_setup and _ready(lambda needs: needs.for_runner(words)))


def _say_usage(command: str) -> int:
    from loch.ending import CommandError

    if command in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if not command:
        print(USAGE, end="", file=sys.stderr)
        return 2
    near = nearest(command[:20])
    raise CommandError(
        f"unknown command '{command}'{f', did you mean {near}?' if near else ''} (loch --help lists them)"
    )


def nearest(word: str) -> str:
    """The command with the smallest edit distance to `word`, if that is below 4; else ""."""
    distance, _, command = min((_edit_distance(word, each), at, each) for at, each in enumerate(COMMANDS))
    return command if distance < 4 else ""


def _edit_distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row = row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(above[j - 1] + (letter != wanted), above[j] + 1, row[-1] + 1))
    return row[-1]
