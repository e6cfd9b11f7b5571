"""A model of RACE hashing on a table that does not resize: how INSERT, UPDATE, DELETE and GET of one key K meet in its
slots.

A slot holds 0, "X" (another key's entry) or an entry of K: ("K", who wrote it, value, whether it is pending). Each step is one
READ of a slot or one CAS: the READ of two buckets is not atomic. Blocks are never used again (race_reuse.py).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from interleavings import Model, Op, Step, Value


@dataclass(frozen=True)
class Rules:
    """The rules of a variant. The default is the published design, in which one order of slots serves for scans and for
    choosing between two entries."""

    # as in SMART's hash table: scans go in another order than the choice between two entries
    scans_backwards: bool = False
    updates_what_it_finds: bool = False  # an INSERT that finds an entry of K replaces its value by CAS
    deletes_all: bool = False  # DELETE removes every entry of K, and reads again until it finds none
    is_pending_first: bool = False  # INSERT links a pending entry, reads again, and commits it only if K has no other
    reads_again: bool = True  # False: INSERT commits its pending entry without reading the slots again


VARIANTS = {
    "smart-ht": Rules(scans_backwards=True),
    "published": Rules(),
    "updating": Rules(updates_what_it_finds=True),
    "deletes-all": Rules(deletes_all=True),
    "updating-deletes-all": Rules(updates_what_it_finds=True, deletes_all=True),
    "hardened": Rules(is_pending_first=True, updates_what_it_finds=True),
    "commits-unchecked": Rules(is_pending_first=True, updates_what_it_finds=True, reads_again=False),
}


def is_of_key(word: Any) -> bool:
    return isinstance(word, tuple)


def swapped(memory: tuple[Any, ...], slot: int, old: Any, new: Any) -> tuple[bool, tuple[Any, ...]]:
    if memory[slot] != old:
        return False, memory
    return True, memory[:slot] + (new,) + memory[slot + 1 :]


class Table:
    """The model of a variant: the method `step` is the function that interleavings.Search calls."""

    def __init__(self, rules: Rules):
        self.rules = rules

    def step(self, op: Op, at: Any, memory: Any, me: tuple[int, int]) -> Step:
        if op.kind == "other":  # removes the other key's entry
            return Step(None, (0,) + memory[1:] if memory[0] == "X" else memory, "ok")
        name, *rest = at or ("read", ())
        return getattr(self, name)(op, memory, me, *rest)

    def order(self, memory: Any) -> list[int]:
        slots = list(range(len(memory)))
        return slots[::-1] if self.rules.scans_backwards else slots

    def read(self, op: Op, memory: Any, me: Any, seen: tuple[Any, ...]) -> Step:
        order = self.order(memory)
        seen += (memory[order[len(seen)]],)
        if len(seen) < len(order):
            return Step(("read", seen), memory)
        by = dict(zip(order, seen))
        hits = [s for s in order if is_of_key(by[s]) and not by[s][3]]
        if op.kind == "get":
            return Step(None, memory, by[hits[0]][2] if hits else "none")
        if op.kind == "delete" and self.rules.deletes_all and hits:
            return Step(("remove_all", hits[-1], by[hits[-1]], False), memory)
        if hits and (op.kind != "insert" or self.rules.updates_what_it_finds):
            new = 0 if op.kind == "delete" else ("K", me, op.value, False)
            return Step(("change", hits[0], by[hits[0]], new), memory)
        if op.kind != "insert":
            return Step(None, memory, "none")
        if self.rules.is_pending_first and any(is_of_key(by[s]) for s in order):
            return Step(None, memory, "conflict")
        free = [s for s in order if by[s] == 0]
        return Step(("link", free[0]), memory) if free else Step(None, memory, "full")

    def change(self, op: Op, memory: Any, me: Any, slot: int, old: Any, new: Any) -> Step:
        won, after = swapped(memory, slot, old, new)
        return Step(None, after, "ok") if won else Step(("read", ()), memory)

    def link(self, op: Op, memory: Any, me: Any, slot: int) -> Step:
        mine = ("K", me, op.value, self.rules.is_pending_first)
        won, after = swapped(memory, slot, 0, mine)
        if not won:
            return Step(("read", ()), memory)
        return Step(("verify", slot, ()) if self.rules.reads_again else ("commit", slot), after)

    def verify(self, op: Op, memory: Any, me: Any, slot: int, seen: tuple[Any, ...]) -> Step:
        """READs the next slot again after INSERT's CAS; after the last slot decides whether the entry that it linked
        stays."""
        order = self.order(memory)
        seen += (memory[order[len(seen)]],)
        if len(seen) < len(order):
            return Step(("verify", slot, seen), memory)
        by = dict(zip(order, seen))
        of_key = sorted(s for s in order if is_of_key(by[s]))
        if self.rules.is_pending_first:
            return Step(("take_back" if [s for s in of_key if s != slot] else "commit", slot), memory)
        if len(of_key) <= 1:
            return Step(None, memory, "ok")
        return Step(("keep_lowest", slot, tuple((s, by[s]) for s in of_key[1:])), memory)

    def commit(self, op: Op, memory: Any, me: Any, slot: int) -> Step:
        _, after = swapped(memory, slot, ("K", me, op.value, True), ("K", me, op.value, False))
        return Step(None, after, "ok")

    def take_back(self, op: Op, memory: Any, me: Any, slot: int) -> Step:
        _, after = swapped(memory, slot, ("K", me, op.value, True), 0)
        return Step(None, after, "conflict")

    def keep_lowest(self, op: Op, memory: Any, me: Any, slot: int, todo: tuple[Any, ...]) -> Step:
        if not todo:
            return Step(None, memory, "ok")
        (other, word), rest = todo[0], todo[1:]
        won, after = swapped(memory, other, word, 0)
        return Step(("keep_lowest", slot, rest) if won else ("verify", slot, ()), after)

    def remove_all(self, op: Op, memory: Any, me: Any, slot: int, old: Any, has_removed: bool) -> Step:
        won, after = swapped(memory, slot, old, 0)
        return Step(("look_for_more", has_removed or won, ()), after)

    def look_for_more(self, op: Op, memory: Any, me: Any, has_removed: bool, seen: tuple[Any, ...]) -> Step:
        order = self.order(memory)
        seen += (memory[order[len(seen)]],)
        if len(seen) < len(order):
            return Step(("look_for_more", has_removed, seen), memory)
        hits = [s for s, word in zip(order, seen) if is_of_key(word)]
        if not hits:
            return Step(None, memory, "ok" if has_removed else "none")
        return Step(("remove_all", hits[-1], seen[order.index(hits[-1])], has_removed), memory)


def model(variant: str) -> Model:
    return Table(VARIANTS[variant]).step


Scenario = tuple[list[list[Op]], tuple[Any, ...], Value]


def programs() -> Iterator[list[list[Op]]]:
    """Programs of two writers and a reader, of a writer that reads what it wrote, and with another key's entry that is
    removed."""
    get, delete, other = Op("get"), Op("delete"), Op("other", key="X")
    writes = [Op("insert", value="a"), Op("insert", value="b"), Op("update", value="u"), delete]
    for first, second in itertools.combinations_with_replacement(writes, 2):
        yield [[first], [Op(second.kind, value=second.value and second.value + "2")], [get, get]]
    for first in writes:
        yield [[first, get], [Op("insert", value="b2"), delete], [get]]
    yield [[Op("insert", value="a")], [Op("insert", value="b")], [delete, get]]
    inserts, insert = Op("insert", value="b"), Op("insert", value="a")
    others = [[inserts], [delete], [Op("update", value="u")], [inserts, delete], [inserts, get]]
    thirds = [[get, get], [delete, get], [Op("insert", value="c"), get], [Op("update", value="u2"), get]]
    for one, two, three in itertools.product([[insert], [insert, get]], others, thirds):
        yield [one, two, [other, *three]]


def scenarios(slots: int = 2) -> Iterator[Scenario]:
    entry, pad = ("K", "old", "v0", False), (0,) * (slots - 2)
    for each in programs():
        if any(op.kind == "other" for program in each for op in program):
            yield each, ("X", 0) + pad, None
            continue
        yield each, (0, 0) + pad, None
        yield each, pad + (0, entry), "v0"
        yield each, (entry, 0) + pad, "v0"
