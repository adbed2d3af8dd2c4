"""A region is checked without a Spark, and each of its nodes once."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common import Types
from flinkpy.datastream.expressions import col
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.partitioning import FORWARD
from flinkpy.graph.spark_region import SparkEdge, SparkNode, SparkRegion
from flinkpy.network.partitioner import ForwardPartitioner
from flinkpy.spark import columns
from flinkpy.spark.columns.functions import ANYTHING, F, Window, only_checked
from flinkpy.spark.translation.places import Obstacles

PAIR = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])


def a_filter() -> SparkNode:
    edge = SparkEdge(-1, 0, None, FORWARD, ForwardPartitioner(), PAIR)
    spec = specs.FilterBatchesSpec(None, expression=col("a") * 2 > col("b"))
    return SparkNode(1, "filter", "", f"{1:032x}", spec, 1, (edge,))


def test_columns_of_a_check_are_anything_and_need_no_spark() -> None:
    with only_checked():
        value = F.col("a") * 2 + 1 - F.lit(3) / F.col("b") % 5
        assert value is ANYTHING
        assert (~((value < 3) | (value == 4)) & value[0].isNull()) is ANYTHING
        assert F.sum(-value).over(Window.partitionBy(value).orderBy("a")).alias("total") is ANYTHING


def test_a_check_ends_with_its_context() -> None:
    with only_checked():
        pass
    with pytest.raises(AssertionError):  # PySpark's own, because no Spark runs here
        F.col("a")


def test_a_node_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    check = columns.obstacle_of
    monkeypatch.setattr(columns, "obstacle_of", lambda *given: checked.append(given[0].id) or check(*given))
    node = a_filter()
    obstacles = Obstacles(SparkRegion((node,)))
    assert [obstacles.of(node) for _ in range(3)] == [None, None, None]
    assert checked == [1]
