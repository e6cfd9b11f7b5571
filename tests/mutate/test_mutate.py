"""Tests of `loch mutate`: a small file has exactly the expected edits, a resumed run judges no edit twice, and an edit
that does not compile does not count as killed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from loch.mutate import edits as finder
except SystemExit:  # the module exits if Debian's python3-clang-19 is missing
    raise unittest.SkipTest("python3-clang-19 is not installed") from None
from loch.mutate import session
from loch.mutate.judge import Bench, Judge, Scratch, ScratchError, Verdict, judges_of
from loch.mutate.results import ACCEPTED, Accepted, Results, ResultsError, accepted
from loch.mutate.modules import MODULES

ROOT = Path(__file__).resolve().parents[2]

SMALL = """\
#define LOCH_CHECK(condition) ((condition) ? 0 : throw 1)
#define LOCH_TRY(call) do { if (!(call)) return 7; } while (false)
#define LOCH_CO_TRY(step) do { if (!(step)) return 8; } while (false)
// a < b && "c < d" in a comment
const char* name() { return 1 < 2 ? "less" : "more"; }
bool ready(int one, int two);
struct Counts { int done; } counts;
int both(int a, int b, bool is_on) {
  LOCH_CHECK(a > 0);
  LOCH_TRY(ready(a, b));
  LOCH_CO_TRY(ready(a, b));
  if (is_on) return 3;
  ++counts.done;
  a += b;
  while (a <= b && is_on) {
    ready(b, a);
  }
  return a - b;
}
"""

EXPECTED = {
    (10, "dropped check", "LOCH_TRY(ready(a, b))", "static_cast<void>(ready(a, b))"),
    (11, "dropped check", "LOCH_CO_TRY(ready(a, b))", "static_cast<void>(co_await (ready(a, b)))"),
    (12, "negated condition", "is_on", "!(is_on)"),
    (12, "dropped check", "if (is_on) return 3", ""),
    (12, "constant", "3", "2|4"),
    (14, "dropped statement", "a += b", ""),
    (14, "arithmetic", "+=", "-="),
    (15, "relation", "<=", "<"),
    (15, "logic", "&&", "||"),
    (16, "dropped statement", "ready(b, a)", ""),
    (16, "swapped arguments", "b, a", "a, b"),
    (18, "arithmetic", "-", "+"),
}


def tree_with(text: str, folder: Path) -> Path:
    (folder / "cmake").mkdir()
    (folder / "cmake" / "Compiler.cmake").write_text("set(CMAKE_CXX_STANDARD 23)\n")
    (folder / "room").mkdir()
    (folder / "room" / "small.cc").write_text(text)
    return folder


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)


class Edits(Folder):
    def test_a_small_file_has_these_and_no_others(self) -> None:
        found = finder.find(tree_with(SMALL, self.folder), "room/small.cc")
        as_text = {
            (each.line, each.kind, each.before, "2|4" if each.kind == "constant" else each.after) for each in found
        }
        self.assertEqual(as_text, EXPECTED)
        self.assertEqual(len({each.id for each in found}), len(found))

    def test_an_edit_changes_its_place_alone_and_shows_it(self) -> None:
        tree = tree_with(SMALL, self.folder)
        edit = next(each for each in finder.find(tree, "room/small.cc") if each.kind == "relation")
        changed = edit.apply(SMALL.encode()).decode()
        self.assertEqual(changed.replace("a < b && is_on", "a <= b && is_on"), SMALL)
        self.assertEqual(edit.diff(SMALL.encode()), "-  while (a <= b && is_on) {\n+  while (a < b && is_on) {")

    def test_awaits_and_lines_of_known_bad_variants(self) -> None:
        text = """\
#include <coroutine>
struct Task { struct promise_type { Task get_return_object() { return {}; } std::suspend_never initial_suspend() { return {}; }
  std::suspend_never final_suspend() noexcept { return {}; } void return_void() {} void unhandled_exception() {} }; };
