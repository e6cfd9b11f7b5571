"""A model of RACE hashing, hardened, with freed blocks that are used again: what generation numbers in words and blocks
prevent.

A slot holds 0 or a word (block, generation, whether it is pending). Two keys, K and L, have the same fingerprint and length, so
that words differ in block and generation alone. A block holds (generation, key, value); one that is being
written has no key, which its checksum shows. A block that has left the table goes to the free list of the
client that took it out, and that client's next PUT may take it. Each step is one READ or CAS of a slot, one READ
of a block, or one half of its WRITE.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from interleavings import Model, Op, Step, Value


@dataclass(frozen=True)
class Rules:
    in_word: bool = True  # a slot's word holds the generation number of its block
    in_block: bool = True  # a block holds its generation number too, and readers compare it with the word's
    is_reused: bool = True  # False: blocks are never freed, as in SMART-HT's artifact
    compares_pending: bool = True  # an INSERT's second READ looks for others' pending entries of the key, too


VARIANTS = {
    "hardened": Rules(),
    "no-generation": Rules(in_word=False, in_block=False),
    "none-in-block": Rules(in_block=False),
    "nothing-freed": Rules(in_word=False, in_block=False, is_reused=False),
    "sees-no-pending": Rules(compares_pending=False),
}


class Memory(NamedTuple):
    slots: tuple[Any, ...]
    blocks: tuple[tuple[int, str, str], ...]
    free: tuple[tuple[int, ...], ...]  # for each client its free blocks, oldest first

    def with_block(self, number: int, block: tuple[int, str, str]) -> "Memory":
        return Memory(self.slots, self.blocks[:number] + (block,) + self.blocks[number + 1 :], self.free)

    def with_free(self, client: int, numbers: tuple[int, ...]) -> "Memory":
        return Memory(self.slots, self.blocks, self.free[:client] + (numbers,) + self.free[client + 1 :])

    def swapped(self, slot: int, old: Any, new: Any) -> tuple[bool, "Memory"]:
        if self.slots[slot] != old:
            return False, self
        return True, Memory(self.slots[:slot] + (new,) + self.slots[slot + 1 :], self.blocks, self.free)


class Store:
    def __init__(self, rules: Rules):
        self.rules = rules

    def step(self, op: Op, at: Any, memory: Any, me: tuple[int, int]) -> Step:
        first: tuple[Any, ...] = ("allocate",) if op.kind == "put" else ("read", None, ())
        name, *rest = at or first
        return getattr(self, name)(op, memory, me[0], *rest)

    def word(self, mine: tuple[int, int], is_pending: bool) -> Any:
        return (mine[0], mine[1] if self.rules.in_word else 0, is_pending)

    def freed(self, memory: Memory, client: int, block: int) -> Memory:
        if not self.rules.is_reused:
            return memory
        return memory.with_free(client, memory.free[client] + (block,))

    def allocate(self, op: Op, memory: Memory, client: int) -> Step:
        if not memory.free[client]:
            return Step(None, memory, "full")
        number, rest = memory.free[client][0], memory.free[client][1:]
        generation = memory.blocks[number][0] + 1
        torn = memory.with_free(client, rest).with_block(number, (generation, "", ""))
        return Step(("fill", (number, generation)), torn)

    def fill(self, op: Op, memory: Memory, client: int, mine: tuple[int, int]) -> Step:
        return Step(("read", mine, ()), memory.with_block(mine[0], (mine[1], op.key, op.value)))

    def read(self, op: Op, memory: Memory, client: int, mine: Any, seen: tuple[Any, ...]) -> Step:
        seen += (memory.slots[len(seen)],)
        if len(seen) < len(memory.slots):
            return Step(("read", mine, seen), memory)
        if not any(seen):
            return self.decided(op, memory, client, mine, seen, ())
        return Step(("look", mine, seen, 0, ()), memory)

    def meant(self, memory: Memory, word: Any) -> tuple[int, str, str] | None:
        """The block to which a slot's word points; None if it is being written, or its generation number is not the
        word's."""
        number: int = word[0]
        block = memory.blocks[number]
        is_other = self.rules.in_word and self.rules.in_block and block[0] != word[1]
        return None if not block[1] or is_other else block

    def look(self, op: Op, memory: Memory, client: int, mine: Any, seen: Any, slot: int, found: Any) -> Step:
        """READs the block of the next occupied slot; `found`: the slots found so far that hold the key, with their
        values."""
        while slot < len(seen) and not seen[slot]:
            slot += 1
        if slot < len(seen):
            block = self.meant(memory, seen[slot])
            if block is None:
                return Step(("read", mine, ()), memory)
            if block[1] == op.key:
                found += ((slot, block[2]),)
            if any(seen[slot + 1 :]):
                return Step(("look", mine, seen, slot + 1, found), memory)
        return self.decided(op, memory, client, mine, seen, found)

    def decided(self, op: Op, memory: Memory, client: int, mine: Any, seen: Any, found: Any) -> Step:
        committed = [(slot, value) for slot, value in found if not seen[slot][2]]
        if op.kind == "get":
            return Step(None, memory, committed[0][1] if committed else "none")
        if committed:
            slot = committed[0][0]
            return Step(("change", mine, slot, seen[slot]), memory)
        if op.kind == "delete":
            return Step(None, memory, "none")
        if found or all(seen):
            return Step(None, self.freed(memory, client, mine[0]), "conflict" if found else "full")
        return Step(("link", mine, seen.index(0)), memory)

    def change(self, op: Op, memory: Memory, client: int, mine: Any, slot: int, old: Any) -> Step:
        won, after = memory.swapped(slot, old, self.word(mine, False) if mine else 0)
        if not won:
            return Step(("read", mine, ()), memory)
        return Step(None, self.freed(after, client, old[0]), "ok")

    def link(self, op: Op, memory: Memory, client: int, mine: Any, slot: int) -> Step:
        won, after = memory.swapped(slot, 0, self.word(mine, True))
        return Step(("again", mine, slot, ()) if won else ("read", mine, ()), after)

    def again(self, op: Op, memory: Memory, client: int, mine: Any, slot: int, seen: tuple[Any, ...]) -> Step:
        seen += (memory.slots[len(seen)],)
        if len(seen) < len(memory.slots):
            return Step(("again", mine, slot, seen), memory)
        return Step(("check", mine, slot, seen, 0), memory)

    def check(self, op: Op, memory: Memory, client: int, mine: Any, slot: int, seen: Any, other: int) -> Step:
        while other < len(seen) and (other == slot or not seen[other]):
            other += 1
        if other < len(seen):
            block = self.meant(memory, seen[other])
            if block is None:
                return Step(("again", mine, slot, ()), memory)
            is_seen = self.rules.compares_pending or not seen[other][2]
            if block[1] == op.key and is_seen:
                return Step(("take_back", mine, slot), memory)
            if any(seen[i] for i in range(other + 1, len(seen)) if i != slot):
                return Step(("check", mine, slot, seen, other + 1), memory)
        return Step(("commit", mine, slot), memory)

    def commit(self, op: Op, memory: Memory, client: int, mine: Any, slot: int) -> Step:
        _, after = memory.swapped(slot, self.word(mine, True), self.word(mine, False))
        return Step(None, after, "ok")

    def take_back(self, op: Op, memory: Memory, client: int, mine: Any, slot: int) -> Step:
        _, after = memory.swapped(slot, self.word(mine, True), 0)
        return Step(None, self.freed(after, client, mine[0]), "conflict")


