"""OperatorCoordinator: the half of an operator that lives in the JobMaster.

Events between the halves are pickled dataclasses; only the job's own processes (JobMaster, tasks) load them.

Source: org.apache.flink.runtime.operators.coordination.OperatorCoordinator.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class CoordinatorContext(Protocol):
    """What a coordinator may ask of the JobMaster. Thread: everything runs on the JobMaster's main thread."""

    @property
    def operator_id(self) -> str: ...

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the operator."""
        ...

    @property
    def coordinator_store(self) -> dict[str, Any]:
        """Shared by all coordinators of the job; gone with the JobMaster."""
        ...

    def send_event(self, subtask_index: int, event: Any) -> None:
        """Deliver `event` to the running attempt of that subtask; dropped where it has none (it will be reset)."""
        ...

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Of this operator; see `SplitEnumeratorContext`."""
        ...

    def fail_job(self, error: BaseException) -> None:
        """Trigger a global failover."""
        ...

    def schedule(self, delay_ms: int, action: Any) -> None:
        """Run `action()` on the main thread after `delay_ms`, unless the coordinator has been closed or reset."""
        ...

    def run_blocking(self, call: Any, on_done: Any) -> None:
        """Run `call()` on an I/O thread, then `on_done(result, error)` on the main thread (one of the two is None)."""
        ...


class OperatorCoordinator(Protocol):
    """Thread: JobMaster main thread; must not block."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def handle_event(self, subtask_index: int, attempt_number: int, event: Any) -> None:
        """An event that the task half sent with `OperatorEventGateway.send_event`."""
        ...

    def handle_request(self, payload: bytes) -> bytes:
        """A question of a client (`Dispatcher.SendCoordinationRequest`)."""
        ...

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        """The subtask failed and will be attempted anew from that checkpoint (None: from the beginning): what it had
        been given since then comes back."""
        ...

    def subtask_ready(self, subtask_index: int) -> None:
        """The new attempt is running and can receive events."""
        ...

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        """The state as of now; None: there is none. Must not block. Every event sent before has arrived at its task,
        and none sent afterwards arrives there before the barrier."""
        ...

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """May be left out: the next one says the same of all before it."""
        ...

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: bytes | None) -> None:
        """A full restart from that checkpoint, or from the beginning of the job (None). May come before `start`, when
        the job begins from a savepoint or an earlier JobMaster's checkpoint."""
        ...


@runtime_checkable
class RecoverableCoordinator(Protocol):
    """A coordinator of a batch job, which has no checkpoints, that can go on in the job's next JobMaster."""

    def snapshot_for_recovery(self) -> bytes:
        """All it knows as of now, what it has given to which subtask included. Must not block.

        Raises: UnsupportedOperationError where it cannot.
        """
        ...

    def restore_for_recovery(self, state: bytes) -> None:
        """Before `start`: begin with that. Subtasks that run again are reset after `start`."""
        ...


class OperatorCoordinatorProvider(Protocol):
    """Pickled into the JobGraph; made into a coordinator by the JobMaster."""

    def create(self, context: CoordinatorContext) -> OperatorCoordinator: ...
