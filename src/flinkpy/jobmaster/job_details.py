"""Creates the messages about a job for clients: JobDetails while it runs, JobResult after its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flinkpy._proto import common_pb2, job_pb2
from flinkpy.common.states import JobState
from flinkpy.graph.spark_region import SPARK_TASK
from flinkpy.jobmaster.conversions import execution_state, io_metrics_to_proto, job_status
from flinkpy.jobmaster.executiongraph.execution import IOMetrics
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.rpc.error_codec import error_to_proto


def job_details(
    scheduler: DefaultScheduler,
    configuration: common_pb2.Configuration,
    *,
    num_slots_required: int = 0,
    num_slots_held: int = 0,
) -> job_pb2.JobDetails:
    graph = scheduler.graph
    return job_pb2.JobDetails(
        job_id=graph.job_id,
        name=graph.name,
        status=job_status(graph.state),
        start_time_ms=graph.start_time_ms,
        end_time_ms=graph.end_time_ms,
        status_timestamps={state.name: at for state, at in graph.status_timestamps.items()},
        vertices=[_vertex_details(vertex) for vertex in graph.job_vertices.values()],
        exception_history=[
            job_pb2.ExceptionHistoryEntry(
                timestamp_ms=entry.timestamp_ms,
                error=error_to_proto(entry.error),
                task_name=entry.task_name,
                resource_id=str(entry.resource_id or ""),
            )
            for entry in scheduler.exception_history.entries
        ],
        num_restarts=scheduler.num_restarts,
        configuration=configuration,
        num_slots_required=num_slots_required,
        num_slots_held=num_slots_held,
    )


def job_result(
    scheduler: DefaultScheduler, accumulators: Iterable[job_pb2.AccumulatorResult] = ()
) -> job_pb2.JobResult:
    """Returns the result of a job in a terminal state."""
    graph = scheduler.graph
    result = job_pb2.JobResult(
        job_id=graph.job_id,
        name=graph.name,
        status=job_status(graph.state),
        net_runtime_ms=max(0, graph.end_time_ms - graph.start_time_ms),
        accumulators=accumulators,
    )
    if graph.failure_cause is not None and graph.state in (JobState.FAILED, JobState.SUSPENDED):
        result.error.CopyFrom(error_to_proto(graph.failure_cause))
    return result


def _vertex_details(vertex: ExecutionJobVertex) -> job_pb2.VertexDetails:
    total = IOMetrics()
    for task_vertex in vertex.task_vertices:
        total += task_vertex.current.metrics
    return job_pb2.VertexDetails(
        id=str(vertex.id),
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        tasks_per_state=Counter(task_vertex.current.state.name for task_vertex in vertex.task_vertices),
        metrics=io_metrics_to_proto(total),
        subtasks=[_subtask_details(task_vertex) for task_vertex in vertex.task_vertices],
        parallelism_reason=_parallelism_reason(vertex),
        spark_description=vertex.job_vertex.description if vertex.job_vertex.task_kind == SPARK_TASK else "",
    )


def _parallelism_reason(vertex: ExecutionJobVertex) -> str:
    if vertex.is_undecided:
        return f"decided when its inputs are finished, at most {vertex.parallelism_bound}"
    return vertex.parallelism_reason


def _subtask_details(vertex: ExecutionVertex) -> job_pb2.SubtaskDetails:
    execution = vertex.current
    slot = execution.slot
    return job_pb2.SubtaskDetails(
        subtask_index=vertex.subtask_index,
        attempt_number=execution.attempt_id.attempt_number,
        state=execution_state(execution.state),
        resource_id="" if slot is None else str(slot.location.resource_id),
        execution_attempt_id=str(execution.attempt_id),
        metrics=io_metrics_to_proto(execution.metrics),
        state_timestamps={state.name: at for state, at in execution.state_timestamps.items()},
        allocation_id="" if slot is None else str(slot.allocation_id),
    )
