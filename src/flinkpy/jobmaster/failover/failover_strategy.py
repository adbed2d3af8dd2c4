"""Which tasks restart after one failed.

Source: RestartPipelinedRegionFailoverStrategy and RestartAllFailoverStrategy of
org.apache.flink.runtime.executiongraph.failover.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from flinkpy.common.errors import FlinkError, PartitionConnectionError, PartitionNotFoundError
from flinkpy.common.ids import ExecutionVertexID, IntermediateDataSetID, ResultPartitionID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResultPartition
from flinkpy.jobmaster.scheduler.pipelined_region import PipelinedRegion, PipelinedRegions

#: The key under which an error of a data connection names the partition it is about.
PARTITION_DETAIL = "result_partition_id"


class FailoverStrategy(Protocol):
    def tasks_needing_restart(self, failed: ExecutionVertexID, cause: FlinkError) -> frozenset[ExecutionVertexID]: ...


class RestartAllFailoverStrategy:
    def __init__(self, graph: ExecutionGraph) -> None:
        self._all = frozenset(vertex.id for vertex in graph.vertices)

    def tasks_needing_restart(self, failed: ExecutionVertexID, cause: FlinkError) -> frozenset[ExecutionVertexID]:
        return self._all


class RestartPipelinedRegionFailoverStrategy:
    """All tasks of the regions involved.

    Rules: the region of the failed task is involved; of an involved region, every region that consumes it is involved;
    and the region of a producer whose result is gone (the consumer said that it cannot be read).
    """

    def __init__(self, graph: ExecutionGraph, regions: PipelinedRegions) -> None:
        self._graph = graph
        self._regions = regions

    def tasks_needing_restart(self, failed: ExecutionVertexID, cause: FlinkError) -> frozenset[ExecutionVertexID]:
        lost_partition = _lost_partition(cause)
        involved: set[int] = set()
        queue = deque([self._regions.region_of(failed)])
        while queue:
            region = queue.popleft()
            if region.index in involved:
                continue
            involved.add(region.index)
            queue.extend(self._neighbours(region, lost_partition))
        return frozenset(vertex_id for index in involved for vertex_id in self._regions.regions[index].vertex_ids)

    def _neighbours(
        self, region: PipelinedRegion, lost: tuple[IntermediateDataSetID, int] | None
    ) -> list[PipelinedRegion]:
        found: list[PipelinedRegion] = []
        for vertex_id in region.vertex_ids:
            vertex = self._graph.vertex(vertex_id)
            for partition in vertex.produced:
                found += [self._regions.region_of(consumer.id) for consumer in partition.consumers]
            for gate in vertex.consumed:
                found += [
                    self._regions.region_of(partition.producer.id)
                    for partition in gate.partitions
                    if not self._is_available(partition, lost)
                ]
        return found

    @staticmethod
    def _is_available(partition: IntermediateResultPartition, lost: tuple[IntermediateDataSetID, int] | None) -> bool:
        return partition.result.is_blocking and (partition.result.id, partition.index) != lost


def failover_strategy(name: str, graph: ExecutionGraph, regions: PipelinedRegions) -> FailoverStrategy:
    """That of jobmanager.execution.failover-strategy: `full` or `region`."""
    if name == "full":
        return RestartAllFailoverStrategy(graph)
    return RestartPipelinedRegionFailoverStrategy(graph, regions)


def _lost_partition(cause: FlinkError) -> tuple[IntermediateDataSetID, int] | None:
    if not isinstance(cause, (PartitionConnectionError, PartitionNotFoundError)):
        return None
    text = cause.details.get(PARTITION_DETAIL)
    if not text:
        return None
    partition_id = ResultPartitionID.parse(text)
    return partition_id.data_set_id, partition_id.partition_index
