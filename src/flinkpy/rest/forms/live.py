"""Makes the tables that the dashboard polls from the details and the metrics of a job.

Values are rounded to what a person reads, so that cells which did not really change are not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flinkpy._proto import common_pb2, job_pb2, metrics_pb2
from flinkpy.rest.forms.job_details import UNASSIGNED, attempt_times, state_of
from flinkpy.rest.forms.metrics import latest_attempts
from flinkpy.rest.live_table import Cell

_WATERMARK_IN, _WATERMARK_OUT = "currentInputWatermark", "currentOutputWatermark"
_SHARES = {
    "busyTimeMsPerSecond": "busy",
    "backPressuredTimeMsPerSecond": "backPressured",
    "idleTimeMsPerSecond": "idle",
}
_RATES = {"numRecordsInPerSecond": "recordsInRate", "numRecordsOutPerSecond": "recordsOutRate"}
#: The metrics of tasks, and of operators for the watermarks of sources, that the tables need.
LIVE_METRICS = (*_SHARES, *_RATES, _WATERMARK_IN, _WATERMARK_OUT)

#: Flink's first watermark: there was none yet.
_NO_WATERMARK = -(1 << 63)
#: Rates have three significant digits.
_RATE_DIGITS = 3

#: The measurements of a subtask, by column.
Measured = dict[str, float]


def measured_by_subtask(groups: Iterable[metrics_pb2.MetricGroupDump]) -> dict[tuple[str, int], Measured]:
    """Returns the measurements of each subtask, by vertex and index.

    The watermark is that of the input. A source has none; its watermark is the latest of its operators.
    """
    measured: dict[tuple[str, int], Measured] = {}
    for group in latest_attempts(groups):
        of_subtask = measured.setdefault((group.vertex_id, group.subtask_index), {})
        for metric in group.metrics:
            kind = metric.WhichOneof("value")
            if kind is None or kind == "text":
                continue
            value = getattr(metric, kind)
            if group.operator_id:
                if metric.name == _WATERMARK_OUT and value > of_subtask.get("sourceWatermark", _NO_WATERMARK):
                    of_subtask["sourceWatermark"] = value
            elif metric.name in _SHARES:
                of_subtask[_SHARES[metric.name]] = value / 10  # of 1000 ms, in percent
            elif metric.name in _RATES:
                of_subtask[_RATES[metric.name]] = value
            elif metric.name == _WATERMARK_IN and value > _NO_WATERMARK:
                of_subtask["watermark"] = value
    return measured


def _watermark(of_subtask: Measured, is_source: bool) -> float | None:
    return of_subtask.get("sourceWatermark" if is_source else "watermark")


def _is_source(vertex: job_pb2.VertexDetails) -> bool:
    return not any(one.vertex_id for operator in vertex.operators for one in operator.inputs)


def job_table(
    details: job_pb2.JobDetails, groups: Iterable[metrics_pb2.MetricGroupDump]
) -> tuple[list[str], dict[str, list[Cell]]]:
    """Returns the ids of the vertices and the columns of LiveJob."""
    by_vertex: dict[str, list[Measured]] = {}
    for (vertex_id, _), of_subtask in measured_by_subtask(groups).items():
        by_vertex.setdefault(vertex_id, []).append(of_subtask)
    rows = [_vertex_row(vertex, by_vertex.get(vertex.id, ())) for vertex in details.vertices]
    names = dict.fromkeys(name for row in rows for name in row)
    # The number of tasks in a state that no task has.
    absent = {name: 0 if name.startswith("tasks.") else None for name in names}
    columns: dict[str, list[Cell]] = {name: [row.get(name, absent[name]) for row in rows] for name in names}
    return [vertex.id for vertex in details.vertices], columns


def _vertex_row(vertex: job_pb2.VertexDetails, subtasks: Sequence[Measured]) -> dict[str, Cell]:
    row: dict[str, Cell] = {"status": state_of(vertex.state)}
    row.update({f"tasks.{name}": count for name, count in sorted(vertex.tasks_per_state.items()) if count})
    row.update(_totals(vertex.metrics))
    for name in _SHARES.values():
        shares = [one[name] for one in subtasks if name in one]
        row[name] = round(sum(shares) / len(shares)) if shares else None
        if name != "idle":
            row[f"{name}Max"] = round(max(shares)) if shares else None
    for name in _RATES.values():
        rates = [one[name] for one in subtasks if name in one]
        row[name] = _rounded(sum(rates)) if rates else None
    is_source = _is_source(vertex)
    known = [mark for mark in (_watermark(one, is_source) for one in subtasks) if mark is not None]
    # One subtask without a watermark holds back the whole vertex.
    row["watermark"] = int(min(known)) if known and len(known) == len(subtasks) else None
    row["watermarkMax"] = int(max(known)) if known else None
    return row


def vertex_table(
    vertex: job_pb2.VertexDetails, groups: Iterable[metrics_pb2.MetricGroupDump]
) -> tuple[list[int], dict[str, list[Cell]]]:
    """Returns the indexes of the subtasks and the columns of LiveVertex."""
    measured = measured_by_subtask(groups)
    is_source = _is_source(vertex)
    rows = [_subtask_row(one, measured.get((vertex.id, one.subtask_index), {}), is_source) for one in vertex.subtasks]
    names = list(rows[0]) if rows else []
    return [one.subtask_index for one in vertex.subtasks], {name: [row[name] for row in rows] for name in names}


def _subtask_row(subtask: job_pb2.SubtaskDetails, measured: Mapping[str, float], is_source: bool) -> dict[str, Cell]:
    start_ms, end_ms = attempt_times(subtask)
    shares = {name: _whole(measured.get(name)) for name in _SHARES.values()}
    rates = {name: _rounded(measured[name]) if name in measured else None for name in _RATES.values()}
    return {
        "status": state_of(subtask.state),
        "attempt": subtask.attempt_number,
        "endpoint": subtask.endpoint or UNASSIGNED,
        "taskManager": subtask.resource_id or UNASSIGNED,
        "start": start_ms,
        "end": end_ms,
        **shares,
        **_totals(subtask.metrics),
        **rates,
        "watermark": _whole(_watermark(dict(measured), is_source)),
    }


def _totals(metrics: common_pb2.IOMetrics) -> dict[str, Cell]:
    return {
        "recordsIn": metrics.num_records_in,
        "recordsOut": metrics.num_records_out,
        "bytesIn": metrics.num_bytes_in,
        "bytesOut": metrics.num_bytes_out,
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rounded(rate: float) -> float:
    return float(f"{rate:.{_RATE_DIGITS}g}")
