"""StopWithSavepoint: a savepoint that the job ends with, from the request to the end of the last task.

Source: org.apache.flink.runtime.scheduler.stopwithsavepoint.StopWithSavepointTerminationManager.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import FlinkError, StopWithSavepointStoppingError


@dataclass(slots=True)
class StopWithSavepoint:
    """`result` is set once the savepoint exists: the tasks are finishing.

    `has_failed`: a task ended in another way while the savepoint was being written; the job goes on, savepoint or not.
    """

    trigger_id: str
    result: pb.CheckpointResult | None = None
    has_failed: bool = False
    cause: FlinkError | None = None

    def error(self, cause: FlinkError | None) -> FlinkError:
        """What the one who asked is told where the job did not end by it."""
        if self.result is None:
            reason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND
            return checkpoint_error(reason, "The job did not stop.", cause)
        error = StopWithSavepointStoppingError(
            f"savepoint {self.result.path} was written, but the job did not finish with it",
            details={"savepoint_path": self.result.path},
        )
        error.__cause__ = cause
        return error
