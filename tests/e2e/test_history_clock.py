"""Tests that the program reads the clock of a history between two fences, so that nothing of an operation is done before
the time at which it is said to begin, or after that at which it is said to end. Without a fence an error is a matter of
nanoseconds, which no load shows reliably; the instructions show it."""

import os
import platform
import re
import shutil
import subprocess
import unittest

PROGRAM = os.environ["LOCH_BIN"]
FUNCTION = "fenced_time"


def instructions(function):
    """The instructions of the program's function, in their order; a symbol's name is mangled."""
    listed = subprocess.run(["nm", PROGRAM], text=True, capture_output=True, check=True).stdout
    found = {name for name in re.findall(r"^[0-9a-f]+ [tT] (\S+)$", listed, re.MULTILINE) if function in name}
    assert len(found) == 1, f"{function}: {found}"
    command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={found.pop()}", PROGRAM]
    said = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    return re.findall(r"^ +[0-9a-f]+:\s+(\w+)", said, re.MULTILINE)


@unittest.skipIf(platform.machine() != "x86_64", "the fences are instructions of x86-64")
@unittest.skipIf(shutil.which("objdump") is None, "objdump is not installed")
class HistoryClock(unittest.TestCase):
    def test_a_fence_stands_on_both_sides_of_the_reading(self):
        code = instructions(FUNCTION)
        readings = [at for at, word in enumerate(code) if word in ("call", "rdtsc")]
        fences = [at for at, word in enumerate(code) if word == "lfence"]
        self.assertTrue(readings, code)
        self.assertLess(min(fences, default=len(code)), min(readings), code)
        self.assertGreater(max(fences, default=-1), max(readings), code)


if __name__ == "__main__":
    unittest.main()
