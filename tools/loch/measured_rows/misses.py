"""The published rows that the simulator is known to miss: which they are, by what mechanism, and what was tried.

They are listed in plots/published/misses.yaml. Every row that is more than LIMIT off has a name there, and no other row.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Sequence

from loch import places
from loch.ending import CommandError, one_line, reason
from loch.measured_rows.rows import Extra, Row, RowModel
from loch.runner.compat import ValidationError

LIMIT = 0.3  # a row whose rate is farther off than this share of the published one is a miss
WIDTH = 120  # of printed paragraphs, in characters


class Miss(RowModel):
    """One mechanism that is missing, and the rows that lack it."""

    name: str
    table: str  # file name of the table
    mechanism: str
    tried: str
    rows: list[dict[str, list[str]]]  # each: the values that a row's columns may have

    class Config:
        extra = Extra.forbid

    def has(self, row: Row) -> bool:
        """Whether the row is one of this mechanism's."""
        return any(all(row.get(name, "") in values for name, values in each.items()) for each in self.rows)


@dataclass(frozen=True)
class Judged:
    """One row that was simulated."""

    title: str
    error: float  # obtained over published, less 1
    name: str  # of the mechanism that the row is named with; "" if it is not named

    @property
    def is_miss(self) -> bool:
        return abs(self.error) > LIMIT


def listed() -> list[Miss]:
    """What misses.yaml lists; nothing if there is no such file. CommandError if it is no such list."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = Path(os.environ.get("LOCH_HOME") or places.SOURCE, "plots", "published", "misses.yaml")
    if not path.is_file():
        return []
    try:
        found = YAML(typ="safe").load(path)
        if not isinstance(found, dict) or list(found) != ["misses"]:
            raise CommandError(f"{path}: expected the key misses alone, with a list")
        return [Miss(**each) for each in found["misses"]]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CommandError(f"{path}: {where}: {first['msg']}") from None
    except (OSError, TypeError, UnicodeDecodeError, YAMLError) as error:
        raise CommandError(f"{path}: {one_line(reason(error))}") from None


def of_table(misses: Sequence[Miss], table: str) -> list[Miss]:
    """Those of one table, by its file name."""
    return [each for each in misses if each.table == table]


def name_of(misses: Sequence[Miss], row: Row) -> str:
    """The mechanism that a row is named with; "" if it is not named."""
    return next((each.name for each in misses if each.has(row)), "")


def unnamed(judged: Sequence[Judged]) -> list[Judged]:
    """Rows that are missed and not named."""
    return [each for each in judged if each.is_miss and not each.name]


def stale(judged: Sequence[Judged]) -> list[Judged]:
    """Rows that are named and not missed."""
    return [each for each in judged if each.name and not each.is_miss]


def text_of(misses: Sequence[Miss], judged: Sequence[Judged]) -> str:
    """What is known of the rows that are missed, and where the list is no longer right; "" if no row is missed or named."""
    lines = []
    for miss in misses:
        if count := sum(each.name == miss.name and each.is_miss for each in judged):
            lines.append(f"{miss.name}, {count} rows more than {100 * LIMIT:.0f} % off:")
            lines += _paragraph(miss.mechanism) + _paragraph(f"Tried: {miss.tried}")
    for each in unnamed(judged):
        lines.append(f"not named in misses.yaml: {each.title}: {100 * each.error:+.1f} %")
    for each in stale(judged):
        lines.append(
            f"named {each.name} in misses.yaml, but within {100 * LIMIT:.0f} %: {each.title}: {100 * each.error:+.1f} %"
        )
    return "".join(f"{line}\n" for line in lines)


def _paragraph(text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
