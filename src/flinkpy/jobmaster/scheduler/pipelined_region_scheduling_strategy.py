"""PipelinedRegionSchedulingStrategy: a region is scheduled as a whole, once everything it reads from outside is there.

Source: org.apache.flink.runtime.scheduler.strategy.PipelinedRegionSchedulingStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flinkpy.common.ids import ExecutionVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResultPartition
from flinkpy.jobmaster.scheduler.pipelined_region import PipelinedRegion, PipelinedRegions


class PipelinedRegionSchedulingStrategy:
    """Says which regions to schedule now. Keeps no state but the graph's.

    `is_available`: a finished blocking partition can be read.
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
        """Of the restarted tasks; a region whose inputs are being made again waits for `regions_after_finish`."""
        indexes = sorted({self._regions.region_of(vertex_id).index for vertex_id in vertex_ids})
        return self._schedulable([self._regions.regions[index] for index in indexes])

    def regions_after_finish(self, finished: ExecutionVertexID) -> list[PipelinedRegion]:
        """Regions that waited for a blocking result of this subtask."""
        candidates: dict[int, PipelinedRegion] = {}
        for partition in self._graph.vertex(finished).produced:
            result = partition.result
            if not result.is_blocking:
                continue
            # Where everybody reads every partition, nobody can begin before the last of them is there.
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
