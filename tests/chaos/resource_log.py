"""ResourceLog: records memory, descriptors, threads and files of processes over time, and computes their growth.

Growth is the median of the slopes between all pairs of samples (Theil-Sen) times the watched time. Single peaks do not
change it.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

#: The time between two samples.
INTERVAL_S = 2.0
#: The number of samples that are fitted. More samples do not make the result more exact.
MAX_FITTED = 300


@dataclass(frozen=True)
class Growth:
    """The growth of a resource over the whole watched time, according to the fitted slope."""

    at_first: float
    at_last: float
    by: float

    def __str__(self) -> str:
        return f"{self.at_first:.0f} -> {self.at_last:.0f} (fit {self.by:+.1f})"


def growth_of(samples: list[tuple[float, float]]) -> Growth:
    step = max(1, len(samples) // MAX_FITTED)
    fitted = samples[::step]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(fitted)
        for later in fitted[number + 1 :]
    ]
    slope = statistics.median(slopes) if slopes else 0.0
    some = max(1, len(samples) // 10)
    first = statistics.median(value for _, value in samples[:some])
    last = statistics.median(value for _, value in samples[-some:])
    return Growth(first, last, slope * (samples[-1][0] - samples[0][0]))


class ResourceLog:
    """Watches processes from a separate thread. It looks up `pids` each time, and None stands for an ended process."""

    def __init__(
        self, pids: Mapping[str, Callable[[], int | None]], directories: Mapping[str, Path], warm_up_s: float
    ) -> None:
        self._pids = pids
        self._directories = directories
        self._warm_up_s = warm_up_s
        self._begun_s = time.monotonic()
        #: Samples by name and kind, of the process that has the name now.
        self._samples: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self._lives: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resource-log", daemon=True)

    def __enter__(self) -> ResourceLog:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def growths(self) -> dict[tuple[str, str], Growth]:
        """Returns the growth of each resource since the warm-up, if there are enough samples."""
        return {key: growth_of(samples) for key, samples in self._samples.items() if len(samples) >= 10}

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            at_s = time.monotonic() - self._begun_s
            if at_s < self._warm_up_s:
                continue
            for name, pid_of in self._pids.items():
                self._sample(name, pid_of(), at_s)
            for name, directory in self._directories.items():
                self._samples[name, "files"].append((at_s, _count_files(directory)))

    def _sample(self, name: str, pid: int | None, at_s: float) -> None:
        if pid is None:
            return
        assert self._lives.setdefault(name, pid) == pid, (
            f"{name} is another process than before, although no fault ended it"
        )
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                self._samples[name, "KiB"].append((at_s, process.memory_info().rss / 1024))
                self._samples[name, "descriptors"].append((at_s, process.num_fds()))
                self._samples[name, "threads"].append((at_s, process.num_threads()))
        except psutil.NoSuchProcess:
            return


def _count_files(directory: Path) -> int:
    """Counts the files of a directory that other processes change at the same time."""
    return sum(len(files) for _, _, files in os.walk(directory))
