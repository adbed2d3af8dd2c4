"""The output of verbs with `--json`: one JSON object on standard output. docs/command_line.md describes its rules.

The functions of this module turn messages of the cluster into such objects. They are pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2, metrics_pb2

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Adds `--json`. The command gets `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def print_json(document: Mapping[str, Any]) -> None:
    """Prints the object. Characters outside ASCII are escaped, so that it is valid in every locale."""
    click.echo(json.dumps(document, indent=2))


def known(number: int) -> int | None:
    """Returns a time or a size of a message, or None if it is not known: messages then have 0 or -1."""
    return number if number > 0 else None


def duration_ms(start_ms: int, end_ms: int) -> int | None:
    return end_ms - start_ms if start_ms > 0 and end_ms > 0 else None


def job_state(status: int) -> str:
    return JobState(status).name if status else JobState.INITIALIZING.name


def job_overview_document(job: dispatcher_pb2.JobOverview) -> dict[str, Any]:
    """Returns one job of `flinkpy list`."""
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": job_state(job.status),
        "start_time_ms": known(job.start_time_ms),
        "end_time_ms": known(job.end_time_ms),
    }


def cluster_overview_document(overview: dispatcher_pb2.ClusterOverview) -> dict[str, Any]:
    """Returns the slots and jobs of a cluster."""
    return {
        "version": overview.version,
        "rest_url": overview.rest_url or None,
        "is_insecure": overview.is_insecure,
        "num_task_executors": overview.num_task_managers,
        "num_slots": overview.num_slots_total,
        "num_slots_free": overview.num_slots_available,
        "jobs": {
            "running": overview.num_jobs_running,
            "finished": overview.num_jobs_finished,
            "canceled": overview.num_jobs_cancelled,
            "failed": overview.num_jobs_failed,
        },
    }


def job_document(details: job_pb2.JobDetails) -> dict[str, Any]:
    """Returns one job with its vertices and failures."""
    return {
        "job_id": details.job_id,
        "name": details.name,
        "state": job_state(details.status),
        "is_batch": details.is_batch,
        "start_time_ms": known(details.start_time_ms),
        "end_time_ms": known(details.end_time_ms),
        "num_restarts": details.num_restarts,
        "num_slots_required": details.num_slots_required,
        "num_slots_held": details.num_slots_held,
        "vertices": [_vertex(vertex) for vertex in details.vertices],
        "failures": [_failure(failure) for failure in details.exception_history],
    }


def _vertex(vertex: job_pb2.VertexDetails) -> dict[str, Any]:
    metrics = vertex.metrics
    return {
        "vertex_id": vertex.id,
        "name": vertex.name,
        "parallelism": known(vertex.parallelism),
        "max_parallelism": known(vertex.max_parallelism),
        "parallelism_reason": vertex.parallelism_reason or None,
        "spark_description": vertex.spark_description or None,
        "subtasks_per_state": dict(vertex.tasks_per_state),
        "num_splits": vertex.splits.num_splits if vertex.HasField("splits") else None,
        "num_splits_left": vertex.splits.num_left if vertex.HasField("splits") else None,
        "num_records_in": metrics.num_records_in,
        "num_records_out": metrics.num_records_out,
        "num_bytes_in": metrics.num_bytes_in,
        "num_bytes_out": metrics.num_bytes_out,
        "busy_ms": metrics.busy_time_ms,
        "idle_ms": metrics.idle_time_ms,
        "back_pressured_ms": metrics.back_pressured_time_ms,
    }


def _failure(failure: job_pb2.ExceptionHistoryEntry) -> dict[str, Any]:
    return {
        "time_ms": known(failure.timestamp_ms),
        "task": failure.task_name or None,
        "task_executor": failure.resource_id or None,
        **_error(failure.error),
        "concurrent": [_failure(other) for other in failure.concurrent],
    }


def _error(error: common_pb2.ErrorInfo) -> dict[str, Any]:
    return {"type": error.type, "message": error.message, "traceback": error.traceback or None}


def accumulator_document(accumulator: job_pb2.AccumulatorResult) -> dict[str, Any]:
    return {"name": accumulator.name, "type": accumulator.type, "value": accumulator.value}


def finding_document(finding: job_pb2.Finding) -> dict[str, Any]:
    """Returns one reason for missing output. A place that it does not name is None."""
    is_subtask = finding.vertex_id and finding.subtask_index >= 0
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "sentence": finding.sentence,
        "advice": finding.advice or None,
        "vertex": finding.vertex_id or None,
        "subtask": finding.subtask_index if is_subtask else None,
        "operator": finding.operator_id or None,
        "split": finding.split_id or None,
    }


def metric_document(
    group: metrics_pb2.MetricGroupDump, metric: metrics_pb2.MetricDump, names: Mapping[str, str]
) -> dict[str, Any]:
    """Returns one metric. `names` has the names of vertices by their ids."""
    return {
        "vertex_id": group.vertex_id,
        "vertex": names.get(group.vertex_id) or None,
        "subtask": group.subtask_index,
        "attempt": group.attempt_number,
        "operator": group.operator_name or None,
        "task_executor": group.resource_id,
        "name": metric.name,
        "kind": metric.kind,
        "value": metric_value(metric),
        "statistics": dict(metric.statistics),
    }


def metric_value(metric: metrics_pb2.MetricDump) -> Any:
    kind = metric.WhichOneof("value")
    return None if kind is None else getattr(metric, kind)


def checkpoints_document(statistics: checkpoint_pb2.CheckpointStatisticsResponse) -> dict[str, Any]:
    """Returns the checkpoints of a job."""
    restored = statistics.latest_restored if statistics.HasField("latest_restored") else None
    return {
        "num_total": statistics.num_total,
        "num_completed": statistics.num_completed,
        "num_failed": statistics.num_failed,
        "num_in_progress": statistics.num_in_progress,
        "num_restored": statistics.num_restored,
        "latest_restored": None
        if restored is None
        else {
            "checkpoint_id": restored.checkpoint_id,
            "restore_time_ms": known(restored.restore_timestamp_ms),
            "is_savepoint": restored.is_savepoint,
            "path": restored.external_path or None,
        },
        "history": [_checkpoint(one) for one in statistics.history],
    }


def _checkpoint(one: checkpoint_pb2.CheckpointStatistics) -> dict[str, Any]:
    from flinkpy._proto import checkpoint_pb2 as pb

    return {
        "checkpoint_id": one.checkpoint_id,
        "state": one.status,
        "kind": pb.SnapshotKind.Name(one.kind),
        "is_unaligned": one.is_unaligned,
        "start_time_ms": known(one.trigger_timestamp_ms),
        "end_time_ms": known(one.end_timestamp_ms),
        "duration_ms": duration_ms(one.trigger_timestamp_ms, one.end_timestamp_ms),
        "state_size_bytes": one.state_size_bytes,
        "written_bytes": one.persisted_bytes,
        "in_flight_bytes": one.persisted_in_flight_bytes,
        "num_subtasks": one.num_subtasks,
        "num_acknowledged_subtasks": one.num_acknowledged_subtasks,
        "path": one.external_path or None,
        "is_discarded": one.discarded,
        "failure": _error(one.failure) if one.HasField("failure") else None,
    }
