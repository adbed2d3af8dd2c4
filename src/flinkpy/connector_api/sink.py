"""The unified sink: a writer per subtask, and a committer for exactly-once delivery.

A sink without a committer delivers at least once: after a failure it repeats the records since the last checkpoint.

A sink with a committer works in two phases. Before the barrier of a checkpoint the writer flushes and hands over
committables (`prepare_commit`). A committable names data that is durable and not yet visible. Committables are part of
the checkpoint. When the checkpoint completes, the committer makes their data visible. After a failure the committables
of the restored checkpoint are committed again, because it is unknown if they were committed. So **committing twice must
have the same effect as committing once**.

The runtime makes these calls on the task thread:

    create_writer / restore_writer -> write ... -> flush(False), prepare_commit, snapshot_state (checkpoint 7) -> write
      ... -> [checkpoint 7 is complete] committer.commit -> ... -> flush(True), prepare_commit (final checkpoint, or at
      once in a job without checkpoints) -> close

Source: org.apache.flink.api.connector.sink2 (FLIP-143, FLIP-191). Differs: writers take batches, not records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from flinkpy.common.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flinkpy.connector_api.serializer import SimpleVersionedSerializer
    from flinkpy.records.batch import Batch


class DeliveryGuarantee(Enum):
    """The number of times that a record may appear in an external system when a job fails and recovers."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class WriterContext(Protocol):
    """The services of a task for a SinkWriter. Thread: task thread, unless a method says otherwise."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def attempt_number(self) -> int: ...

    @property
    def job_id(self) -> str:
        """Names what the writers of this sink leave behind. It begins with the id of the job.

        In batch mode more follows after a hyphen, because several sinks of a job may write to one place.
        """
        ...

    @property
    def input_type(self) -> Any:
        """The TypeInformation of the records, or None."""
        ...

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that this attempt restores; None: it starts from the beginning of the job."""
        ...

    @property
    def is_checkpointing_enabled(self) -> bool:
        """True if the job takes periodic checkpoints. Otherwise users may still trigger checkpoints."""
        ...

    @property
    def is_exactly_once(self) -> bool:
        """True if the job takes periodic checkpoints with exactly-once semantics."""
        ...

    @property
    def waits_for_final_checkpoint(self) -> bool:
        """True if the task takes a checkpoint between the end of its input and its own end."""
        ...

    def current_processing_time(self) -> int:
        """The current time in milliseconds since 1970."""
        ...

    def schedule_after(self, delay_ms: int, action: Callable[[int], None]) -> None:
        """Calls `action(time in ms)` on the task thread between two batches, after `delay_ms`.

        The call is dropped after the end of the input or a failure.
        """
        ...

    def send_event_to_coordinator(self, event: Any) -> None:
        """Sends an event to the coordinator of the sink."""
        ...

    def notify_writable(self) -> None:
        """Tells the task to check `is_writable` and `has_finished` again. May be called from any thread."""
        ...


@dataclass(slots=True)
class SendMetrics:
    """The facts about sending that only a writer knows. None: the writer does not know it, and no metric appears.

    They become Flink's metrics of the same meaning. Thread: the writer's threads change them, any thread reads them.

    Attributes:
        num_bytes: bytes of all records that were sent, in the form in which they are sent: `numBytesSend`.
        num_errors: sends of records that failed, including those that were repeated later: `numRecordsSendErrors`.
        last_send_ms: the time in ms that the last send took: `currentSendTime`.
    """

    num_bytes: int | None = None
    num_errors: int | None = None
    last_send_ms: int | None = None


class SinkWriter(ABC):
    """Writes the records of a subtask. Thread: task thread.

    Attributes:
        send_metrics: set by the constructor of a writer that knows something about its sends.
    """

    send_metrics: SendMetrics | None = None

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Writes a batch, including its timestamps. May block on I/O."""

    def flush(self, end_of_input: bool) -> None:
        """Writes out buffered records. Called before each checkpoint and at the end of the input."""
        return

    def prepare_commit(self) -> list[Any]:
        """Returns committables for all records written since the last call. Called after `flush`.

        Their data must be durable when this returns, and no longer belongs to the writer.
        """
        return []

    def write_watermark(self, timestamp: int) -> None:
        """Handles a watermark, in milliseconds."""
        return

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called after the commit of a checkpoint. Calls may be skipped: each covers all earlier checkpoints."""
        return

    def handle_event(self, event: Any) -> None:
        """Handles an event from the coordinator of the sink."""
        return

    @property
    def is_writable(self) -> bool:
        """False suspends the task until `context.notify_writable()`, which causes back-pressure."""
        return True

    @property
    def has_finished(self) -> bool:
        """False after `flush(end_of_input=True)` or `suspend()` keeps the task alive until `context.notify_writable()`.

        For example, a client has not fetched all results yet.
        """
        return True

    def suspend(self) -> None:
        """Called when a savepoint that stops the job, without drain, is complete. `close` follows.

        The writer may keep the task alive until `has_finished`, as after the end of the input.
        """
        return

    def close(self) -> None:
        """Releases all resources. Called once, also after a failure.

        Data of committables and of snapshots must stay, because a checkpoint may refer to it.
        """
        return


