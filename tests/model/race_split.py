"""A model of RACE hashing, hardened, while a subtable is split and freed blocks are used again.

The old and the new subtable have two buckets of one slot each. Key K moves to the new subtable, keys L and M stay. All
have one fingerprint, so that their words differ in block and generation number alone: a word is (block, generation,
whether it is pending, whether it is frozen). A bucket's header is "old", "moving" or "new". Each step is one READ or
CAS of a word or one READ of a block; on a fabric that does not tear buckets a header and its slot are one READ. A
client may begin in the old subtable even after the split; a client that splits may die after any number of steps, and
another one continues its split.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from interleavings import Model, Op, Step, Value


@dataclass(frozen=True)
class Rules:
    tears_buckets: bool = False  # a header and the slot of its bucket are READ at different instants
    confirms: bool = True  # with tears_buckets: headers are READ again before a miss or a free slot is believed
    freezes: bool = True  # a split freezes an entry, so that no CAS changes it, before it copies it
    reads_after_header: bool = True  # a split READs a bucket's slot after it has set the header to "moving", not before
    checks_own_slot: bool = True  # an INSERT's second READ checks that the bucket of its pending entry has not moved
    stays_out: bool = True  # an INSERT does not commit its entry in a bucket that is being moved
    reads_headers: bool = True  # False: a client trusts its directory and takes every header for "old"
    waits_for_pending: bool = True  # a split waits for pending entries of keys that move
    compares_generations: bool = True  # readers compare the generation numbers of word and block


VARIANTS = {
    "hardened": Rules(),
    "tearing": Rules(tears_buckets=True),
    "unconfirmed": Rules(tears_buckets=True, confirms=False),
    "unfrozen": Rules(freezes=False),
    "header-after-read": Rules(reads_after_header=False),
    "own-slot-unchecked": Rules(checks_own_slot=False, stays_out=False),
    "inserts-while-moving": Rules(stays_out=False),
    "header-unread": Rules(reads_headers=False),
    "pending-left": Rules(waits_for_pending=False),
    "no-generation": Rules(compares_generations=False),
}

Word = tuple[int, int, bool, bool]
Place = tuple[int, int]  # 0: in the old subtable, 1: in the new one; number of the bucket


class Memory(NamedTuple):
    slots: tuple[tuple[Any, ...], ...]  # the slots of the old subtable, and those of the new one
    headers: tuple[str, ...]  # the headers of the old subtable's buckets
    is_told: bool  # whether the directory points to the new subtable
    blocks: tuple[tuple[int, str, str], ...]  # (generation, key, value)
    free: tuple[tuple[int, ...], ...]  # for each client its free blocks, oldest first

    def at(self, place: Place) -> Any:
        return self.slots[place[0]][place[1]]

    def swapped(self, place: Place, old: Any, new: Any) -> tuple[bool, "Memory"]:
        if self.at(place) != old:
            return False, self
        row = self.slots[place[0]]
        row = row[: place[1]] + (new,) + row[place[1] + 1 :]
        return True, self._replace(slots=(row, self.slots[1]) if place[0] == 0 else (self.slots[0], row))

    def with_header(self, bucket: int, header: str) -> "Memory":
        return self._replace(headers=self.headers[:bucket] + (header,) + self.headers[bucket + 1 :])

    def freed(self, client: int, block: int) -> "Memory":
        return self._replace(free=self.free[:client] + (self.free[client] + (block,),) + self.free[client + 1 :])


class Seen(NamedTuple):
    place: Place
    header: str  # of the bucket in the old subtable; of the new subtable: "new"
    word: Any

    def is_taken(self) -> bool:
        return bool(self.word) and (not self.word[3] or self.header == "moving")


Look = tuple[Seen, ...]
BUCKETS = 2


class Store:
    def __init__(self, rules: Rules):
        self.rules = rules

    def step(self, op: Op, at: Any, memory: Any, me: tuple[int, int]) -> Step:
        if op.kind == "split":
            name, steps, *rest = at or ("begin", 0)
            if op.value and steps == int(op.value):
                return Step(None, memory, "ok")  # the client that splits dies
            to: Step = getattr(self, "split_" + name)(memory, *rest)
            counted = steps + 1 if op.value else 0
            return Step((to.at[0], counted, *to.at[1:]), to.memory) if isinstance(to.at, tuple) else to
        begin: Any = ("allocate",) if op.kind == "put" else ("look", None, "decide", (), None, memory.is_told)
        name, *rest = at or begin
        result: Step = getattr(self, name)(op, memory, me[0], *rest)
        return result

    # ---- The steps of a client's operation

    def allocate(self, op: Op, memory: Memory, client: int) -> Step:
        """Takes a free block and writes it in one step; race_reuse.py models blocks that are read while they are
        written."""
        if not memory.free[client]:
            return Step(None, memory, "full")
        number, rest = memory.free[client][0], memory.free[client][1:]
        generation = memory.blocks[number][0] + 1
        blocks = memory.blocks[:number] + ((generation, op.key, op.value),) + memory.blocks[number + 1 :]
        after = memory._replace(blocks=blocks, free=memory.free[:client] + (rest,) + memory.free[client + 1 :])
        return Step(("look", (number, generation), "decide", (), None, memory.is_told), after)

    def again(self, memory: Memory, mine: Any, then: Any = "decide") -> Step:
        return Step(("look", mine, then, (), None, memory.is_told), memory)

    def look(
        self, op: Op, memory: Memory, client: int, mine: Any, then: Any, seen: Look, header: Any, told: bool
    ) -> Step:
        """READs the next bucket in the old subtable, or in the new one if the directory or the bucket's header says
        so."""
        bucket = len(seen)
        moves = op.key == "K"
        if moves and told:
            header = "new"  # the client begins in the new subtable
        if header is None:
            header = memory.headers[bucket]
            if not self.rules.reads_headers:
                header = "old"
            if self.rules.tears_buckets or (moves and header == "new"):
                return Step(("look", mine, then, seen, header, told), memory)
        place = (1 if moves and header == "new" else 0, bucket)
        seen += (Seen(place, header, memory.at(place)),)
        if len(seen) < BUCKETS:
            return Step(("look", mine, then, seen, None, told), memory)
        return self.looked(op, memory, client, mine, then, seen)

    def looked(self, op: Op, memory: Memory, client: int, mine: Any, then: Any, seen: Look) -> Step:
        to_read = [i for i, each in enumerate(seen) if each.is_taken() and each.place != then]
        if not to_read:
            return self.decided(op, memory, client, mine, then, seen, ())
        return Step(("fetch", mine, then, seen, to_read[0], ()), memory)

    def fetch(self, op: Op, memory: Memory, client: int, mine: Any, then: Any, seen: Look, i: int, found: Any) -> Step:
        """READs the block of an occupied slot; `found`: the slots found so far that hold the key, with their values."""
        word = seen[i].word
        block = memory.blocks[word[0]]
        if self.rules.compares_generations and block[0] != word[1]:
            return self.again(memory, mine, then)
        if block[1] == op.key:
            found += ((i, block[2]),)
        rest = [n for n in range(i + 1, len(seen)) if seen[n].is_taken() and seen[n].place != then]
        if rest:
            return Step(("fetch", mine, then, seen, rest[0], found), memory)
        return self.decided(op, memory, client, mine, then, seen, found)

    def decided(self, op: Op, memory: Memory, client: int, mine: Any, then: Any, seen: Look, found: Any) -> Step:
        if then != "decide":
            return self.decided_again(op, memory, client, mine, then, seen, found)
        committed = [(i, value) for i, value in found if not seen[i].word[2]]
        if committed:
            i, value = committed[0]
            if op.kind == "get":
                return Step(None, memory, value)
            if seen[i].word[3]:
                return self.again(memory, mine)  # the entry is frozen by a split: reads again until it has moved
            return Step(("change", mine, seen[i].place, seen[i].word), memory)
        if op.kind != "put":
            return self.confirmed(op, memory, mine, seen, "miss", None)
        if found:
            return Step(None, memory.freed(client, mine[0]), "conflict")
        is_leaving = op.key == "K"
        free = [s for s in seen if not s.is_taken() and not (is_leaving and s.header == "moving")]
        if not free:
            return Step(None, memory.freed(client, mine[0]), "full")
        if free[0].word:  # a frozen entry that a split has copied, so that its slot may be used
            return self.confirmed(op, memory, mine, seen, "link", free[0])
        return Step(("link", mine, free[0]), memory)

    def confirmed(self, op: Op, memory: Memory, mine: Any, seen: Look, then: str, slot: Any) -> Step:
        if self.rules.tears_buckets and self.rules.confirms:
            return Step(("confirm", mine, seen, then, slot, 0), memory)
        return Step((then, mine, slot), memory)

    def confirm(self, op: Op, memory: Memory, client: int, mine: Any, seen: Look, then: str, slot: Any, i: int) -> Step:
        """READs the buckets' headers again, one a step, and begins again if one has changed."""
        if seen[i].place[0] == 0 and memory.headers[i] != seen[i].header:
            return self.again(memory, mine, slot if then == "commit" else "decide")
        if i + 1 < len(seen):
            return Step(("confirm", mine, seen, then, slot, i + 1), memory)
        return Step((then, mine, slot), memory)

    def miss(self, op: Op, memory: Memory, client: int, mine: Any, slot: Any) -> Step:
        return Step(None, memory, "none")

    def change(self, op: Op, memory: Memory, client: int, mine: Any, place: Place, old: Word) -> Step:
        won, after = memory.swapped(place, old, (*mine, False, False) if mine else 0)
        return Step(None, after.freed(client, old[0]), "ok") if won else self.again(memory, mine)

    def link(self, op: Op, memory: Memory, client: int, mine: Any, slot: Seen) -> Step:
        won, after = memory.swapped(slot.place, slot.word, (*mine, True, False))
        return self.again(after, mine, slot.place) if won else self.again(memory, mine)

    def decided_again(
        self, op: Op, memory: Memory, client: int, mine: Any, then: Place, seen: Look, found: Any
    ) -> Step:
        """Decides after the second READ of an INSERT, whose pending word is at the place `then`, whether the INSERT
        commits that word."""
        own = [each for each in seen if each.place == then]
        is_out = self.rules.checks_own_slot and not own
        is_moving = self.rules.stays_out and op.key == "K" and any(each.header == "moving" for each in own)
        if found or is_out or is_moving:
            return Step(("take_back", mine, then), memory)
        return self.confirmed(op, memory, mine, seen, "commit", then)

    def commit(self, op: Op, memory: Memory, client: int, mine: Any, place: Place) -> Step:
        _, after = memory.swapped(place, (*mine, True, False), (*mine, False, False))
        return Step(None, after, "ok")

    def take_back(self, op: Op, memory: Memory, client: int, mine: Any, place: Place) -> Step:
        _, after = memory.swapped(place, (*mine, True, False), 0)
        return Step(None, after.freed(client, mine[0]), "conflict")

    # ---- The steps of the client that splits the subtable

    def split_begin(self, memory: Memory, bucket: int = 0) -> Step:
        if bucket == BUCKETS:
            return Step(None, memory._replace(is_told=True), "ok")
        if memory.headers[bucket] == "new":
            return self.split_begin(memory, bucket + 1)
        if self.rules.reads_after_header or memory.headers[bucket] == "moving":
            return Step(("read", bucket), memory.with_header(bucket, "moving"))
        return Step(("header", bucket, memory.at((0, bucket))), memory)

    def split_header(self, memory: Memory, bucket: int, word: Any) -> Step:
        return Step(("settle", bucket, word), memory.with_header(bucket, "moving"))

    def split_read(self, memory: Memory, bucket: int) -> Step:
        return Step(("settle", bucket, memory.at((0, bucket))), memory)

    def split_settle(self, memory: Memory, bucket: int, word: Any) -> Step:
        """READs the block of a slot's word, and goes on to freeze the word if the block's key moves."""
        if not word:
            return Step(("hand_over", bucket), memory)
        if word[3]:
            return Step(("copy", bucket, word), memory)
        block = memory.blocks[word[0]]
        if block[0] != word[1]:
            return Step(("read", bucket), memory)
        if block[1] != "K":
            return Step(("hand_over", bucket), memory)
        if word[2]:
            return Step(("read" if self.rules.waits_for_pending else "hand_over", bucket), memory)
        return Step(("freeze", bucket, word), memory)

    def split_freeze(self, memory: Memory, bucket: int, word: Word) -> Step:
        if not self.rules.freezes:
            return Step(("copy", bucket, word), memory)
        frozen = (*word[:3], True)
        won, after = memory.swapped((0, bucket), word, frozen)
        return Step(("copy", bucket, frozen), after) if won else Step(("read", bucket), memory)

    def split_copy(self, memory: Memory, bucket: int, word: Word) -> Step:
        _, after = memory.swapped((1, bucket), 0, (*word[:3], False))
        return Step(("hand_over", bucket), after)

    def split_hand_over(self, memory: Memory, bucket: int) -> Step:
        return Step(("begin", bucket + 1), memory.with_header(bucket, "new"))


