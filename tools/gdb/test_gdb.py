"""Tests of gdb's command `loch coroutines`: the names, files and lines that it prints of programs with waiting
coroutines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/gdb/loch_gdb.py"
SOURCE = "tools/gdb/waiting_main.cc"
PROGRAMS = {name: os.environ[f"LOCH_WAITING_{name.upper()}"] for name in ("plain", "optimized")}
BENCH = os.environ["LOCH_BIN"]
PLACE = re.compile(r" at (\S+):(\d+)")


def gdb(program: str, *commands: str, timeout: float = 240) -> str:
    arguments = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending off"]
    for command in (f"source {SCRIPT}", *commands):
        arguments += ["-ex", command]
    done = subprocess.run(
        [*arguments, program],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "LOCH_HOME": str(ROOT)},
    )
    return done.stdout + done.stderr


def why_not() -> str | None:
    """Why gdb cannot trace a program on this machine; None if it can."""
    if shutil.which("gdb") is None:
        return "no gdb here"
    if os.uname().machine != "x86_64":
        return "gdb's script reads x86-64 code"
    shown = gdb("/bin/true", "starti", "info registers rip", "kill")
    return None if re.search(r"^rip\s", shown, re.M) else "gdb may trace nothing here"


def line_of(name: str) -> str:
    """FILE:LINE of the comment `// waits: NAME` in the test program, where coroutine NAME is suspended."""
    lines = (ROOT / SOURCE).read_text(encoding="utf-8").splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if line.endswith(f"// waits: {name}")]
    return f"{SOURCE}:{number}"


def workers_of(shown: str) -> dict[str, list[str]]:
    """The output of `loch coroutines` as a list of texts, one for each coroutine, by the worker's title."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^(?=worker |of no worker)", shown, flags=re.M)[1:]:
        title, _, rest = part.partition("\n")
        coroutines = re.split(r"^  (?=\S)", rest, flags=re.M)[1:]
        found[title] = [re.split(r"(?<=\n)(?=\S)", text)[0] for text in coroutines]
    return found


@unittest.skipIf(why_not(), why_not() or "")
class Coroutines(unittest.TestCase):
    def one(self, texts: list[str], name: str) -> str:
        found = [text for text in texts if text.startswith(f"waiting::{name} at ")]
        self.assertEqual(len(found), 1, f"{name} among:\n" + "\n".join(texts))
        return found[0]

    def check(self, shown: str, fabric: str) -> None:
        workers = workers_of(shown)
        reader = f'worker 0 of node 0, client "reader" on {fabric}: 5 coroutines'
        stopper = f'worker 0 of node 1, client "stopper" on {fabric}: 1 coroutine'
        server = f'worker 1 of node 1, server "server" on {fabric}: 1 coroutine'
        self.assertEqual(set(workers), {reader, stopper, server}, shown)

        read = self.one(workers[reader], "read_far")
        self.assertIn(f"at {line_of('read')}\n", read)
        if fabric == "sim":  # on shm, whose workers run in real time, this worker may be between two READs
            self.assertIn("waits for READ of 32768 bytes, node 1\n", read)
        self.assertIn(f"child of a Scope of waiting::reader_main at {line_of('join')}\n", read)
        sleep = self.one(workers[reader], "sleep_long")
        self.assertIn(f"at {line_of('timer')}\n    waits for a timer", sleep)
        watch = self.one(workers[reader], "watch_word")
        self.assertIn(f"at {line_of('watch')} (2 alike)\n    waits for a watch of the word at 8 of a region\n", watch)
        self.assertIn(f"awaited by waiting::watch_through_a_task at {line_of('task')}\n", watch)
        join = self.one(workers[reader], "reader_main")
        self.assertIn(f"at {line_of('join')}\n    waits for the 4 children of its Scope\n", join)
        self.assertIn("waits for nothing: it runs\n", self.one(workers[stopper], "stopper_main"))
        receive = self.one(workers[server], "server_main")
        self.assertIn(f"at {line_of('receive')}\n    waits for a message (rc)\n", receive)

    def test_names_files_and_lines_on_each_fabric(self) -> None:
        for variant, program in PROGRAMS.items():
            for fabric in ("sim", "shm"):
                with self.subTest(variant=variant, fabric=fabric):
                    self.check(gdb(program, "break stop_here", f"run {fabric}", "loch coroutines", "kill"), fabric)

    def test_a_core_file_shows_the_same(self) -> None:
        with tempfile.TemporaryDirectory(prefix="loch-gdb-") as folder:
            core = f"{folder}/core"
            program = PROGRAMS["optimized"]
            gdb(program, "break stop_here", "run sim", f"generate-core-file {core}", "kill")
            self.assertTrue(Path(core).exists())
            self.check(gdb(program, f"core-file {core}", "loch coroutines"), "sim")

    def test_every_line_of_a_protocol_is_a_co_await(self) -> None:
        run = (
            "run bench --protocol nessie-hy --fabric sim --nodes 3 --clients 2 --keys 500 --warmup 200us --duration 1ms"
        )
        shown = gdb(
            BENCH, "break loch::fabric::sim::SimWorker::begin_watch", "ignore 1 300", run, "loch coroutines", "kill"
        )
        workers = workers_of(shown)
        # five workers, two of clients and three of servers, on each of three nodes
        self.assertEqual(len(workers), 15, shown)
        self.assertNotIn("suspension point", shown)
        text = "".join(text for texts in workers.values() for text in texts)
        places = PLACE.findall(text)
        self.assertGreater(len(places), 20, shown)
        for file, number in places:
            line = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(number) - 1]
            self.assertIn("co_await", line, f"{file}:{number}")
        self.assertIn("nessie_hy/", text)

    def test_where_nothing_can_be_shown_it_says_why(self) -> None:
        self.assertIn("no program is running", gdb(PROGRAMS["plain"], "loch coroutines"))
        self.assertIn(
            "expected a program that links loch_layouts", gdb("/bin/true", "starti", "loch coroutines", "kill")
        )
        self.assertIn("unexpected argument 'x'", gdb(PROGRAMS["plain"], "loch coroutines x"))


if __name__ == "__main__":
    unittest.main()
