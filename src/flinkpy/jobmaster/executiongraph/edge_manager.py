"""Which subtask reads which partition.

Over a pipelined edge: ALL_TO_ALL, everybody reads everybody; consumer i reads subpartition i of every partition.
POINTWISE spreads evenly in whichever direction is wider, neighbours staying neighbours:

    2 producers, 4 consumers: 0 -> 0 1, 1 -> 2 3        4 producers, 2 consumers: 0 1 -> 0, 2 3 -> 1

A blocking result is cut when its consumer is known: by default into ranges of subpartitions as long as each other,
otherwise as `flinkpy.jobmaster.scheduler.adaptive_batch` says.

Source: org.apache.flink.runtime.executiongraph.EdgeManagerBuildUtil.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinkpy.jobmaster.executiongraph.execution_vertex import ConsumedPartitions
from flinkpy.jobmaster.executiongraph.input_slices import InputSlice, even_slices

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
    from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult


#: Per input edge and subtask, what that subtask reads of the blocking result.
EdgeSlices = Sequence[Sequence[Sequence[InputSlice]]]


def pointwise_partitions(num_partitions: int, num_consumers: int, consumer: int) -> range:
    """The partitions that `consumer` reads over a POINTWISE edge; never empty."""
    if num_partitions >= num_consumers:
        return range(consumer * num_partitions // num_consumers, (consumer + 1) * num_partitions // num_consumers)
    partition = consumer * num_partitions // num_consumers
    return range(partition, partition + 1)


def connect_vertex_to_result(
    vertex: ExecutionJobVertex,
    edge_index: int,
    result: IntermediateResult,
    slices: Sequence[Sequence[InputSlice]] | None = None,
) -> None:
    """Wire every subtask of `vertex` to what it reads over its input edge `edge_index`. Both are initialized.

    `slices`: of a blocking result, per subtask; None: evenly.
    """
    if result.is_blocking:
        if slices is None:
            slices = even_slices(
                len(result.partitions),
                result.partitions[0].num_subpartitions,
                vertex.parallelism,
                is_broadcast=result.is_broadcast,
                is_pointwise=result.is_pointwise,
            )
        _connect_slices(vertex, edge_index, result, slices)
    else:
        _connect_pipelined(vertex, edge_index, result)


def _connect_slices(
    vertex: ExecutionJobVertex, edge_index: int, result: IntermediateResult, slices: Sequence[Sequence[InputSlice]]
) -> None:
    input_index = vertex.job_vertex.inputs[edge_index].input_index
    for consumer, own in zip(vertex.task_vertices, slices, strict=True):
        for piece in own:
            partitions = tuple(result.partitions[index] for index in piece.partitions)
            for partition in partitions:
                if consumer not in partition.consumers[-1:]:
                    partition.consumers.append(consumer)
            first, count = piece.subpartitions.first, len(piece.subpartitions)
            consumer.consumed.append(ConsumedPartitions(edge_index, input_index, first, partitions, count))


def _connect_pipelined(vertex: ExecutionJobVertex, edge_index: int, result: IntermediateResult) -> None:
    input_index = vertex.job_vertex.inputs[edge_index].input_index
    num_partitions = len(result.partitions)
    for consumer in vertex.task_vertices:
        if result.is_pointwise:
            indexes = pointwise_partitions(num_partitions, vertex.parallelism, consumer.subtask_index)
        else:
            indexes = range(num_partitions)
        # A consumer's place among a partition's consumers differs between partitions only where consumers are appended
        # in different orders; one group per place keeps the descriptor right in every case.
        by_subpartition: dict[int, list[int]] = {}
        for index in indexes:
            consumers = result.partitions[index].consumers
            by_subpartition.setdefault(len(consumers), []).append(index)
            consumers.append(consumer)
        for subpartition, partition_indexes in by_subpartition.items():
            partitions = tuple(result.partitions[index] for index in partition_indexes)
            consumer.consumed.append(ConsumedPartitions(edge_index, input_index, subpartition, partitions))
