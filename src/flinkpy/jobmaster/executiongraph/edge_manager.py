"""Connects subtasks to the partitions that they read.

Pipelined edges:
  * ALL_TO_ALL: consumer i reads subpartition i of every partition.
  * POINTWISE: the wider side is divided evenly over the narrower one, in order:

    2 producers, 4 consumers: 0 -> 0 1, 1 -> 2 3        4 producers, 2 consumers: 0 1 -> 0, 2 3 -> 1

Blocking edges: the subpartitions are divided when the parallelism of the consumer is known. They are divided into
ranges of equal length, unless `flinkpy.jobmaster.scheduler.adaptive_parallelism` balances the ranges by size.

Source: org.apache.flink.runtime.executiongraph.EdgeManagerBuildUtil,
org.apache.flink.runtime.scheduler.adaptivebatch.util.VertexParallelismAndInputInfosDeciderUtils.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinkpy.jobmaster.executiongraph.execution_vertex import ConsumedPartitions

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
    from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class IndexRange:
    """The indexes from `first` to `last`, both included. Never empty. Raises at construction: ValueError."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise ValueError(f"invalid range: first={self.first}, last={self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"[{self.first}, {self.last}]"


@dataclass(frozen=True, slots=True)
class InputSlice:
    """A part of a blocking result: the given subpartitions of each of the given partitions."""

    partitions: IndexRange
    subpartitions: IndexRange


#: The slices of the blocking results that subtasks read: `slices[input edge][subtask]`.
EdgeSlices = Sequence[Sequence[Sequence[InputSlice]]]


def pointwise_partitions(num_partitions: int, num_consumers: int, consumer: int) -> range:
    """Returns the partitions that `consumer` reads over a POINTWISE edge. Never empty."""
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
    """Connects each subtask of `vertex` to the partitions that it reads over the input edge `edge_index`.

    The vertex and the producer of `result` must be initialized.

    Args:
        slices: the slices of a blocking result for each subtask; None: ranges of equal length.
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
        # The subpartition that a consumer reads is its position among the consumers of the partition. Partitions where
        # this position differs go into separate groups.
        by_subpartition: dict[int, list[int]] = {}
        for index in indexes:
            consumers = result.partitions[index].consumers
            by_subpartition.setdefault(len(consumers), []).append(index)
            consumers.append(consumer)
        for subpartition, partition_indexes in by_subpartition.items():
            partitions = tuple(result.partitions[index] for index in partition_indexes)
            consumer.consumed.append(ConsumedPartitions(edge_index, input_index, subpartition, partitions))


def even_slices(
    num_partitions: int, num_subpartitions: int, num_consumers: int, *, is_broadcast: bool, is_pointwise: bool
) -> list[list[InputSlice]]:
    """Divides a result evenly. Returns the slices of each of `num_consumers` subtasks.

    If there are fewer subpartitions than subtasks, the last subtasks read nothing.
    """
    partitions = IndexRange(0, num_partitions - 1)
    subpartitions = IndexRange(0, num_subpartitions - 1)
    if is_broadcast:
        return [[InputSlice(partitions, subpartitions)] for _ in range(num_consumers)]
    num_items = num_partitions * num_subpartitions if is_pointwise else num_subpartitions
    cut = even_ranges(num_items, num_consumers)
    slices = [
        pointwise_slices(own, num_subpartitions) if is_pointwise else [InputSlice(partitions, own)] for own in cut
    ]
    return [*slices, *([] for _ in range(num_consumers - len(cut)))]


def pointwise_slices(own: IndexRange, num_subpartitions: int) -> list[InputSlice]:
    """Converts a range of subpartitions, numbered across all partitions, to slices.

    Neighbouring partitions that the range covers completely become one slice.
    """
    slices: list[InputSlice] = []
    position = own.first
    while position <= own.last:
        partition, subpartition = divmod(position, num_subpartitions)
        whole = (own.last + 1 - position) // num_subpartitions
        if subpartition == 0 and whole:
            slices.append(
                InputSlice(IndexRange(partition, partition + whole - 1), IndexRange(0, num_subpartitions - 1))
            )
            position += whole * num_subpartitions
        else:
            last = min(num_subpartitions - 1, subpartition + own.last - position)
            slices.append(InputSlice(IndexRange(partition, partition), IndexRange(subpartition, last)))
            position += last - subpartition + 1
    return slices


def even_ranges(num_items: int, num_ranges: int) -> tuple[IndexRange, ...]:
    """Divides `num_items` into `num_ranges` neighbouring ranges whose lengths differ by at most one.

    Returns fewer ranges if there are fewer items.
    """
    num_ranges = max(1, min(num_items, num_ranges))
    return tuple(
        IndexRange(i * num_items // num_ranges, (i + 1) * num_items // num_ranges - 1) for i in range(num_ranges)
    )


def balanced_ranges(loads: Sequence[int], max_ranges: int, min_ranges: int = 1) -> tuple[IndexRange, ...]:
    """Divides the items into neighbouring ranges so that the largest load of a range is minimal.

    Returns fewer than `max_ranges` ranges if more would not reduce the largest load, but at least `min_ranges` if there
    are as many items. Items without load get no range of their own.

    Args:
        loads: the load of each item, not negative. At least one item.

    Raises: ValueError if there are no items.
    """
    if not loads:
        raise ValueError("cannot divide an empty list of loads into ranges")
    if not any(loads):
        return even_ranges(len(loads), min_ranges)
    ranges = _with_limit(loads, _least_limit(loads, max_ranges))
    return _split_up_to(ranges, loads, min(min_ranges, len(loads)))


def _least_limit(loads: Sequence[int], max_ranges: int) -> int:
    """Returns the smallest limit on the load of a range with which `max_ranges` ranges are enough."""
    low, high = max(loads), sum(loads)
    while low < high:
        middle = (low + high) // 2
        if len(_with_limit(loads, middle)) <= max_ranges:
            high = middle
        else:
            low = middle + 1
    return low


def _with_limit(loads: Sequence[int], limit: int) -> list[IndexRange]:
    """Returns as few ranges as possible whose loads do not exceed `limit`. No single item may exceed it."""
    ranges: list[IndexRange] = []
    first, load = 0, 0
    for index, item in enumerate(loads):
        if load + item > limit and load > 0:
            ranges.append(IndexRange(first, index - 1))
            first, load = index, 0
        load += item
    ranges.append(IndexRange(first, len(loads) - 1))
    return ranges


def _split_up_to(ranges: list[IndexRange], loads: Sequence[int], num_ranges: int) -> tuple[IndexRange, ...]:
    """Splits the range with the largest load, again and again, until there are `num_ranges`."""
    while len(ranges) < num_ranges:
        position = max(
            (i for i, one in enumerate(ranges) if len(one) > 1), key=lambda i: sum(loads[j] for j in ranges[i])
        )
        one = ranges[position]
        middle = _middle(one, loads)
        ranges[position : position + 1] = [IndexRange(one.first, middle), IndexRange(middle + 1, one.last)]
    return tuple(ranges)


def _middle(one: IndexRange, loads: Sequence[int]) -> int:
    """Returns the last item of the first half of the range by load. Never the last item of the range."""
    total, passed = sum(loads[i] for i in one), 0
    for index in range(one.first, one.last):
        passed += loads[index]
        if 2 * passed >= total:
            return index
    return one.last - 1
