"""Tests that the rules of hand_overs.py can fail: a violation of each is found, and similar code without one is not."""

import pytest

import hand_overs

RUNNER = "tools/loch/runner/planted.py"


@pytest.mark.parametrize(
    "line",
    [
        "shlex.split(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "subprocess.run(text, shell=wanted)",
        "eval(text)",
        "pickle.loads(data)",
        "from shlex import split",
    ],
)
def test_a_text_that_becomes_a_command_is_found(line: str) -> None:
    for name in (RUNNER, "tools/loch/power/planted.py", "plots/planted.py"):
        (said,) = hand_overs.faults(name, f"import os\n{line}\n")
        assert said.startswith(f"{name}:2: ")
    assert list(hand_overs.faults("tools/loch/setup/planted.py", f"{line}\n")) == []


@pytest.mark.parametrize(
    "line", ["shlex.join(words)", "text.split()", "subprocess.run(words, shell=False)", "re.compile(x)"]
)
def test_what_only_looks_like_it_is_not(line: str) -> None:
    assert list(hand_overs.faults(RUNNER, f"{line}\n")) == []


def test_the_one_exception_is_of_one_file_and_one_call() -> None:
    slurm = "tools/loch/runner/slurm.py"
    assert list(hand_overs.faults(slurm, "shlex.split(options)\n")) == []
    assert len(list(hand_overs.faults(slurm, "os.system(options)\n"))) == 1


def test_pydantic_has_one_door() -> None:
    for line in ("import pydantic", "from pydantic.v1 import BaseModel"):
        assert "alone does" in list(hand_overs.faults(RUNNER, line))[0]
        assert "alone does" in list(hand_overs.faults("plots/planted.py", line))[0]
    assert list(hand_overs.faults(hand_overs.DOOR, "from pydantic import BaseModel")) == []


def test_through_which_only_names_pass_that_both_have() -> None:
    for name, line in (
        (hand_overs.DOOR, "from pydantic import BaseModel, TypeAdapter"),
        (RUNNER, "from .compat import TypeAdapter"),
        (RUNNER, "from loch.runner.compat import field_validator"),
    ):
        assert len(list(hand_overs.faults(name, line))) == 1
    assert list(hand_overs.faults(RUNNER, "from .compat import BaseModel, Extra")) == []


@pytest.mark.parametrize(
    "line",
    [
        "from loch.runner.tables import Results",
        "from loch.runner import published",
        "import loch.runner.report",
        "from loch import places",
    ],
)
def test_figures_know_one_module_of_the_runner(line: str) -> None:
    assert "plots knows" in list(hand_overs.faults("plots/planted.py", line))[0]
    assert list(hand_overs.faults(RUNNER, line)) == []
    for allowed in (
        "from loch.runner.drawing import Drawing",
        "from loch.runner import drawing",
        "from . import style",
    ):
        assert list(hand_overs.faults("plots/planted.py", allowed)) == []


def test_the_tree_keeps_them() -> None:
    import house_rules

    paths = [path for path in house_rules.files() if path.suffix == ".py"]
    read = {path.relative_to(house_rules.ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    assert hand_overs.DOOR in read
    assert [said for name, text in read.items() for said in hand_overs.faults(name, text)] == []
