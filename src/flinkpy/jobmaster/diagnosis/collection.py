"""Makes a JobSnapshot from what a JobMaster and its TaskExecutors know, and a message from the findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flinkpy._proto import checkpoint_pb2, job_pb2, metrics_pb2
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.diagnosis.findings import diagnose
from flinkpy.jobmaster.diagnosis.snapshot import (
    CheckpointsSnapshot,
    InputSnapshot,
    JobSnapshot,
    OperatorReading,
    OperatorSnapshot,
    PendingCheckpoint,
    SplitSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)

#: The watermark before the first one.
_MIN_WATERMARK = -(1 << 63)
#: The metrics of tasks and operators that a snapshot is made from.
METRIC_NAMES = (
    "numRecordsIn",
    "numRecordsOut",
    "numRecordsOutPerSecond",
    "busyTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "currentInputWatermark",
    "currentOutputWatermark",
    "isOutputIdle",
    "nextEventTimeTimer",
    "numLateRecordsDropped",
    "numRecordsSkipped",
    "pendingRecords",
    "pendingCommittables",
    "watermarkAlignmentDrift",
)
#: The metrics of splits: `split`, the id of the split, `watermark` and one of these, with delimiters between them.
_SPLIT, _OF_SPLIT = "split", "watermark"
_SPLIT_WATERMARK, _SPLIT_IDLE, _SPLIT_PAUSED = "currentWatermark", "idleTimeMsPerSecond", "pausedTimeMsPerSecond"
METRIC_NAME_ENDS = (_SPLIT_WATERMARK, _SPLIT_IDLE, _SPLIT_PAUSED)
#: A split that was idle or paused for this many ms of each second is so now.
_MOSTLY_MS = 500

_Groups = Mapping[tuple[str, int, int], Mapping[str, Mapping[str, float]]]


def job_diagnosis(details: job_pb2.JobDetails, snapshot: JobSnapshot) -> job_pb2.JobDiagnosis:
    findings = [job_pb2.Finding(**asdict(finding)) for finding in diagnose(snapshot)]
    return job_pb2.JobDiagnosis(
        job_id=details.job_id, timestamp_ms=snapshot.now_ms, status=details.status, findings=findings
    )


def job_snapshot(
    details: job_pb2.JobDetails,
    statistics: checkpoint_pb2.CheckpointStatisticsResponse,
    metrics: Iterable[metrics_pb2.MetricGroupDump],
    now_ms: int,
    checkpoint_interval_ms: int,
) -> JobSnapshot:
    """Returns the snapshot of a job.

    Args:
        details: with all subtasks.
        statistics: with the subtasks of the checkpoints in progress.
        metrics: METRIC_NAMES, and those with METRIC_NAME_ENDS, of all tasks.
        checkpoint_interval_ms: 0 without periodic checkpoints.
    """
    state = JobState(details.status) if details.status else JobState.INITIALIZING
    by_task = _by_task(metrics)
    vertices = tuple(_vertex(vertex, by_task) for vertex in details.vertices)
    answered = {subtask.resource_id for vertex in vertices for subtask in vertex.running if subtask.busy is not None}
    asked = {subtask.resource_id for vertex in vertices for subtask in vertex.running}
    return JobSnapshot(
        now_ms=now_ms,
        state=state,
        since_ms=details.status_timestamps.get(state.name, details.start_time_ms),
        is_batch=details.is_batch,
        num_restarts=details.num_restarts,
        last_failure=_last_failure(details),
        num_slots_required=details.num_slots_required,
        num_slots_held=details.num_slots_held,
        num_unanswered=len(asked - answered),
        vertices=vertices,
        checkpoints=_checkpoints(statistics, checkpoint_interval_ms),
    )


def _last_failure(details: job_pb2.JobDetails) -> str:
    entry = max(details.exception_history, key=lambda one: one.timestamp_ms, default=None)
    if entry is None:
        return ""
    message = entry.error.message or entry.error.type
    return message if not entry.task_name or entry.task_name in message else f"{entry.task_name}: {message}"


def _by_task(metrics: Iterable[metrics_pb2.MetricGroupDump]) -> _Groups:
    """Returns the numbers by vertex, subtask and attempt; then by operator; then by name."""
    found: dict[tuple[str, int, int], dict[str, dict[str, float]]] = {}
    for group in metrics:
        operators = found.setdefault((group.vertex_id, group.subtask_index, group.attempt_number), {})
        values = operators.setdefault(group.operator_id, {})
        for metric in group.metrics:
            kind = metric.WhichOneof("value")
            if kind in ("number", "real"):
                values[metric.name] = getattr(metric, kind)
    return found


def _vertex(vertex: job_pb2.VertexDetails, by_task: _Groups) -> VertexSnapshot:
    operators = tuple(
        OperatorSnapshot(
            one.id,
            one.name,
            tuple(InputSnapshot(each.operator_id, each.vertex_id, each.ship_strategy) for each in one.inputs),
        )
        for one in vertex.operators
    )
    return VertexSnapshot(
        vertex.id, vertex.name, operators, tuple(_subtask(vertex.id, one, by_task) for one in vertex.subtasks)
    )


def _subtask(vertex_id: str, subtask: job_pb2.SubtaskDetails, by_task: _Groups) -> SubtaskSnapshot:
    state = ExecutionState(subtask.state) if subtask.state else ExecutionState.CREATED
    operators = by_task.get((vertex_id, subtask.subtask_index, subtask.attempt_number), {})
    task = operators.get("", {})
    rate = task.get("numRecordsOutPerSecond")
    return SubtaskSnapshot(
        index=subtask.subtask_index,
        state=state,
        since_ms=subtask.state_timestamps.get(state.name, 0),
        resource_id=subtask.resource_id,
        busy=_share(task.get("busyTimeMsPerSecond")),
        idle=_share(task.get("idleTimeMsPerSecond")),
        back_pressured=_share(task.get("backPressuredTimeMsPerSecond")),
        records_in=_integer(task.get("numRecordsIn")),
        records_out=_integer(task.get("numRecordsOut")),
        records_out_per_s=rate,
        operators={operator_id: _reading(values) for operator_id, values in operators.items() if operator_id},
    )


def _share(ms_per_second: float | None) -> float | None:
    return None if ms_per_second is None else min(1.0, max(0.0, ms_per_second / 1000))


def _integer(value: float | None) -> int | None:
    return None if value is None else int(value)


def _watermark(value: float | None) -> int | None:
    return None if value is None or value <= _MIN_WATERMARK else int(value)


def _reading(values: Mapping[str, float]) -> OperatorReading:
    return OperatorReading(
        input_watermark=_watermark(values.get("currentInputWatermark")),
        output_watermark=_watermark(values.get("currentOutputWatermark")),
        is_output_idle=bool(values.get("isOutputIdle")),
        records_in=_integer(values.get("numRecordsIn")),
        records_out=_integer(values.get("numRecordsOut")),
        records_out_per_s=values.get("numRecordsOutPerSecond"),
        next_event_time=_watermark(values.get("nextEventTimeTimer")),
        late_records=int(values.get("numLateRecordsDropped", 0)),
        skipped_records=int(values.get("numRecordsSkipped", 0)),
        pending_records=_integer(values.get("pendingRecords")),
        pending_committables=_integer(values.get("pendingCommittables")),
        alignment_drift_ms=_integer(values.get("watermarkAlignmentDrift")),
        splits=_splits(values),
    )


def _splits(values: Mapping[str, float]) -> tuple[SplitSnapshot, ...]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        split_id, metric = _split_and_metric(name)
        if metric == _SPLIT_WATERMARK:
            found.setdefault(split_id, {})["watermark"] = _watermark(value)
        elif metric == _SPLIT_IDLE:
            found.setdefault(split_id, {})["is_idle"] = value >= _MOSTLY_MS
        elif metric == _SPLIT_PAUSED:
            found.setdefault(split_id, {})["is_paused"] = value >= _MOSTLY_MS
    return tuple(SplitSnapshot(split_id, **about) for split_id, about in sorted(found.items()))


def _split_and_metric(name: str) -> tuple[str, str]:
    """Returns the split and the metric of a name like `split.topic-3.watermark.currentWatermark`, else empty texts.

    The delimiter may be any text (`metrics.scope.delimiter`): it is what stands between `watermark` and the metric.
    """
    metric = next((one for one in METRIC_NAME_ENDS if name.endswith(one)), "")
    before, of_split, delimiter = name.removesuffix(metric).rpartition(_OF_SPLIT)
    prefix = f"{_SPLIT}{delimiter}"
    if not metric or not of_split or not before.startswith(prefix) or not before.endswith(delimiter):
        return "", ""
    return before.removeprefix(prefix).removesuffix(delimiter), metric


def _checkpoints(statistics: checkpoint_pb2.CheckpointStatisticsResponse, interval_ms: int) -> CheckpointsSnapshot:
    completed = [
        one
        for one in (statistics.latest_completed, statistics.latest_savepoint)
        if one.checkpoint_id and one.status == "COMPLETED"
    ]
    last_id = max((one.checkpoint_id for one in completed), default=0)
    failed = [one for one in statistics.history if one.status == "FAILED" and one.checkpoint_id > last_id]
    pending = [one for one in statistics.history if one.status == "IN_PROGRESS"]
    oldest = min(pending, key=lambda one: one.checkpoint_id, default=None)
    return CheckpointsSnapshot(
        interval_ms=interval_ms,
        num_completed=statistics.num_completed,
        num_failed_since=len(failed),
        last_failure=failed[0].failure.message if failed else "",
        last_completed_ms=max((one.end_timestamp_ms for one in completed), default=None),
        pending=None if oldest is None else _pending(oldest),
    )


def _pending(checkpoint: checkpoint_pb2.CheckpointStatistics) -> PendingCheckpoint:
    missing = {}
    for vertex in checkpoint.vertices:
        acknowledged = {subtask.subtask_index for subtask in vertex.subtasks}
        left = tuple(index for index in range(vertex.num_subtasks) if index not in acknowledged)
        if left:
            missing[vertex.vertex_id] = left
    return PendingCheckpoint(checkpoint.checkpoint_id, checkpoint.trigger_timestamp_ms, missing)
