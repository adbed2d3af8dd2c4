"""EndOfData: whether a job has processed everything and waits for one more checkpoint, which contains that.

Source: org.apache.flink.runtime.scheduler.VertexEndOfDataListener.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from flinkpy.common.ids import ExecutionAttemptID

#: After a failed checkpoint at the end of the data the next one is asked for this much later: the job waits for it.
RETRY_MS = 500


class EndOfData:
    """Pure. The checkpoint is asked for once, and again after one that failed."""

    def __init__(self) -> None:
        self._reached: set[ExecutionAttemptID] = set()
        self._is_requested = False
        self.retry_ms: int | None = None

    def reached(self, attempts: Iterable[ExecutionAttemptID]) -> None:
        self._reached.update(attempts)

    def left(self, attempt: ExecutionAttemptID) -> None:
        self._reached.discard(attempt)

    def clear(self) -> None:
        """The tasks begin anew."""
        self._reached.clear()
        self._is_requested = False
        self.retry_ms = None

    def should_request(self, running: Set[ExecutionAttemptID]) -> bool:
        """Whether the checkpoint is to be asked for now; `running` are all tasks that have not ended."""
        return not self._is_requested and bool(self._reached) and running <= self._reached

    def requested(self) -> None:
        self._is_requested = True
        self.retry_ms = None

    def failed(self, now_ms: int) -> None:
        """A checkpoint did; perhaps that one."""
        if self._is_requested:
            self._is_requested = False
            self.retry_ms = now_ms + RETRY_MS

    def is_retry_due(self, now_ms: int) -> bool:
        if self.retry_ms is None or self.retry_ms > now_ms:
            return False
        self.retry_ms = None
        return True
