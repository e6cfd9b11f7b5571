"""A setting is one line: what that line gives without another one, and that docs/settings.md is what the program says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = os.environ["LOCH_BIN"]
TOY = os.environ["LOCH_TOY"]  # with `{.setting = of(Type::integer, "toy-flag", "7", "a toy of the tests", 1, 9)},`
FEW = ("bench", "--protocol", "nessie", "--nodes", "2", "--keys", "100", "--operations", "50")


def said(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def test_the_page_is_what_the_program_says() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert page == said(BENCH, "describe", "--markdown"), "make it anew: tools/regenerate"
    assert "toy" not in page


def test_the_copy_for_drawing_without_a_program_is_what_it_says() -> None:
    copy = json.loads((ROOT / "tools/loch/runner/flags.json").read_text(encoding="utf-8"))
    assert copy == json.loads(said(BENCH, "describe", "--json"))["flags"], "make it anew: tools/regenerate"


def test_a_flag_of_one_line_is_in_help_and_docs() -> None:
    assert "--toy-flag" not in said(BENCH, "bench", "--help")
    line = next(line for line in said(TOY, "bench", "--help").splitlines() if "--toy-flag" in line)
    assert "a toy of the tests (7)" in line
    assert "| `--toy-flag` | integer | 1 … 9 | `7` | a toy of the tests |" in said(TOY, "describe", "--markdown")
    assert "toy_flag" in said(TOY, "list", "keys")


def test_its_value_is_parsed_checked_and_recorded() -> None:
    assert json.loads(said(TOY, *FEW))["config"]["toy_flag"] == 7
    assert json.loads(said(TOY, *FEW, "--toy-flag", "3"))["config"]["toy_flag"] == 3
    assert json.loads(said(TOY, *FEW, "--set", "toy_flag=4"))["config"]["toy_flag"] == 4
    done = subprocess.run([TOY, *FEW, "--toy-flag", "10"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == 'loch bench: --toy-flag: "10" is not a whole number from 1 to 9\n'
    done = subprocess.run([TOY, *FEW, "--toy-flg", "3"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "loch bench: --toy-flg: no such flag; did you mean --toy-flag?\n")


EXPERIMENT = """\
name: toy
fabric: sim
cluster: {nodes: 2}
systems: {CD: {protocol: nessie, keys: 100}}
workload: {toy_flag: VALUE}
axes: {value_size: [64]}
measure: {operations: 50, repeats: 1}
figure: {kind: line, y: [latency_us.get.mean]}
"""


def run(folder: Path, value: str, program: str = TOY) -> subprocess.CompletedProcess[str]:
    path = folder / "toy.yaml"
    path.write_text(EXPERIMENT.replace("VALUE", value), encoding="utf-8")
    return subprocess.run(
        [str(ROOT / "loch"), "--no-setup", "run", str(path), "--out", str(folder / "out")],
        env={**os.environ, "LOCH_BIN": program},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_experiment_takes_it(tmp_path: Path) -> None:
    done = run(tmp_path, "5")
    assert done.returncode == 0, done.stderr
    (point,) = (tmp_path / "out/points").glob("*.json")
    assert json.loads(point.read_text(encoding="utf-8"))["config"]["toy_flag"] == 5


@pytest.mark.parametrize(("value", "program"), [("10", TOY), ("many", TOY), ("5", BENCH)])
def test_an_experiment_refuses_what_the_line_does_not_allow(tmp_path: Path, value: str, program: str) -> None:
    done = run(tmp_path, value, program)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "toy.yaml:5: " in line and "toy_flag" in line


def test_the_schema_has_it() -> None:
    schema = subprocess.run(
        [str(ROOT / "loch"), "--no-setup", "schema"],
        env={**os.environ, "LOCH_BIN": TOY},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"toy_flag"' in schema.stdout
