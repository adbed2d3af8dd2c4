"""Makes lists of metrics, aggregates and the back-pressure of a vertex from the metrics of tasks and operators.

Names are those of Flink's REST API: `<operator>.<metric>` for a subtask, with the index of the subtask before it for a
vertex. Histograms have one name per statistic.

Source: org.apache.flink.runtime.rest.handler.legacy.metrics.MetricStore,
runtime.rest.handler.job.{JobVertexBackPressureHandler,metrics.DoubleAccumulator}, metrics.dump.MetricQueryService.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from flinkpy._proto import checkpoint_pb2, job_pb2, metrics_pb2
from flinkpy.common.states import JobState
from flinkpy.rest.messages.job_details import JobVertexBackPressureInfo, SubtaskBackPressureInfo
from flinkpy.rest.messages.metrics import AggregatedMetric, Metric

#: Characters of operator names that Flink replaces, because names are parts of queries.
_REPLACED = str.maketrans(dict.fromkeys(" .:,", "_"))
#: Flink's suffixes of the statistics of a histogram, by their names here.
_SUFFIXES = {"p50": "median"}
#: Above these shares of its time a subtask has a low or a high back-pressure.
_LOW_RATIO, _HIGH_RATIO = 0.1, 0.5
AGGREGATIONS = ("min", "max", "avg", "sum", "skew")

#: The metrics from which the back-pressure of a vertex is computed.
TIME_METRICS = ("backPressuredTimeMsPerSecond", "idleTimeMsPerSecond", "busyTimeMsPerSecond")
WATERMARK = "currentInputWatermark"

Values = dict[str, str]


def values_of_group(group: metrics_pb2.MetricGroupDump) -> Iterator[tuple[str, str]]:
    """Yields the names and values of a group of metrics."""
    prefix = f"{group.operator_name.translate(_REPLACED)}." if group.operator_id else ""
    for metric in group.metrics:
        name = prefix + metric.name
        if metric.kind in ("histogram", "distribution"):
            yield f"{name}_count", _text(metric)
            for statistic, value in sorted(metric.statistics.items()):
                yield f"{name}_{_SUFFIXES.get(statistic, statistic)}", _number(value)
        else:
            yield name, _text(metric)


def values_of_dump(dump: metrics_pb2.MetricsDump) -> Values:
    """Returns the metrics of processes or of a job by their names."""
    return {name: value for group in dump.groups for name, value in values_of_group(group)}


def _text(metric: metrics_pb2.MetricDump) -> str:
    kind = metric.WhichOneof("value")
    if kind is None:
        return ""
    value = getattr(metric, kind)
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Returns a number as Java prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(float(value))


def latest_attempts(groups: Iterable[metrics_pb2.MetricGroupDump]) -> list[metrics_pb2.MetricGroupDump]:
    """Returns the groups of the latest attempt of each subtask. A former one may not have left its process yet."""
    found = list(groups)
    latest: dict[tuple[str, int], int] = {}
    for group in found:
        key = (group.vertex_id, group.subtask_index)
        latest[key] = max(latest.get(key, -1), group.attempt_number)
    return [group for group in found if latest[group.vertex_id, group.subtask_index] == group.attempt_number]


def vertex_values(groups: Iterable[metrics_pb2.MetricGroupDump]) -> Values:
    """Returns the metrics of all subtasks of a vertex, with the index of the subtask before each name."""
    return {
        f"{group.subtask_index}.{name}": value
        for group in latest_attempts(groups)
        for name, value in values_of_group(group)
    }


def subtask_values(groups: Iterable[metrics_pb2.MetricGroupDump], subtask_index: int) -> Values:
    return {
        name: value
        for group in latest_attempts(groups)
        if group.subtask_index == subtask_index
        for name, value in values_of_group(group)
    }


def values_by_subtask(groups: Iterable[metrics_pb2.MetricGroupDump]) -> dict[int, Values]:
    by_subtask: dict[int, Values] = {}
    for group in latest_attempts(groups):
        by_subtask.setdefault(group.subtask_index, {}).update(values_of_group(group))
    return by_subtask


def metric_collection(values: Mapping[str, str], wanted: Sequence[str] | None) -> list[Metric]:
    """Returns the metrics that are wanted and exist, with their values; without a wish all names, without values."""
    if not wanted:
        return [Metric(id=name) for name in sorted(values)]
    return [Metric(id=name, value=values[name]) for name in dict.fromkeys(wanted) if name in values]


def aggregated_metrics(
    stores: Iterable[Mapping[str, str]], wanted: Sequence[str] | None, aggregations: Collection[str] | None
) -> list[AggregatedMetric]:
    """Returns aggregates of the wanted metrics over several stores; without a wish all names.

    Metrics that are not numbers are left out.
    """
    everything = list(stores)
    if not wanted:
        return [AggregatedMetric(id=name) for name in sorted({name for store in everything for name in store})]
    result = []
    for name in dict.fromkeys(wanted):
        numbers = [_as_number(store[name]) for store in everything if name in store]
        known = [number for number in numbers if number is not None]
        if known and len(known) == len(numbers):
            chosen = aggregations or AGGREGATIONS
            result.append(AggregatedMetric(id=name, **{one: _AGGREGATES[one](known) for one in chosen}))
    return result


def _as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _skew(values: Sequence[float]) -> float:
    """Returns the mean absolute deviation in percent of the mean, at most 100. Source: DoubleDataSkew."""
    mean = math.fsum(values) / len(values)
    if mean == 0:
        return 0.0
    deviation = math.fsum(abs(value - mean) for value in values) / len(values)
    return min(100.0, deviation / abs(mean) * 100.0)


_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: math.fsum(values) / len(values),
    "sum": math.fsum,
    "skew": _skew,
}


def back_pressure_info(groups: Iterable[metrics_pb2.MetricGroupDump], now_ms: int) -> JobVertexBackPressureInfo:
    """Returns the back-pressure of a vertex from the time metrics of its subtasks."""
    subtasks = []
    for group in latest_attempts(group for group in groups if not group.operator_id):
        values = dict(values_of_group(group))
        shares = [(_as_number(values.get(name, "")) or 0.0) / 1000 for name in TIME_METRICS]
        level = back_pressure_level(shares[0])
        subtasks.append(
            SubtaskBackPressureInfo(
                subtask=group.subtask_index,
                attempt_number=group.attempt_number,
                level=level,
                deprecated_level=level,
                ratio=shares[0],
                idle_ratio=shares[1],
                busy_ratio=shares[2],
            )
        )
    if not subtasks:
        return JobVertexBackPressureInfo(
            status="deprecated", level=None, deprecated_level=None, end_timestamp=None, subtasks=None
        )
    subtasks.sort(key=lambda one: one.subtask)
    level = back_pressure_level(max(one.ratio for one in subtasks))
    return JobVertexBackPressureInfo(
        status="ok", level=level, deprecated_level=level, end_timestamp=now_ms, subtasks=subtasks
    )


def back_pressure_level(ratio: float) -> str:
    """Returns `ok`, `low` or `high`."""
    if ratio <= _LOW_RATIO:
        return "ok"
    return "low" if ratio <= _HIGH_RATIO else "high"


#: The statuses of a job whose times are metrics. Source: runtime.executiongraph.metrics, JobStatusMetrics.
_TIMED_STATUSES = ("INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "CANCELLING", "FAILING")


def job_values(
    details: job_pb2.JobDetails, checkpoints: checkpoint_pb2.CheckpointStatisticsResponse, now_ms: int
) -> Values:
    """Returns the metrics of an ended job, or of one whose JobMaster does not answer.

    They are fewer than those of its JobMaster, because a status keeps just its last timestamp.
    """
    status = JobState(details.status) if details.status else JobState.INITIALIZING
    since_ms = details.status_timestamps.get(status.name, 0)
    in_status_ms = max(0, now_ms - since_ms) if since_ms else 0
    is_down = status in (JobState.RESTARTING, JobState.FAILING)
    values: dict[str, int | str] = {
        "numRestarts": details.num_restarts,
        "fullRestarts": details.num_restarts,
        "uptime": in_status_ms if status is JobState.RUNNING else -1 if status.is_terminal else 0,
        "downtime": in_status_ms if is_down else -1 if status.is_terminal else 0,
    }
    for name in _TIMED_STATUSES:
        values[f"{name.lower()}State"] = int(status.name == name)
        values[f"{name.lower()}Time"] = in_status_ms if status.name == name else 0
    values |= _checkpoint_values(checkpoints)
    return {name: str(value) for name, value in values.items()}


def _checkpoint_values(statistics: checkpoint_pb2.CheckpointStatisticsResponse) -> dict[str, int | str]:
    values: dict[str, int | str] = {
        "totalNumberOfCheckpoints": statistics.num_total,
        "numberOfInProgressCheckpoints": statistics.num_in_progress,
        "numberOfCompletedCheckpoints": statistics.num_completed,
        "numberOfFailedCheckpoints": statistics.num_failed,
        "lastCheckpointRestoreTimestamp": -1,
        "lastCheckpointSize": -1,
        "lastCheckpointFullSize": -1,
        "lastCheckpointMetadataSize": -1,
        "lastCheckpointDuration": -1,
        "lastCheckpointProcessedData": -1,
        "lastCheckpointPersistedData": -1,
        "lastCheckpointCompletedTimestamp": -1,
        "lastCompletedCheckpointId": -1,
        "lastCheckpointExternalPath": "n/a",
    }
    if statistics.HasField("latest_restored"):
        values["lastCheckpointRestoreTimestamp"] = statistics.latest_restored.restore_timestamp_ms
    completed = [
        getattr(statistics, name) for name in ("latest_completed", "latest_savepoint") if statistics.HasField(name)
    ]
    if completed:
        last = max(completed, key=lambda one: one.checkpoint_id)
        values |= {
            "lastCheckpointSize": last.persisted_bytes,
            "lastCheckpointFullSize": last.state_size_bytes,
            "lastCheckpointMetadataSize": last.metadata_bytes or -1,
            "lastCheckpointDuration": last.end_timestamp_ms - last.trigger_timestamp_ms,
            "lastCheckpointProcessedData": last.processed_in_flight_bytes,
            "lastCheckpointPersistedData": last.persisted_in_flight_bytes,
            "lastCheckpointCompletedTimestamp": last.end_timestamp_ms,
            "lastCompletedCheckpointId": last.checkpoint_id,
            "lastCheckpointExternalPath": last.external_path or "n/a",
        }
    return values
