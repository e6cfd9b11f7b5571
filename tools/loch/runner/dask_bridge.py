"""The only process of a run that is a Dask client; dask_engine.py starts it and talks to it over stdin and stdout.

`dask_bridge.py ADDRESS` connects to a scheduler; `dask_bridge.py --processes N` starts a scheduler with N workers on
this machine. The first line of output is {"workers": N, "threads": M} or {"error": "…"}. The input line `see PATH…` is
answered by {"blind": [workers that cannot read one of the paths]}; `run NUMBER ARGV-AS-JSON` is answered, once that
task has ended, by {"over": NUMBER, "why": "…"}. At the end of input the bridge cancels running tasks and ends. Dask is
kept out of the runner because the runner forks, and Dask has threads.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
import uuid
from typing import Any

OWN = os.path.dirname(os.path.abspath(__file__))
# modules of this folder must not hide Dask's modules of the same name
sys.path[:] = [folder for folder in sys.path if folder != OWN]

CONNECT_S = 15
ANSWER_S = 30
TICK_S = 0.5


def say(**what: Any) -> None:
    """Prints one JSON line for the runner."""
    print(json.dumps(what), flush=True)


def connect(argv: list[str]) -> Any:
    """Connects a Dask client: to the scheduler at an address, or to a new cluster on this machine (--processes N)."""
    from distributed import Client, LocalCluster
    from distributed.security import Security

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if argv[0] != "--processes":
        return Client(argv[1], timeout=CONNECT_S, set_as_default=False)
    # Whoever reaches a Dask scheduler can run commands as its user, so each new cluster has its own TLS certificates.
    security = Security.temporary()
    cluster = LocalCluster(
        n_workers=int(argv[1]),
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls",
        dashboard_address=None,
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        security=security,
    )
    return Client(cluster, security=security, timeout=CONNECT_S, set_as_default=False)


class Bridge:
    """The Dask futures of the running points, by number."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._futures: dict[int, Any] = {}
        self._events: queue.Queue = queue.Queue()
        self._run = uuid.uuid4().hex

    def serve(self) -> None:
        """Handles requests until the input ends or the connection to the scheduler is lost."""
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            try:
                event = self._events.get(timeout=TICK_S)
            except queue.Empty:
                if self._client.status not in ("running", "connecting"):
                    say(error="the connection to the scheduler is lost")
                    return
                continue
            if event is None:
                return
            if isinstance(event, int):
                self._over(event)
            else:
                self._obey(event)

    def cancel(self) -> None:
        self._client.cancel(list(self._futures.values()), force=True)

    def _read(self) -> None:
        for line in sys.stdin:
            self._events.put(line)
        self._events.put(None)

    def _obey(self, line: str) -> None:
        verb, _, rest = line.strip().partition(" ")
        if verb == "see":
            paths = json.loads(rest)
            seen = self._client.run(_sees, paths, on_error="return")
            say(blind=sorted(str(worker) for worker, answer in seen.items() if answer is not True))
            return
        number, _, argv = rest.partition(" ")
        # The task is a function of the standard library, so that Dask's workers need not import Loch's modules.
        future = self._client.submit(
            subprocess.run,
            json.loads(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            errors="replace",
            pure=False,
            key=f"loch-{self._run}-{number}-{uuid.uuid4().hex[:8]}",
        )
        self._futures[int(number)] = future
        future.add_done_callback(lambda _: self._events.put(int(number)))

    def _over(self, number: int) -> None:
        future = self._futures.pop(number)
        if future.status == "finished":
            done = future.result(timeout=ANSWER_S)
            said = done.stderr.strip().splitlines()[-1:]
            why = f"its process ended with status {done.returncode}" + "".join(f": {line}" for line in said)
        elif future.status == "error":
            error = future.exception(timeout=ANSWER_S)
            why = f"{type(error).__name__}: {error}"
        else:
            why = f"Dask says {future.status}"
        say(over=number, why=why)


def _sees(paths: list[str]) -> bool:
    import os

    return all(os.access(path, os.R_OK) for path in paths)


def main(argv: list[str]) -> int:
    output = os.dup(1)  # output of libraries goes to standard error, so that standard output has JSON lines only
    os.dup2(2, 1)
    sys.stdout = os.fdopen(output, "w", encoding="utf-8")
    try:
        client = connect(argv)
        workers = client.scheduler_info()["workers"]
    except Exception as error:  # any exception of Dask becomes one line of JSON
        say(error=" ".join(f"{type(error).__name__}: {error}".split()))
        return 1
    say(workers=len(workers), threads=sum(worker["nthreads"] for worker in workers.values()))
    bridge = Bridge(client)
    try:
        bridge.serve()
    except Exception as error:
        say(error=" ".join(f"{type(error).__name__}: {error}".split()))
    finally:
        bridge.cancel()
        cluster = client.cluster
        client.close()
        if cluster is not None:
            cluster.close()
    return 0


if __name__ == "__main__":  # the workers of a new local cluster import this file as well
    sys.exit(main(sys.argv[1:]))
