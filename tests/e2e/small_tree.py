"""A source tree with only ./loch and its package, and fake programs for all that it starts, so nothing is built or
installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from support import ROOT, EndToEnd

PROGRAM = r"""#!/bin/sh
# The fake loch-bench that the fake `cmake --build` makes: prints its arguments and parts of its environment.
echo "built: $*"
echo "home: $LOCH_HOME"
echo "tunables: $GLIBC_TUNABLES"
grep SigIgn /proc/self/status
"""
STAND_INS = {
    "cmake": r"""#!/bin/sh
# A fake cmake: `cmake --preset P -B DIR …` makes DIR; `cmake --build DIR …` takes $BUILD_S seconds, and fails where
# $BUILD_FAILS is set.
echo "$$ $*" >> "$CALLS"
if [ "$1" != --build ]; then mkdir -p "$4"; exit; fi
echo '[1/2] Building CXX object'
sleep "${BUILD_S:-0}"
if [ -n "$BUILD_FAILS" ]; then
  for line in $(seq 60); do echo "line $line"; done
  echo 'x.cc:1:1: error: no such thing'
  exit 3
fi
mkdir -p "$2/bin"
cp "$PROGRAM" "$2/bin/loch-bench"
""",
    "dpkg-query": r"""#!/bin/sh
# A fake dpkg-query: every package counts as installed, except those in $MISSING.
echo "$$ dpkg-query" >> "$CALLS"
shift 3
for name; do case " $MISSING " in *" ${name%t64} "*) ;; *) echo "$name installed" ;; esac; done
""",
    "sudo": r"""#!/bin/sh
[ -z "$NO_ROOT" ] || exit 1
[ "$1" != -n ] || shift
exec "$@"
""",
    "apt-get": r"""#!/bin/sh
echo "$$ apt-get $*" >> "$CALLS"
[ -z "$APT_FAILS" ] || { echo 'Reading package lists...'; echo 'E: Unable to locate package'; exit 100; }
""",
    "ctest": r"""#!/bin/sh
echo "$$ ctest $*" >> "$CALLS"
echo "1/1 Test #1: toy ...   Passed"
sh -c 'echo "$$ sleep" >> "$CALLS"; exec sleep "${CTEST_S:-0}"'
printf '\n100%% tests passed, 0 tests failed out of 1\n\nTotal Test time (real) =   0.01 sec\n'
""",
    "memcached": "#!/bin/sh\n",
    "ipmi_sim": "#!/bin/sh\n",
}


class SmallTree(EndToEnd):
    """A test case whose tests have a small tree of their own, with the fake programs first in PATH."""

    def setUp(self) -> None:
        super().setUp()
        self.folder.chmod(0o755)
        self.tree = self.folder / "tree"
        shutil.copytree(ROOT / "tools/loch", self.tree / "tools/loch", ignore=shutil.ignore_patterns("__pycache__"))
        (self.tree / "tests/skips").mkdir(parents=True)
        for name in ("loch", "CMakePresets.json", "tests/skips/report.py", "tests/skips/known.txt"):
            shutil.copy(ROOT / name, self.tree / name)
        self.stand_ins = self.folder / "stand-ins"
        for name, text in STAND_INS.items():
            self.program(name, text)
        self.write("program", PROGRAM)
        (self.folder / "program").chmod(0o755)
        self.write("calls", "")
        (self.folder / "calls").chmod(0o666)

    def program(self, name: str, text: str) -> None:
        self.stand_ins.mkdir(exist_ok=True)
        (self.stand_ins / name).write_text(text, encoding="utf-8")
        (self.stand_ins / name).chmod(0o755)

    def surroundings(self, **more: Any) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("LOCH_", "PYTHON", "GLIBC_")) and key != "CI"
        }
        return {
            **kept,
            "PATH": f"{self.stand_ins}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "CALLS": str(self.folder / "calls"),
            "PROGRAM": str(self.folder / "program"),
            "LOCH_BUILD": str(self.folder / "build"),
            **more,
        }

    def small(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.tree / "loch"), *words],
            cwd=self.folder,
            env=self.surroundings(**more),
            timeout=120,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Starts ./loch in a new session, with SIGINT enabled, so that a test can send it Ctrl-C as a terminal
        would."""
        return subprocess.Popen(
            [str(self.tree / "loch"), *words],
            cwd=self.folder,
            env=self.surroundings(**more),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def calls(self, what: str) -> list[str]:
        """Process numbers of the started fake programs whose command line contains `what`."""
        lines = (self.folder / "calls").read_text(encoding="utf-8").splitlines()
        return [line.partition(" ")[0] for line in lines if what in line]

    def has_ended(self, process: str) -> bool:
        try:
            return ") Z " in Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        except OSError:
            return True
