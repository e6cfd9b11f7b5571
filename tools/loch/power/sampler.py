"""Samples sources of power readings at a fixed rate, each source in its own thread."""

from __future__ import annotations

import threading
import time

from .samples import PowerError, Sample
from .sources import Rapl, Remote, Source


class Sampler:
    """A context manager that samples its sources while it is open. Failed readings are counted, and sampling
    continues."""

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
                source.close()  # closing the connection ends the thread's wait for a line from the other host
        for thread in self._threads:
            thread.join()
        for source in self.sources:
            source.close()

    def samples(self) -> list[Sample]:
        with self._lock:
            return sorted(self._samples, key=lambda each: each.t_ns)

    def await_first(self, seconds: float) -> None:
        """Waits until every source has given a sample, so that the run that follows has a sample before its start.

        Raises PowerError after `seconds`.
        """
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
        # a RAPL sample is the mean power since the previous sample, so the first is due after one period
        if isinstance(source, Rapl):
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
                    return  # the connection to the other host has ended
            # A reading that takes longer than the period delays the next one; missed readings are not made up for.
            due = max(due + period, time.monotonic())
            if not isinstance(source, Remote):
                self._stop.wait(max(0.0, due - time.monotonic()))
