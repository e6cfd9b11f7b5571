"""Tests that adding a setting takes one line of code, and that docs/settings.md equals the output of loch-bench."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = os.environ["LOCH_BIN"]
# a build of loch-bench with one more setting: `{.setting = of(Type::integer, "toy-flag", "7", "a toy of the tests", 1,
# 9)},`
TOY = os.environ["LOCH_TOY"]
TOY_ROW = "| `--toy-flag` | integer | 1 … 9 | `7` | a toy of the tests |"
FEW = ("bench", "--protocol", "nessie", "--nodes", "2", "--keys", "100", "--operations", "50")


def said(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


@functools.cache
def commands_of(program: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(said(program, "describe", "--json"))["commands"]}


def page_of(program: str) -> dict[str, str]:
    """The sections of docs/settings.md on flags, by command."""
    parts = re.split(r"^## ", said(program, "describe", "--markdown"), flags=re.M)
    return {part[: part.index("\n")].removeprefix("Flags of ").strip("`"): part for part in parts if "Flags of" in part}


def flags_in(text: str) -> dict[str, str]:
    """The flags in a --help text, each with its explanation in one line."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        if re.match(r"  (-\w, )?--", line):
            names = re.findall(r"--([a-z][a-z-]*)", re.split(r"  +", line.strip())[0])
            found.update(dict.fromkeys(names, ""))
            line = re.sub(r"^  \S.*?(  +|$)", "", line)
        elif not line.startswith("   "):
            names = []
        for name in names:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def completed(program: str, *words: str) -> list[str]:
    done = subprocess.run(
        [str(ROOT / "loch"), "completion", "words", str(len(words)), "loch", *words],
        env={**os.environ, "LOCH_BIN": program},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def refusal(program: str, *arguments: str) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return done.stderr


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
    assert "a toy of the tests [1…9] (7)" in line
    assert TOY_ROW in page_of(TOY)["loch bench"]
    assert "toy_flag" in said(TOY, "list", "keys")


@pytest.mark.parametrize("command", ["fuzz", "check"])
def test_a_flag_of_one_line_of_another_command_is_everywhere(command: str) -> None:
    (flag,) = [each for each in commands_of(TOY)[command]["flags"] if each["key"] == "toy-flag"]
    assert (flag["type"], flag["default"], flag["minimum"], flag["maximum"]) == ("integer", "7", 1, 9)
    line = next(line for line in said(TOY, command, "--help").splitlines() if "--toy-flag" in line)
    assert "a toy of the tests [1…9] (7)" in line
    assert TOY_ROW in page_of(TOY)[f"loch {command}"]
    assert completed(TOY, command, "--to") in (["--toy-flag"], ["--tombstone-deletes", "--toy-flag"])
    for program in (said(BENCH, command, "--help"), page_of(BENCH)[f"loch {command}"]):
        assert "toy" not in program
    assert "--toy-flag" not in completed(BENCH, command, "--to")


@pytest.mark.parametrize(("command", "rest"), [("fuzz", ["--seeds", "1"]), ("check", ["no-such.jsonl"])])
def test_its_value_is_checked_by_the_other_commands(command: str, rest: list[str]) -> None:
    assert refusal(TOY, command, *rest, "--toy-flag", "10") == (
        f'loch {command}: --toy-flag: "10" is not a whole number from 1 to 9\n'
    )
    assert refusal(TOY, command, *rest, "--toy-flg", "3") == (
        f"loch {command}: --toy-flg: no such flag; did you mean --toy-flag?\n"
    )


def test_every_command_is_described_and_handed_over() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    from loch import command

    usage = said(BENCH, "--help").split()[-2]
    assert usage.split("|") == sorted(commands_of(BENCH))
    assert {*command.OF_PROGRAM, "describe", "points"} == set(commands_of(BENCH))


@pytest.mark.parametrize("command", sorted(commands_of(BENCH)))
def test_what_help_prints_is_described_and_the_reverse(command: str) -> None:
    """The flags in the text of --help equal those described as JSON: names, defaults and explanations."""
    described = commands_of(BENCH)[command]
    printed = flags_in(said(BENCH, command, "--help"))
    names = {name: each for each in described["flags"] for name in (each["key"], *each.get("aliases", []))}
    assert set(printed) == set(names)
    for name, text in printed.items():
        default = names[name].get("default", "")
        if default and names[name]["type"] != "boolean":
            assert text.endswith(f"({default})"), name
        assert names[name]["help"] in text, name
    if command not in ("describe", "points"):  # these belong to loch-bench only
        assert set(completed(BENCH, command, "--")) == {f"--{name}" for name in names} | {"--help"}


@pytest.mark.parametrize("command", sorted(commands_of(BENCH)))
def test_what_help_prints_is_accepted(command: str) -> None:
    """The parser accepts every flag of --help: with an empty value, the error is not that there is no such flag."""
    for name in flags_in(said(BENCH, command, "--help")):
        done = subprocess.run(
            [BENCH, command, f"--{name}=", "--no-such-flag"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert f"--{name}: no such flag" not in done.stderr
    assert "--no-such-flag: no such flag" in refusal(BENCH, command, "--no-such-flag")


@pytest.mark.parametrize("command", sorted(commands_of(BENCH)))
def test_numbers_out_of_range_are_refused_with_the_range(command: str) -> None:
    for flag in commands_of(BENCH)[command]["flags"]:
        if flag.get("minimum", -1) <= 0 or flag["type"] not in ("integer", "size"):
            continue
        message = refusal(BENCH, command, f"--{flag['key']}", "0")
        assert message.startswith(f"loch {command}: --{flag['key']}: \"0\" is not a ")
        assert "at least" in message or " to " in message


@pytest.mark.parametrize("command", sorted(commands_of(BENCH)))
def test_help_says_every_exit_status_and_an_example(command: str) -> None:
    text = " ".join(said(BENCH, command, "--help").split())
    for status, when in commands_of(BENCH)[command]["exit_statuses"].items():
        assert f"{status}: {when}" in text
    assert text.endswith("Example: " + commands_of(BENCH)[command]["example"])


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
