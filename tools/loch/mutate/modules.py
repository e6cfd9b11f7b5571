"""The modules whose code `loch mutate` edits, and the tests, fuzz runs and explorations that judge each module's
edits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# Files that are not edited: tests and what only tests, benchmarks and fuzzers include; module.cc and options.cc, which
# hold defaults, help texts and what loch fuzz draws; and mutants.cc, the list of known-bad variants.
NOT_CODE = re.compile(
    r"(_test|_bench|_fuzz|_costs|_main)\.cc$|(^|/)(test_\w*|lying_disk|toy_\w*)\.\w+$"
    r"|(^|/)(options|mutants|module)\.(cc|h)$"
)


@dataclass(frozen=True)
class Explore:
    protocol: str
    scenario: str
    flags: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        return [self.protocol, self.scenario, *self.flags]


@dataclass(frozen=True)
class Variant:
    """A known-bad variant of a protocol that the unedited fuzzer finds within about `seed` seeds; if the fuzzer misses
    it after an edit, the edit counts as detected."""

    protocol: str
    mutant: str
    seed: int


@dataclass(frozen=True)
class Module:
    name: str
    folders: tuple[str, ...]
    tests: tuple[str, ...]  # build targets of the unit tests, in the order in which they run
    protocols: tuple[str, ...]  # protocols that `loch fuzz` runs
    explores: tuple[Explore, ...] = ()
    variants: tuple[Variant, ...] = ()
    only: re.Pattern[str] | None = None  # names of the files to edit; None: all files of the folders
    without: re.Pattern[str] | None = None
    # pattern of lines that are not edited: they implement known-bad variants or holes (known faults) of published
    # designs (docs/protocols.md)
    skip: re.Pattern[str] | None = None

    def files(self, tree: Path) -> list[str]:
        found = []
        for folder in self.folders:
            for path in sorted((tree / folder).iterdir()):
                name = path.relative_to(tree).as_posix()
                if path.suffix not in (".cc", ".h") or NOT_CODE.search(name):
                    continue
                if (self.only and not self.only.search(path.name)) or (self.without and self.without.search(path.name)):
                    continue
                found.append(name)
        return found


_COUPLED_FLAWS = re.compile(
    r"switches_early|reuses_at_once|empty_repeats|word_repeats|clears_first|replies_early|serves_any_row"
    r"|updates_in_place|verifies_misses|honours_expiry|polls_tail_unordered|flaws\b"
)
_RPC_FLAWS = re.compile(r"\bflaws_?\b")
_HERD_FLAWS = re.compile(
    r"executes_duplicates|awaits_no_reply|takes_any_reply|keeps_sequence|numbers\b|scans_all|never_zero|\.checks\b"
)
_PILAF_FLAWS = re.compile(r"\brules_?(\(\))?\.|\bRules\b|emulation")

_NESSIE_EXPLORES = (
    Explore("nessie", "GET K | PUT K | DELETE K", ("--set", "nessie.hash-functions=2")),
    Explore(
        "nessie",
        "DELETE K | DELETE K",
        ("--fail", "1", "--set", "nessie.hash-functions=2", "--set", "nessie.single-cas-delete=true"),
    ),
    Explore("nessie", "DELETE K | MIGRATE K", ("--fail", "1", "--set", "nessie.hash-functions=2")),
    Explore("nessie", "MIGRATE K | PUT K; GET K", ("--kill", "1", "--set", "nessie.hash-functions=2")),
    Explore(
        "nessie",
        "PUT K; PUT K | GET K",
        ("--clock", "2", "--set", "nessie.hash-functions=2", "--set", "nessie.min-spare=1"),
    ),
    Explore("nessie", "GET K | MIGRATE K | PUT K", ("--set", "nessie.hash-functions=2")),
)


def _served(protocol: str) -> tuple[Explore, ...]:
    return (Explore(protocol, "PUT K | DELETE K; GET K"), Explore(protocol, "PUT K | GET K", ("--fail", "1")))


_EVERY = ("nessie", "nessie-sd", "nessie-hy", "pilaf", "pilaf-vo", "herd")
# Known-bad variants, one for each kind of violation that the checker reports, with the seed of `./loch list mutants`.
_VARIANTS = (
    Variant("nessie", "empty-not-unique", 19),
    Variant("nessie", "no-rollback", 2),
    Variant("nessie", "link-unknown-is-free", 20),
    Variant("nessie", "link-before-write", 90),
    Variant("nessie-sd", "trailer-without-order", 2),
    Variant("nessie-sd", "slot-rewritten-unanswered", 27),
    Variant("nessie-hy", "tail-poll-without-order", 7),
    Variant("pilaf", "no-extent-crc", 2),
    Variant("herd", "trailer-alone", 7),
    Variant("herd", "any-reply-accepted", 6),
)

MODULES = {
    module.name: module
    for module in (
        Module(
            "nessie",
            ("nessie",),
            (
                "nessie_parts_test",
                "nessie_operations_test",
                "nessie_crash_test",
                "nessie_faults_test",
                "nessie_recovery_test",
                "nessie_repairs_test",
                "nessie_holes_test",
                "nessie_scan_test",
                "nessie_fabrics_test",
            ),
            ("nessie",),
            _NESSIE_EXPLORES,
        ),
        Module(
            "nessie_sd",
            ("nessie_sd", "common/coupled"),
            ("nessie_sd_test", "nessie_hy_test"),
            ("nessie-sd", "nessie-hy"),
            _served("nessie-sd") + _served("nessie-hy"),
            skip=_COUPLED_FLAWS,
        ),
        Module(
            "nessie_hy", ("nessie_hy",), ("nessie_hy_test",), ("nessie-hy",), _served("nessie-hy"), skip=_COUPLED_FLAWS
        ),
        Module(
            "pilaf_em",
            ("pilaf_em",),
            ("pilaf_parts_test", "pilaf_log_file_test", "pilaf_log_disk_test", "pilaf_log_test", "pilaf_fabrics_test"),
            ("pilaf", "pilaf-vo"),
            _served("pilaf") + _served("pilaf-vo"),
            skip=_PILAF_FLAWS,
            without=re.compile(r"emulation"),
        ),
        Module(
            "herd_em",
            ("herd_em",),
            ("herd_parts_test", "herd_fabrics_test"),
            ("herd",),
            _served("herd"),
            skip=_HERD_FLAWS,
        ),
        Module(
            "rpc",
            ("common/rpc",),
            ("rpc_test", "datagram_test", "message_channel_test", "posting_test", "write_channel_test"),
            _EVERY[1:],
            _served("nessie-sd") + _served("pilaf-vo") + _served("herd"),
            skip=_RPC_FLAWS,
        ),
        Module(
            "cuckoo",
            ("common/cuckoo",),
            ("cuckoo_test", "nessie_parts_test", "nessie_sd_test", "pilaf_parts_test"),
            _EVERY[:5],
            _NESSIE_EXPLORES[:1] + _served("nessie-hy") + _served("pilaf"),
        ),
        Module(
            "check",
            ("common/check",),
            ("check_test", "check_crosscheck_test", "history_corpus_test", "fuzz_test"),
            _EVERY,
            variants=_VARIANTS,
            without=re.compile(r"^report\."),
        ),
        # For the simulator, edits of events and their order are judged; its timing model is validated by ./loch
        # calibrate.
        Module(
            "sim",
            ("common/fabric/sim",),
            ("sim_test", "sim_cpu_test", "fabric_sim_litmus_test", "fabric_conformance_test", "fabric_litmus_test"),
            _EVERY,
            variants=_VARIANTS,
            only=re.compile(
                r"^(fabric|failures|faults|memory|request|requester|responder|worker|worker_run|simulation|scheduler"
                r"|event_queue|event)\.(cc|h)$"
            ),
        ),
    )
}
