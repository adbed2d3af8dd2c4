"""The unified Sink: a writer per subtask. Committing sinks add a committer with checkpoints.

Source: org.apache.flink.api.connector.sink2. Differs: writers take batches, not records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class WriterContext(Protocol):
    """Thread: task thread."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def attempt_number(self) -> int: ...

    @property
    def job_id(self) -> str: ...

    @property
    def input_type(self) -> Any:
        """TypeInformation of the records, or None."""
        ...

    def send_event_to_coordinator(self, event: Any) -> None: ...

    def notify_writable(self) -> None:
        """May be called from any thread: `is_writable` may have become true."""
        ...


class SinkWriter(ABC):
    """Thread: task thread."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take the batch; may block on I/O. Timestamps are in the batch."""

    def flush(self, end_of_input: bool) -> None:
        """Make everything written so far durable or visible as far as this sink promises."""
        return

    def write_watermark(self, timestamp: int) -> None:
        return

    def handle_event(self, event: Any) -> None:
        """An event of this sink's coordinator."""
        return

    @property
    def is_writable(self) -> bool:
        """False suspends the task (back-pressure) until `context.notify_writable()`."""
        return True

    @property
    def has_finished(self) -> bool:
        """False after `flush(end_of_input=True)` keeps the task until `notify_writable()` (results not fetched)."""
        return True

    def close(self) -> None:
        """Release everything; called once, also after a failure."""
        return


class SinkBase(ABC):
    """What a sink must offer. Pickled into the JobGraph."""

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter: ...

    @property
    def coordinator_provider(self) -> Any:
        """An OperatorCoordinatorProvider where the sink has a half in the JobMaster, else None."""
        return None
