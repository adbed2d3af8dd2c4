"""The number of subtasks of a region follows Spark's cores and the data, unless results depend on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkpy.graph import operator_specs as specs
from flinkpy.graph.partitioning import BROADCAST, CUSTOM, FORWARD, GLOBAL, HASH, REBALANCE
from flinkpy.graph.spark_region import SparkEdge, SparkNode, SparkRegion
from flinkpy.spark.translation.parallelism import SparkCapacity, may_change, num_subtasks, with_num_subtasks

MIB = 1 << 20
MAP: Any = specs.MapSpec(None)  # type: ignore[arg-type]


def node(number: int, *inputs: tuple[int, str], **changes: Any) -> SparkNode:
    edges = tuple(SparkEdge(source, 0, None, kind, None) for source, kind in inputs)
    made = SparkNode(number, f"n{number}", "", f"{number:032x}", MAP, 1, edges, has_default_parallelism=True)
    return replace(made, **changes)


def numbers(*nodes: SparkNode, wanted: int = 8) -> list[int]:
    return [
        each.parallelism for each in with_num_subtasks(SparkRegion(nodes), [each.id for each in nodes], wanted).nodes
    ]


@pytest.mark.parametrize(
    ("input_bytes", "expected"),
    [(0, 4), (10 * MIB, 4), (160 * MIB, 10), (16 * 200 * MIB, 200), (100 * 1024 * MIB, 800)],
)
def test_there_is_a_subtask_per_core_and_more_for_much_data(input_bytes: int, expected: int) -> None:
    assert num_subtasks(SparkCapacity(cores=4, shuffle_partitions=200), input_bytes) == expected


def test_operators_without_a_parallelism_of_their_own_get_the_number() -> None:
    assert numbers(node(1), node(2, (1, FORWARD)), node(3, (2, HASH)), node(4, (3, REBALANCE))) == [8, 8, 8, 8]


def test_a_parallelism_that_the_program_sets_holds_for_all_that_forward_edges_connect() -> None:
    own = node(3, (2, FORWARD), has_default_parallelism=False)
    assert numbers(node(1), node(2, (1, HASH)), own, node(4, (3, HASH))) == [8, 1, 1, 8]


@pytest.mark.parametrize("kind", [BROADCAST, CUSTOM, GLOBAL])
def test_subtasks_that_others_address_keep_their_number(kind: str) -> None:
    assert numbers(node(1), node(2, (1, kind)), node(3, (2, FORWARD))) == [8, 1, 1]


def test_operators_on_whole_partitions_keep_their_number() -> None:
    whole = object.__new__(specs.PartitionSpec)
    assert numbers(node(1, spec=whole), node(2, (1, HASH))) == [1, 8]


def test_there_are_at_most_as_many_subtasks_as_key_groups() -> None:
    assert numbers(node(1), node(2, (1, HASH), max_parallelism=3)) == [8, 3]


def test_a_union_joins_the_groups_of_its_inputs() -> None:
    fixed = node(2, has_default_parallelism=False)
    assert numbers(node(1), fixed, node(3, (1, FORWARD), (2, FORWARD)), node(4)) == [1, 1, 1, 8]


def test_an_operator_that_spark_runs_keeps_its_number_and_does_not_bind_a_pass() -> None:
    region = SparkRegion((node(1, has_default_parallelism=False), node(2, (1, FORWARD))))
    assert [each.parallelism for each in with_num_subtasks(region, [2], 8).nodes] == [1, 8]


def test_only_nodes_that_may_change_are_worth_a_look() -> None:
    region = SparkRegion((node(1), node(2, (1, GLOBAL))))
    assert may_change(region, [1])
    assert not may_change(region, [2])
