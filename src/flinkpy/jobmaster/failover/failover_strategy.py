"""Which tasks restart after some have failed, or results have been lost.

Source: RestartPipelinedRegionFailoverStrategy and RestartAllFailoverStrategy of
org.apache.flink.runtime.executiongraph.failover.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from flinkpy.common.ids import ExecutionVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResultPartition
from flinkpy.jobmaster.scheduler.pipelined_region import PipelinedRegion, PipelinedRegions

#: What sends a record where it was sent before: by its content, or everything to the same places.
_DETERMINISTIC = frozenset({"HASH", "BROADCAST", "FORWARD", "GLOBAL"})


class FailoverStrategy(Protocol):
    def tasks_needing_restart(self, failed: Iterable[ExecutionVertexID]) -> frozenset[ExecutionVertexID]: ...


class RestartAllFailoverStrategy:
    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph

    def tasks_needing_restart(self, failed: Iterable[ExecutionVertexID]) -> frozenset[ExecutionVertexID]:
        return frozenset(vertex.id for vertex in self._graph.vertices)


class RestartPipelinedRegionFailoverStrategy:
    """All tasks of the regions involved.

    Rules:
      * The regions of the failed tasks are involved.
      * So are those that made what an involved region reads, where that is missing: lost, damaged, or released.
      * So are the regions that read what an involved region makes anew: all that have begun and not finished. Those
        that have finished, too, where the records may come out in other subpartitions this time: the partitioner is
        not deterministic, or it passes on (FORWARD) what came out of such a one, or out of a source whose other
        subtasks still run, or run again, and may take over its splits.

    A region that has not begun is never involved: it will read what there is when it begins.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        regions: PipelinedRegions,
        is_missing: Callable[[IntermediateResultPartition], bool],
        runs_again: Callable[[ExecutionVertexID], bool],
    ) -> None:
        self._graph = graph
        self._regions = regions
        #: A result can only be read again when it has been made anew.
        self._is_missing = is_missing
        #: A restart waits for the subtask.
        self._runs_again = runs_again

    def tasks_needing_restart(self, failed: Iterable[ExecutionVertexID]) -> frozenset[ExecutionVertexID]:
        search = _Search(self._graph, self._regions, self._is_missing, self._runs_again)
        for vertex_id in failed:
            search.involve(self._regions.region_of(vertex_id), is_different=False)
        return search.run()


class _Search:
    """One walk over the regions."""

    def __init__(
        self,
        graph: ExecutionGraph,
        regions: PipelinedRegions,
        is_missing: Callable[[IntermediateResultPartition], bool],
        runs_again: Callable[[ExecutionVertexID], bool],
    ) -> None:
        self._graph = graph
        self._regions = regions
        self._is_missing = is_missing
        self._runs_again = runs_again
        #: By region: whether its tasks may read other records than the last time.
        self._involved: dict[int, bool] = {}
        self._queue: deque[PipelinedRegion] = deque()

    def involve(self, region: PipelinedRegion, *, is_different: bool) -> None:
        known = self._involved.get(region.index)
        if known is None or (is_different and not known):
            self._involved[region.index] = is_different
            self._queue.append(region)

    def run(self) -> frozenset[ExecutionVertexID]:
        while self._queue:
            region = self._queue.popleft()
            for vertex_id in region.vertex_ids:
                vertex = self._graph.vertex(vertex_id)
                self._involve_producers(vertex)
                self._involve_consumers(vertex, self._involved[region.index])
            if not self._queue:
                self._mark_sources()
        return frozenset(vertex_id for index in self._involved for vertex_id in self._regions.regions[index].vertex_ids)

    def _involve_producers(self, vertex: ExecutionVertex) -> None:
        for gate in vertex.consumed:
            for partition in gate.partitions:
                if self._is_missing(partition):
                    self.involve(self._regions.region_of(partition.producer.id), is_different=False)

    def _involve_consumers(self, vertex: ExecutionVertex, is_different: bool) -> None:
        for partition in vertex.produced:
            if not partition.result.is_blocking:
                continue  # its consumers are of the same region
            name = partition.result.partitioner_name
            goes_elsewhere = name not in _DETERMINISTIC or (name == "FORWARD" and is_different)
            for consumer in partition.consumers:
                region = self._regions.region_of(consumer.id)
                if self._involved.get(region.index, False) >= goes_elsewhere and region.index in self._involved:
                    continue
                if self._is(region, ExecutionState.CREATED):
                    continue
                if goes_elsewhere or not self._is(region, ExecutionState.FINISHED):
                    self.involve(region, is_different=goes_elsewhere)

    def _mark_sources(self) -> None:
        """The splits of a source subtask that runs again go to whoever of the source asks first: it and the others that
        run may read other splits than those whose records have been passed on.
        """
        for index in list(self._involved):
            for vertex_id in self._regions.regions[index].vertex_ids:
                vertex = self._graph.vertex(vertex_id)
                if vertex.consumed or not vertex.job_vertex.has_coordinators:
                    continue
                others = [other for other in vertex.job_vertex.task_vertices if other is not vertex]
                for other in filter(self._takes_splits, others):
                    self._involve_consumers(vertex, is_different=True)
                    self._involve_consumers(other, is_different=True)

    def _takes_splits(self, vertex: ExecutionVertex) -> bool:
        return (
            vertex.current.state is not ExecutionState.FINISHED
            or self._regions.region_of(vertex.id).index in self._involved
            or self._runs_again(vertex.id)
        )

    def _is(self, region: PipelinedRegion, state: ExecutionState) -> bool:
        return all(self._graph.vertex(vertex_id).current.state is state for vertex_id in region.vertex_ids)


def failover_strategy(
    name: str,
    graph: ExecutionGraph,
    regions: PipelinedRegions,
    is_missing: Callable[[IntermediateResultPartition], bool],
    runs_again: Callable[[ExecutionVertexID], bool],
) -> FailoverStrategy:
    """That of jobmanager.execution.failover-strategy: `full` or `region`."""
    if name == "full":
        return RestartAllFailoverStrategy(graph)
    return RestartPipelinedRegionFailoverStrategy(graph, regions, is_missing, runs_again)
