"""CheckpointStatsTracker: the statistics of a job's checkpoints, for the web UI, the REST API and the CLI.

Source: org.apache.flink.runtime.checkpoint.{CheckpointStatsTracker,CheckpointStatsHistory}. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import common_pb2
from flinkpy.checkpoint.coordinator.checkpoint_plan import JobView
from flinkpy.checkpoint.coordinator.pending_checkpoint import PendingCheckpoint
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionVertexID

_SUMMARIZED = ("state_size_bytes", "persisted_bytes", "processed_in_flight_bytes", "persisted_in_flight_bytes")
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
#: The number of values that the quantiles of a summary cover. Source: runtime.checkpoint.StatsSummary.
SUMMARY_WINDOW = 10_000


@dataclass(frozen=True, slots=True)
class StatisticsParts:
    """The parts of the statistics that a caller wants: the subtasks of all checkpoints, or of one checkpoint."""

    has_subtasks: bool = True
    checkpoint_id: int = 0

    @classmethod
    def of(cls, request: pb.CheckpointStatisticsRequest) -> StatisticsParts:
        return cls(not request.without_subtasks, request.checkpoint_id)

    def apply_to(self, response: pb.CheckpointStatisticsResponse) -> None:
        """Removes the other subtasks from the response."""
        if self.has_subtasks:
            return
        latest = [
            getattr(response, name)
            for name in ("latest_completed", "latest_savepoint", "latest_failed")
            if response.HasField(name)
        ]
        for statistics in (*response.history, *latest):
            if statistics.checkpoint_id != self.checkpoint_id:
                for vertex in statistics.vertices:
                    del vertex.subtasks[:]


ALL_SUBTASKS = StatisticsParts()


class StatsSummary:
    """Minimum, maximum and average of all values, and the quantiles of the last SUMMARY_WINDOW of them.

    Source: org.apache.flink.runtime.checkpoint.StatsSummary.
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0
        self._minimum = 0
        self._maximum = 0
        self._last: deque[int] = deque(maxlen=SUMMARY_WINDOW)

    def add(self, value: int) -> None:
        self._minimum = min(self._minimum, value) if self._count else value
        self._maximum = max(self._maximum, value) if self._count else value
        self._count += 1
        self._sum += value
        self._last.append(value)

    def statistic(self) -> pb.CheckpointSummary.Statistic:
        ordered = sorted(self._last)
        return pb.CheckpointSummary.Statistic(
            minimum=self._minimum,
            maximum=self._maximum,
            average=self._sum // max(self._count, 1),
            **{name: round(quantile_of(ordered, quantile)) for name, quantile in _QUANTILES},
        )


def summary_of(values: Iterable[int]) -> StatsSummary:
    summary = StatsSummary()
    for value in values:
        summary.add(value)
    return summary


def quantile_of(ordered: Sequence[int], quantile: float) -> float:
    """Returns a quantile of sorted values, interpolated as Apache Commons' Percentile does. NaN if there are none."""
    if not ordered:
        return math.nan
    place = quantile * (len(ordered) + 1)
    below = math.floor(place)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    return ordered[below - 1] + (place - below) * (ordered[below] - ordered[below - 1])


