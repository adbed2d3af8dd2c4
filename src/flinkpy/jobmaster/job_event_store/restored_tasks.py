"""Restores the finished tasks of a former JobMaster in a new ExecutionGraph, so that they do not run again.

  * Settled tasks (see `settled_vertices`) never run again: a sink whose committables are stored, and a committer that
    has finished. The rest of the rules is for other tasks.
  * Without job recovery, all other tasks run again. A source subtask that no snapshot covers runs again, too.
  * A region with an unfinished task runs again as a whole.
  * A result that no TaskExecutor holds any more is produced again if a consumer has yet to run, or has an undecided
    parallelism. The results that its producer needs are treated in the same way. Finished consumers of the result run
    again only if they may receive other records (see the rules of RestartPipelinedRegionFailoverStrategy).
  * The coordinators of a vertex restore their snapshots, unless all subtasks of the vertex run again.

Source: org.apache.flink.runtime.scheduler.adaptivebatch.DefaultBatchJobRecoveryHandler. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flinkpy.common.errors import CorruptStateError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult
from flinkpy.jobmaster.failover.failover_strategy import RestartPipelinedRegionFailoverStrategy
from flinkpy.jobmaster.failover.settled_vertices import settled_vertices
from flinkpy.jobmaster.job_event_store.job_events import Decision, RecordedJob
from flinkpy.jobmaster.partition_tracker import JobMasterPartitionTracker
from flinkpy.jobmaster.scheduler.pipelined_region import PipelinedRegions


@dataclass(frozen=True, slots=True)
class RestoredTasks:
    """The result of `restore_finished_tasks`."""

    #: Finished executions that are not used.
    dropped: tuple[ExecutionAttemptID, ...]
    #: Results that have become final: all their producers had finished, but the former JobMaster did not record it.
    final: tuple[IntermediateResult, ...]
    #: The states of coordinators by vertex and operator id.
    coordinator_states: Mapping[JobVertexID, Mapping[str, bytes]]


def check_decisions(graph: ExecutionGraph, decisions: Iterable[Decision]) -> None:
    """Raises: CorruptStateError if the decisions do not belong to this job."""
    for decision in decisions:
        vertex = graph.job_vertices.get(decision.vertex_id)
        if vertex is None or not vertex.is_undecided or not 1 <= decision.parallelism <= vertex.max_parallelism:
            raise CorruptStateError(f"the recorded parallelism of vertex {decision.vertex_id} belongs to another job")
        edges = decision.slices
        if edges is not None and [len(edge) for edge in edges] != [decision.parallelism] * len(vertex.inputs):
            raise CorruptStateError(f"the recorded inputs of vertex {vertex.name!r} belong to another job")


def restore_finished_tasks(
    graph: ExecutionGraph,
    regions: PipelinedRegions,
    partitions: JobMasterPartitionTracker,
    recorded: RecordedJob,
    held: frozenset[str],
    now_ms: int,
    *,
    keeps_finished: bool = True,
) -> RestoredTasks:
    """Restores the graph. Call it before anything is scheduled.

    Args:
        held: the ids of the result partitions that TaskExecutors still have, or that are stored at the JobMaster.
        keeps_finished: False without job recovery: only settled tasks stay finished.
    """
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    for job_vertex in graph.job_vertices.values():
        for result in job_vertex.results:
            stored = recorded.final.get(result.id)
            if stored is not None:
                partitions.restore_final(result, stored)
    final = []
    for vertex_id, execution in recorded.finished.items():
        vertex = vertices.get(vertex_id)
        if vertex is not None:
            vertex.restore(execution)
            final += partitions.produced(vertex, held)
    settled = settled_vertices(graph)
    unusable = [
        vertex
        for vertex in vertices.values()
        if _has_finished(vertex)
        and vertex.id.job_vertex_id not in settled
        and (not keeps_finished or vertex.id in recorded.uncovered)
    ]
    dropped = _run_again(unusable, partitions, now_ms)
    if keeps_finished:
        dropped = []  # the log shows that no snapshot covers them
    incomplete = _unfinished(vertices.values())
    torn = {member for vertex_id in incomplete for member in regions.region_of(vertex_id).vertex_ids} - incomplete
    dropped += _run_again([vertices[vertex_id] for vertex_id in sorted(torn)], partitions, now_ms)
    # A lost result that an undecided vertex will read. Readers that exist ask for it themselves.
    awaited = {
        vertex.id
        for vertex in vertices.values()
        if _has_finished(vertex)
        for partition in vertex.produced
        if partitions.is_missing(partition)
        and not all(consumer.is_initialized for consumer in partition.result.consumers)
    }
    strategy = RestartPipelinedRegionFailoverStrategy(graph, regions, partitions.is_missing, lambda _: False)
    needed = strategy.tasks_needing_restart(_unfinished(vertices.values()) | awaited)
    finished = [
        vertices[vertex_id]
        for vertex_id in sorted(needed)
        if _has_finished(vertices[vertex_id]) and vertex_id.job_vertex_id not in settled
    ]
    dropped += _run_again(finished, partitions, now_ms)
    kept = {vertex.id.job_vertex_id for vertex in vertices.values() if _has_finished(vertex)}
    states = {vertex_id: states for vertex_id, states in recorded.snapshots.items() if vertex_id in kept}
    return RestoredTasks(tuple(dropped), tuple(final), states)


def _unfinished(vertices: Iterable[ExecutionVertex]) -> set[ExecutionVertexID]:
    return {vertex.id for vertex in vertices if not _has_finished(vertex)}


def _has_finished(vertex: ExecutionVertex) -> bool:
    return vertex.current.state is ExecutionState.FINISHED


def _run_again(
    vertices: Iterable[ExecutionVertex], partitions: JobMasterPartitionTracker, now_ms: int
) -> list[ExecutionAttemptID]:
    dropped = []
    for vertex in vertices:
        dropped.append(vertex.current.attempt_id)
        partitions.discard(vertex)
        vertex.reset_for_new_execution(now_ms)
    return dropped
