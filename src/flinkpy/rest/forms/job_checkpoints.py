"""Makes the statistics of checkpoints.

Source: org.apache.flink.runtime.rest.handler.job.checkpoints.{CheckpointingStatisticsHandler,
TaskCheckpointStatisticDetailsHandler,CheckpointConfigHandler}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import summary_of
from flinkpy.checkpoint.coordinator.coordinator_configuration import coordinator_options
from flinkpy.configuration import checkpointing_options, read_option, state_backend_options
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.rest.messages.job_checkpoints import (
    AnyCheckpointStatistics,
    CheckpointAlignment,
    CheckpointAlignmentSummary,
    CheckpointConfigInfo,
    CheckpointDuration,
    CheckpointDurationSummary,
    CheckpointingStatistics,
    CheckpointsSummary,
    CheckpointStatistics,
    CompletedCheckpointStatistics,
    CompletedSubtaskCheckpointStatistics,
    Counts,
    ExternalizedCheckpointInfo,
    FailedCheckpointStatistics,
    LatestCheckpoints,
    PendingSubtaskCheckpointStatistics,
    RestoredCheckpointStatistics,
    StatsSummaryDto,
    SubtasksSummary,
    TaskCheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
)

#: Java's Long.MAX_VALUE, which Flink tells as the interval of a job without periodic checkpoints.
NO_INTERVAL = (1 << 63) - 1
#: There is no state changelog; these are the defaults of its options.
_CHANGELOG_INTERVAL_MS, _CHANGELOG_STORAGE = 600_000, "memory"

_SYNC_SAVEPOINTS = (pb.SYNC_SAVEPOINT_SUSPEND, pb.SYNC_SAVEPOINT_TERMINATE)
_NO_VALUES = StatsSummaryDto(min=0, max=0, avg=0, p50="NaN", p90="NaN", p95="NaN", p99="NaN", p999="NaN")


def checkpointing_statistics(response: pb.CheckpointStatisticsResponse) -> CheckpointingStatistics:
    return CheckpointingStatistics(
        counts=Counts(
            restored=response.num_restored,
            total=response.num_total,
            in_progress=response.num_in_progress,
            completed=response.num_completed,
            failed=response.num_failed,
        ),
        summary=_summary(response.summary if response.HasField("summary") else None),
        latest=LatestCheckpoints(
            completed=_completed(response.latest_completed) if response.HasField("latest_completed") else None,
            savepoint=_completed(response.latest_savepoint) if response.HasField("latest_savepoint") else None,
            failed=_failed(response.latest_failed) if response.HasField("latest_failed") else None,
            restored=_restored(response.latest_restored) if response.HasField("latest_restored") else None,
        ),
        history=[checkpoint_statistics(one) for one in response.history],
    )


def _summary(summary: pb.CheckpointSummary | None) -> CheckpointsSummary:
    def told(name: str) -> StatsSummaryDto:
        return _NO_VALUES if summary is None else _statistic(getattr(summary, name))

    zero = _NO_VALUES if summary is None else _statistic(pb.CheckpointSummary.Statistic())
    return CheckpointsSummary(
        checkpointed_size=told("persisted_bytes"),
        state_size=told("state_size_bytes"),
        end_to_end_duration=told("duration_ms"),
        alignment_buffered=zero,
        processed_data=told("processed_in_flight_bytes"),
        persisted_data=told("persisted_in_flight_bytes"),
    )


def _statistic(statistic: pb.CheckpointSummary.Statistic) -> StatsSummaryDto:
    return StatsSummaryDto(
        min=statistic.minimum,
        max=statistic.maximum,
        avg=statistic.average,
        p50=float(statistic.p50),
        p90=float(statistic.p90),
        p95=float(statistic.p95),
        p99=float(statistic.p99),
        p999=float(statistic.p999),
    )


def find_checkpoint(response: pb.CheckpointStatisticsResponse, checkpoint_id: int) -> pb.CheckpointStatistics | None:
    """Returns a checkpoint of the history or one of the latest ones."""
    latest = [
        getattr(response, name)
        for name in ("latest_completed", "latest_savepoint", "latest_failed")
        if response.HasField(name)
    ]
    return next((one for one in (*response.history, *latest) if one.checkpoint_id == checkpoint_id), None)


def checkpoint_statistics(one: pb.CheckpointStatistics, *, with_tasks: bool = False) -> AnyCheckpointStatistics:
    if one.status == "COMPLETED":
        return _completed(one, with_tasks=with_tasks)
    if one.status == "FAILED":
        return _failed(one, with_tasks=with_tasks)
    return CheckpointStatistics(**_common(one, with_tasks))


def _completed(one: pb.CheckpointStatistics, *, with_tasks: bool = False) -> CompletedCheckpointStatistics:
    return CompletedCheckpointStatistics(
        **_common(one, with_tasks),
        external_path=one.external_path or "<checkpoint-not-externally-addressable>",
        discarded=one.discarded,
    )


def _failed(one: pb.CheckpointStatistics, *, with_tasks: bool = False) -> FailedCheckpointStatistics:
    return FailedCheckpointStatistics(
        **_common(one, with_tasks),
        failure_timestamp=one.end_timestamp_ms,
        failure_message=f"{one.failure.type}: {one.failure.message}",
    )


def _common(one: pb.CheckpointStatistics, with_tasks: bool) -> dict[str, Any]:
    is_savepoint = one.kind not in (pb.CHECKPOINT, pb.FULL_CHECKPOINT)
    return {
        "id": one.checkpoint_id,
        "status": one.status,
        "is_savepoint": is_savepoint,
        "savepoint_format": _format(one.format) if is_savepoint else None,
        "trigger_timestamp": one.trigger_timestamp_ms,
        "latest_ack_timestamp": one.latest_ack_timestamp_ms or -1,
        "checkpointed_size": one.persisted_bytes,
        "state_size": one.state_size_bytes,
        "end_to_end_duration": _duration_ms(one),
        "alignment_buffered": 0,
        "processed_data": one.processed_in_flight_bytes,
        "persisted_data": one.persisted_in_flight_bytes,
        "num_subtasks": one.num_subtasks,
        "num_acknowledged_subtasks": one.num_acknowledged_subtasks,
        "checkpoint_type": _type(one),
        "tasks": {task.vertex_id: TaskCheckpointStatistics(**_task(one, task)) for task in one.vertices}
        if with_tasks
        else {},
    }


def _duration_ms(one: pb.CheckpointStatistics) -> int:
    """Returns the time from the trigger to the end, or to the last acknowledgement so far. -1: there is none."""
    end_ms = one.end_timestamp_ms or one.latest_ack_timestamp_ms
    return end_ms - one.trigger_timestamp_ms if end_ms > 0 else -1


def _format(format_type: int) -> str:
    return "NATIVE" if format_type == pb.NATIVE else "CANONICAL"


def _type(one: pb.CheckpointStatistics) -> str:
    if one.kind in _SYNC_SAVEPOINTS:
        return "SYNC_SAVEPOINT"
    if one.kind == pb.SAVEPOINT:
        return "SAVEPOINT"
    return "UNALIGNED_CHECKPOINT" if one.is_unaligned else "CHECKPOINT"


def _restored(one: pb.RestoredCheckpointStatistics) -> RestoredCheckpointStatistics:
    return RestoredCheckpointStatistics(
        id=one.checkpoint_id,
        restore_timestamp=one.restore_timestamp_ms,
        is_savepoint=one.is_savepoint,
        external_path=one.external_path,
    )


def _task(one: pb.CheckpointStatistics, task: pb.VertexCheckpointStatistics) -> dict[str, Any]:
    acked_ms = task.latest_ack_timestamp_ms
    is_complete = task.num_acknowledged_subtasks == task.num_subtasks
    return {
        "id": one.checkpoint_id,
        "status": "COMPLETED" if is_complete else one.status,
        "latest_ack_timestamp": acked_ms or -1,
        "checkpointed_size": task.persisted_bytes,
        "state_size": task.state_size_bytes,
        "end_to_end_duration": acked_ms - one.trigger_timestamp_ms if acked_ms else -1,
        "alignment_buffered": 0,
        "processed_data": task.processed_in_flight_bytes,
        "persisted_data": task.persisted_in_flight_bytes,
        "num_subtasks": task.num_subtasks,
        "num_acknowledged_subtasks": task.num_acknowledged_subtasks,
    }


def task_checkpoint_statistics(
    one: pb.CheckpointStatistics, task: pb.VertexCheckpointStatistics
) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """Returns what each subtask of a vertex contributed to a checkpoint."""
    acked = {subtask.subtask_index: subtask for subtask in task.subtasks}
    return TaskCheckpointStatisticsWithSubtaskDetails(
        **_task(one, task),
        summary=_subtasks_summary(one, task.subtasks),
        subtasks=[
            _subtask(one, acked[index])
            if index in acked
            else PendingSubtaskCheckpointStatistics(index=index, status="pending_or_failed")
            for index in range(task.num_subtasks)
        ],
    )


def _subtask(
    one: pb.CheckpointStatistics, subtask: pb.SubtaskCheckpointStatistics
) -> CompletedSubtaskCheckpointStatistics:
    metrics = subtask.metrics
    return CompletedSubtaskCheckpointStatistics(
        index=subtask.subtask_index,
        status="completed",
        ack_timestamp=subtask.ack_timestamp_ms,
        end_to_end_duration=subtask.ack_timestamp_ms - one.trigger_timestamp_ms,
        checkpointed_size=metrics.bytes_persisted,
        state_size=metrics.state_size_bytes,
        checkpoint=CheckpointDuration(sync=_ms(metrics.sync_duration_ns), asynchronous=_ms(metrics.async_duration_ns)),
        alignment=CheckpointAlignment(
            buffered=0,
            processed=metrics.bytes_processed_during_alignment,
            persisted=metrics.bytes_persisted_during_alignment,
            duration=_ms(metrics.alignment_duration_ns),
        ),
        start_delay=_ms(metrics.checkpoint_start_delay_ns),
        unaligned_checkpoint=metrics.is_unaligned,
        aborted=False,
    )


def _ms(duration_ns: int) -> int:
    return duration_ns // 1_000_000


def _subtasks_summary(
    one: pb.CheckpointStatistics, subtasks: Sequence[pb.SubtaskCheckpointStatistics]
) -> SubtasksSummary:
    def over(value: Callable[[pb.SubtaskCheckpointStatistics], int]) -> StatsSummaryDto:
        return _statistic(summary_of(map(value, subtasks)).statistic()) if subtasks else _NO_VALUES

    return SubtasksSummary(
        checkpointed_size=over(lambda subtask: subtask.metrics.bytes_persisted),
        state_size=over(lambda subtask: subtask.metrics.state_size_bytes),
        end_to_end_duration=over(lambda subtask: subtask.ack_timestamp_ms - one.trigger_timestamp_ms),
        checkpoint_duration=CheckpointDurationSummary(
            sync=over(lambda subtask: _ms(subtask.metrics.sync_duration_ns)),
            asynchronous=over(lambda subtask: _ms(subtask.metrics.async_duration_ns)),
        ),
        alignment=CheckpointAlignmentSummary(
            buffered=over(lambda subtask: 0),
            processed=over(lambda subtask: subtask.metrics.bytes_processed_during_alignment),
            persisted=over(lambda subtask: subtask.metrics.bytes_persisted_during_alignment),
            duration=over(lambda subtask: _ms(subtask.metrics.alignment_duration_ns)),
        ),
        start_delay=over(lambda subtask: _ms(subtask.metrics.checkpoint_start_delay_ns)),
    )


def checkpoint_config_info(configuration: AnyConfiguration) -> CheckpointConfigInfo:
    """Returns how a job with this configuration takes checkpoints. Raises: ConfigurationError."""
    options = coordinator_options(configuration)
    retention = read_option(configuration, checkpointing_options.EXTERNALIZED_CHECKPOINT_RETENTION)
    has_directory = bool(read_option(configuration, checkpointing_options.DIRECTORY))
    storage = read_option(configuration, checkpointing_options.STORAGE) or (
        "filesystem" if has_directory else "jobmanager"
    )
    is_rocksdb = read_option(configuration, state_backend_options.STATE_BACKEND) == "rocksdb"
    return CheckpointConfigInfo(
        mode="exactly_once" if options.is_exactly_once else "at_least_once",
        interval=options.interval_ms or NO_INTERVAL,
        timeout=options.timeout_ms,
        min_pause=options.min_pause_ms,
        max_concurrent=options.max_concurrent,
        externalization=ExternalizedCheckpointInfo(
            enabled=retention != "NO_EXTERNALIZED_CHECKPOINTS",
            delete_on_cancellation=retention != "RETAIN_ON_CANCELLATION",
        ),
        state_backend="EmbeddedRocksDBStateBackend" if is_rocksdb else "HashMapStateBackend",
        checkpoint_storage=f"{'FileSystem' if storage == 'filesystem' else 'JobManager'}CheckpointStorage",
        unaligned_checkpoints=options.is_unaligned,
        tolerable_failed_checkpoints=options.tolerable_failures,
        aligned_checkpoint_timeout=options.aligned_timeout_ms,
        checkpoints_after_tasks_finish=options.after_tasks_finish,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=_CHANGELOG_INTERVAL_MS,
        changelog_storage=_CHANGELOG_STORAGE,
    )
