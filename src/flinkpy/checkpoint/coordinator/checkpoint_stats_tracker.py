"""CheckpointStatsTracker: the statistics of a job's checkpoints, for the web UI, the REST API and the CLI.

Source: org.apache.flink.runtime.checkpoint.{CheckpointStatsTracker,CheckpointStatsHistory}. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import cast

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import common_pb2
from flinkpy.checkpoint.coordinator.checkpoint_plan import JobView
from flinkpy.checkpoint.coordinator.pending_checkpoint import PendingCheckpoint
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionVertexID

_SUMMARIZED = ("state_size_bytes", "persisted_bytes", "processed_in_flight_bytes", "persisted_in_flight_bytes")
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


class CheckpointStatsTracker:
    """Counts all checkpoints, and keeps the details of the last `history_size` of them."""

    def __init__(self, job: JobView, history_size: int) -> None:
        self._job = job
        self._history: deque[pb.CheckpointStatistics] = deque(maxlen=history_size)
        self._in_progress: dict[int, PendingCheckpoint] = {}
        self._num_restored = 0
        self._num_completed = 0
        self._num_failed = 0
        self._latest_completed: pb.CheckpointStatistics | None = None
        self._latest_savepoint: pb.CheckpointStatistics | None = None
        self._latest_failed: pb.CheckpointStatistics | None = None
        self._latest_restored: pb.RestoredCheckpointStatistics | None = None

    def restored(self, checkpoint_id: int, external_path: str, is_savepoint: bool, now_ms: int) -> None:
        self._num_restored += 1
        self._latest_restored = pb.RestoredCheckpointStatistics(
            checkpoint_id=checkpoint_id,
            restore_timestamp_ms=now_ms,
            is_savepoint=is_savepoint,
            external_path=external_path,
        )

    def triggered(self, pending: PendingCheckpoint) -> None:
        self._in_progress[pending.checkpoint_id] = pending

    def completed(self, pending: PendingCheckpoint, external_path: str, now_ms: int) -> None:
        self._num_completed += 1
        statistics = self._end(pending, "COMPLETED", now_ms)
        statistics.external_path = external_path
        if pending.properties.is_savepoint:
            self._latest_savepoint = statistics
        else:
            self._latest_completed = statistics

    def failed(self, pending: PendingCheckpoint, failure: FlinkError, now_ms: int) -> None:
        self._num_failed += 1
        statistics = self._end(pending, "FAILED", now_ms)
        statistics.failure.CopyFrom(_error_info(failure))
        statistics.discarded = True
        self._latest_failed = statistics

    def refused(self) -> None:
        """Counts a checkpoint that failed before it got an id."""
        self._num_failed += 1

    def retained(self, retained: Sequence[int]) -> None:
        """Marks all other completed checkpoints as discarded, except savepoints."""
        for statistics in self._history:
            is_savepoint = statistics.kind not in (pb.CHECKPOINT, pb.FULL_CHECKPOINT)
            if statistics.status == "COMPLETED" and not is_savepoint:
                statistics.discarded = statistics.checkpoint_id not in retained

    def response(self) -> pb.CheckpointStatisticsResponse:
        response = pb.CheckpointStatisticsResponse(
            num_restored=self._num_restored,
            num_total=self._num_completed + self._num_failed + len(self._in_progress),
            num_in_progress=len(self._in_progress),
            num_completed=self._num_completed,
            num_failed=self._num_failed,
            latest_completed=self._latest_completed,
            latest_savepoint=self._latest_savepoint,
            latest_failed=self._latest_failed,
            latest_restored=self._latest_restored,
        )
        running = [self._statistics(pending, "IN_PROGRESS") for pending in self._in_progress.values()]
        everything = sorted([*self._history, *running], key=lambda entry: entry.checkpoint_id, reverse=True)
        response.history.extend(everything[: self._history.maxlen])
        completed = [entry for entry in self._history if entry.status == "COMPLETED"]
        if completed:
            response.summary.CopyFrom(_summary(completed))
        return response

    def _end(self, pending: PendingCheckpoint, status: str, now_ms: int) -> pb.CheckpointStatistics:
        self._in_progress.pop(pending.checkpoint_id, None)
        statistics = self._statistics(pending, status)
        statistics.end_timestamp_ms = now_ms
        self._history.append(statistics)
        return statistics

    def _statistics(self, pending: PendingCheckpoint, status: str) -> pb.CheckpointStatistics:
        metrics = [ack.metrics for ack in pending.acks.values()]
        coordinators = sum(len(state) for state in pending.coordinator_states.values() if state is not None)
        statistics = pb.CheckpointStatistics(
            checkpoint_id=pending.checkpoint_id,
            status=status,
            kind=pending.properties.kind,
            trigger_timestamp_ms=pending.triggered_ms,
            state_size_bytes=coordinators + sum(entry.state_size_bytes for entry in metrics),
            persisted_bytes=coordinators + sum(entry.bytes_persisted for entry in metrics),
            processed_in_flight_bytes=sum(entry.bytes_processed_during_alignment for entry in metrics),
            persisted_in_flight_bytes=sum(entry.bytes_persisted_during_alignment for entry in metrics),
            num_subtasks=len(pending.acks) + len(pending.missing),
            num_acknowledged_subtasks=len(pending.acks),
            is_unaligned=any(entry.is_unaligned for entry in metrics),
        )
        for vertex in self._job.vertices:
            of_vertex = statistics.vertices.add(vertex_id=str(vertex.id), num_subtasks=vertex.parallelism)
            for index in range(vertex.parallelism):
                ack = pending.acks.get(ExecutionVertexID(vertex.id, index))
                if ack is not None:
                    of_vertex.subtasks.add(subtask_index=index, ack_timestamp_ms=ack.timestamp_ms, metrics=ack.metrics)
        return statistics


def _summary(completed: Sequence[pb.CheckpointStatistics]) -> pb.CheckpointSummary:
    summary = pb.CheckpointSummary(
        duration_ms=_statistic([entry.end_timestamp_ms - entry.trigger_timestamp_ms for entry in completed])
    )
    for name in _SUMMARIZED:
        getattr(summary, name).CopyFrom(_statistic([getattr(entry, name) for entry in completed]))
    return summary


def _statistic(values: Sequence[int]) -> pb.CheckpointSummary.Statistic:
    ordered = sorted(values)
    last = len(ordered) - 1
    return pb.CheckpointSummary.Statistic(
        minimum=ordered[0],
        maximum=ordered[-1],
        average=sum(ordered) // len(ordered),
        **{name: ordered[round(quantile * last)] for name, quantile in _QUANTILES},
    )


def _error_info(error: FlinkError) -> common_pb2.ErrorInfo:
    return common_pb2.ErrorInfo(
        type=type(error).__name__,
        message=error.message,
        domain=cast("common_pb2.ErrorDomain", error.domain.value),
        retry=cast("common_pb2.ErrorRetry", error.retry.value),
        traceback=error.remote_traceback,
        details=error.details,
    )
