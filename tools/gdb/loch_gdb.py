"""gdb command `loch coroutines`: each worker's coroutines, what they wait for, and the file and line of their co_await.

  gdb -x tools/gdb/loch_gdb.py build/release/bin/loch-bench
  (gdb) loch coroutines

The command works on a running program and on a core file, on x86-64, in builds without a sanitizer (with a sanitizer
the frames of coroutines come from malloc instead of a frame pool). A coroutine's frame begins with the addresses of its
resume and destroy functions; the number of its suspension point is stored behind its promise. Compilers write no table
from suspension points to source lines, so this script disassembles the coroutine: the instruction that stores the
number belongs to a co_await, and the program's line table gives the instruction's line.
"""

from __future__ import annotations

import collections
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import gdb

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORD = 8
FABRIC = "loch::fabric::"
DEVICES = {  # the fabrics' worker classes (no decorators), each with the class that holds its waiting coroutines
    f"{FABRIC}sim::SimWorker": f"{FABRIC}sim::SimWorker",
    f"{FABRIC}shm::ShmWorker": f"{FABRIC}realtime::RealtimeWorker",
    f"{FABRIC}verbs::VerbsWorker": f"{FABRIC}realtime::RealtimeWorker",
    f"{FABRIC}ofi::OfiWorker": f"{FABRIC}realtime::RealtimeWorker",
}
INDEX_READ = re.compile(
    r"(?:cmpb|testb|movb|movzb[lwq]|movzw[lq]|cmpw)\s+(?:\$\w+,)?(0x[0-9a-f]+)\(%(?!rbp|rsp)\w+\)"
    r"|mov\s+(0x[0-9a-f]+)\(%(?!rbp|rsp)\w+\),%(?:[abcd]l|[abcd]x|[sd]il?|r\d+[bw])$"
)


# ---- Reading memory and symbols of the debugged program ------------------------------------------
def words_at(address: int, count: int) -> tuple[int, ...]:
    """`count` 8-byte words of the debugged program from `address` on; empty if that memory cannot be read."""
    try:
        return struct.unpack(f"<{count}Q", gdb.selected_inferior().read_memory(address, count * WORD))
    except gdb.MemoryError:
        return ()


def object_at(address: int, name: str) -> gdb.Value:
    """A copy of the object at `address` as type `name`.

    A gdb pointer would look up the object's dynamic type instead, which the program's debug information lacks.
    """
    kind = gdb.lookup_type(name)
    return gdb.Value(gdb.selected_inferior().read_memory(address, kind.sizeof), kind)


def quiet(command: str) -> str:
    return gdb.execute(command, to_string=True)


class Program:
    """The address ranges and symbols of the debugged executable."""

    def __init__(self) -> None:
        self.code: list[tuple[int, int]] = []
        self.data: list[tuple[int, int]] = []
        for begin, end, section in re.findall(r"(0x[0-9a-f]+) - (0x[0-9a-f]+) is (\S+)$", quiet("info files"), re.M):
            (self.code if section == ".text" else self.data).append((int(begin, 16), int(end, 16)))
        self._symbols: dict[int, str] = {}

    def symbol(self, address: int) -> str:
        """The demangled symbol at `address`, with ` + N` if the address is N bytes behind the symbol's first."""
        if address not in self._symbols:
            self._symbols[address] = quiet(f"info symbol {address:#x}").rsplit(" in section ", 1)[0].strip()
        return self._symbols[address]

    def begins_frame(self, first: int, second: int) -> bool:
        return self._is_clone(first, "resume") and self._is_clone(second, "destroy")

    def begins_inner_frame(self, first: int, second: int) -> bool:
        """Whether two words begin a Task's frame that the compiler placed inside its caller's frame: such a frame
        begins with the address of the Task's resume function, then that of its cleanup clone."""
        return self._is_clone(first, "resume") and self._is_clone(second, "cleanup")

    def _is_clone(self, address: int, part: str) -> bool:
        return any(a <= address < b for a, b in self.code) and self.symbol(address).rstrip("]").endswith(f".{part}")

    def worker_class(self, vtable: int) -> str | None:
        if not any(a <= vtable < b for a, b in self.data):
            return None
        found = re.match(r"vtable for (.*Worker) \+ 16$", self.symbol(vtable))
        return found.group(1) if found else None


