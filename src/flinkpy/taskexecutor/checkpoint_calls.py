"""What a JobMaster tells the tasks of its job about checkpoints.

Attempts that cannot take a trigger decline it at once, so that the coordinator does not wait for them. Notifications
are for tasks that run; others have nothing to do with them.

Thread: main thread. Source: the checkpointing RPCs of org.apache.flink.runtime.taskexecutor.TaskExecutor.
"""

from __future__ import annotations

import logging

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import FlinkError
from flinkpy.taskexecutor.job_service import JobEntry

logger = logging.getLogger(__name__)


def trigger_checkpoints(job: JobEntry, request: checkpoint_pb2.TriggerCheckpointsRequest) -> None:
    """On return the trigger is in the mailbox of every task named, or declined for those that cannot take it."""
    for attempt in request.execution_attempt_ids:
        task = job.tasks.get(attempt)
        try:
            if task is None:
                reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
                if attempt in job.ended_attempts:
                    reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
                raise checkpoint_error(reason, f"Execution attempt {attempt} does not run here.")
            task.trigger_checkpoint(request.checkpoint_id, request.timestamp_ms, request.options)
        except FlinkError as error:
            logger.info("checkpoint %d of job %s declined: %s", request.checkpoint_id, job.job_id, error)
            job.connection.decline_checkpoint(attempt, request.checkpoint_id, error)


def confirm_checkpoints(job: JobEntry, notification: checkpoint_pb2.CheckpointNotification) -> None:
    """The checkpoint is completed."""
    for attempt in notification.execution_attempt_ids:
        task = job.tasks.get(attempt)
        if task is not None:
            task.notify_checkpoint_complete(notification.checkpoint_id)


def abort_checkpoints(job: JobEntry, notification: checkpoint_pb2.CheckpointNotification) -> None:
    """The checkpoint will not be completed."""
    for attempt in notification.execution_attempt_ids:
        task = job.tasks.get(attempt)
        if task is not None:
            task.notify_checkpoint_aborted(notification.checkpoint_id, notification.latest_completed_checkpoint_id)
