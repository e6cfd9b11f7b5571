"""The layers (floors) of modules in docs/floors.txt: which modules may include which; checked against every include,
and drawn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
PROTOCOL = "PROTOCOL"
EXAMPLES = "tools/new/"  # protocols from which `./loch new` makes new ones; they may include what a protocol may


def is_test(name: str) -> bool:
    """Whether a file is a test, a benchmark or a program for tests, which may include anything."""
    if name == "app/main.cc":
        return False
    return bool(re.search(r"(_test|_bench|_fuzz|_main|_costs)\.cc$|(^|/)test_[^/]*$|^tests/|/toy_[^/]*$", name))


@dataclass
class Plan:
    """The contents of docs/floors.txt: modules by floor (layer of the architecture), the includes allowed to each, and
    libraries with a single user."""

    # (title, modules) of each floor (layer of the architecture), lowest floor first
    floors: list[tuple[str, list[str]]] = field(default_factory=list)
    may: dict[str, list[str]] = field(default_factory=dict)
    # beginning of a header's name -> the only module that may include such headers
    only: dict[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()

    def level(self, module: str) -> int:
        return next(i for i, (_, modules) in enumerate(self.floors) if module in modules)

    def place_of(self, name: str) -> str | None:
        """The module or protocol folder that a file belongs to; of nested ones the innermost."""
        fits: list[str] = [module for module in (*self.may, *self.protocols) if name.startswith(module + "/")]
        return max(fits, key=len) if fits else None

    def fault(self, name: str, target: str) -> str | None:
        """Why file `name` may not include `target`; None if it may."""
        if is_test(name):
            return None
        own, other = self.place_of(name), self.place_of(target)
        for beginning, module in self.only.items():
            if target.startswith(beginning) and own != module:
                return f"{module} alone knows <{beginning}…>"
        if other is None or own == other:
            return None
        if name.startswith(EXAMPLES):
            own = PROTOCOL
        if own is None:
            return f"{name.rsplit('/', 1)[0]} is no module of docs/floors.txt"
        row = PROTOCOL if own == PROTOCOL or own in self.protocols else own
        if other in self.protocols:
            return (
                "a protocol includes no other protocol" if row == PROTOCOL else "nothing but tests includes a protocol"
            )
        return None if other in self.may[row] else f"{row}'s line of docs/floors.txt does not name {other}"


def read(root: Path) -> tuple[Plan, list[str]]:
    """Reads docs/floors.txt; returns the plan, and errors in the file itself."""
    plan = Plan(protocols=tuple(sorted(module.parent.name for module in root.glob("*/module.h"))))
    faults: list[str] = []
    for number, line in enumerate((root / "docs/floors.txt").read_text(encoding="utf-8").splitlines(), 1):
        where = f"docs/floors.txt:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("floor "):
            plan.floors.append((line[6:].strip(), []))
            continue
        module, colon, others = line.partition(":")
        module = module.strip()
        if not colon:
            faults.append(f"{where}: expected `MODULE: MODULE MODULE …`")
        elif module.startswith("only "):
            plan.only[module[5:].strip()] = others.strip()
        elif not plan.floors:
            faults.append(f"{where}: {module} is on no floor")
        elif module in plan.may:
            faults.append(f"{where}: {module} is there twice")
        else:
            plan.floors[-1][1].append(module)
            plan.may[module] = others.split()
            for other in others.split():
                if other not in plan.may or plan.level(other) == len(plan.floors) - 1:
                    faults.append(f"{where}: {module} may include {other}, which is not on a lower floor")
    return plan, faults


def arrows(plan: Plan, sources: dict[str, list[str]]) -> Counter[tuple[str, str]]:
    """Counts, for each pair of modules, the files of the first that include the second. `sources`: the includes of each
    file."""
    found: Counter[tuple[str, str]] = Counter()
    for name, targets in sources.items():
        own = plan.place_of(name)
        if own is not None and not is_test(name):
            others = {plan.place_of(target) for target in targets} - {own, None}
            found.update((own, str(other)) for other in others)
    return found


def faults(root: Path, sources: dict[str, list[str]]) -> Iterator[str]:
    """All differences between docs/floors.txt, the actual includes and the drawing docs/map.svg."""
    plan, wrong = read(root)
    yield from wrong
    for name, targets in sources.items():
        for target in targets:
            fault = plan.fault(name, target)
            if fault:
                yield f"{name}: includes {target}: {fault}"
    made = arrows(plan, sources)
    used = {(PROTOCOL if own in plan.protocols else own, other) for own, other in made}
    for module, others in plan.may.items():
        for other in others:
            if (module, other) not in used:
                yield f"docs/floors.txt: {module} may include {other}, and no file of it does"
    drawing = root / "docs/map.svg"
    if not drawing.exists() or drawing.read_text(encoding="utf-8") != draw(plan, made):
        yield "docs/map.svg: not the includes as they are; `tests/lint/house_rules.py --draw` draws it"


WIDTH, FLOOR, BOX = 1180, 92, 34  # sizes of the drawing in pixels
STYLE = (
    "text{font-family:DejaVu Sans,sans-serif;font-size:11px;fill:#222}.t{font-size:10px;fill:#777}"
    "rect.r{fill:#fff;stroke:#456;stroke-width:1}rect.p{fill:#fdf3e3;stroke:#a60}rect.f{fill:#f2f5f8}"
    "path{fill:none;stroke:#456;stroke-width:1;opacity:.45}"
)


def draw(plan: Plan, made: Counter[tuple[str, str]]) -> str:
    """Draws the modules, one band for each floor (layer of the architecture), with an arrow down to each included
    module.

    An arrow is left out if the module is also reached through a module in between.
    """
    floors = [
        (title, [each for module in modules for each in (plan.protocols if module == PROTOCOL else [module])])
        for title, modules in plan.floors
    ]
    height = FLOOR * len(floors) + 30
    places: dict[str, tuple[float, float, float]] = {}  # by module: centre, top and width of its box, in pixels
    body: list[str] = []
    for level, (title, modules) in enumerate(floors):
        top = height - 20 - FLOOR * (level + 1)
        body.append(f'<rect class="f" x="0" y="{top + 4}" width="{WIDTH}" height="{FLOOR - 8}"/>')
        body.append(f'<text class="t" x="8" y="{top + 18}">{level}  {escape(title)}</text>')
        widths = [len(module.removeprefix("common/")) * 6.8 + 16 for module in modules]
        gap = (WIDTH - sum(widths)) / (len(modules) + 1)
        x = gap
        for module, width in zip(modules, widths):
            places[module] = (x + width / 2, top + 34, width)
            x += width + gap
    reach = _reach(made)
    for (own, other), count in sorted(made.items()):
        if any((own, between) in made and other in reach[between] for between in reach[own] if between != other):
            continue
        (x1, y1, _), (x2, y2, _) = places[own], places[other]
        y1 += BOX
        body.append(
            f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + 26:.0f} {x2:.0f} {y2 - 30:.0f} {x2:.0f} {y2:.0f}">'
            f"<title>{escape(own)} includes {escape(other)}: {count} files</title></path>"
        )
    for module, (x, y, width) in places.items():
        kind = "p" if module in plan.protocols else "r"
        body.append(
            f'<rect class="{kind} r" rx="4" x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{BOX}"/>'
            f'<text x="{x:.0f}" y="{y + 21}" text-anchor="middle">{escape(module.removeprefix("common/"))}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>The modules of Loch and their includes</title><style>{STYLE}</style>\n"
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _reach(made: Counter[tuple[str, str]]) -> dict[str, set[str]]:
    """The modules that each module includes, directly or through other modules."""
    direct: dict[str, set[str]] = {}
    for own, other in made:
        direct.setdefault(own, set()).add(other)
        direct.setdefault(other, set())
    reach = {module: set(others) for module, others in direct.items()}
    for _ in direct:
        for module in direct:
            for other in tuple(reach[module]):
                reach[module] |= reach[other]
    return reach
