"""Tasks that cancelled themselves, as they do when another task fails, and until when that failure must be heard of.

Where it is not, the news has been lost, and the job would wait for ever.
"""

from __future__ import annotations

from flinkpy.common.ids import ExecutionAttemptID

#: How long the news of the failure may take.
UNEXPLAINED_CANCEL_GRACE_MS = 10_000


class UnexplainedCancels:
    """Pure."""

    def __init__(self) -> None:
        self._until_ms: dict[ExecutionAttemptID, int] = {}

    def add(self, attempt_id: ExecutionAttemptID, now_ms: int) -> None:
        self._until_ms[attempt_id] = now_ms + UNEXPLAINED_CANCEL_GRACE_MS

    def explained(self, attempt_id: ExecutionAttemptID) -> None:
        self._until_ms.pop(attempt_id, None)

    def take_due(self, now_ms: int) -> list[ExecutionAttemptID]:
        """Those that nobody has explained in time."""
        due = [attempt_id for attempt_id, until_ms in self._until_ms.items() if until_ms <= now_ms]
        for attempt_id in due:
            del self._until_ms[attempt_id]
        return due

    @property
    def next_due_ms(self) -> int | None:
        return min(self._until_ms.values(), default=None)

    def clear(self) -> None:
        self._until_ms.clear()
