"""The questions of job handlers to the services. Their answers are kept for a while.

All but the statistics of subtasks comes in one answer for all operations on a job, so that a page that asks for its
parts sees one state of the job.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from flinkpy._proto import checkpoint_pb2, job_pb2, metrics_pb2
from flinkpy.common.errors import ExternalError, JobNotFoundError
from flinkpy.rest.errors import RestError, not_found
from flinkpy.rest.forms.job_details import find_vertex
from flinkpy.rest.forms.metrics import Values, job_values, values_of_dump
from flinkpy.rest.messages.staleness import A, marked
from flinkpy.rest.operation import RestCall

#: Flink gives up on a service after `web.timeout`.
TIMEOUT_S = 10.0
_NO_METRICS = metrics_pb2.MetricsDump()


async def _ask(call: RestCall, method: str, request: Any) -> Any:
    """Returns the Dispatcher's answer, which may be as old as the options allow, or older if there is no newer one.

    Raises: JobNotFoundError, RpcUnavailableError, RpcTimeoutError, NotLeaderError.
    """
    context = call.context
    options = context.options
    is_about_checkpoints = method == "request_checkpoint_statistics"
    answer, age_ms = await context.inquiries.ask(
        (method, request.SerializeToString(deterministic=True)),
        lambda: getattr(call.dispatcher, method)(request, timeout_s=TIMEOUT_S),
        context.clock.monotonic_ms(),
        options.max_checkpoints_age_ms if is_about_checkpoints else options.max_job_age_ms,
        max_kept=options.max_kept_checkpoints if is_about_checkpoints else None,
    )
    call.age_ms = max(call.age_ms, age_ms)
    return answer


def marked_if_old(call: RestCall, answer: A) -> A:
    """Marks the answer as stale if the service that gave its parts has not answered since they became too old."""
    options = call.context.options
    return marked(answer, call.age_ms, max(options.max_job_age_ms, options.max_checkpoints_age_ms))


async def job_of(call: RestCall) -> job_pb2.JobDetails:
    """Returns the job that the path names, without its subtasks. Raises: JobNotFoundError."""
    return await job_with_id(call, call.job_id)


async def job_with_id(call: RestCall, job_id: str) -> job_pb2.JobDetails:
    """Returns a job without its subtasks. Raises: JobNotFoundError."""
    details: job_pb2.JobDetails = await _ask(
        call, "request_job", job_pb2.JobDetailsRequest(job_id=job_id, without_subtasks=True)
    )
    return details


async def vertex_of(call: RestCall) -> job_pb2.VertexDetails:
    """Returns the vertex that the path names, with its subtasks. Raises: JobNotFoundError, RestError (404)."""
    vertex_id = call.path["vertexid"]
    request = job_pb2.JobDetailsRequest(job_id=call.job_id, without_subtasks=True, vertex_ids=[vertex_id])
    vertex = find_vertex(await _ask(call, "request_job", request), vertex_id)
    if vertex is None:
        raise vertex_not_found(vertex_id)
    return vertex


def vertex_not_found(vertex_id: str) -> RestError:
    return not_found(f"No vertex with ID '{vertex_id}' exists.")


def subtask_of(call: RestCall, vertex: job_pb2.VertexDetails) -> job_pb2.SubtaskDetails:
    """Returns the subtask that the path names. Raises: RestError with status 404."""
    index = call.path["subtaskindex"]
    subtask = next((one for one in vertex.subtasks if one.subtask_index == index), None)
    if subtask is None:
        raise not_found(f"Invalid subtask index for vertex {vertex.id}")
    return subtask


async def checkpoints_of(call: RestCall, checkpoint_id: int = 0) -> checkpoint_pb2.CheckpointStatisticsResponse:
    """Returns the statistics, with the subtasks of one checkpoint. Raises: JobNotFoundError."""
    request = checkpoint_pb2.CheckpointStatisticsRequest(
        job_id=call.job_id, without_subtasks=True, checkpoint_id=checkpoint_id
    )
    statistics: checkpoint_pb2.CheckpointStatisticsResponse = await _ask(call, "request_checkpoint_statistics", request)
    return statistics


async def accumulators_of(call: RestCall, vertex_id: str = "", *, by_subtask: bool = False) -> job_pb2.JobAccumulators:
    """Raises: JobNotFoundError."""
    request = job_pb2.AccumulatorsRequest(job_id=call.job_id, vertex_id=vertex_id, by_subtask=by_subtask)
    found: job_pb2.JobAccumulators = await _ask(call, "request_accumulators", request)
    return found


async def diagnosis_of(call: RestCall) -> job_pb2.JobDiagnosis:
    """Raises: JobNotFoundError."""
    diagnosis: job_pb2.JobDiagnosis = await _ask(
        call, "request_diagnosis", job_pb2.DiagnosisRequest(job_id=call.job_id)
    )
    return diagnosis


async def task_metrics_of(
    call: RestCall, vertex_id: str, names: Collection[str] = ()
) -> list[metrics_pb2.MetricGroupDump]:
    """Returns the metrics of the tasks and operators of a vertex; none if the job has ended.

    Raises: JobNotFoundError if the job never existed or has been forgotten.
    """
    return await _metrics_of(
        call, metrics_pb2.MetricsRequest(job_id=call.job_id, vertex_id=vertex_id, names=sorted(names))
    )


async def coordinator_metrics_of(call: RestCall, vertex_id: str) -> list[metrics_pb2.MetricGroupDump]:
    """Returns the metrics of the coordinators of a vertex; none if the job has ended. Raises: JobNotFoundError."""
    request = metrics_pb2.MetricsRequest(job_id=call.job_id, vertex_id=vertex_id, kinds=["coordinator"])
    return await _metrics_of(call, request)


async def job_values_of(call: RestCall, job_id: str) -> Values:
    """Returns the metrics of the job itself. Those of an ended job come from its archive. Raises: JobNotFoundError."""
    request = metrics_pb2.MetricsRequest(job_id=job_id, kinds=["job"])
    try:
        dump: metrics_pb2.MetricsDump = await _ask(call, "request_metrics", request)
    except (JobNotFoundError, ExternalError):
        dump = metrics_pb2.MetricsDump()  # it has ended, or has no JobMaster at the moment
    groups = [group for group in dump.groups if not group.vertex_id]
    if groups:
        return values_of_dump(metrics_pb2.MetricsDump(groups=groups))
    details = await job_with_id(call, job_id)
    checkpoints = await _ask(
        call,
        "request_checkpoint_statistics",
        checkpoint_pb2.CheckpointStatisticsRequest(job_id=job_id, without_subtasks=True),
    )
    return job_values(details, checkpoints, call.context.clock.now_ms())


async def job_master_values_of(call: RestCall) -> Values:
    """Returns the metrics of the JobMaster's process and of its job. Raises: JobNotFoundError, also if it has ended."""
    request = metrics_pb2.MetricsRequest(job_id=call.job_id, kinds=["job", "process"])
    dump: metrics_pb2.MetricsDump = await _ask(call, "request_metrics", request)
    return values_of_dump(metrics_pb2.MetricsDump(groups=[group for group in dump.groups if not group.vertex_id]))


async def live_metrics_of(call: RestCall, vertex_id: str, names: Collection[str]) -> metrics_pb2.MetricsDump:
    """Returns the metrics of a vertex, or of all if `vertex_id` is empty, as one object for as long as they last."""
    request = metrics_pb2.MetricsRequest(job_id=call.job_id, vertex_id=vertex_id, names=sorted(names))
    return await _metrics_dump_of(call, request)


async def _metrics_of(call: RestCall, request: metrics_pb2.MetricsRequest) -> list[metrics_pb2.MetricGroupDump]:
    return list((await _metrics_dump_of(call, request)).groups)


async def _metrics_dump_of(call: RestCall, request: metrics_pb2.MetricsRequest) -> metrics_pb2.MetricsDump:
    try:
        dump: metrics_pb2.MetricsDump = await _ask(call, "request_metrics", request)
    except JobNotFoundError:
        await job_of(call)  # a job that has ended is known, but its tasks are gone
        return _NO_METRICS
    return dump
