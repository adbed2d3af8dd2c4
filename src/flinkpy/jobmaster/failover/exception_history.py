"""The last failures of a job. Source: org.apache.flink.runtime.scheduler.exceptionhistory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ResourceID
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


@dataclass(frozen=True, slots=True)
class ExceptionHistoryEntry:
    """`task_name` is empty for a failure of the job as a whole."""

    timestamp_ms: int
    error: FlinkError
    task_name: str = ""
    resource_id: ResourceID | None = None


class ExceptionHistory:
    """Newest first; `web.exception-history-size` entries."""

    def __init__(self, size: int = 16) -> None:
        self._entries: deque[ExceptionHistoryEntry] = deque(maxlen=size)

    def record(self, cause: FlinkError, vertex: ExecutionVertex | None, now_ms: int) -> None:
        """The current attempt of `vertex` failed, or (None) the job as a whole."""
        slot = None if vertex is None else vertex.current.slot
        name = "" if vertex is None else vertex.task_name
        where = None if slot is None else slot.location.resource_id
        self._entries.appendleft(ExceptionHistoryEntry(now_ms, cause, name, where))

    @property
    def entries(self) -> list[ExceptionHistoryEntry]:
        return list(self._entries)
