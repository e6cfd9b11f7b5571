"""Every interleaving of small programs on shared memory, each history judged for linearizability while it is made.

A model is a function that makes one step of one operation. Programs are lists of operations, one list for each client. The
search visits each state once. A state is the memory, the next step of each client, and what the results so far still
allow (the subset construction of Wing and Gong): for each key a set of configurations, each a value that the key may
have now, with the results of those running operations that have taken effect already.
"""

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

Value = str | None
Config = tuple[Value, tuple[str | None, ...]]


class Op(NamedTuple):
    """One operation: "get", "put", "update", "insert" or "delete" of a key; "other" is on a key whose history is not
    judged."""

    kind: str
    key: str = "K"
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.key} {self.value}".strip()


class Step(NamedTuple):
    """The outcome of one step: the operation's next step (None: it has ended), the memory, and the result if it has
    ended."""

    at: Hashable
    memory: Any
    result: str | None = None


# (operation, its next step or None at its beginning, memory, (client, number of the operation)) -> outcome
Model = Callable[[Op, Any, Any, tuple[int, int]], Step]


class Violation(Exception):
    """A history that no order of the operations explains; `trace` has its steps."""

    def __init__(self, trace: tuple[str, ...]):
        super().__init__("\n".join(trace))
        self.trace = trace


def effects(op: Op, value: Value) -> Iterator[tuple[Value, str]]:
    """The (new value, result) pairs with which the operation may take effect on a key that has the value `value`."""
    if op.kind == "get":
        yield value, value if value is not None else "none"
    elif op.kind == "put":
        yield op.value, "ok"
    elif op.kind == "insert":  # says ok where the key is there, and may then overwrite its value or leave it
        yield op.value, "ok"
        if value is not None:
            yield value, "ok"
    elif op.kind == "update":
        yield (op.value, "ok") if value is not None else (value, "none")
    elif op.kind == "delete":
        yield None, "ok" if value is not None else "none"
    else:
        yield value, "ok"
    if op.kind not in ("get", "other"):  # an operation may give up without effect
        yield value, "conflict"
        yield value, "full"


@functools.lru_cache(maxsize=1 << 16)
def closed(configs: frozenset[Config], running: tuple[tuple[int, Op], ...]) -> frozenset[Config]:
    """The configurations (possible values of a key, with results of running operations), and all that follow from them
    if some of the running operations take effect now."""
    out, todo = set(configs), list(configs)
    while todo:
        value, done = todo.pop()
        for client, op in running:
            if done[client] is not None:
                continue
            for new, result in effects(op, value):
                config = (new, done[:client] + (result,) + done[client + 1 :])
                if config not in out:
                    out.add(config)
                    todo.append(config)
    return frozenset(out)


def answered(configs: frozenset[Config], client: int, result: str) -> frozenset[Config]:
    """The configurations (possible values of a key, with results of running operations) that remain after the client's
    operation has returned this result: those in which it had it."""
    ends = (each for each in configs if each[1][client] == result)
    return frozenset((value, done[:client] + (None,) + done[client + 1 :]) for value, done in ends)


class State(NamedTuple):
    memory: Any
    stands: tuple[tuple[int, Any], ...]  # for each client: number of its operation, and that operation's next step
    configs: tuple[tuple[str, frozenset[Config]], ...]  # for each key


class Search:
    """Explores one set of programs from one initial memory. `values`: the initial value of each key whose history is
    judged."""

    def __init__(self, model: Model, programs: Sequence[Sequence[Op]], memory: Any, values: dict[str, Value]):
        self.model, self.programs = model, programs
        nobody: tuple[str | None, ...] = (None,) * len(programs)
        configs = tuple((key, frozenset({(value, nobody)})) for key, value in values.items())
        self.start = State(memory, ((0, None),) * len(programs), configs)

    def run(self, limit: int = 2_000_000) -> int:
        """Visits all states and returns their number; raises Violation if a history is not linearizable."""
        came_from: dict[State, tuple[State, int] | None] = {self.start: None}
        stack = [self.start]
        while stack:
            state = stack.pop()
            for client, program in enumerate(self.programs):
                if state.stands[client][0] == len(program):
                    continue
                after = self.moved(state, client)
                if after in came_from:
                    continue
                came_from[after] = state, client
                if not all(configs for _, configs in after.configs):
                    raise Violation(self.trace(came_from, after))
                assert len(came_from) <= limit, "more states than the limit"
                stack.append(after)
        return len(came_from)

    def trace(self, came_from: dict[State, tuple[State, int] | None], end: State) -> tuple[str, ...]:
        """What each step on the way from the initial memory to a state did, one line each."""
        lines = []
        while (step := came_from[end]) is not None:
            state, client = step
            number, at = state.stands[client]
            now = f", memory {end.memory}" if end.memory != state.memory else ""
            lines.append(f"client {client}, {self.programs[client][number]}: {at or 'begins'}{now}")
            end = state
        return tuple(reversed(lines))

    def moved(self, state: State, client: int) -> State:
        """The state after one step of the client."""
        number, at = state.stands[client]
        op = self.programs[client][number]
        step = self.model(op, at, state.memory, (client, number))
        running = [
            (other, self.programs[other][n])
            for other, (n, where) in enumerate(state.stands)
            if where is not None or other == client
        ]
        configs = []
        for key, old in state.configs:
            new = closed(old, tuple((who, each) for who, each in running if each.key == key))
            if step.result is not None and op.key == key:
                new = answered(new, client, step.result)
            configs.append((key, new))
        stands = (number, step.at) if step.result is None else (number + 1, None)
        return State(step.memory, state.stands[:client] + (stands,) + state.stands[client + 1 :], tuple(configs))
