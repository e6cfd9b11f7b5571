"""`loch completion bash`: completes commands, flags and names in bash.

The printed shell script calls `loch completion words` at each TAB, so it offers what is built at that time.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from typing import Any, cast

from loch import command, places
from loch.ending import CommandError, status_of

USAGE = """\
usage: ./loch completion bash

Prints a completion for bash: commands, their flags, and the names of protocols, fabrics, hardware profiles and
experiments. It builds nothing: what only the program knows is there once the program is.

example:
  eval "$(./loch completion bash)"      # in ~/.bashrc, with loch's own path

exit status: 0 printed, 2 another shell than bash
"""
SCRIPT = """\
# Completion of loch for bash.
_loch() {{
  local IFS=$'\\n'
  COMPREPLY=($({loch} completion words "$COMP_CWORD" "${{COMP_WORDS[@]}}" 2>/dev/null))
}}
complete -o bashdefault -o default -F _loch loch ./loch {loch}
"""
Table = dict[str, Any]  # an object in the JSON of `loch-bench describe`, such as a command or a flag
LIMIT_S = 5.0
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_EXPLAINED = re.compile(r"^\s+(?:-\w(?:,| \[) )?(--[a-z][a-z-]*)", re.M)


def main(words: list[str]) -> int:
    return status_of(lambda: _answer(words), "loch completion")


def _answer(words: list[str]) -> int:
    if words[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if words == ["bash"]:
        print(SCRIPT.format(loch=_quoted(_own_path())), end="")
        return 0
    if words[:1] == ["words"] and len(words) > 2 and words[1].isdecimal():
        given = words[2:][: int(words[1]) + 1]
        print("\n".join(candidates(given + [""] * (int(words[1]) + 1 - len(given)))))
        return 0
    raise CommandError(f"expected a shell, bash, not '{' '.join(words)}' (loch completion --help)")


def _own_path() -> str:
    """The path of ./loch in a source tree, or of an installed loch, which gives its path in LOCH_COMMAND."""
    return os.environ.get("LOCH_COMMAND") or os.path.join(places.SOURCE, "loch")


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def candidates(given: list[str]) -> list[str]:
    """Words that may replace the last of `given` and begin with its letters; none if the shell should complete a file
    name."""
    *before, last = given
    if len(before) < 2:
        found = [*command.COMMANDS, "--help"]
    elif last.startswith("-"):
        found = flags(before[1])
    elif before[-1].startswith("--") and _takes_value(before[1], before[-1]):
        found = _values(_flag(before[1], before[-1]))
    else:
        found = _operands(before[1], before[2:])
    return sorted({each for each in found if each.startswith(last)})


def _operands(name: str, before: list[str]) -> list[str]:
    if name in command.OF_PROGRAM:
        operands = _table(name).get("operands", [])
        place = _words_of(name, before)
        return _values(operands[place]) if place < len(operands) else []
    if name == "sequence":
        return names("protocols")
    if name == "run":
        return names("experiments")
    if name == "completion" and not before:
        return ["bash"]
    return []


def _words_of(name: str, before: list[str]) -> int:
    """The number of words in `before` that are operands: neither flags nor values of flags."""
    count = 0
    for word, follows in zip(before, ["", *before]):
        is_value = follows.startswith("--") and _takes_value(name, follows)
        count += not word.startswith("-") and not is_value
    return count


def flags(name: str) -> list[str]:
    """The flags of a command: of loch-bench's commands from `loch-bench describe`, of others from their --help."""
    if name in command.OF_PROGRAM:
        described = _table(name).get("flags", [])
        return ["--help"] + [f"--{key}" for each in described for key in (each["key"], *each.get("aliases", []))]
    if name in command.COMMANDS and name not in ("completion", "help"):
        return _flags_of(_run([*places.HAND_OVER, name, "--help"]))
    return ["--help"]


@functools.cache
def _tables() -> dict[str, Table]:
    """The commands in the JSON of `loch-bench describe`, by name; empty if loch-bench is not built."""
    said = _said("describe", "--json")
    try:
        return {each["name"]: each for each in json.loads(said or "{}").get("commands", [])}
    except ValueError:
        return {}


def _table(name: str) -> Table:
    return _tables().get(name, {})


def _flag(name: str, flag: str) -> Table | None:
    """The description of a command's flag. A command of this package has the description of the flag of that name of
    bench."""
    for each in _table(name if name in command.OF_PROGRAM else "bench").get("flags", []):
        if flag.removeprefix("--") in (each["key"], *each.get("aliases", [])):
            return cast(Table, each)
    return None


def _takes_value(name: str, flag: str) -> bool:
    found = _flag(name, flag)
    return found is not None and found["type"] != "boolean"


def _values(setting: Table | None) -> list[str]:
    """The named values that a flag or operand accepts; empty if it has none (bash then completes file names)."""
    if setting is None:
        return []
    return setting.get("choices") or (names(setting["named_by"]) if "named_by" in setting else [])


def _flags_of(text: str) -> list[str]:
    """The flags in a help text: those in the usage (the first paragraph) and those explained on a line of their own."""
    usage, _, rest = text.partition("\n\n")
    return _FLAG.findall(usage) + _EXPLAINED.findall(rest)


def names(what: str) -> list[str]:
    """The first word of each line of `loch list WHAT`; experiments as paths relative to the current folder, if they
    exist."""
    found = [line.split()[0] for line in _said("list", what).splitlines() if line.strip() and not line.startswith(" ")]
    if what != "experiments":
        return found
    paths = (os.path.relpath(os.path.join(places.SOURCE, each)) for each in found)
    return [path for path in paths if os.path.exists(path)]


def _said(*words: str) -> str:
    """The output of loch-bench for the arguments `words`; empty if loch-bench is not built."""
    program = os.environ.get("LOCH_BIN") or places.BINARY
    return _run([program, *words]) if os.access(program, os.X_OK) else ""


def _run(words: list[str]) -> str:
    try:
        return subprocess.run(
            words,
            env={"LOCH_HOME": places.SOURCE, **os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
