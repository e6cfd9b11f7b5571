"""Tests that the rules for Python can fail: a planted violation of each tool's rule is found by that tool only."""

from pathlib import Path

import pytest

import python_rules

GOOD = '"""A module."""\n\n\ndef half(n: int) -> float:\n    return n / 2\n'
PLANTED = {
    "black": GOOD.replace("n / 2", "n/2"),
    "flake8": GOOD.replace('"""\n\n', '"""\n\nimport os\n\n', 1),
    "mypy": GOOD.replace("return n / 2", 'return f"{n / 2}"'),
}


def found(folder: Path, text: str, tool: str) -> list[str]:
    (folder / "planted").mkdir(exist_ok=True)
    path = folder / "planted/module.py"
    path.write_text(text, encoding="utf-8")
    return list(python_rules.faults([tool], [path], folder))


@pytest.mark.parametrize("tool", python_rules.TOOLS)
def test_a_planted_violation_is_found(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCH_BUILD", str(tmp_path / "build"))
    assert found(tmp_path, GOOD, tool) == []
    (said,) = found(tmp_path, PLANTED[tool], tool)
    assert said.startswith(f"{tool}:\n")
    assert "module.py" in said
    assert [other for other in python_rules.TOOLS if other != tool and found(tmp_path, PLANTED[tool], other)] == []


def test_folders_with_modules_of_one_name_are_looked_at_apart() -> None:
    files = [path for path in python_rules.house_rules.files() if path.suffix == ".py"]
    apart = {
        folder.relative_to(python_rules.ROOT).as_posix() for folder in python_rules.folders(files, python_rules.ROOT)
    }
    assert {"tests/runner", "tests/hostile", "tools/gdb"} <= apart
    assert not any(each.startswith(("tools/loch", "plots")) for each in apart)
