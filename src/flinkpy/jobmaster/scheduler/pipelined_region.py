"""Pipelined regions: sets of tasks that exchange data while running, and so must run at the same time.

Source: org.apache.flink.runtime.executiongraph.failover.SchedulingPipelinedRegionComputeUtil.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.ids import ExecutionVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


@dataclass(frozen=True, slots=True)
class PipelinedRegion:
    """`vertex_ids` in topological order."""

    index: int
    vertex_ids: tuple[ExecutionVertexID, ...]


class PipelinedRegions:
    """The regions of a graph: connected components over pipelined edges.

    Regions that wait for each other over blocking edges are merged: one alone could never run.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._parent: dict[ExecutionVertexID, ExecutionVertexID] = {vertex.id: vertex.id for vertex in graph.vertices}
        for vertex in graph.vertices:
            for gate in vertex.consumed:
                for partition in gate.partitions:
                    if not partition.result.is_blocking:
                        self._union(vertex.id, partition.producer.id)
        while self._merge_one_cycle(graph):
            pass
        members: dict[ExecutionVertexID, list[ExecutionVertexID]] = {}
        for vertex in graph.vertices:
            members.setdefault(self._find(vertex.id), []).append(vertex.id)
        self.regions = [PipelinedRegion(index, tuple(ids)) for index, ids in enumerate(members.values())]
        self._region_of = {vertex_id: region for region in self.regions for vertex_id in region.vertex_ids}

    def has_finished(self, vertex: ExecutionVertex) -> bool:
        """Whether the subtask, and all that would run again with it, has finished."""
        region = self._region_of[vertex.id]
        return all(
            self._graph.vertex(vertex_id).current.state is ExecutionState.FINISHED for vertex_id in region.vertex_ids
        )

    def region_of(self, vertex_id: ExecutionVertexID) -> PipelinedRegion:
        return self._region_of[vertex_id]

    def _find(self, vertex_id: ExecutionVertexID) -> ExecutionVertexID:
        root = vertex_id
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[vertex_id] != root:
            self._parent[vertex_id], vertex_id = root, self._parent[vertex_id]
        return root

    def _union(self, one: ExecutionVertexID, other: ExecutionVertexID) -> None:
        first, second = self._find(one), self._find(other)
        if first != second:
            self._parent[second] = first

    def _merge_one_cycle(self, graph: ExecutionGraph) -> bool:
        """Find regions that wait for each other and merge them; False where there are none."""
        waits_for: dict[ExecutionVertexID, set[ExecutionVertexID]] = {}
        for vertex in graph.vertices:
            mine = self._find(vertex.id)
            targets = waits_for.setdefault(mine, set())
            for gate in vertex.consumed:
                for partition in gate.partitions:
                    theirs = self._find(partition.producer.id)
                    if theirs != mine:
                        targets.add(theirs)
        # Take away what waits for nothing, again and again; what is left has a cycle.
        while True:
            free = [root for root, targets in waits_for.items() if not targets]
            if not free:
                break
            for root in free:
                del waits_for[root]
            for targets in waits_for.values():
                targets.difference_update(free)
        if not waits_for:
            return False
        path: list[ExecutionVertexID] = []
        root = next(iter(waits_for))
        while root not in path:
            path.append(root)
            root = min(waits_for[root])
        cycle = path[path.index(root) :]
        for member in cycle[1:]:
            self._union(cycle[0], member)
        return True
