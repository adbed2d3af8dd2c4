"""The vertices of a job, their subtasks and attempts."""

from __future__ import annotations

from collections.abc import Iterable

from flinkpy._proto import job_pb2
from flinkpy.common.states import ExecutionState
from flinkpy.rest.errors import bad_request, not_found
from flinkpy.rest.flame_graphs import FLAME_GRAPHS_DISABLED, VERTEX_TERMINATED
from flinkpy.rest.forms.job_details import (
    UNASSIGNED,
    find_attempt,
    former_attempts,
    job_vertex_details_info,
    subtask_info,
    subtasks_times_info,
    vertex_task_managers_info,
)
from flinkpy.rest.forms.metrics import TIME_METRICS, back_pressure_info
from flinkpy.rest.handlers.job_inquiries import accumulators_of, marked_if_old, subtask_of, task_metrics_of, vertex_of
from flinkpy.rest.messages.job_details import (
    FormerAttempts,
    JobVertexAccumulatorsInfo,
    JobVertexBackPressureInfo,
    JobVertexDetailsInfo,
    JobVertexTaskManagersInfo,
    SubtaskAccumulatorsInfo,
    SubtaskExecutionAttemptAccumulatorsInfo,
    SubtaskExecutionAttemptDetailsInfo,
    SubtasksAllAccumulatorsInfo,
    SubtasksTimesInfo,
    UserAccumulator,
    VertexFlameGraph,
)
from flinkpy.rest.operation import COUNT, QueryParameter, RestCall, one_of, operation

_VERTEX = "/jobs/:jobid/vertices/:vertexid"


@operation(
    "GET",
    _VERTEX,
    "Returns details for a task, with a summary for each of its subtasks.",
    response=JobVertexDetailsInfo,
)
async def vertex_details(call: RestCall) -> JobVertexDetailsInfo:
    return marked_if_old(call, job_vertex_details_info(await vertex_of(call), call.context.clock.now_ms()))


@operation(
    "GET",
    f"{_VERTEX}/subtasktimes",
    "Returns time-related information for all subtasks of a task.",
    response=SubtasksTimesInfo,
)
async def subtask_times(call: RestCall) -> SubtasksTimesInfo:
    return subtasks_times_info(await vertex_of(call), call.context.clock.now_ms())


@operation(
    "GET",
    f"{_VERTEX}/former-attempts",
    "Returns when the attempts of a task that were replaced after a failure were in which state.",
    response=FormerAttempts,
    is_internal=True,
)
async def former_attempts_of_vertex(call: RestCall) -> FormerAttempts:
    return former_attempts(await vertex_of(call))


@operation(
    "GET",
    f"{_VERTEX}/taskmanagers",
    "Returns task information aggregated by task manager.",
    response=JobVertexTaskManagersInfo,
)
async def vertex_task_managers(call: RestCall) -> JobVertexTaskManagersInfo:
    return vertex_task_managers_info(await vertex_of(call), call.context.clock.now_ms())


@operation(
    "GET",
    f"{_VERTEX}/backpressure",
    "Returns back-pressure information for a job.",
    response=JobVertexBackPressureInfo,
)
async def back_pressure(call: RestCall) -> JobVertexBackPressureInfo:
    vertex = await vertex_of(call)
    groups = await task_metrics_of(call, vertex.id, TIME_METRICS)
    return back_pressure_info(groups, call.context.clock.now_ms())


@operation(
    "GET",
    f"{_VERTEX}/flamegraph",
    "Returns flame graph information for a vertex, and may initiate flame graph sampling if necessary.",
    response=VertexFlameGraph,
    query=(
        QueryParameter("type", "FULL, ON_CPU or OFF_CPU.", one_of("full", "on_cpu", "off_cpu"), "full"),
        QueryParameter("subtaskindex", "The index of a subtask; all without it.", COUNT),
    ),
)
async def flame_graph(call: RestCall) -> VertexFlameGraph:
    vertex = await vertex_of(call)
    index = call.query["subtaskindex"]
    if index is not None and index >= max(vertex.parallelism, 1):
        raise bad_request(f"Invalid subtask index for vertex {vertex.id}")
    options = call.context.options.flame_graphs
    if options is None:
        return VertexFlameGraph(end_timestamp=FLAME_GRAPHS_DISABLED)
    state = next((one.state for one in vertex.subtasks if one.subtask_index == index), vertex.state)
    if ExecutionState(state).is_terminal:
        return VertexFlameGraph(end_timestamp=VERTEX_TERMINATED)
    known = call.context.flame_graphs.find(
        (call.job_id, vertex.id, index), call.dispatcher, options, call.context.clock.monotonic_ms()
    )
    return await known.graph(call.query["type"])


