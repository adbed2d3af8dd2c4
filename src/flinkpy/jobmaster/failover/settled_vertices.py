"""Settled vertices: those that never run again, whatever fails.

Once all committables of a sink are stored, nothing that was done to produce them is needed again. A vertex is settled
if all of its subtasks have finished and one of these is true:

  * It is a committer. What it has committed stays committed.
  * Nobody will read its results again: each of them is final (all committables of a sink, stored at the JobMaster), or
    is read by settled vertices only.

A vertex without results, such as a sink without a committer, is not settled: after a failure of the whole job it writes
again. A vertex that reads a pipelined result of an unsettled vertex is not settled, because it has to read the result
when the other one runs again.

Flink has no such rule: there a committer runs in the task of its writer. Pure.
"""

from __future__ import annotations

from flinkpy.common.ids import JobVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult


def settled_vertices(graph: ExecutionGraph) -> frozenset[JobVertexID]:
    """Returns the ids of all settled vertices."""
    settled = {vertex.id for vertex in graph.job_vertices.values() if _has_finished(vertex)}
    while True:
        unsettled = {vertex_id for vertex_id in settled if not _stays_settled(graph.job_vertices[vertex_id], settled)}
        if not unsettled:
            return frozenset(settled)
        settled -= unsettled


def _stays_settled(vertex: ExecutionJobVertex, settled: set[JobVertexID]) -> bool:
    if any(not result.is_blocking and result.producer.id not in settled for result in vertex.inputs):
        return False
    if vertex.job_vertex.is_committer:
        return True
    return bool(vertex.results) and all(_is_done_with(result, settled) for result in vertex.results)


def _is_done_with(result: IntermediateResult, settled: set[JobVertexID]) -> bool:
    return result.is_final or all(consumer.id in settled for consumer in result.consumers)


def _has_finished(vertex: ExecutionJobVertex) -> bool:
    return vertex.is_initialized and all(task.current.state is ExecutionState.FINISHED for task in vertex.task_vertices)