def model(variant: str) -> Model:
    return Store(VARIANTS[variant]).step


def start(is_other_there: bool, clients: int, spares: int) -> tuple[Memory, dict[str, Value]]:
    """The initial memory: key K is in slot 0 and, if asked for, L in slot 1; each client has `spares` free blocks."""
    blocks: list[tuple[int, str, str]] = [(1, "K", "k0"), (1, "L", "l0")]
    free = []
    for client in range(clients):
        free.append(tuple(range(2 + client * spares, 2 + (client + 1) * spares)))
        blocks += [(1, "K", "unused")] * spares
    slots = ((0, 1, False), (1, 1, False) if is_other_there else 0)
    return Memory(slots, tuple(blocks), tuple(free)), {"K": "k0", "L": "l0" if is_other_there else None}


def without_generations(memory: Memory) -> Memory:
    """`memory` with generation 0 in every word, for variants whose words have no generation number."""
    slots = tuple((word[0], 0, word[2]) if word else 0 for word in memory.slots)
    return Memory(slots, memory.blocks, memory.free)


Scenario = tuple[list[list[Op]], Memory, dict[str, Value]]


def scenarios(variant: str) -> Iterator[Scenario]:
    """Programs for a client that may be slow, and for one that frees blocks, uses them again and then reads either
    key."""
    get, get_other, delete = Op("get", "K"), Op("get", "L"), Op("delete", "K")
    slow = [[get], [get, get], [Op("put", "K", "x")], [delete], [get_other]]
    busy = [
        [Op("put", "K", "a"), Op("put", "L", "b")],
        [Op("put", "K", "a"), Op("put", "K", "b")],
        [delete, Op("put", "L", "b")],
        [delete, Op("put", "K", "b")],
    ]
    for one, two, three in itertools.product(slow, busy, ([get], [get_other])):
        for is_other_there, spares in itertools.product((False, True), (0, 1)):
            memory, values = start(is_other_there, 2, spares)
            if not VARIANTS[variant].in_word:
                memory = without_generations(memory)
            # the operations `three` follow in the program of the client that frees blocks, not in a third client's, so
            # two clients suffice
            yield [one, two + three], memory, values
    # Two clients PUT the absent key K and may take different slots, because one of them first deletes the key in slot
    # 0.
    blocks = ((1, "L", "l0"),) + ((1, "K", "unused"),) * 4
    absent = Memory(((0, 1 if VARIANTS[variant].in_word else 0, False), 0), blocks, ((1, 2), (3, 4)))
    removal, put, other = Op("delete", "L"), Op("put", "K", "x"), Op("put", "K", "a")
    for one, two in itertools.product(([put], [put, get]), ([other, get, get], [other, delete, get], [delete, other])):
        yield [one, [removal, *two]], absent, {"K": None, "L": "l0"}
