"""./loch new NAME --like one-sided|rpc|log: makes the folder of a new protocol from the examples in tools/new."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import NoReturn

from loch.flags import Parser
from loch.places import SOURCE

TREE = Path(SOURCE)
EXAMPLES = TREE / "tools" / "new"
# The folders of tools/new whose files make up a new protocol of each kind.
KINDS = {"one-sided": ("common", "one-sided"), "rpc": ("common", "served", "rpc"), "log": ("common", "served", "log")}
PLACEHOLDER = "newstore"
# Names that a protocol cannot have: C++ keywords, and names of Loch's namespaces and folders.
TAKEN = set(
    """alignas alignof and asm auto bool break case catch char class concept const constexpr continue decltype default
delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
not nullptr operator or private protected public register requires return short signed sizeof static struct switch template this
throw true try typedef typeid typename union unsigned using virtual void volatile while xor
base check cli cluster coro coupled cuckoo explore fabric background fuzz kv measure rpc std loch""".split()
)
EPILOG = """examples:
  ./loch new mine --like rpc                      the folder mine in the tree: the next ./loch builds it in
  ./loch new mine --like one-sided --at ~/stores    the folder ~/stores/mine, outside the tree
  LOCH_PROTOCOLS=~/stores ./loch bench --protocol mine --fabric sim --nodes 3

exit status: 0 made, 2 refused (one line says why; nothing is written then)"""


def refuse(reason: str) -> NoReturn:
    print(f"loch: new: {reason}", file=sys.stderr)
    sys.exit(2)


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        refuse(f"{message} (./loch new --help)")


def who_uses(name: str) -> str:
    """The folder of the protocol whose C++ code has `name` as a string, as a protocol's or option's name; "" if none
    has."""
    words = [f'"{word}{end}' for word in {name, name.replace("_", "-")} for end in ('"', ".")]
    for header in sorted(TREE.glob("*/module.h")):
        for source in (*header.parent.rglob("*.cc"), *header.parent.rglob("*.h")):
            text = source.read_text(encoding="utf-8")
            if any(word in text for word in words):
                return header.parent.name
    return ""


def check(name: str, folder: Path) -> Path:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        refuse(f"{name!r}: expected a name of small letters, digits and _ that begins with a letter")
    if name in TAKEN:
        refuse(f"{name}: C++ or Loch has that word already; choose another name")
    if not folder.is_dir():
        refuse(f"--at {folder}: no such folder")
    made = folder.resolve() / name
    if made.parent != TREE and re.search("[:;]", str(made)):
        refuse(f"{made}: LOCH_PROTOCOLS takes no colon and no semicolon in a path")
    if TREE in made.parent.parents:
        refuse(
            f"--at {folder}: lies in the tree, where protocols stand beside nessie/; leave out --at, or name a folder"
            " outside"
        )
    if os.path.lexists(made):
        refuse(f"{made} exists already; nothing was overwritten")
    if (TREE / name).exists():
        refuse(f"{name}: a folder of Loch has that name; choose another")
    user = who_uses(name)
    if user:
        refuse(f"{name}: {user} of Loch uses that name; choose another")
    return made


def main(argv: list[str]) -> int:
    parser = _Parser(
        prog="./loch new", description=(__doc__ or "").split(":", 1)[1].strip(), epilog=EPILOG, allow_abbrev=False
    )
    parser.add_argument("name", help="of the protocol, its folder and its namespace")
    parser.add_argument(
        "--like",
        required=True,
        choices=sorted(KINDS),
        help=(
            "one-sided: clients READ and WRITE slots; rpc: server workers own hash tables; log: server workers own logs"
        ),
    )
    parser.add_argument(
        "--at", type=Path, default=TREE, metavar="DIR", help="where the folder is made (default: the tree)"
    )
    arguments = parser.parse_args(argv)
    name, made = arguments.name, check(arguments.name, arguments.at)
    files: dict[str, str] = {}
    for part in KINDS[arguments.like]:
        for path in sorted((EXAMPLES / part).iterdir()):
            files[rename(path.name, name)] = rename(path.read_text(encoding="utf-8"), name)
    try:
        made.mkdir()
        for file, text in files.items():
            (made / file).write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"{made}: {error.strerror}")
    prefix = "" if made.parent == TREE else f"LOCH_PROTOCOLS={shlex.quote(str(made))} "
    print(
        f"{made}: {len(files)} files; README.md says what to change first\n"
        f"  {prefix}./loch bench --protocol {name} --fabric sim --nodes 3 --verify\n"
        f"  {prefix}./loch run {shlex.quote(str(made / 'experiment.yaml'))} --smoke"
    )
    return 0


def rename(text: str, name: str) -> str:
    return text.replace(PLACEHOLDER.capitalize(), name.capitalize()).replace(PLACEHOLDER, name)