@operation(
    "GET",
    f"{_VERTEX}/subtasks/:subtaskindex",
    "Returns details of the current or latest execution attempt of a subtask.",
    response=SubtaskExecutionAttemptDetailsInfo,
)
async def current_attempt(call: RestCall) -> SubtaskExecutionAttemptDetailsInfo:
    return subtask_info(subtask_of(call, await vertex_of(call)), call.context.clock.now_ms())


@operation(
    "GET",
    f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt",
    "Returns details of an execution attempt of a subtask. Multiple attempts happen in case of failure/recovery.",
    response=SubtaskExecutionAttemptDetailsInfo,
)
async def attempt(call: RestCall) -> SubtaskExecutionAttemptDetailsInfo:
    return subtask_info(_attempt_of(call, await vertex_of(call)), call.context.clock.now_ms())


def _attempt_of(call: RestCall, vertex: job_pb2.VertexDetails) -> job_pb2.SubtaskDetails:
    """Raises: RestError with status 404."""
    subtask = subtask_of(call, vertex)
    number = call.path["attempt"]
    found = find_attempt([subtask], subtask.subtask_index, number)
    if found is None:
        raise not_found(f"Attempt {number} not found in subtask {subtask.subtask_index}")
    return found


# -- accumulators ----------------------------------------------------------------------------------------------------


@operation(
    "GET",
    f"{_VERTEX}/accumulators",
    "Returns user-defined accumulators of a task, aggregated across all subtasks.",
    response=JobVertexAccumulatorsInfo,
)
async def vertex_accumulators(call: RestCall) -> JobVertexAccumulatorsInfo:
    vertex = await vertex_of(call)
    found = await accumulators_of(call, vertex.id)
    return JobVertexAccumulatorsInfo(id=vertex.id, user_accumulators=_accumulators(found.accumulators))


@operation(
    "GET",
    f"{_VERTEX}/subtasks/accumulators",
    "Returns all user-defined accumulators for all subtasks of a task.",
    response=SubtasksAllAccumulatorsInfo,
)
async def all_subtask_accumulators(call: RestCall) -> SubtasksAllAccumulatorsInfo:
    vertex = await vertex_of(call)
    found = await accumulators_of(call, vertex.id, by_subtask=True)
    by_index = {one.subtask_index: one.accumulators for one in found.subtasks}
    return SubtasksAllAccumulatorsInfo(
        id=vertex.id,
        parallelism=vertex.parallelism,
        subtasks=[
            SubtaskAccumulatorsInfo(
                subtask=one.subtask_index,
                attempt=one.attempt_number,
                endpoint=one.endpoint or UNASSIGNED,
                user_accumulators=_accumulators(by_index.get(one.subtask_index, ())),
            )
            for one in vertex.subtasks
        ],
    )


@operation(
    "GET",
    f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt/accumulators",
    "Returns the accumulators of an execution attempt of a subtask. Those of former attempts are not kept.",
    response=SubtaskExecutionAttemptAccumulatorsInfo,
)
async def attempt_accumulators(call: RestCall) -> SubtaskExecutionAttemptAccumulatorsInfo:
    vertex = await vertex_of(call)
    subtask, found = subtask_of(call, vertex), _attempt_of(call, vertex)
    accumulators: Iterable[job_pb2.AccumulatorResult] = ()
    if found.attempt_number == subtask.attempt_number:
        answer = await accumulators_of(call, vertex.id, by_subtask=True)
        accumulators = next(
            (one.accumulators for one in answer.subtasks if one.subtask_index == subtask.subtask_index), ()
        )
    return attempt_accumulators_info(found, accumulators)


def attempt_accumulators_info(
    attempt: job_pb2.SubtaskDetails, accumulators: Iterable[job_pb2.AccumulatorResult]
) -> SubtaskExecutionAttemptAccumulatorsInfo:
    return SubtaskExecutionAttemptAccumulatorsInfo(
        subtask=attempt.subtask_index,
        attempt=attempt.attempt_number,
        id=attempt.execution_attempt_id,
        user_accumulators=_accumulators(accumulators),
    )


def _accumulators(results: Iterable[job_pb2.AccumulatorResult]) -> list[UserAccumulator]:
    return [UserAccumulator(name=one.name, type=one.type, value=one.value) for one in results]
