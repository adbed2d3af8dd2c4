"""Which subtask reads which partition.

ALL_TO_ALL: everybody reads everybody; consumer i reads subpartition i of every partition.

POINTWISE spreads evenly in whichever direction is wider, neighbours staying neighbours:

    2 producers, 4 consumers: 0 -> 0 1, 1 -> 2 3        4 producers, 2 consumers: 0 1 -> 0, 2 3 -> 1

Source: org.apache.flink.runtime.executiongraph.EdgeManagerBuildUtil.
"""

from __future__ import annotations

from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ConsumedPartitions
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult


def pointwise_partitions(num_partitions: int, num_consumers: int, consumer: int) -> range:
    """The partitions that `consumer` reads over a POINTWISE edge; never empty."""
    if num_partitions >= num_consumers:
        return range(consumer * num_partitions // num_consumers, (consumer + 1) * num_partitions // num_consumers)
    partition = consumer * num_partitions // num_consumers
    return range(partition, partition + 1)


def connect_vertex_to_result(vertex: ExecutionJobVertex, edge_index: int, result: IntermediateResult) -> None:
    """Wire every subtask of `vertex` to the partitions it reads over its input edge `edge_index`."""
    input_index = vertex.job_vertex.inputs[edge_index].input_index
    result.consumers.append(vertex)
    for partition in result.partitions:
        partition.consumer_groups.append([])
    data_set = result.producer.job_vertex.results[result.result_index]
    data_set.consumer_max_parallelism = vertex.max_parallelism
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
            consumers = result.partitions[index].consumer_groups[-1]
            by_subpartition.setdefault(len(consumers), []).append(index)
            consumers.append(consumer)
        for subpartition, partition_indexes in by_subpartition.items():
            partitions = tuple(result.partitions[index] for index in partition_indexes)
            consumer.consumed.append(ConsumedPartitions(edge_index, input_index, subpartition, partitions))
