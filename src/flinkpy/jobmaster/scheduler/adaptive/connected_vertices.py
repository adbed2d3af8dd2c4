"""The vertices that must stop together when the parallelism of one of them changes.

Vertices that exchange data are connected anew when one of them gets another number of subtasks. Others go on: they
neither wait for a rescale nor repeat anything.

Source: org.apache.flink.runtime.executiongraph.failover.SchedulingPipelinedRegionComputeUtil. Flink's adaptive
scheduler stops the whole job.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkpy.common.ids import JobVertexID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph


def with_connected_vertices(graph: ExecutionGraph, vertex_ids: Iterable[JobVertexID]) -> frozenset[JobVertexID]:
    """Returns the given vertices and all that exchange data with them, directly or through others."""
    neighbours: dict[JobVertexID, set[JobVertexID]] = {vertex_id: set() for vertex_id in graph.job_vertices}
    for vertex in graph.job_vertices.values():
        for result in vertex.inputs:
            producer = result.producer.id
            neighbours[vertex.id].add(producer)
            neighbours[producer].add(vertex.id)
    found: set[JobVertexID] = set()
    open_ids = set(vertex_ids)
    while open_ids:
        vertex_id = open_ids.pop()
        found.add(vertex_id)
        open_ids |= neighbours[vertex_id] - found
    return frozenset(found)