struct Worker { std::suspend_never compute(int) { return {}; } std::suspend_never post() { return {}; } };
Task run(Worker worker, bool rules_breaks) {
  co_await worker.compute(3);
  co_await worker.post();
  if (rules_breaks) co_return;
}
"""
        found = finder.find(tree_with(text, self.folder), "room/small.cc", re.compile("rules_breaks"))
        self.assertEqual(
            {(each.line, each.kind, each.before) for each in found}, {(7, "dropped await", "co_await worker.post()")}
        )

    def test_what_does_not_parse_is_said(self) -> None:
        with self.assertRaisesRegex(ValueError, "room/small.cc does not parse"):
            finder.find(tree_with("int f( {", self.folder), "room/small.cc")

    def test_what_is_kept_is_of_the_same_text(self) -> None:
        tree, cache = tree_with(SMALL, self.folder), self.folder / "cache"
        first = finder.find(tree, "room/small.cc", cache=cache)
        self.assertEqual(finder.find(tree, "room/small.cc", cache=cache), first)
        (tree / "room" / "small.cc").write_text(SMALL.replace("return 3", "return 5"))
        again = finder.find(tree, "room/small.cc", cache=cache)
        self.assertFalse({each.id for each in first} & {each.id for each in again})


class Drawing(Folder):
    def test_a_seed_draws_the_same_and_nothing_twice(self) -> None:
        found = finder.find(tree_with(SMALL, self.folder), "room/small.cc")
        drawn = session.draw(found, 6, "1 room")
        self.assertEqual(drawn, session.draw(found, 6, "1 room"))
        self.assertEqual(len(set(drawn)), 6)
        self.assertEqual(set(session.draw(found, 1000, "1 room")), set(found))
        self.assertNotEqual([each.id for each in drawn], [each.id for each in session.draw(found, 6, "2 room")])


class Modules(unittest.TestCase):
    def test_every_module_has_files_and_tests_that_are_registered(self) -> None:
        registered = set()
        for lists in (*ROOT.rglob("CMakeLists.txt"), *ROOT.rglob("*.cmake")):
            if "build" not in lists.relative_to(ROOT).parts:
                registered |= set(re.findall(r"loch_test\((\w+)", lists.read_text()))
        for module in MODULES.values():
            self.assertTrue(module.files(ROOT), module.name)
            self.assertLessEqual(set(module.tests), registered, module.name)
            self.assertFalse([name for name in module.files(ROOT) if "_test" in name], module.name)


class FakeScratch:
    """A fake Scratch with one file, whose build and judges end as the test says."""

    def __init__(self, tree: Path, compiles: bool, statuses: dict[str, int | None]) -> None:
        self.copy = tree
        self._compiles = compiles
        self._statuses = statuses
        self.is_edited = False
        self.asked: list[str] = []

    def make(self, targets: list[str], limit_s: float = 0) -> bool:
        return self._compiles or not self.is_edited

    def write(self, edit: finder.Edit) -> bytes:
        self.is_edited = True
        return b"before"

    def restore(self, edit: finder.Edit, before: bytes) -> None:
        assert before == b"before"
        self.is_edited = False

    def judge(self, judge: Judge, limit_s: float) -> int | None:
        self.asked.append(judge.name)
        return self._statuses.get(judge.name, 0) if self.is_edited else judge.status


class Judging(Folder):
    def judged(self, compiles: bool, statuses: dict[str, int | None]) -> tuple[Verdict, FakeScratch]:
        tree = tree_with(SMALL, self.folder)
        scratch = FakeScratch(tree, compiles, statuses)
        judges = [
            Judge("unit tests", "small_test", ("small_test",), "small_test"),
            Judge("fuzz", "fuzz small", ("bench",), "bench"),
            Judge("fuzz", "fuzz mutant", ("bench",), "bench", status=1),
        ]
        bench = Bench(scratch, lambda _: None)  # type: ignore[arg-type]
        bench.prepare(judges)
        scratch.asked.clear()
        return bench.judge(finder.find(tree, "room/small.cc")[0], judges), scratch

    def test_what_does_not_compile_is_no_kill(self) -> None:
        verdict, scratch = self.judged(False, {"small_test": 1})
        self.assertEqual((verdict.outcome, verdict.by), ("not compiled", ""))
        self.assertEqual(scratch.asked, [])
        self.assertFalse(scratch.is_edited)

    def test_the_first_that_sees_it_kills(self) -> None:
        verdict, scratch = self.judged(True, {"small_test": -6})
        self.assertEqual((verdict.outcome, verdict.by, verdict.how), ("killed", "small_test", "signal 6"))
        self.assertEqual(scratch.asked, ["small_test"])

    def test_a_program_that_hangs_is_killed_by_its_time_limit(self) -> None:
        verdict, _ = self.judged(True, {"fuzz small": None})
        self.assertEqual((verdict.outcome, verdict.stage, verdict.how), ("killed", "fuzz", "time limit"))

    def test_a_known_bad_variant_that_is_no_longer_found_kills(self) -> None:
        verdict, _ = self.judged(True, {"fuzz mutant": 0})
        self.assertEqual((verdict.outcome, verdict.by), ("killed", "fuzz mutant"))

    def test_all_as_before_survives(self) -> None:
        verdict, scratch = self.judged(True, {"fuzz mutant": 1})
        self.assertEqual(verdict.outcome, "survived")
        self.assertFalse(scratch.is_edited)

    def test_a_tree_that_fails_unedited_judges_nothing(self) -> None:
        scratch = FakeScratch(tree_with(SMALL, self.folder), True, {"small_test": 1})
        scratch.is_edited = True
        with self.assertRaisesRegex(ScratchError, "without an edit, small_test ends with status 1"):
            Bench(scratch, lambda _: None).prepare([Judge("unit tests", "small_test", (), "x")])  # type: ignore[arg-type]

    def test_patience_is_times_the_limit(self) -> None:
        judge = Judge("unit tests", "small_test", (), "x")
        benches = [
            Bench(FakeScratch(self.folder, True, {}), lambda _: None, patience)  # type: ignore[arg-type]
            for patience in (1, 4)
        ]
        for bench in benches:
            bench.prepare([judge])
        usual, patient = (bench.limit_of(judge) for bench in benches)
        self.assertAlmostEqual(patient / usual, 4, places=1)

    def test_the_order_of_the_judges(self) -> None:
        stages = [judge.stage for judge in judges_of(MODULES["nessie"], 7)]
        self.assertEqual(sorted(stages, key=["unit tests", "fuzz", "explore"].index), stages)
        self.assertIn("7", next(judge for judge in judges_of(MODULES["nessie"], 7) if judge.stage == "fuzz").argv)


class Kept(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.folder / "kept" / "results.jsonl"
        self.edits = finder.find(tree_with(SMALL, self.folder), "room/small.cc")

    def test_a_resumed_run_does_not_judge_again(self) -> None:
        results = Results(self.path)
        results.add(
            "room", self.edits[0], "-a\n+b", Verdict("killed", "small_test", "unit tests", "status 1", 2.0), 300
        )
        with self.path.open("a") as file:
            file.write('{"version": 1, "ro')  # a line cut off because the process was killed while writing
        again = Results(self.path)
        self.assertTrue(again.has("room", self.edits[0], 300))
        self.assertFalse(again.has("room", self.edits[0], 3000))
        self.assertFalse(again.has("room", self.edits[1], 300))
        again.add("room", self.edits[1], "-c\n+d", Verdict("survived"), 300)
        self.assertEqual(len(Results(self.path).rows), 2)

    def test_what_is_judged_again_counts_as_judged_last(self) -> None:
        results = Results(self.path)
        verdicts = (
            Verdict("survived"),
            Verdict("killed", "small_test", "unit tests", "time limit"),
            Verdict("killed", "small_test", "unit tests", "status 1"),
        )
        for edit, verdict in zip(self.edits, verdicts):
            results.add("room", edit, "-a\n+b", verdict, 300)

        def in_doubt(again: list[str], *excused: Accepted) -> list[bool]:
            return [results.is_in_doubt("room", edit, 300, again, list(excused)) for edit in self.edits[:4]]

        self.assertEqual(in_doubt([]), [False] * 4)
        self.assertEqual(in_doubt(["survived"]), [True, False, False, False])
        same = Accepted(self.edits[0].path, "-a\n+b", "equivalent", "it is the same")
        self.assertEqual(in_doubt(["survived", "time-limit"], same), [False, True, False, False])
        self.assertEqual(in_doubt(["time-limit"]), [False, True, False, False])
        self.assertEqual(in_doubt(["survived", "time-limit"]), [True, True, False, False])
        results.add("room", self.edits[0], "-a\n+b", verdicts[2], 300)
        results = Results(self.path)
        self.assertEqual(in_doubt(["survived"]), [False] * 4)
        self.assertIn("| room | 3 | 0 | 3 | 0 | 0 | 1 | 0 | 0 | 100% |", results.report(["room"], []))

    def test_the_rate_is_of_those_that_compile(self) -> None:
        results = Results(self.path)
        for edit, outcome, stage in zip(
            self.edits,
            ("killed", "killed", "killed", "survived", "not compiled"),
            ("unit tests", "fuzz", "explore", "", ""),
        ):
            results.add("room", edit, "-x\n+y", Verdict(outcome, "judge", stage), 300)
        report = results.report(["room"], [])
        self.assertIn("| room | 5 | 1 | 1 | 1 | 1 | 0 | 1 | 0 | 75% |", report)
        self.assertIn(f"room room/small.cc:{self.edits[3].line}", report)
        self.assertIn("survived; nobody has said why", report)

    def test_what_nobody_can_see_is_counted_apart_and_only_that(self) -> None:
        results = Results(self.path)
        results.add("room", self.edits[0], "-x\n+y", Verdict("survived"), 300)
        results.add("room", self.edits[1], "-x\n+z", Verdict("survived"), 300)
        results.add("room", self.edits[2], "-x\n+y", Verdict("killed", "judge", "fuzz"), 300)
        report = results.report(["room"], [Accepted("room/small.cc", "-x\n+y", "time alone", "it waits")])
        self.assertIn("| room | 3 | 0 | 0 | 1 | 0 | 0 | 2 | 1 | 50% |", report)
        self.assertIn("survived; time alone: it waits\n-x\n+y", report)
        elsewhere = Accepted("room/small.cc", "-x\n+y", "time alone", "it waits", line=self.edits[0].line + 1)
        self.assertIn("| room | 3 | 0 | 0 | 1 | 0 | 0 | 2 | 0 | 33% |", results.report(["room"], [elsewhere]))

    def test_what_is_accepted_is_of_lines_that_are_there(self) -> None:
        rows = accepted()
        self.assertTrue(rows)
        for row in rows:
            text = (ROOT / row.path).read_text().splitlines()
            gone = [line[1:] for line in row.diff.splitlines() if line.startswith("-")]
            self.assertTrue(gone and row.why, row.path)
            places = [at + 1 for at in range(len(text)) if text[at : at + len(gone)] == gone]
            self.assertTrue(
                places == [row.line or places[0]] if len(places) == 1 else row.line in places,
                f"{ACCEPTED.name}: {row.path} has these lines at {places}: {gone}",
            )

    def test_an_accepted_edit_needs_its_kind(self) -> None:
        path = self.folder / "accepted.json"
        row = {"path": "a", "diff": "-x", "kind": "blind", "why": "nobody looks"}
        for text in (json.dumps([row]), json.dumps([{"path": "a"}]), "{"):
            path.write_text(text)
            with self.assertRaisesRegex(ResultsError, "accepted.json"):
                accepted(path)

    def test_a_file_of_another_kind_is_refused(self) -> None:
        self.path.parent.mkdir()
        for text, said in (
            ("{}\n", "not of version 1"),
            ("hello\n", "expected a JSON object"),
            (json.dumps({"version": 1}) + "\n", 'lacks "by"'),
        ):
            self.path.write_text(text)
            with self.assertRaisesRegex(ResultsError, said):
                Results(self.path)


class CommandLine(unittest.TestCase):
    def refused(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools/loch"), "--no-setup", "mutate", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_bad_flags_are_one_line(self) -> None:
        self.assertIn("nesie", self.refused("--room", "nesie"))
        self.assertIn("--edits", self.refused("--edits", "0"))
        self.assertIn("--time", self.refused("--time", "soon"))
        self.assertIn("--again", self.refused("--again", "killed"))
        self.assertIn("--patience", self.refused("--patience", "0"))
        self.assertIn("expected a file of results", self.refused("--report", "--results", "/"))


class OneCopy(Folder):
    def test_the_copy_follows_the_tree_and_leaves_it_alone(self) -> None:
        tree = self.folder / "tree"
        tree.mkdir()
        subprocess.run(["git", "init", "-q", str(tree)], check=True)
        (tree / "a.cc").write_text("1")
        (tree / "b.cc").write_text("2")
        scratch = Scratch(tree, self.folder / "scratch", 1)
        scratch.copy.parent.mkdir()
        scratch.refresh()
        when = (scratch.copy / "a.cc").stat().st_mtime_ns
        (scratch.copy / "b.cc").write_text("edited")  # left behind by an interrupted run
        (scratch.copy / "c.cc").write_text("3")
        scratch.build.mkdir(parents=True)
        (scratch.build / "a.o").write_text("4")
        scratch.refresh()
        self.assertEqual((scratch.copy / "b.cc").read_text(), "2")
        self.assertFalse((scratch.copy / "c.cc").exists())
        self.assertTrue((scratch.build / "a.o").exists())
        self.assertEqual((scratch.copy / "a.cc").stat().st_mtime_ns, when)
        self.assertEqual(sorted(path.name for path in tree.iterdir()), [".git", "a.cc", "b.cc"])


if __name__ == "__main__":
    unittest.main()