class CheckpointStatsTracker:
    """Counts all checkpoints, and keeps the details of the last `history_size` of them."""

    def __init__(self, job: JobView, history_size: int) -> None:
        self._job = job
        self._history: deque[pb.CheckpointStatistics] = deque(maxlen=history_size)
        self._in_progress: dict[int, PendingCheckpoint] = {}
        self._num_restored = 0
        self._num_completed = 0
        self._num_failed = 0
        self._summaries = {name: StatsSummary() for name in ("duration_ms", *_SUMMARIZED)}
        self._latest_completed: pb.CheckpointStatistics | None = None
        self._latest_savepoint: pb.CheckpointStatistics | None = None
        self._latest_failed: pb.CheckpointStatistics | None = None
        self._latest_restored: pb.RestoredCheckpointStatistics | None = None
        #: Called with the statistics of each checkpoint that is complete or has failed.
        self.on_ended: Callable[[pb.CheckpointStatistics], None] | None = None

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
        statistics.metadata_bytes = 0 if pending.metadata is None else pending.metadata.ByteSize()
        self._summaries["duration_ms"].add(statistics.end_timestamp_ms - statistics.trigger_timestamp_ms)
        for name in _SUMMARIZED:
            self._summaries[name].add(getattr(statistics, name))
        if pending.properties.is_savepoint:
            self._latest_savepoint = statistics
        else:
            self._latest_completed = statistics
        if self.on_ended is not None:
            self.on_ended(statistics)

    def failed(self, pending: PendingCheckpoint, failure: FlinkError, now_ms: int) -> None:
        self._num_failed += 1
        statistics = self._end(pending, "FAILED", now_ms)
        statistics.failure.CopyFrom(_error_info(failure))
        statistics.discarded = True
        self._latest_failed = statistics
        if self.on_ended is not None:
            self.on_ended(statistics)

    def refused(self) -> None:
        """Counts a checkpoint that failed before it got an id."""
        self._num_failed += 1

    def retained(self, retained: Sequence[int]) -> None:
        """Marks all other completed checkpoints as discarded, except savepoints."""
        for statistics in self._history:
            is_savepoint = statistics.kind not in (pb.CHECKPOINT, pb.FULL_CHECKPOINT)
            if statistics.status == "COMPLETED" and not is_savepoint:
                statistics.discarded = statistics.checkpoint_id not in retained

    # ---- single figures. Any thread may read them.

    @property
    def num_total(self) -> int:
        return self.num_completed + self.num_failed + self.num_in_progress

    @property
    def num_in_progress(self) -> int:
        return len(self._in_progress)

    @property
    def num_completed(self) -> int:
        return self._num_completed

    @property
    def num_failed(self) -> int:
        return self._num_failed

    @property
    def latest_restored(self) -> pb.RestoredCheckpointStatistics | None:
        return self._latest_restored

    @property
    def last_completed(self) -> pb.CheckpointStatistics | None:
        """The completed checkpoint or savepoint with the highest id."""
        found = [one for one in (self._latest_completed, self._latest_savepoint) if one is not None]
        return max(found, key=lambda one: one.checkpoint_id, default=None)

    def response(self, parts: StatisticsParts = ALL_SUBTASKS) -> pb.CheckpointStatisticsResponse:
        response = pb.CheckpointStatisticsResponse(
            num_restored=self._num_restored,
            num_total=self.num_total,
            num_in_progress=self.num_in_progress,
            num_completed=self.num_completed,
            num_failed=self.num_failed,
            latest_completed=self._latest_completed,
            latest_savepoint=self._latest_savepoint,
            latest_failed=self._latest_failed,
            latest_restored=self._latest_restored,
        )
        running = [self._statistics(pending, "IN_PROGRESS") for pending in self._in_progress.values()]
        everything = sorted([*self._history, *running], key=lambda entry: entry.checkpoint_id, reverse=True)
        response.history.extend(everything[: self._history.maxlen])
        if self._num_completed:
            for name, summary in self._summaries.items():
                getattr(response.summary, name).CopyFrom(summary.statistic())
        parts.apply_to(response)
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
            format=pending.properties.format,
            latest_ack_timestamp_ms=max((ack.timestamp_ms for ack in pending.acks.values()), default=0),
        )
        for vertex in self._job.vertices:
            of_vertex = statistics.vertices.add(vertex_id=str(vertex.id), num_subtasks=vertex.parallelism)
            for index in range(vertex.parallelism):
                ack = pending.acks.get(ExecutionVertexID(vertex.id, index))
                if ack is not None:
                    of_vertex.subtasks.add(subtask_index=index, ack_timestamp_ms=ack.timestamp_ms, metrics=ack.metrics)
                    of_vertex.num_acknowledged_subtasks += 1
                    of_vertex.latest_ack_timestamp_ms = max(of_vertex.latest_ack_timestamp_ms, ack.timestamp_ms)
                    of_vertex.state_size_bytes += ack.metrics.state_size_bytes
                    of_vertex.persisted_bytes += ack.metrics.bytes_persisted
                    of_vertex.processed_in_flight_bytes += ack.metrics.bytes_processed_during_alignment
                    of_vertex.persisted_in_flight_bytes += ack.metrics.bytes_persisted_during_alignment
        return statistics


def _error_info(error: FlinkError) -> common_pb2.ErrorInfo:
    return common_pb2.ErrorInfo(
        type=type(error).__name__,
        message=error.message,
        domain=cast("common_pb2.ErrorDomain", error.domain.value),
        retry=cast("common_pb2.ErrorRetry", error.retry.value),
        traceback=error.remote_traceback,
        details=error.details,
    )
