"""Chooses the number of subtasks of a region's operators from the cores and the data, as Spark does. Pure.

The parallelism of a job (`-p`) is the number of flinkpy's slots to use, and a region uses one of them. So an operator
whose parallelism the program does not set gets as many subtasks as Spark has cores, and more if there is much data. All
operators that are connected by forward edges get the same number.

Operators keep their number of subtasks if their results depend on it: those that work on whole partitions, and those
that every subtask or a function of the program sends records to. So do operators whose parallelism the program sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from flinkpy.graph.operator_specs import BatchSpec, GlobalColumnAggregateSpec, PartitionSpec, SortColumnsSpec
from flinkpy.graph.partitioning import BROADCAST, CUSTOM, FORWARD, GLOBAL
from flinkpy.graph.spark_region import SparkNode, SparkRegion

#: Input per subtask from which there are more subtasks than cores, up to Spark's number of shuffle partitions.
_MUCH_PER_SUBTASK = 16 << 20
#: Input per subtask from which there are more than that. A subtask sorts its records.
_MOST_PER_SUBTASK = 128 << 20
#: Partitionings whose results depend on the number of subtasks.
_DEPENDENT = frozenset({BROADCAST, CUSTOM, GLOBAL})
#: Operators that have a result per subtask.
_PER_SUBTASK = (PartitionSpec, SortColumnsSpec, GlobalColumnAggregateSpec)


@dataclass(frozen=True, slots=True)
class SparkCapacity:
    """The cores of Spark's executors, and the number of partitions of its own exchanges."""

    cores: int
    shuffle_partitions: int


def num_subtasks(capacity: SparkCapacity, input_bytes: int) -> int:
    """Returns the number of subtasks for an input of this size. 0 bytes: the size is not known."""
    much, most = (-(-input_bytes // size) for size in (_MUCH_PER_SUBTASK, _MOST_PER_SUBTASK))
    return max(1, capacity.cores, min(capacity.shuffle_partitions, much), most)


def with_num_subtasks(region: SparkRegion, node_ids: Iterable[int], wanted: int) -> SparkRegion:
    """Returns the region with this parallelism for those of the nodes whose results do not depend on it."""
    changed: dict[int, SparkNode] = {}
    for group in _changeable_groups(region, node_ids):
        number = min(wanted, *(node.max_parallelism for node in group))
        changed.update({node.id: replace(node, parallelism=number) for node in group})
    return replace(region, nodes=tuple(changed.get(node.id, node) for node in region.nodes))


def may_change(region: SparkRegion, node_ids: Iterable[int]) -> bool:
    """True if `with_num_subtasks` can change the parallelism of one of the nodes."""
    return bool(_changeable_groups(region, node_ids))


def _changeable_groups(region: SparkRegion, node_ids: Iterable[int]) -> list[list[SparkNode]]:
    wanted = set(node_ids)
    groups = _groups([node for node in region.nodes if node.id in wanted])
    return [group for group in groups if all(map(_may_change, group))]


def _may_change(node: SparkNode) -> bool:
    spec = node.spec.operator if isinstance(node.spec, BatchSpec) else node.spec
    return (
        node.has_default_parallelism
        and not isinstance(spec, _PER_SUBTASK)
        and all(edge.partitioning_kind not in _DEPENDENT for edge in node.inputs)
    )


def _groups(nodes: Iterable[SparkNode]) -> list[list[SparkNode]]:
    """Returns the nodes in groups that forward edges connect."""
    group_of: dict[int, list[SparkNode]] = {}
    for node in nodes:
        group = group_of[node.id] = [node]
        for edge in node.inputs:
            other = group_of.get(edge.source)
            if edge.partitioning_kind == FORWARD and other is not None and other is not group:
                other.extend(group)
                for member in group:
                    group_of[member.id] = other
                group = other
    return list({id(group): group for group in group_of.values()}.values())
