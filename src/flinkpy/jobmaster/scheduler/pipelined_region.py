"""Pipelined regions: sets of tasks that exchange data while they run, so they must run at the same time.

PipelinedRegionSchedulingStrategy schedules a region as a whole, once all its inputs from other regions can be read.

Source: org.apache.flink.runtime.executiongraph.failover.SchedulingPipelinedRegionComputeUtil,
org.apache.flink.runtime.scheduler.strategy.PipelinedRegionSchedulingStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flinkpy.common.ids import ExecutionVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResultPartition


@dataclass(frozen=True, slots=True)
class PipelinedRegion:
    """One region. `vertex_ids` are in topological order."""

    index: int
    vertex_ids: tuple[ExecutionVertexID, ...]


class PipelinedRegions:
    """The regions of a graph: its connected components over pipelined edges.

    Regions that wait for each other over blocking edges are merged, because none of them could run alone.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._parent: dict[ExecutionVertexID, ExecutionVertexID] = {}
        self.regions: list[PipelinedRegion] = []
        self._region_of: dict[ExecutionVertexID, PipelinedRegion] = {}
        self.add(list(graph.vertices))

    def add(self, vertices: Sequence[ExecutionVertex]) -> None:
        """Adds new subtasks. They must have no pipelined edges to subtasks that were added before."""
        self._parent.update({vertex.id: vertex.id for vertex in vertices})
        for vertex in vertices:
            for gate in vertex.consumed:
                for partition in gate.partitions:
                    if not partition.result.is_blocking:
                        self._union(vertex.id, partition.producer.id)
        while self._merge_one_cycle(vertices):
            pass
        members: dict[ExecutionVertexID, list[ExecutionVertexID]] = {}
        for vertex in vertices:
            members.setdefault(self._find(vertex.id), []).append(vertex.id)
        for ids in members.values():
            region = PipelinedRegion(len(self.regions), tuple(ids))
            self.regions.append(region)
            self._region_of.update(dict.fromkeys(ids, region))

    def has_finished(self, vertex: ExecutionVertex) -> bool:
        """True if the whole region of the subtask has finished."""
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

    def _merge_one_cycle(self, vertices: Sequence[ExecutionVertex]) -> bool:
        """Merges one group of regions that wait for each other. Returns False if there is none."""
        waits_for: dict[ExecutionVertexID, set[ExecutionVertexID]] = {}
        new = {vertex.id for vertex in vertices}
        for vertex in vertices:
            mine = self._find(vertex.id)
            targets = waits_for.setdefault(mine, set())
            for gate in vertex.consumed:
                for partition in gate.partitions:
                    theirs = self._find(partition.producer.id)
                    if theirs != mine and partition.producer.id in new:
                        targets.add(theirs)
        # Remove regions that wait for nothing until there are none. The remaining ones contain a cycle.
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


class PipelinedRegionSchedulingStrategy:
    """Selects the regions to schedule. Has no state of its own.

    Args:
        is_available: returns True if a blocking partition can be read.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        regions: PipelinedRegions,
        is_available: Callable[[IntermediateResultPartition], bool],
    ) -> None:
        self._graph = graph
        self._regions = regions
        self._is_available = is_available

    def regions_to_start(self) -> list[PipelinedRegion]:
        return self._schedulable(self._regions.regions)

    def regions_to_restart(self, vertex_ids: Iterable[ExecutionVertexID]) -> list[PipelinedRegion]:
        """Returns the regions of the restarted tasks that can be scheduled now.

        A region whose inputs are produced again is returned by `regions_after_finish` later.
        """
        indexes = sorted({self._regions.region_of(vertex_id).index for vertex_id in vertex_ids})
        return self._schedulable([self._regions.regions[index] for index in indexes])

    def regions_after_finish(self, finished: ExecutionVertexID) -> list[PipelinedRegion]:
        """Returns the regions that waited for a blocking result of this subtask and can be scheduled now."""
        candidates: dict[int, PipelinedRegion] = {}
        for partition in self._graph.vertex(finished).produced:
            result = partition.result
            if not result.is_blocking:
                continue
            # If each consumer reads all partitions, none can start before the last partition is available.
            if result.is_pointwise or all(map(self._is_available, result.partitions)):
                for consumer in partition.consumers:
                    region = self._regions.region_of(consumer.id)
                    candidates[region.index] = region
        return self._schedulable([candidates[index] for index in sorted(candidates)])

    def _schedulable(self, regions: list[PipelinedRegion]) -> list[PipelinedRegion]:
        return [region for region in regions if self._is_new(region) and self._has_inputs(region)]

    def _is_new(self, region: PipelinedRegion) -> bool:
        return all(
            self._graph.vertex(vertex_id).current.state is ExecutionState.CREATED for vertex_id in region.vertex_ids
        )

    def _has_inputs(self, region: PipelinedRegion) -> bool:
        members = set(region.vertex_ids)
        return all(
            partition.producer.id in members or self._is_consumable(partition)
            for vertex_id in region.vertex_ids
            for gate in self._graph.vertex(vertex_id).consumed
            for partition in gate.partitions
        )

    def _is_consumable(self, partition: IntermediateResultPartition) -> bool:
        return self._is_available(partition) if partition.result.is_blocking else partition.is_consumable