@dataclass
class Function:
    """A coroutine's name and the source lines of its suspension points, read from its machine code."""

    name: str
    index_at: int | None = None  # offset of the suspension point's number in the coroutine's frame, in bytes
    lines: dict[int, tuple[str, int]] = field(default_factory=dict)
    opens: tuple[str, int] | None = None


def short(name: str) -> str:
    """A coroutine's name without the suffix of its resume clone and without parameters."""
    name = re.sub(r"( \[clone )?\.resume\]?$", "", name)
    if name.endswith(")"):
        depth = 0
        for at in range(len(name) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(name[at], 0)
            if depth == 0:
                return name[:at] or name
    return name


def instructions(function: int) -> list[tuple[int, str]]:
    text = quiet(f"with disassembly-flavor att -- disassemble {function:#x}")
    return [
        (int(at, 16), code.split("#")[0].split("<")[0].strip())
        for at, code in re.findall(r"^\s*(?:=> )?(0x[0-9a-f]+) <\+\d+>:\s+(.*)$", text, re.M)
    ]


def index_place(code: list[tuple[int, str]]) -> int | None:
    """The offset in the frame of the suspension point's number: the first value that the resume function loads to
    branch on."""
    positions = {address: n for n, (address, _) in enumerate(code)}
    at = 0
    for _ in range(400):
        if not 0 <= at < len(code):
            return None
        text = code[at][1]
        found = INDEX_READ.match(text)
        if found:
            return int(found.group(1) or found.group(2), 16)
        jump = re.match(r"jmp\s+(0x[0-9a-f]+)", text)
        at = positions.get(int(jump.group(1), 16), -1) if jump else at + 1
    return None


def source_path(symtab: gdb.Symtab) -> str:
    """A source file's path relative to this source tree if the file is in it, else its full path.

    Debug information names files relative to the build folder.
    """
    inside = re.sub(r"^(\.\./)+", "", symtab.filename)
    return inside if os.path.exists(os.path.join(TREE, inside)) else os.path.normpath(symtab.fullname())


def place_of(address: int) -> tuple[str, int] | None:
    found = gdb.find_pc_line(address)
    return (source_path(found.symtab), found.line) if found.symtab is not None and found.line > 0 else None


def is_inlined(address: int, function: int) -> bool:
    """Whether the instruction at `address` belongs to a function that was inlined into `function`."""
    block = gdb.block_for_pc(address)
    while block is not None and block.function is None:
        block = block.superblock
    return block is not None and block.start != function


def read_function(address: int, name: str) -> Function:
    code = instructions(address)
    result = Function(short(name), index_place(code), {}, place_of(address))
    if result.index_at is None:
        return result
    store = re.compile(rf"mov[bw]\s+\$(0x[0-9a-f]+),{result.index_at:#x}\(%")
    places: dict[int, list[tuple[bool, tuple[str, int]]]] = collections.defaultdict(list)
    for at, text in code:
        found = store.match(text)
        place = place_of(at) if found else None
        if found and place:
            of_others = is_inlined(at, address) or (result.opens is not None and place[0] != result.opens[0])
            places[int(found.group(1), 16)].append((of_others, place))
    result.lines = {index: min(found)[1] for index, found in places.items()}
    return result


# ---- Frames of coroutines ------------------------------------------------------------------------
@dataclass
class Frame:
    address: int
    function: Function
    words: tuple[int, ...]
    index: int | None = None
    state: str = ""

    @property
    def place(self) -> tuple[str, int] | None:
        return self.function.opens if self.index == 0 else self.function.lines.get(self.index or -1)

    @property
    def is_child(self) -> bool:
        return self.function.name == "loch::coro::Scope::run"

    def describe(self) -> str:
        place = self.place
        if place is None:
            return f"{self.function.name}, suspension point {self.index}"
        return f"{self.function.name} at {place[0]}:{place[1]}"


def pools() -> Iterator[gdb.Value]:
    before = gdb.selected_thread()
    seen: set[int] = set()
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            pool = gdb.parse_and_eval("'loch::coro::FramePool::current_'")
            if int(pool) not in seen and int(pool) != 0:
                seen.add(int(pool))
                yield pool.dereference()
    finally:
        before.switch()


class Frames:
    """All coroutines of the debugged program, suspended or running, by the address of their frames."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: dict[int, Frame] = {}
        self._functions: dict[int, Function] = {}
        for pool in pools():
            self._read_pool(pool)
        for frame in list(self.found.values()):
            self._follow(frame)
        self.parents = {a: f.words[2] for a, f in self.found.items() if not f.is_child and f.words[2] in self.found}
        self.awaited = set(self.parents.values())

    def _read_pool(self, pool: gdb.Value) -> None:
        step = int(gdb.parse_and_eval("'loch::coro::FramePool::class_bytes'")) // WORD
        arena, count = int(pool["arenas_"]), int(pool["piece_bytes_"]) // WORD
        while arena != 0:
            words = words_at(arena, count)
            starts = [n for n in range(step, len(words), step) if self.program.begins_frame(*words[n : n + 2])]
            for n, end in zip(starts, [*starts[1:], len(words)]):
                self._add(arena + n * WORD, words[n : min(end, n + 64 * step)])
            arena = words[0] if words else 0

    def _add(self, address: int, words: tuple[int, ...]) -> None:
        function = self._functions.get(words[0])
        if function is None:
            function = self._functions[words[0]] = read_function(words[0], self.program.symbol(words[0]))
        frame = Frame(address, function, words)
        if function.index_at is not None:
            frame.index = gdb.selected_inferior().read_memory(address + function.index_at, 1)[0][0]
        self.found[address] = frame
        for n in range(2, len(words) - 1):
            if self.program.begins_inner_frame(*words[n : n + 2]) and address + n * WORD not in self.found:
                self._add(address + n * WORD, words[n:])

    def _follow(self, frame: Frame) -> None:
        """Adds the coroutine frames over 4 KiB that this frame points to. They come from malloc instead of a frame
        pool, and malloc stores a block's size in the word before it."""
        for word in frame.words:
            if word % 16 != 0 or word in self.found or not 4096 < word < 1 << 47:
                continue
            head = words_at(word - WORD, 3)
            if head and self.program.begins_frame(*head[1:]) and 4096 < (head[0] & ~7) < 1 << 24:
                self._add(word, words_at(word, (head[0] & ~7) // WORD - 1))
                self._follow(self.found[word])

    def holder(self, address: int) -> Frame | None:
        """The coroutine frame that contains the object at `address`; if frames are nested, the innermost."""
        around = [a for a, f in self.found.items() if a <= address < a + len(f.words) * WORD]
        return self.found[max(around)] if around else None

    def chain(self, frame: Frame) -> list[tuple[str, Frame]]:
        """The chain of coroutines that await this frame, up to the worker's main coroutine."""
        links: list[tuple[str, Frame]] = []
        while len(links) < 1000:
            if frame.is_child:
                above, how = self.holder(frame.words[2]), "child of a Scope of"
            else:
                above, how = self.found.get(self.parents.get(frame.address, 0)), "awaited by"
            if above is None:
                return links
            if not above.is_child:
                links.append((how, above))
            frame = above
        return links


# ---- Workers of the fabrics sim, shm, verbs and ofi -----------------------------------------------
def handle(value: gdb.Value) -> int:
    return int(value["_M_fr_ptr"])


def queued(queue: gdb.Value) -> Iterator[int]:
    first = queue["ring_"]["_M_impl"]["_M_start"]
    capacity = int(queue["ring_"]["_M_impl"]["_M_finish"] - first)
    for n in range(int(queue["size_"])):
        yield handle(first[(int(queue["head_"]) + n) & (capacity - 1)])


def linked(first: gdb.Value, following: str) -> Iterator[gdb.Value]:
    while int(first) != 0:
        yield first.dereference()
        first = first[following]


def enumerator(value: gdb.Value) -> str:
    return str(value).rsplit("::", 1)[-1]


def describe_watch(wait: gdb.Value) -> str:
    words = int(wait["set"]["count"])
    if words == 0:
        return f"a watch of the word at {int(wait['word']['offset'])} of a region"
    return f"a watch of {words} words from {int(wait['set']['offset'])} of a region"


def describe_request(request: gdb.Value) -> str:
    return f"{enumerator(request['verb']).upper()} of {int(request['length'])} bytes, node {int(request['peer'])}"


class Worker:
    """One fabric worker of the debugged program; `waits` maps the address of a coroutine's frame to what the coroutine
    awaits."""

    def __init__(self, address: int, kind: str) -> None:
        self.object = object_at(address, DEVICES[kind])
        spec = self.object["spec_"]
        self.key = (int(spec["node"]), int(spec["index"]))
        self.title = (
            f"worker {self.key[1]} of node {self.key[0]}, {enumerator(spec['role'])} "
            f"\"{spec['name']['_M_dataplus']['_M_p'].string()}\" on {kind.split('::')[2]}"
        )
        self.is_simulated = DEVICES[kind] == kind
        self.waits: dict[int, str] = {}
        self.posted: set[int] = set()
        (self._read_simulated if self.is_simulated else self._read_realtime)()
        self.waits.update((waiter, "its turn: it is ready") for waiter in queued(self.object["run_queue_"]))

    def _note(self, wait: gdb.Value, what: str) -> None:
        self.waits[handle(wait["waiter"])] = what

    def _read_common(self, receives: gdb.Value) -> None:
        for wait in linked(receives, "next"):
            self._note(wait, f"a message ({enumerator(wait['transport'])})")

    def _read_realtime(self) -> None:
        for n in range(3):
            self._read_common(self.object["receivers_"][n])
        for wait in linked(self.object["watches_"], "next"):
            self._note(wait, describe_watch(wait))
        for wait in linked(self.object["timers_"], "next"):
            self._note(wait, f"a timer, due at {int(wait['at'])} ns")
        for wait in linked(self.object["reconnects_"], "next"):
            self._note(wait, f"a connection to node {int(wait['peer'])}")

    def _read_simulated(self) -> None:
        self._read_common(self.object["receive_first_"])
        for watch in linked(self.object["watches_"], "next_of_worker"):
            self._note(watch["wait"], describe_watch(watch["wait"]))
        for wait in linked(self.object["reconnects_"], "next"):
            self._note(wait, f"a connection to node {int(wait['peer'])}")
        if handle(self.object["computing_"]) != 0:
            self.waits[handle(self.object["computing_"])] = "the end of its computation"
        pairs = self.object["queue_pairs_"]["_M_impl"]
        for n in range(int(pairs["_M_finish"] - pairs["_M_start"])):
            if int(pairs["_M_start"][n]) != 0:
                self.posted.update(int(r["wr"]) for r in linked(pairs["_M_start"][n]["oldest"], "next_in_qp"))


class Workers:
    """The workers that coroutine frames point to; a pointer to a wrapper counts as a pointer to the wrapped worker."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.by_key: dict[tuple[int, int], Worker] = {}
        self._by_address: dict[int, Worker | None] = {}

    def at(self, address: int) -> Worker | None:
        if address not in self._by_address:
            self._by_address[address] = None
            self._by_address[address] = self._read(address)
        return self._by_address[address]

    def _read(self, address: int) -> Worker | None:
        if address % WORD != 0 or not 4096 < address < 1 << 47:
            return None
        head = words_at(address, 1)
        kind = self.program.worker_class(head[0]) if head else None
        if kind is None:
            return None
        if kind in DEVICES:
            worker = Worker(address, kind)
            return self.by_key.setdefault(worker.key, worker)
        return self.at(int(object_at(address, f"{FABRIC}WrappedWorker")["inner_"]))

    def of(self, frames: list[Frame]) -> Worker | None:
        """The worker that runs the coroutines whose frames are `frames`: the one that most pointers in the frames point
        to."""
        votes = collections.Counter(w.key for f in frames for w in map(self.at, f.words) if w is not None)
        return self.by_key[votes.most_common(1)[0][0]] if votes else None


# ---- What a suspended coroutine waits for --------------------------------------------------------
def requests(program: Program, frame: Frame) -> Iterator[tuple[set[int], str]]:
    """The work requests of the awaitables in a coroutine's frame: the requests' addresses, and a description.

    Awaitables whose wait is over are included: their bytes stay in the frame.
    """
    for n, word in enumerate(frame.words):
        if not any(a <= word < b for a, b in program.code):
            continue
        found = re.search(r"Worker::(Operation|Chain)::await_suspend", program.symbol(word))
        if not found:
            continue
        kind = gdb.lookup_type(f"{FABRIC}Worker::{found.group(1)}").pointer()
        value = gdb.Value(frame.address + n * WORD).cast(kind).dereference()
        if handle(value["waiter_"]) != frame.address:
            continue
        if found.group(1) == "Operation":
            yield {int(value["request_"].address)}, describe_request(value["request_"])
        else:
            spans = value["requests_"]
            first, count = spans["_M_ptr"], int(spans["_M_extent"]["_M_extent_value"])
            yield (
                {int(first + i) for i in range(count)},
                f"{int(value['left_'])} of {count} requests, the last a {describe_request(first[count - 1])}",
            )


def what_for(program: Program, worker: Worker | None, frame: Frame) -> str:
    if frame.state:
        return frame.state
    if frame.index == 0:
        return "its start" if worker is None else worker.waits.get(frame.address, "its start")
    if worker is not None and frame.address in worker.waits:
        return worker.waits[frame.address]
    posted = list(requests(program, frame))
    if worker is not None and worker.is_simulated:
        posted = [one for one in posted if one[0] & worker.posted]
    if posted:
        return posted[-1][1]
    if worker is not None and worker.is_simulated and frame.address in frame.words:
        return "a timer"
    return "another coroutine"


def mark_running(program: Program, frames: Frames) -> None:
    """Marks running coroutines: the resume function is on a thread's stack, the frame's address in a register or stack
    slot."""
    before = gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        native = gdb.newest_frame()
        while native is not None:
            block = quiet(f"info symbol {native.pc():#x}")
            if ".resume" in block:
                below = int(native.read_register("rsp"))
                slots = set(words_at(below, 128))
                slots.update(int(native.read_register(r)) & (1 << 64) - 1 for r in ("rbx", "r12", "r13", "r14", "r15"))
                name = short(re.sub(r" \+ \d+ in section.*", "", block).strip())
                for address in slots & frames.found.keys():
                    if frames.found[address].function.name == name:
                        frames.found[address].state = "nothing: it runs"
            native = native.older()
    before.switch()


def mark_joining(frames: Frames) -> None:
    scope_type = gdb.lookup_type("loch::coro::Scope").pointer()
    for frame in frames.found.values():
        if frame.is_child:
            scope = gdb.Value(frame.words[2]).cast(scope_type).dereference()
            joiner = frames.found.get(handle(scope["joiner_"]))
            if joiner is not None:
                running = int(scope["running_"])
                joiner.state = f"the {running} children of its Scope" if running > 1 else "the child of its Scope"


def report() -> list[str]:
    program = Program()
    frames = Frames(program)
    workers = Workers(program)
    mark_running(program, frames)
    mark_joining(frames)
    leaves = [f for a, f in frames.found.items() if a not in frames.awaited]
    trees: dict[int, list[tuple[Frame, list[tuple[str, Frame]]]]] = collections.defaultdict(list)
    for leaf in leaves:
        chain = frames.chain(leaf)
        trees[(chain[-1][1] if chain else leaf).address].append((leaf, chain))
    texts: dict[str, list[str]] = collections.defaultdict(list)
    for tree in trees.values():
        members = {f.address: f for leaf, chain in tree for f in [leaf, *(link for _, link in chain)]}
        worker = workers.of(list(members.values()))
        for leaf, chain in tree:
            lines = [f"  {leaf.describe()}", f"    waits for {what_for(program, worker, leaf)}"]
            lines += [f"    {how} {above.describe()}" for how, above in chain]
            texts[worker.title if worker is not None else "of no worker"].append("\n".join(lines))
    out: list[str] = []
    for title in sorted(texts):
        out.append(f"{title}: {len(texts[title])} coroutine{'s' if len(texts[title]) != 1 else ''}")
        for text, count in collections.Counter(texts[title]).items():
            first, rest = text.split("\n", 1)
            out += [first + (f" ({count} alike)" if count > 1 else ""), rest]
    return out or ["no coroutine is suspended"]


class LochCommand(gdb.Command):
    """The gdb command prefix `loch` for programs of Loch."""

    def __init__(self) -> None:
        super().__init__("loch", gdb.COMMAND_STATUS, prefix=True)


class CoroutinesCommand(gdb.Command):
    """Each worker's coroutines: what they wait for, file and line of the co_await, and who awaits them."""

    def __init__(self) -> None:
        super().__init__("loch coroutines", gdb.COMMAND_STATUS)

    def invoke(self, argument: str, from_tty: bool) -> None:
        if argument:
            raise gdb.GdbError(f"loch coroutines: unexpected argument '{argument}': it takes none")
        if not gdb.selected_inferior().threads():
            raise gdb.GdbError("loch coroutines: no program is running and no core file is open")
        try:
            gdb.lookup_type("loch::coro::FramePool").fields()
            print("\n".join(report()))
        except gdb.error as error:
            raise gdb.GdbError(
                f"loch coroutines: {error}; expected a program that links loch_layouts (loch-bench does), "
                "built without a sanitizer"
            ) from error


LochCommand()
CoroutinesCommand()
