"""OperatorCoordinator: the part of an operator that runs in the JobMaster.

The coordinator and its tasks exchange events. An event is a pickled dataclass. Only the JobMaster and the tasks of the
job load it.

Source: org.apache.flink.runtime.operators.coordination.OperatorCoordinator.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class CoordinatorContext(Protocol):
    """The services of the JobMaster for a coordinator. Thread: JobMaster main thread."""

    @property
    def operator_id(self) -> str: ...

    @property
    def parallelism(self) -> int:
        """The number of subtasks of the operator."""
        ...

    @property
    def coordinator_store(self) -> dict[str, Any]:
        """A dictionary that all coordinators of the job share. It is lost with the JobMaster."""
        ...

    def send_event(self, subtask_index: int, event: Any) -> None:
        """Sends an event to the running attempt of a subtask. Without one the event is dropped; a reset will follow."""
        ...

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Sets whether this operator processes a backlog, see `SplitEnumeratorContext`."""
        ...

    def fail_job(self, error: BaseException) -> None:
        """Triggers a global failover."""
        ...

    def schedule(self, delay_ms: int, action: Any) -> None:
        """Runs `action()` on the main thread after `delay_ms`, unless the coordinator is closed or reset before."""
        ...

    def run_blocking(self, call: Any, on_done: Any) -> None:
        """Runs `call()` on an I/O thread, then `on_done(result, error)` on the main thread. One of the two is None."""
        ...


class OperatorCoordinator(Protocol):
    """The JobMaster's part of an operator. Thread: JobMaster main thread. No method may block."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def handle_event(self, subtask_index: int, attempt_number: int, event: Any) -> None:
        """Handles an event that the task sent with `OperatorEventGateway.send_event`."""
        ...

    def handle_request(self, payload: bytes) -> bytes:
        """Answers a request of a client (`Dispatcher.SendCoordinationRequest`)."""
        ...

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        """Takes back what a failed subtask was given since the checkpoint that its next attempt restores.

        Args:
            checkpoint_id: None if the next attempt starts from the beginning.
        """
        ...

    def subtask_ready(self, subtask_index: int) -> None:
        """Called when a new attempt is running and can receive events."""
        ...

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        """Returns the present state, or None if there is none.

        Every event sent before this call reaches its task before the barrier. Every later event reaches it after the
        barrier.
        """
        ...

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when a checkpoint completes. Calls may be skipped: each covers all earlier checkpoints."""
        ...

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: bytes | None) -> None:
        """Resets the coordinator to a checkpoint for a full restart of the job. None: to the beginning of the job.

        It is called before `start` if the job starts from a savepoint, or from a checkpoint of an earlier JobMaster.
        """
        ...


@runtime_checkable
class RecoverableCoordinator(Protocol):
    """A coordinator that the next JobMaster of a batch job can continue. Batch jobs have no checkpoints."""

    def snapshot_for_recovery(self) -> bytes:
        """Returns the whole present state, including what each subtask was given. Must not block.

        Raises:
            UnsupportedOperationError: this coordinator cannot be continued.
        """
        ...

    def restore_for_recovery(self, state: bytes) -> None:
        """Restores the state. Called before `start`; subtasks that run again are reset after it."""
        ...


@runtime_checkable
class AdoptingCoordinator(Protocol):
    """A coordinator that can continue subtasks which a coordinator of a lost JobMaster has started."""

    def why_not_adopt(self, state: bytes | None, events: dict[int, list[Any]]) -> str:
        """Returns why it cannot continue the subtasks of a lost JobMaster; empty if it can. Called before `start`.

        Args:
            state: the state that the coordinator would restore; None: none.
            events: the kept events that each subtask got after the checkpoint of the state, in order.
        """
        ...

    def adopt(self, events: dict[int, list[Any]]) -> None:
        """Continues the subtasks, with the arguments of `why_not_adopt`.

        Called before `start` and after `reset_to_checkpoint`. `subtask_ready` follows `start` for those that run.
        """
        ...


class OperatorCoordinatorProvider(Protocol):
    """Creates a coordinator in the JobMaster. Pickled into the JobGraph."""

    def create(self, context: CoordinatorContext) -> OperatorCoordinator: ...