class StatefulSinkWriter(SinkWriter):
    """A writer with state in checkpoints."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Returns the state that `SinkBase.restore_writer` needs. Called after `prepare_commit`.

        The list is split between subtasks when the parallelism changes. Its elements must not change later: copy
        mutable objects.
        """


class CommitRequest(Protocol):
    """A committable to commit. Without a call of a signal method it counts as committed."""

    def get_committable(self) -> Any:
        """Returns the committable."""
        ...

    def get_number_of_retries(self) -> int:
        """Returns how often `retry_later` was called for this committable in this task."""
        ...

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Signals that the committable can never be committed, and that this is accepted. It is logged and dropped."""
        ...

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Signals that the committable can never be committed. The job fails and recovers from its last checkpoint."""
        ...

    def retry_later(self) -> None:
        """Retries the commit later. The job fails after `sink.committer.retries` retries."""
        ...

    def update_and_retry_later(self, committable: Any) -> None:
        """Retries later with another committable, for example if a part of this one is committed."""
        ...

    def signal_already_committed(self) -> None:
        """Signals that the committable was committed before, which is possible after a failure."""
        ...


class Committer(ABC):
    """Makes written data visible. Thread: task thread."""

    @abstractmethod
    def commit(self, requests: list[CommitRequest]) -> None:
        """Commits the committables in this order. Committing a committed one again must have no effect.

        An exception counts as `retry_later` for every request without a signal, unless it is a FlinkError that forbids
        retries.
        """

    def close(self) -> None:
        """Releases all resources. Called once, also after a failure."""
        return


@runtime_checkable
class SupportsCommitterState(Protocol):
    """A Committer with state of its own in checkpoints, for sinks with a global committer. Thread: task thread."""

    def snapshot_state(self) -> bytes:
        """Returns the state. It contains the effects of all commits so far."""
        ...

    def restore_state(self, state: bytes) -> None:
        """Restores the state. Called once, before the first commit. Committables since the state are committed again.

        Raises:
            StateRestoreError: the state cannot be read.
        """
        ...


@runtime_checkable
class SupportsRemovingUncommitted(Protocol):
    """A sink that finds what its writers have left behind, without a list of these writers."""

    def remove_uncommitted(self, job_id: str, committables: list[Any]) -> None:
        """Removes everything that writers of a job have written and that belongs to no committable.

        Called in batch mode, when all writers that count have ended. Others may still run and fail then.

        Args:
            job_id: the beginning of the job ids that the writers had; only writers of this sink have such ids.
            committables: the committables that will be committed.

        Raises:
            CommitError: a committable cannot be committed any more, because a writer that does not count has removed
                what belongs to it. The job then writes again. Other errors are logged.
        """
        ...


class SinkBase(ABC):
    """The interface of a sink. Pickled into the JobGraph.

    Example:
        class LineSink(SinkBase):
            def create_writer(self, context):
                return LineWriter(f"part-{context.subtask_index}")

        stream.sink_to(LineSink())
    """

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Returns the writer of a subtask that starts without state."""

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        """Returns a writer that continues from the state of earlier writers.

        Args:
            states: the elements of `StatefulSinkWriter.snapshot_state` that this subtask got, possibly none.

        Raises:
            UnsupportedOperationError: there is state, and the sink has no `restore_writer`.
        """
        if states:
            raise UnsupportedOperationError(f"{type(self).__name__} cannot be restored: it has no restore_writer")
        return self.create_writer(context)

    def create_committer(self) -> Committer | None:
        """Returns the committer. None: the sink has no second phase, and `prepare_commit` is not called."""
        return None

    @property
    def commits_at_checkpoints(self) -> bool:
        """True if written data only becomes visible at a checkpoint or at the end of the input."""
        return type(self).create_committer is not SinkBase.create_committer

    @property
    def writer_state_serializer(self) -> SimpleVersionedSerializer | None:
        """Stores elements of the writers' state in checkpoints. None: they are pickled."""
        return None

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer | None:
        """Stores committables in checkpoints. None: they are pickled."""
        return None

    @property
    def sink_function(self) -> Any:
        """The SinkFunction that the operator opens and whose state it keeps; None for every other sink."""
        return None

    @property
    def coordinator_provider(self) -> Any:
        """The OperatorCoordinatorProvider of a sink with a part in the JobMaster, or None."""
        return None

    @property
    def supports_concurrent_attempts(self) -> bool:
        """True if two attempts of one subtask may write at the same time.

        Only one of them finishes. The data of the other must stay invisible: its committables are not committed.
        """
        return False

    @property
    def needs_batch_mode(self) -> bool:
        """True if one committer must get the committables of all subtasks at once, as in batch mode."""
        return False

    @property
    def has_global_committer(self) -> bool:
        """True if one committer must commit the output of all subtasks together, once per checkpoint.

        Otherwise each subtask commits its own output. In batch mode every sink has one committer.
        """
        return False

    @property
    def is_local_to_task(self) -> bool:
        """True if the written data belongs to the process of the task, such as its standard output."""
        return False
