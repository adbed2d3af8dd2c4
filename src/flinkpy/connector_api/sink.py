"""The unified Sink: a writer per subtask, and a committer where what is written must appear exactly once.

A sink without a committer delivers at least once: after a failure it writes again what came after the last checkpoint.
A sink with one works in two phases. Before the barrier of a checkpoint its writer flushes and hands over committables
(`prepare_commit`): names of things that are safely stored and that nobody sees yet. They become part of the checkpoint.
When the checkpoint is complete, the committer makes them visible. After a failure the committables of the restored
checkpoint are committed again, because nobody knows whether they were: **committing twice must be the same as once**.

The runtime calls, on the task thread:

    create_writer / restore_writer -> write ... -> flush(False), prepare_commit, snapshot_state (checkpoint 7) -> write
      ... -> [checkpoint 7 is complete] committer.commit -> ... -> flush(True), prepare_commit (final checkpoint, or at
      once in a job without checkpoints) -> close

Source: org.apache.flink.api.connector.sink2 (FLIP-143, FLIP-191). Differs: writers take batches, not records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flinkpy.connector_api.serializer import SimpleVersionedSerializer
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

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that this attempt begins from; None: the beginning of the job."""
        ...

    @property
    def is_checkpointing_enabled(self) -> bool:
        """Whether the job takes checkpoints periodically. Without, there may still be some that somebody asks for."""
        ...

    @property
    def is_exactly_once(self) -> bool:
        """Whether it does, and a restored job repeats nothing."""
        ...

    @property
    def waits_for_final_checkpoint(self) -> bool:
        """Whether a checkpoint follows the end of the input before the task ends."""
        ...

    def current_processing_time(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def schedule_after(self, delay_ms: int, action: Callable[[int], None]) -> None:
        """Call `action(time in ms)` on the task thread, between two batches, once `delay_ms` have passed. Not after the
        end of the input, nor after a failure.
        """
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
        """Write out what is held back, before each checkpoint and at the end of the input."""
        return

    def prepare_commit(self) -> list[Any]:
        """Of a sink with a committer, after `flush`: the committables of what was written since the last call. What
        they name is durable when this returns, and is no longer the writer's.
        """
        return []

    def write_watermark(self, timestamp: int) -> None:
        return

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """May be left out: the next one says the same of all before it. After the committer's commit."""
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
        """Release everything; called once, also after a failure. What was handed over by `prepare_commit`, or is named
        in a snapshot, must stay: a checkpoint may have it.
        """
        return


class StatefulSinkWriter(SinkWriter):
    """A writer that goes on after a failure where it was at the checkpoint."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """What `SinkBase.restore_writer` needs, in pieces that may go to different subtasks when the parallelism
        changes. Called after `prepare_commit`. Must not change afterwards (copy what does).
        """


class CommitRequest(Protocol):
    """A committable to commit. Without any signal it counts as committed when `Committer.commit` returns."""

    def get_committable(self) -> Any: ...

    def get_number_of_retries(self) -> int:
        """How often `retry_later` was called for it in this task."""
        ...

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """It can never be committed and this is known to be harmless (it timed out and was rolled back by rule): it is
        logged and dropped.
        """
        ...

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """It can never be committed: the job fails, and recovers from its last checkpoint."""
        ...

    def retry_later(self) -> None:
        """It could not be committed now. It is tried again, `sink.committer.retries` times; then the job fails."""
        ...

    def update_and_retry_later(self, committable: Any) -> None:
        """Like `retry_later`, with another committable in its place (a part of it is committed)."""
        ...

    def signal_already_committed(self) -> None:
        """It had been committed before, as may be after a failure."""
        ...


class Committer(ABC):
    """Thread: task thread."""

    @abstractmethod
    def commit(self, requests: list[CommitRequest]) -> None:
        """Make these committables visible, in this order; those that have been committed already stay as they are.

        An exception counts as `retry_later` for every request that has no signal yet, unless it is a FlinkError that
        says it is not worth trying again.
        """

    def close(self) -> None:
        """Release everything; called once, also after a failure."""
        return


class SinkBase(ABC):
    """What a sink must offer. Pickled into the JobGraph."""

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter: ...

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        """A writer that goes on from what `StatefulSinkWriter.snapshot_state` gave in earlier subtasks: as many pieces
        as have come to this one, perhaps none.
        """
        if states:
            raise UnsupportedOperationError(f"{type(self).__name__} cannot be restored: it has no restore_writer")
        return self.create_writer(context)

    def create_committer(self) -> Committer | None:
        """None: the sink has no second phase, and `prepare_commit` is not called."""
        return None

    @property
    def commits_at_checkpoints(self) -> bool:
        """True if nothing that it writes is visible before a checkpoint, or the end of the input, has committed it."""
        return type(self).create_committer is not SinkBase.create_committer

    @property
    def writer_state_serializer(self) -> SimpleVersionedSerializer | None:
        """How a piece of a writer's state is stored in checkpoints; None: pickled."""
        return None

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer | None:
        """How a committable is stored in checkpoints; None: pickled."""
        return None

    @property
    def sink_function(self) -> Any:
        """A SinkFunction that the operator opens and whose state it keeps; None for every other sink."""
        return None

    @property
    def coordinator_provider(self) -> Any:
        """An OperatorCoordinatorProvider where the sink has a half in the JobMaster, else None."""
        return None

    @property
    def supports_concurrent_attempts(self) -> bool:
        """Whether two attempts at one subtask may write at once, of which only one finishes: nothing that the other one
        has written may be seen, but by committables of it, which are not committed.
        """
        return False

    @property
    def is_local_to_task(self) -> bool:
        """Whether what it writes belongs to the process that its task runs in, such as its output."""
        return False
