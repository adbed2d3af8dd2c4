"""Creates the messages about a job for clients: JobDetails while it runs, JobResult after its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from flinkpy._proto import common_pb2, job_pb2
from flinkpy.common.ids import JobVertexID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.graph.spark_region import SPARK_TASK
from flinkpy.jobmaster.conversions import execution_state, io_metrics_to_proto, job_status
from flinkpy.jobmaster.executiongraph.execution import Execution, IOMetrics
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.failover.execution_failure_handler import ExceptionHistoryEntry
from flinkpy.jobmaster.scheduler.adaptive.job_resource_requirements import ParallelismBounds
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.rpc.error_codec import error_to_proto


@dataclass(frozen=True, slots=True)
class DetailParts:
    """The parts of the details that a caller wants.

    Attributes:
        has_subtasks: include the subtasks of all vertices.
        vertex_ids: include the subtasks of these vertices in any case.
    """

    has_subtasks: bool = True
    vertex_ids: Collection[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, request: job_pb2.JobDetailsRequest) -> DetailParts:
        return cls(not request.without_subtasks, frozenset(request.vertex_ids))

    def has_subtasks_of(self, vertex_id: str) -> bool:
        return self.has_subtasks or vertex_id in self.vertex_ids


EVERYTHING = DetailParts()


def job_details(
    scheduler: DefaultScheduler,
    configuration: common_pb2.Configuration,
    *,
    is_batch: bool = False,
    num_slots_required: int = 0,
    num_slots_held: int = 0,
    parts: DetailParts = EVERYTHING,
    splits: Mapping[JobVertexID, tuple[int, int]] = MappingProxyType({}),
) -> job_pb2.JobDetails:
    """Returns the details of a job.

    Args:
        splits: for vertices with sources, the number of splits and of those not read to their end.
    """
    graph = scheduler.graph
    return job_pb2.JobDetails(
        job_id=graph.job_id,
        name=graph.name,
        status=job_status(graph.state),
        start_time_ms=graph.start_time_ms,
        end_time_ms=graph.end_time_ms,
        status_timestamps={state.name: at for state, at in graph.status_timestamps.items()},
        vertices=[
            _vertex_details(vertex, parts, splits.get(vertex.id), scheduler.requirements.get(vertex.id))
            for vertex in graph.job_vertices.values()
        ],
        exception_history=[_exception(entry) for entry in scheduler.exception_history.entries],
        is_exception_history_truncated=scheduler.exception_history.is_truncated,
        num_restarts=scheduler.num_restarts,
        configuration=configuration,
        is_batch=is_batch,
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


def _exception(entry: ExceptionHistoryEntry) -> job_pb2.ExceptionHistoryEntry:
    location = entry.location
    return job_pb2.ExceptionHistoryEntry(
        timestamp_ms=entry.timestamp_ms,
        error=error_to_proto(entry.error),
        task_name=entry.task_name,
        resource_id="" if location is None else str(location.resource_id),
        endpoint="" if location is None else location.data_address,
        concurrent=[_exception(other) for other in entry.concurrent],
        labels=entry.labels or {},
    )


def _vertex_details(
    vertex: ExecutionJobVertex, parts: DetailParts, splits: tuple[int, int] | None, bounds: ParallelismBounds | None
) -> job_pb2.VertexDetails:
    total = IOMetrics()
    for task_vertex in vertex.task_vertices:
        total += task_vertex.current.metrics
    counts = Counter(task_vertex.current.state for task_vertex in vertex.task_vertices)
    start_ms, end_ms = _vertex_times(vertex)
    details = job_pb2.VertexDetails(
        id=str(vertex.id),
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        tasks_per_state={state.name: count for state, count in counts.items()},
        metrics=io_metrics_to_proto(total),
        parallelism_reason=_parallelism_reason(vertex),
        spark_description=vertex.job_vertex.description if vertex.job_vertex.task_kind == SPARK_TASK else "",
        state=execution_state(aggregated_state(counts, len(vertex.task_vertices))),
        start_time_ms=start_ms,
        end_time_ms=end_ms,
        slot_sharing_group=vertex.slot_sharing_group,
        operators=_operators(vertex),
        is_non_parallel=vertex.job_vertex.is_non_parallel,
    )
    if bounds is not None:
        details.parallelism_lower_bound, details.parallelism_upper_bound = bounds.lower, bounds.upper
    if splits is not None:
        details.splits.num_splits, details.splits.num_left = splits
    if parts.has_subtasks_of(str(vertex.id)):
        details.subtasks.extend(_subtask_details(task_vertex) for task_vertex in vertex.task_vertices)
    return details


#: A vertex has the first of these states that one of its subtasks has.
_DECISIVE_STATES = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def aggregated_state(counts: Mapping[ExecutionState, int], num_subtasks: int) -> ExecutionState:
    """Returns the state of a vertex whose subtasks have these states.

    Source: org.apache.flink.runtime.executiongraph.ExecutionJobVertex#getAggregateJobVertexState.
    """
    for state in _DECISIVE_STATES:
        if counts.get(state):
            return state
    num_finished = counts.get(ExecutionState.FINISHED, 0)
    if not num_finished:
        return ExecutionState.CREATED
    return ExecutionState.FINISHED if num_finished == num_subtasks else ExecutionState.RUNNING


def _vertex_times(vertex: ExecutionJobVertex) -> tuple[int, int]:
    """Returns when the first subtask was deployed, and when the last one ended. -1: it has not happened."""
    executions = [task_vertex.current for task_vertex in vertex.task_vertices]
    starts = [execution.state_timestamps.get(ExecutionState.DEPLOYING, -1) for execution in executions]
    start_ms = min((start for start in starts if start >= 0), default=-1)
    if not executions or not all(execution.state.is_terminal for execution in executions):
        return start_ms, -1
    return start_ms, max(execution.state_timestamps[execution.state] for execution in executions)


def _parallelism_reason(vertex: ExecutionJobVertex) -> str:
    if vertex.is_undecided:
        return f"decided when its inputs are finished, at most {vertex.parallelism_bound}"
    return vertex.parallelism_reason


def _operators(vertex: ExecutionJobVertex) -> list[job_pb2.OperatorDetails]:
    """Returns the operators of the chain with their inputs, from inside the chain and from other vertices."""
    chain = vertex.job_vertex.chain
    operators = [
        job_pb2.OperatorDetails(
            id=descriptor.operator_id, name=descriptor.name, uid=descriptor.uid, description=descriptor.description
        )
        for descriptor in chain
    ]
    for edge, result in zip(vertex.job_vertex.inputs, vertex.inputs, strict=True):
        producer = result.producer.job_vertex
        data_set = producer.results[result.result_index]
        operators[0].inputs.add(
            operator_id=_producing_operator(producer, result.result_index),
            ship_strategy=edge.partitioner_name or data_set.partitioner_name,
            exchange=data_set.type,
            vertex_id=producer.id,
        )
    for descriptor in chain:
        for output in descriptor.outputs:
            if output.WhichOneof("target") == "chained_operator" and output.chained_operator < len(operators):
                operators[output.chained_operator].inputs.add(
                    operator_id=descriptor.operator_id, ship_strategy="FORWARD"
                )
    return operators


def _producing_operator(vertex: job_pb2.JobVertex, result_index: int) -> str:
    for descriptor in vertex.chain:
        for output in descriptor.outputs:
            if output.WhichOneof("target") == "result" and output.result == result_index:
                return descriptor.operator_id
    return vertex.chain[-1].operator_id if vertex.chain else ""


def _subtask_details(vertex: ExecutionVertex) -> job_pb2.SubtaskDetails:
    details = _attempt_details(vertex, vertex.current)
    details.prior_attempts.extend(_attempt_details(vertex, prior) for prior in reversed(vertex.prior))
    details.concurrent_attempts.extend(_attempt_details(vertex, other) for other in vertex.speculative)
    return details


def _attempt_details(vertex: ExecutionVertex, execution: Execution) -> job_pb2.SubtaskDetails:
    slot = execution.slot
    return job_pb2.SubtaskDetails(
        subtask_index=vertex.subtask_index,
        attempt_number=execution.attempt_id.attempt_number,
        state=execution_state(execution.state),
        resource_id="" if slot is None else str(slot.location.resource_id),
        endpoint="" if slot is None else slot.location.data_address,
        execution_attempt_id=str(execution.attempt_id),
        metrics=io_metrics_to_proto(execution.metrics),
        state_timestamps={state.name: at for state, at in execution.state_timestamps.items()},
        allocation_id="" if slot is None else str(slot.allocation_id),
    )
