"""Samples sources at a rate, each in a thread of its own, until it is told to stop."""

from __future__ import annotations

import threading
import time

from .samples import PowerError, Sample
from .sources import Rapl, Remote, Source


class Sampler:
    """Used as a context: it samples inside. A reading that fails is counted and the next one tried."""

    def __init__(self, sources: list[Source], rate_hz: float) -> None:
        self.sources, self.rate_hz = sources, rate_hz
        self.failures: dict[str, int] = {source.host: 0 for source in sources}
        self.last_failure = ""
        self._samples: list[Sample] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, args=(source,), daemon=True) for source in sources]

    def __enter__(self) -> "Sampler":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for source in self.sources:
            if isinstance(source, Remote):
                source.close()  # unblocks the thread that waits for a line
        for thread in self._threads:
            thread.join()
        for source in self.sources:
            source.close()

    def samples(self) -> list[Sample]:
        with self._lock:
            return sorted(self._samples, key=lambda each: each.t_ns)

    def await_first(self, seconds: float) -> None:
        """Until every source has given a sample: what begins then has one before it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.is_set():
            if {each.host for each in self.samples()} >= set(self.failures):
                return
            time.sleep(0.005)
        missing = set(self.failures) - {each.host for each in self.samples()}
        raise PowerError(
            f"no sample from {', '.join(sorted(missing))} in {seconds:g} s"
            + (f": {self.last_failure}" if self.last_failure else "")
        )

    def _loop(self, source: Source) -> None:
        period = 1.0 / self.rate_hz
        due = time.monotonic()
        if isinstance(source, Rapl):  # RAPL samples are means since the previous sample
            due += period
            self._stop.wait(period)
        while not self._stop.is_set():
            try:
                sample = source.sample()
                with self._lock:
                    self._samples.append(sample)
            except PowerError as error:
                if self._stop.is_set():
                    return
                self.failures[source.host] += 1
                self.last_failure = str(error)
                if isinstance(source, Remote):
                    return  # the source has ended
            # A call that takes longer than the period leaves out what it missed, and does not catch up.
            due = max(due + period, time.monotonic())
            if not isinstance(source, Remote):
                self._stop.wait(max(0.0, due - time.monotonic()))
