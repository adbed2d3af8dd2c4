"""Outbox: what a TaskExecutor has to tell one JobMaster, in order, one call at a time.

All reports share one queue, because their order matters: a coordinator hears of a subtask's RUNNING before it hears the
subtask's first event, and of FINISHED after its last event and its last acknowledgement of a checkpoint. Consecutive
entries of one kind travel together. The next call is made when the last one has been answered, so nothing overtakes.

Pure. Differs from Flink, where each update is a call of its own and the actor system keeps their order.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Entries of one call: bounds the size of a message (an event is rarely over a few KiB).
MAX_ENTRIES_PER_CALL = 256
#: An update of a state carries the task's accumulators.
MAX_BYTES_PER_CALL = 8 * 1024 * 1024


class ReportKind(enum.Enum):
    STATE = "state update"
    EVENT = "operator event"
    ACKNOWLEDGE = "checkpoint acknowledgement"
    DECLINE = "declined checkpoint"
    END_OF_DATA = "end of data"

    @property
    def may_be_repeated(self) -> bool:
        """Whether it is sent again where it may not have arrived: the JobMaster takes it twice without harm.

        An event that may be lost fails its task instead.
        """
        return self is not ReportKind.EVENT


@dataclass(frozen=True, slots=True)
class Report:
    """One entry: the wire message and whom it concerns."""

    kind: ReportKind
    execution_attempt_id: str
    message: Any
    #: Of messages that may be large.
    size_bytes: int = 0
    #: Whether what may be large has been cut from the message already.
    is_reduced: bool = False


class Outbox:
    """Bounded by the tasks: each has a handful of states, and a bounded number of events and checkpoints not yet
    answered."""

    def __init__(self) -> None:
        self._queue: deque[Report] = deque()
        self._in_flight: tuple[Report, ...] = ()
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._in_flight

    @property
    def execution_attempt_ids(self) -> set[str]:
        """Whom the entries concern that are not answered yet."""
        return {report.execution_attempt_id for report in (*self._in_flight, *self._queue)}

    def put(self, report: Report) -> None:
        """Append; ignored once closed (nobody is left to be told)."""
        if not self._is_closed:
            self._queue.append(report)

    def next_call(self) -> tuple[Report, ...]:
        """The entries of the next call, all of one kind; empty while a call is in flight or nothing is queued."""
        if self._in_flight or not self._queue or self._is_closed:
            return ()
        kind = self._queue[0].kind
        taken: list[Report] = []
        size_bytes = 0
        while self._queue and self._queue[0].kind is kind and len(taken) < MAX_ENTRIES_PER_CALL:
            size_bytes += self._queue[0].size_bytes
            if taken and size_bytes > MAX_BYTES_PER_CALL:
                break
            taken.append(self._queue.popleft())
        self._in_flight = tuple(taken)
        return self._in_flight

    def answered(self) -> None:
        """The call in flight arrived, or was refused for good."""
        self._in_flight = ()

    def undelivered(self, reports: Sequence[Report] | None = None) -> None:
        """The call in flight may not have arrived: its entries (or `reports` in their place) go out again, before all
        others."""
        self._queue.extendleft(reversed(self._in_flight if reports is None else reports))
        self._in_flight = ()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        self._in_flight = ()