def model(variant: str) -> Model:
    return Store(VARIANTS[variant]).step


Scenario = tuple[list[list[Op]], Memory, dict[str, Value]]


def start(slots: tuple[str, str], clients: int, spares: int = 1) -> tuple[Memory, dict[str, Value]]:
    """The initial memory: `slots` names the keys in the old subtable, "" for none; each client has `spares` free
    blocks."""
    blocks = [(1, key, key.lower() + "0") for key in slots]
    words = tuple((i, 1, False, False) if key else 0 for i, key in enumerate(slots))
    free = []
    for client in range(clients):
        free.append(tuple(range(len(blocks), len(blocks) + spares)))
        blocks += [(1, "", "")] * spares
    values: dict[str, Value] = {key: key.lower() + "0" if key in slots else None for key in ("K", "L", "M")}
    memory = Memory((words, (0,) * BUCKETS), ("old",) * BUCKETS, False, tuple(blocks), tuple(free))
    return memory, values


def scenarios(steps: int = 0) -> Iterator[Scenario]:
    """Programs for a client that splits, and for one or two clients that use the table meanwhile. With `steps` the
    client continues a split in which another one died after so many steps."""
    split = [Op("split", "S", str(steps)), Op("split", "S")] if steps else [Op("split", "S")]
    get, delete = Op("get"), Op("delete")
    put, other, stays = Op("put", value="a"), Op("put", value="b"), Op("put", "L", "x")
    alone = [[put, get], [get, get], [delete, get], [delete, other], [stays, put], [put, other, get]]
    together = [([put], [get, get]), ([put], [delete]), ([delete], [get]), ([put], [other]), ([get], [stays])]
    for slots in (("K", ""), ("", ""), ("", "K"), ("M", "")):
        for programs in [[each] for each in alone] + ([] if steps else [list(each) for each in together]):
            memory, values = start(slots, 1 + len(programs), 2)
            yield [split, *programs], memory, values
    # A key that stays takes a slot that the split has freed, while another client has READ the header and not yet the
    # slot.
    for one in () if steps else ([get], [put], [delete]):
        memory, values = start(("K", "M"), 3)
        yield [split, one, [stays]], memory, values
    # Scenarios in which a block that the PUT of key K frees is used again at once, for key L, which stays in the old
    # subtable.
    if not steps:
        memory, values = start(("K", ""), 3)
        yield [split, [get], [put, stays]], memory, values
