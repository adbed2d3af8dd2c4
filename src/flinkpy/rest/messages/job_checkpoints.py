"""Bodies of the operations that tell of the checkpoints of a job.

Source: org.apache.flink.runtime.rest.messages.checkpoints.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

from flinkpy.rest.messages.asynchronous import FailureCause, QueueStatus
from flinkpy.rest.messages.staleness import MayBeStale

#: A quantile; "NaN" if there are no values.
Quantile = float | Literal["NaN"]


class StatsSummaryDto(msgspec.Struct, kw_only=True):
    min: int
    max: int
    avg: int
    p50: Quantile
    p90: Quantile
    p95: Quantile
    p99: Quantile
    p999: Quantile


class Counts(msgspec.Struct, kw_only=True):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointsSummary(msgspec.Struct, kw_only=True):
    """Statistics of all completed checkpoints. `alignment_buffered` is always 0, as in Flink."""

    checkpointed_size: StatsSummaryDto
    state_size: StatsSummaryDto
    end_to_end_duration: StatsSummaryDto
    alignment_buffered: StatsSummaryDto
    processed_data: StatsSummaryDto
    persisted_data: StatsSummaryDto


class TaskCheckpointStatistics(msgspec.Struct, kw_only=True):
    """The contribution of all subtasks of a vertex to a checkpoint."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointStatistics(msgspec.Struct, kw_only=True, tag_field="className", tag="in_progress"):
    """A checkpoint in progress. `tasks` is filled in the details of one checkpoint only."""

    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = field(name="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpointStatistics]


class CompletedCheckpointStatistics(CheckpointStatistics, kw_only=True, tag_field="className", tag="completed"):
    external_path: str
    discarded: bool


class FailedCheckpointStatistics(CheckpointStatistics, kw_only=True, tag_field="className", tag="failed"):
    failure_timestamp: int
    failure_message: str


AnyCheckpointStatistics = CheckpointStatistics | CompletedCheckpointStatistics | FailedCheckpointStatistics


class RestoredCheckpointStatistics(msgspec.Struct, kw_only=True):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(msgspec.Struct, kw_only=True):
    completed: CompletedCheckpointStatistics | None
    savepoint: CompletedCheckpointStatistics | None
    failed: FailedCheckpointStatistics | None
    restored: RestoredCheckpointStatistics | None


class CheckpointingStatistics(MayBeStale, kw_only=True):
    """The statistics of the checkpoints of a job, the newest first in the history."""

    counts: Counts
    summary: CheckpointsSummary
    latest: LatestCheckpoints
    history: list[AnyCheckpointStatistics]


class CheckpointDuration(msgspec.Struct, kw_only=True):
    sync: int
    asynchronous: int = field(name="async")


class CheckpointAlignment(msgspec.Struct, kw_only=True):
    buffered: int
    processed: int
    persisted: int
    duration: int


class PendingSubtaskCheckpointStatistics(msgspec.Struct, kw_only=True, tag_field="className", tag="pending"):
    """A subtask that has not acknowledged the checkpoint."""

    index: int
    status: str


class CompletedSubtaskCheckpointStatistics(msgspec.Struct, kw_only=True, tag_field="className", tag="completed"):
    """A subtask that has acknowledged the checkpoint. Durations are in ms."""

    index: int
    status: str
    ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    checkpoint: CheckpointDuration
    alignment: CheckpointAlignment
    start_delay: int
    unaligned_checkpoint: bool
    aborted: bool


class CheckpointDurationSummary(msgspec.Struct, kw_only=True):
    sync: StatsSummaryDto
    asynchronous: StatsSummaryDto = field(name="async")


class CheckpointAlignmentSummary(msgspec.Struct, kw_only=True):
    buffered: StatsSummaryDto
    processed: StatsSummaryDto
    persisted: StatsSummaryDto
    duration: StatsSummaryDto


class SubtasksSummary(msgspec.Struct, kw_only=True):
    """Statistics over the subtasks of a vertex."""

    checkpointed_size: StatsSummaryDto
    state_size: StatsSummaryDto
    end_to_end_duration: StatsSummaryDto
    checkpoint_duration: CheckpointDurationSummary
    alignment: CheckpointAlignmentSummary
    start_delay: StatsSummaryDto


class TaskCheckpointStatisticsWithSubtaskDetails(TaskCheckpointStatistics, kw_only=True):
    """The contribution of each subtask of a vertex to a checkpoint."""

    summary: SubtasksSummary
    subtasks: list[PendingSubtaskCheckpointStatistics | CompletedSubtaskCheckpointStatistics]


class ExternalizedCheckpointInfo(msgspec.Struct, kw_only=True):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(msgspec.Struct, kw_only=True):
    """How the job takes checkpoints. An interval of 9223372036854775807 means that there are no periodic ones."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: ExternalizedCheckpointInfo
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


class SavepointTriggerRequestBody(msgspec.Struct, kw_only=True):
    target_directory: str | None = field(name="target-directory", default=None)
    cancel_job: bool | None = field(name="cancel-job", default=None)
    format_type: Literal["CANONICAL", "NATIVE"] | None = field(name="formatType", default=None)
    trigger_id: str | None = field(name="triggerId", default=None)


class StopWithSavepointRequestBody(msgspec.Struct, kw_only=True):
    target_directory: str | None = field(name="targetDirectory", default=None)
    drain: bool | None = None
    format_type: Literal["CANONICAL", "NATIVE"] | None = field(name="formatType", default=None)
    trigger_id: str | None = field(name="triggerId", default=None)


class CheckpointTriggerRequestBody(msgspec.Struct, kw_only=True):
    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = field(name="checkpointType", default=None)
    trigger_id: str | None = field(name="triggerId", default=None)


class SavepointInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Either the location of the savepoint or the failure."""

    location: str | None = None
    failure_cause: FailureCause | None = field(name="failure-cause", default=None)


class CheckpointInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Either the id of the checkpoint or the failure."""

    checkpoint_id: int | None = field(name="checkpointId", default=None)
    failure_cause: FailureCause | None = field(name="failureCause", default=None)


class SavepointOperationResult(msgspec.Struct, kw_only=True):
    status: QueueStatus
    operation: SavepointInfo | None = None


class CheckpointOperationResult(msgspec.Struct, kw_only=True):
    status: QueueStatus
    operation: CheckpointInfo | None = None


class JobClientHeartbeatRequestBody(msgspec.Struct, kw_only=True):
    expired_timestamp: int = field(name="expiredTimestamp")


class ClientCoordinationRequestBody(msgspec.Struct, kw_only=True):
    request: str = field(name="serializedCoordinationRequest")


class ClientCoordinationResponseBody(msgspec.Struct, kw_only=True):
    result: str = field(name="serializedCoordinationResult")
