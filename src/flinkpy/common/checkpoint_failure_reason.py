"""The reasons for the failure of a checkpoint. Source: org.apache.flink.runtime.checkpoint.CheckpointFailureReason."""

from __future__ import annotations

import enum

from flinkpy.common.errors import CheckpointError, FlinkError


class CheckpointFailureReason(enum.Enum):
    """A reason: its message, whether the checkpoint was refused before it started, and whether it counts as a failure.

    Counted failures are limited by `execution.checkpointing.tolerable-failed-checkpoints`.
    """

    PERIODIC_SCHEDULER_SHUTDOWN = ("The periodic checkpoint scheduler is shut down.", True, False)
    TOO_MANY_CHECKPOINT_REQUESTS = ("The maximum number of queued checkpoint requests is exceeded.", True, False)
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = ("The minimum pause between checkpoints has not passed.", True, False)
    NOT_ALL_REQUIRED_TASKS_RUNNING = ("Not all required tasks are running.", True, False)
    IO_EXCEPTION = ("The checkpoint could not be written.", True, True)
    BLOCKING_OUTPUT_EXIST = ("Results of batch regions cannot be checkpointed.", True, False)
    CHECKPOINT_ASYNC_EXCEPTION = ("The asynchronous part of a task's checkpoint failed.", False, True)
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = ("In-flight data could not be written to a shared stream.", False, False)
    CHECKPOINT_EXPIRED = ("The checkpoint expired before it was completed.", False, True)
    CHECKPOINT_SUBSUMED = ("A later checkpoint was completed first.", False, False)
    CHECKPOINT_DECLINED = ("A task declined the checkpoint.", False, True)
    CHECKPOINT_DECLINED_TASK_NOT_READY = ("A task was not ready.", False, False)
    CHECKPOINT_DECLINED_TASK_CLOSING = ("A task was closing.", False, False)
    CHECKPOINT_DECLINED_SUBSUMED = ("A task got the barrier of a later checkpoint.", False, False)
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = ("A task was notified that the checkpoint was aborted.", False, False)
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = ("A task's input ended before its barrier.", False, False)
    CHECKPOINT_COORDINATOR_SHUTDOWN = ("The checkpoint coordinator is shut down.", False, False)
    CHECKPOINT_COORDINATOR_SUSPEND = ("The job is being restarted.", False, False)
    JOB_FAILOVER_REGION = ("A region of the job is being restarted.", False, False)
    TASK_FAILURE = ("A task failed.", False, False)
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = ("A task could not be notified of a checkpoint.", False, False)
    FINALIZE_CHECKPOINT_FAILURE = ("The metadata could not be written.", False, True)
    TRIGGER_CHECKPOINT_FAILURE = ("The checkpoint could not be triggered.", True, True)

    def __init__(self, message: str, is_preflight: bool, counts: bool) -> None:
        self.message = message
        self.is_preflight = is_preflight
        self.counts = counts


def checkpoint_error(
    reason: CheckpointFailureReason, detail: str = "", cause: BaseException | None = None
) -> CheckpointError:
    """Returns the error of a checkpoint that failed for `reason`."""
    text = f"{reason.message} {detail}".strip()
    details = {"failure_reason": reason.name}
    error = CheckpointError(text, details=details)
    error.__cause__ = cause
    if isinstance(cause, FlinkError):
        error.remote_traceback = cause.remote_traceback
    return error


def failure_reason(error: BaseException) -> CheckpointFailureReason:
    """Returns the reason of a CheckpointError, and CHECKPOINT_DECLINED for any other error."""
    name = error.details.get("failure_reason", "") if isinstance(error, FlinkError) else ""
    return CheckpointFailureReason.__members__.get(name, CheckpointFailureReason.CHECKPOINT_DECLINED)
