"""Tests of the diagrams of holes: each hole that a protocol's page names is drawn from what `loch explore` finds today,
or the page says why it cannot be there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from loch import interleaving  # noqa: E402
from loch.ending import CommandError  # noqa: E402

PROGRAM = os.environ.get("LOCH_BIN", str(ROOT / "build/release/bin/loch-bench"))
PAGES = ROOT / "docs/protocols"
DRAW = "./loch sequence race --holes --out docs/protocols/figures"
HOLES = interleaving.holes_of("race")
# The holes that a reading of the paper and of published code has named.
NAMED = [f"R{number}" for number in range(1, 18)]


def rows() -> dict[str, str]:
    """The rows of the tables of holes of race's page, by hole."""
    text = (PAGES / "race.md").read_text(encoding="utf-8")
    return {row[1]: row[0] for row in re.finditer(r"^\| \*\*(R\d+)\*\* \|.*\|$", text, re.M)}


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)
def test_each_diagram_is_of_what_is_found_today(hole: interleaving.Hole) -> None:
    shown = (PAGES / "figures" / hole.file("race")).read_text(encoding="utf-8")
    assert shown == interleaving.diagram(hole, "race", PROGRAM), f"{hole.name} is drawn as it was: {DRAW}"


def test_each_named_hole_is_drawn_or_cannot_be_there() -> None:
    described = rows()
    assert sorted(described) == sorted(NAMED)
    drawn = {figure for row in described.values() for figure in re.findall(r"\(figures/(race-[\w-]+\.svg)\)", row)}
    assert drawn == {hole.file("race") for hole in HOLES}
    for name, row in described.items():
        own = re.findall(r"\(figures/race-(r\d+)[\w-]*\.svg\)", row)
        assert set(own) <= {name.lower()}, f"{name} shows another hole's figure"
        assert own or "cannot be here" in row, f"{name} is neither drawn nor said to be impossible"


def test_the_page_counts_the_moves_of_its_figures() -> None:
    for name, row in rows().items():
        counted = row.split(" | ")[3]
        traces = [
            interleaving.explored(each.words, PROGRAM)["trace"] for each in HOLES if each.name.split("-")[0] == name
        ]
        assert counted.strip(" |") == ", ".join(str(len(trace)) for trace in traces if isinstance(trace, list)), name


def test_a_figure_is_nobodys_without_its_scenario() -> None:
    files = {path.name for path in (PAGES / "figures").glob("race-*.svg")}
    assert files == {hole.file("race") for hole in HOLES}


def test_the_diagram_shows_each_request_once() -> None:
    hole = next(each for each in HOLES if each.name == "R2")
    found = interleaving.explored(hole.words, PROGRAM)
    trace = found["trace"]
    assert isinstance(trace, list)
    drawn = interleaving.rows_of(trace, "race")
    assert [row.number for row in drawn if row.node] == [
        at for at, line in enumerate(trace, 1) if re.search(r"(READ|WRITE|CAS) race\.", line)
    ]
    assert {row.client for row in drawn} == {"client A", "client B"}
    last = drawn[-1]
    assert (last.client, last.text) == ("client A", "GET K2 answers not_found")


def test_where_nothing_is_found_nothing_is_drawn() -> None:
    hole = next(each for each in HOLES if each.name == "R2")
    closed = interleaving.Hole(hole.name, hole.text, [*hole.words, "--set", "race.mend-r2=true"])
    with pytest.raises(CommandError, match="nothing found"):
        interleaving.diagram(closed, "race", PROGRAM)


def test_scenarios_that_are_not_said_to_be_found_are_no_holes(tmp_path: Path) -> None:
    scenarios = tmp_path / "scenarios.txt"
    scenarios.write_text(
        '# hole R1: one\nquick found race "GET K"\n# hole R2: two\nquick complete race "GET K"\n'
        '# hole R3: three\nlong found herd "GET K"\nquick found race "PUT K" # hole R4: four\n',
        encoding="utf-8",
    )
    assert [hole.name for hole in interleaving.holes_of("race", scenarios)] == ["R1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nessie", "--holes"], "nessie has none"), (["race", "--holes", "--", "--value-size", "64"], "--holes")],
)
def test_bad_input_is_one_line(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/loch/__main__.py"), "--no-setup", "sequence", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LOCH_BIN": PROGRAM},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
