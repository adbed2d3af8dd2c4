"""CheckpointFailureManager: when failed checkpoints are a failure of the job.

Counted are failures in a row, each checkpoint once, and only for reasons that count (CheckpointFailureReason). A
completed checkpoint starts the count anew. Savepoints do not count: the user hears of their failure.

Source: org.apache.flink.runtime.checkpoint.CheckpointFailureManager. Pure.
"""

from __future__ import annotations

from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.common.checkpoint_failure_reason import failure_reason
from flinkpy.common.errors import CheckpointError, FlinkError


class CheckpointFailureManager:
    def __init__(self, tolerable_failures: int) -> None:
        self._tolerable = tolerable_failures
        self._num_failed = 0
        self._last_completed_id = 0

    def completed(self, checkpoint_id: int) -> None:
        self._last_completed_id = max(self._last_completed_id, checkpoint_id)
        self._num_failed = 0

    def failed(self, checkpoint_id: int, properties: CheckpointProperties, error: CheckpointError) -> FlinkError | None:
        """A checkpoint ended with `error`; returns why the job fails, if it does."""
        if properties.is_savepoint or not failure_reason(error).counts:
            return None
        if checkpoint_id < self._last_completed_id:
            return None  # a later one has been completed
        self._num_failed += 1
        if self._num_failed <= self._tolerable:
            return None
        self._num_failed = 0
        failure = CheckpointError(
            f"checkpoint {checkpoint_id} failed, and no more than execution.checkpointing.tolerable-failed-checkpoints "
            f"({self._tolerable}) may fail in a row: {error}",
            details=dict(error.details),
            remote_traceback=error.remote_traceback,
        )
        failure.__cause__ = error
        return failure
