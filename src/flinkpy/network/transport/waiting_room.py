"""WaitingRoom: the connections of peers that have not shown who they are. Their number is bounded.

A member of the cluster is through within milliseconds. When all places are taken, whoever has been there for much
longer has to make room; where nobody has, new ones wait in the kernel's backlog.
"""

from __future__ import annotations

import threading
from typing import Protocol

from flinkpy.common.errors import ExternalError, PartitionAuthenticationError

# An honest peer needs less, even with many others at once on a busy machine.
_PATIENCE_MS = 2_000
# Between two lines in the log about strangers.
_REPORT_INTERVAL_MS = 5_000


class Stranger(Protocol):
    peer: str

    def fail(self, error: ExternalError) -> None: ...


class WaitingRoom:
    """Thread: any; `has_place` on the I/O thread."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._lock = threading.Lock()
        #: The one that has waited longest is first.
        self._since: dict[Stranger, int] = {}
        self._reported_ms: int | None = None
        self._unreported = 0

    def __len__(self) -> int:
        return len(self._since)

    def has_place(self, now_ms: int) -> bool:
        """Whether one more may come in; closes the one that has waited longest where that makes room."""
        with self._lock:
            if len(self._since) < self._places:
                return True
            oldest = next(iter(self._since))
            if now_ms - self._since[oldest] < _PATIENCE_MS:
                return False
            del self._since[oldest]
        oldest.fail(
            PartitionAuthenticationError(
                f"{oldest.peer} connected and did not say who it is; too many others are waiting to do so"
            )
        )
        return True

    def enter(self, stranger: Stranger, now_ms: int) -> None:
        with self._lock:
            self._since[stranger] = now_ms

    def leave(self, stranger: Stranger) -> None:
        """It has shown who it is, or is gone. One that is not here is ignored."""
        with self._lock:
            self._since.pop(stranger, None)

    def may_report(self, now_ms: int) -> bool:
        """Whether enough time has passed since the last line in the log; counted where it has not."""
        with self._lock:
            if self._reported_ms is not None and now_ms - self._reported_ms < _REPORT_INTERVAL_MS:
                self._unreported += 1
                return False
            self._reported_ms = now_ms
            return True

    def take_unreported(self) -> int:
        """How many were not reported since the last line."""
        with self._lock:
            count, self._unreported = self._unreported, 0
            return count
