"""The load of Loch's event_queue_bench (churn) in simpy: 1,000 processes, each of which waits for random spans."""

import importlib
import random
import sys
from typing import Any, Iterator

simpy: Any = importlib.import_module("simpy")


def main(events: int) -> None:
    """Runs the simulation until `events` waits have begun."""
    rng = random.Random(7)
    spans = [rng.randrange(8192) for _ in range(1 << 14)]
    made = 0

    def process(environment: Any) -> Iterator[Any]:
        nonlocal made
        while made < events:
            made += 1
            yield environment.timeout(spans[made % len(spans)])

    environment = simpy.Environment()
    for _ in range(1000):
        environment.process(process(environment))
    environment.run()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
