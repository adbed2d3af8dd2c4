"""Failover strategies: select the tasks that restart after a failure or after the loss of results.

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

#: Partitioners that send a record to the same subpartition when a task runs again.
_DETERMINISTIC = frozenset({"HASH", "BROADCAST", "FORWARD", "GLOBAL"})


class FailoverStrategy(Protocol):
    def tasks_needing_restart(self, failed: Iterable[ExecutionVertexID]) -> frozenset[ExecutionVertexID]: ...


class RestartAllFailoverStrategy:
    """Restarts all tasks of the job."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph

    def tasks_needing_restart(self, failed: Iterable[ExecutionVertexID]) -> frozenset[ExecutionVertexID]:
        return frozenset(vertex.id for vertex in self._graph.vertices)


class RestartPipelinedRegionFailoverStrategy:
    """Restarts all tasks of the involved regions.

    Rules:
      * The regions of the failed tasks are involved.
      * If an involved region reads a result that is missing (lost, damaged or released), the region that produces the
        result is involved.
      * If an involved region produces a result again, all regions that read it are involved if they have started but
        not finished.
      * Such a reader is involved even if it has finished, if its records may now arrive in other subpartitions. This is
        the case if the partitioner is not deterministic, or if it is FORWARD and its input has this property, or comes
        from a source whose splits may be taken over by other subtasks that still run, or run again.

    A region that has not started is never involved. It reads the new results when it starts.
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
        #: True for a result that cannot be read until it is produced again.
        self._is_missing = is_missing
        #: True for a subtask with a pending restart.
        self._runs_again = runs_again
        #: The involved regions by index. True: the tasks of the region may read other records than the last time.
        self._involved: dict[int, bool] = {}
        self._queue: deque[PipelinedRegion] = deque()

    def tasks_needing_restart(self, failed: Iterable[ExecutionVertexID]) -> frozenset[ExecutionVertexID]:
        self._involved = {}
        for vertex_id in failed:
            self._involve(self._regions.region_of(vertex_id), is_different=False)
        while self._queue:
            region = self._queue.popleft()
            for vertex_id in region.vertex_ids:
                vertex = self._graph.vertex(vertex_id)
                self._involve_producers(vertex)
                self._involve_consumers(vertex, self._involved[region.index])
            if not self._queue:
                self._mark_sources()
        return frozenset(vertex_id for index in self._involved for vertex_id in self._regions.regions[index].vertex_ids)

    def _involve(self, region: PipelinedRegion, *, is_different: bool) -> None:
        known = self._involved.get(region.index)
        if known is None or (is_different and not known):
            self._involved[region.index] = is_different
            self._queue.append(region)

    def _involve_producers(self, vertex: ExecutionVertex) -> None:
        for gate in vertex.consumed:
            for partition in gate.partitions:
                if self._is_missing(partition):
                    self._involve(self._regions.region_of(partition.producer.id), is_different=False)

    def _involve_consumers(self, vertex: ExecutionVertex, is_different: bool) -> None:
        for partition in vertex.produced:
            if not partition.result.is_blocking:
                continue  # its consumers are in the same region
            if partition.result.is_final:
                continue  # its consumers read what is stored, not what is produced again
            name = partition.result.partitioner_name
            goes_elsewhere = name not in _DETERMINISTIC or (name == "FORWARD" and is_different)
            for consumer in partition.consumers:
                region = self._regions.region_of(consumer.id)
                if self._involved.get(region.index, False) >= goes_elsewhere and region.index in self._involved:
                    continue
                if self._is(region, ExecutionState.CREATED):
                    continue
                if goes_elsewhere or not self._is(region, ExecutionState.FINISHED):
                    self._involve(region, is_different=goes_elsewhere)

    def _mark_sources(self) -> None:
        """Involves the consumers of sources whose subtasks may read other splits when they run again.

        The splits of a restarted source subtask go to the subtask of the source that asks first. So this subtask, and
        the others that run, may read other splits than the ones whose records they have passed on.
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
    """Returns the strategy with this value of `jobmanager.execution.failover-strategy`: `full` or `region`."""
    if name == "full":
        return RestartAllFailoverStrategy(graph)
    return RestartPipelinedRegionFailoverStrategy(graph, regions, is_missing, runs_again)
