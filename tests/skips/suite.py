#!/usr/bin/python3
"""Runs test modules of the current folder with pytest; writes the skipped tests with reasons to the file $LOCH_RAN.

The file has the form of GoogleTest's XML, which report.py reads.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

NO_TEST_RAN = pytest.ExitCode.NO_TESTS_COLLECTED


class Recording:
    """Collects pytest's reports of skipped tests, and writes them at the end of the run."""

    def __init__(self) -> None:
        self.ran = 0
        self.skipped: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.skipped:
            self.ran += 1
        if report.skipped:
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped.append((_name(report.nodeid), said.removeprefix("Skipped: ")))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # the whole module was skipped when it was imported
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.ran += 1
            self.skipped.append((_name(report.nodeid), said.removeprefix("Skipped: ")))

    def write(self, path: Path) -> None:
        root = ElementTree.Element("testsuites", tests=str(self.ran))
        for name, reason in self.skipped:
            case = ElementTree.SubElement(root, "testcase", name=name, classname="", result="skipped")
            ElementTree.SubElement(case, "skipped", message=reason)
        path.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(root).write(path, encoding="utf-8")


def _name(node: str) -> str:
    """The name of a test for the report: test_x.py::Class::test_y -> test_x.Class.test_y."""
    file, *rest = node.split("::")
    return ".".join([Path(file).stem, *rest])


def main() -> int:
    # Test modules and their module `support` are in the current folder; what they test is in tools and plots.
    tree = Path(__file__).resolve().parents[2]
    sys.path[:1] = [os.getcwd(), str(tree / "tools"), str(tree)]
    recording = Recording()
    modules = [f"{name}.py" if "." not in name else name for name in sys.argv[1:]]
    status = pytest.main(["-q", "-c", str(tree / "pyproject.toml"), "--rootdir", os.getcwd(), *modules], [recording])
    if "LOCH_RAN" in os.environ:
        recording.write(Path(os.environ["LOCH_RAN"]))
    # If all modules were skipped as a whole, pytest reports that it has collected no test, which is no failure here.
    if status == NO_TEST_RAN and recording.skipped:
        return 0
    if status == NO_TEST_RAN:
        print(f"{' '.join(sys.argv[1:])}: no test was found", file=sys.stderr)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
