"""Faults that a job's own code raises at a chosen place, once: armed by the test, recorded when they fire.

They live in files, so they fire in whatever process the code runs in, and only once however often the job restarts.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


class InjectedError(Exception):
    """What a fault of kind `raise` raises."""


class Faults:
    """Pickled into the functions of a job. `places` are names that the functions give to `hit`."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._counts: dict[str, int] = {}
        os.makedirs(os.path.join(self._directory, "armed"), exist_ok=True)
        os.makedirs(os.path.join(self._directory, "fired"), exist_ok=True)

    def arm(self, place: str, kind: str = "raise", nth: int = 1, times: int = 1) -> None:
        """At the `nth` hit of `place` in one task: `raise` an error or `kill` the process; in all `times` times."""
        assert kind in ("raise", "kill")
        # The job may run: it must not find half of it.
        written = os.path.join(self._directory, place)
        with open(written, "w") as file:
            file.write(f"{kind} {nth} {times}")
        os.replace(written, os.path.join(self._directory, "armed", place))

    def hit(self, place: str) -> None:
        """Called by the job's code. A counter per task: functions are unpickled for each of them."""
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
        """How often it has fired."""
        return sum(name.rpartition("-")[0] == place for name in os.listdir(os.path.join(self._directory, "fired")))
