"""Faults that the code of a job raises at chosen places. A test arms them, and they are recorded when they happen.

They are stored in files, so they happen in any process that runs the code, and only as often as the test allows even if
the job restarts.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


class InjectedError(Exception):
    """The error of a fault of kind `raise`."""


class Faults:
    """The faults of one job, pickled into its functions. The functions pass the names of `places` to `hit`."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._counts: dict[str, int] = {}
        os.makedirs(os.path.join(self._directory, "armed"), exist_ok=True)
        os.makedirs(os.path.join(self._directory, "fired"), exist_ok=True)

    def arm(self, place: str, kind: str = "raise", nth: int = 1, times: int = 1) -> None:
        """Arms a fault: at the `nth` hit of `place` in one task, it raises an error or kills the process.

        Args:
            place: the name that the job's code passes to `hit`.
            kind: `raise` or `kill`.
            nth: the hit of one task that triggers the fault.
            times: how many times the fault happens in all tasks together.
        """
        assert kind in ("raise", "kill")
        # A running job must not read an incomplete file.
        written = os.path.join(self._directory, place)
        with open(written, "w") as file:
            file.write(f"{kind} {nth} {times}")
        os.replace(written, os.path.join(self._directory, "armed", place))

    def hit(self, place: str) -> None:
        """Marks a place in the job's code. Each task has its own counter, because functions are unpickled once per
        task.
        """
        try:
            with open(os.path.join(self._directory, "armed", place)) as file:
                kind, nth, times = file.read().split()
        except FileNotFoundError:
            return
        count = self._counts[place] = self._counts.get(place, 0) + 1
        if count < int(nth) or not self._claim(place, int(times)):
            return
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise InjectedError(f"injected at {place}, hit {count}")

    def _claim(self, place: str, times: int) -> bool:
        for number in range(times):
            try:
                os.close(os.open(os.path.join(self._directory, "fired", f"{place}-{number}"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False

    def fired(self, place: str) -> int:
        """Returns how many times the fault at this place has happened."""
        return sum(name.rpartition("-")[0] == place for name in os.listdir(os.path.join(self._directory, "fired")))
