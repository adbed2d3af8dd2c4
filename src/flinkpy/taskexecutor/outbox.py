"""Outbox: the reports of a TaskExecutor to one JobMaster, in order, one call at a time.

All reports share one queue, because their order matters: a coordinator must learn that a subtask is RUNNING before the
first event of the subtask, and that it is FINISHED after its last event and checkpoint acknowledgement. Consecutive
reports of one kind are sent in one call. The next call is made after the answer to the last one, which keeps the order.

Pure. Differs: in Flink each report is a separate call, and the actor system keeps their order.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: The maximum number of reports in a call; an event rarely has more than a few KiB.
MAX_ENTRIES_PER_CALL = 256
#: The maximum size of a call; state updates contain accumulators.
MAX_BYTES_PER_CALL = 8 * 1024 * 1024


class ReportKind(enum.Enum):
    STATE = "state update"
    EVENT = "operator event"
    ACKNOWLEDGE = "checkpoint acknowledgement"
    DECLINE = "declined checkpoint"
    END_OF_DATA = "end of data"

    @property
    def may_be_repeated(self) -> bool:
        """True if the report may be sent twice. A possibly lost event fails its task instead."""
        return self is not ReportKind.EVENT


@dataclass(frozen=True, slots=True)
class Report:
    """A wire message and the execution attempt that it concerns."""

    kind: ReportKind
    execution_attempt_id: str
    message: Any
    #: The size of the message; 0 for messages that are always small.
    size_bytes: int = 0
    #: Whether the large parts of the message have been removed.
    is_reduced: bool = False


class Outbox:
    """The queue of reports. It is bounded, because each task has few states and few open events and checkpoints."""

    def __init__(self) -> None:
        self._queue: deque[Report] = deque()
        self._in_flight: tuple[Report, ...] = ()
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._in_flight

    @property
    def execution_attempt_ids(self) -> set[str]:
        """The execution attempts with reports that have not been answered."""
        return {report.execution_attempt_id for report in (*self._in_flight, *self._queue)}

    def put(self, report: Report) -> None:
        """Appends a report. Ignored after `close`."""
        if not self._is_closed:
            self._queue.append(report)

    def next_call(self) -> tuple[Report, ...]:
        """Returns the reports of the next call, all of one kind; none while a call is running."""
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
        """Removes the reports of the running call: they have arrived or were refused."""
        self._in_flight = ()

    def undelivered(self, reports: Sequence[Report] | None = None) -> None:
        """Queues the reports of the running call, or `reports` instead of them, before all others: they may be lost."""
        self._queue.extendleft(reversed(self._in_flight if reports is None else reports))
        self._in_flight = ()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        self._in_flight = ()
