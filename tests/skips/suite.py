#!/usr/bin/python3
"""Runs the named unittest modules of the current folder, and records the tests that were skipped, with their
reasons, in the file $LOCH_RAN: the form is that of GoogleTest's XML, which report.py reads."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree


class Recording(unittest.TextTestResult):
    """What unittest keeps; written down at the end of the run."""

    def write(self, path: Path) -> None:
        root = ElementTree.Element("testsuites", tests=str(self.testsRun))
        for test, reason in self.skipped:
            case = ElementTree.SubElement(root, "testcase", name=test.id(), classname="", result="skipped")
            ElementTree.SubElement(case, "skipped", message=reason)
        path.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(root).write(path, encoding="utf-8")


def main() -> int:
    # Modules and their `support` lie where the suite runs, not beside this file; and what they test is in tools and plots.
    tree = Path(__file__).resolve().parents[2]
    sys.path[:1] = [os.getcwd(), str(tree / "tools"), str(tree)]
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    result = unittest.TextTestRunner(verbosity=0, resultclass=Recording).run(suite)
    if "LOCH_RAN" in os.environ:
        result.write(Path(os.environ["LOCH_RAN"]))
    if result.testsRun == 0:
        print(f"{' '.join(sys.argv[1:])}: no test was found", file=sys.stderr)
        return 1
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
