"""The planner assigns operators and outputs to passes."""

from __future__ import annotations

from typing import Any

from flinkpy.graph import operator_specs as specs
from flinkpy.graph.partitioning import FORWARD, HASH, REBALANCE
from flinkpy.graph.spark_region import SparkEdge, SparkNode, SparkOutput, SparkRegion
from flinkpy.graph.table_specs import SparkQuerySpec
from flinkpy.network.partitioner import ForwardPartitioner, RebalancePartitioner
from flinkpy.spark.translation.pass_programs import may_have_accumulators, report_output_of
from flinkpy.spark.translation.planner import PassUnit, plan
from flinkpy.spark.translation.program import SINKS
from flinkpy.spark.translation.translator import has_repartition_by_id, values_of_partitions


def edge(source: int, kind: str = FORWARD, tag: str | None = None, input_index: int = 0) -> SparkEdge:
    return SparkEdge(
        source, input_index, tag, kind, ForwardPartitioner() if kind == FORWARD else RebalancePartitioner()
    )


def node(number: int, *inputs: SparkEdge, spec: Any = None, parallelism: int = 2) -> SparkNode:
    if spec is None:
        spec = specs.MapSpec(None) if inputs else specs.SourceSpec(None)
    return SparkNode(number, f"n{number}", "", f"{number:032x}", spec, parallelism, inputs)


def units_of(
    *nodes: SparkNode,
    in_spark: tuple[int, ...] = (),
    outputs: tuple[SparkOutput, ...] = (),
    separates_sinks: bool = False,
) -> list[Any]:
    region = SparkRegion(nodes, outputs=outputs)
    return list(plan(region, lambda one: one.id in in_spark, separates_sinks=separates_sinks).units)


def shapes(units: list[Any]) -> list[Any]:
    return [[one.id for one in unit.nodes] if isinstance(unit, PassUnit) else unit.node.id for unit in units]


def test_forward_edges_between_equally_many_subtasks_make_one_pass() -> None:
    units = units_of(node(1), node(2, edge(1)), node(3, edge(1)), node(4, edge(2)), node(5, edge(4), parallelism=1))
    assert shapes(units) == [[1, 2, 3, 4], [5]]


def test_exchanges_and_nodes_with_two_inputs_begin_a_pass() -> None:
    both = node(4, edge(2), edge(3, input_index=1))
    units = units_of(node(1), node(2, edge(1, HASH)), node(3, edge(1)), both)
    assert shapes(units) == [[1, 3], [2], [4]]
    assert [(output.stream, output.consumer.id) for output in units[0].outputs] == [((1, None), 2), ((3, None), 4)]


def test_spark_runs_its_own_operators_unless_columns_would_have_to_leave_the_worker() -> None:
    chained = units_of(node(1), node(2, edge(1)), in_spark=(2,))
    assert shapes(chained) == [[1, 2]]
    query = SparkQuerySpec("SELECT 1", (), ())
    assert shapes(units_of(node(1), node(2, edge(1), spec=query), in_spark=(2,))) == [[1], 2]
    behind_exchange = units_of(node(1), node(2, edge(1, REBALANCE)), node(3, edge(2)), in_spark=(2, 3))
    assert shapes(behind_exchange) == [[1], 2, 3]
    assert [(output.stream, output.edge) for output in behind_exchange[0].outputs] == [((1, None), None)]


def test_a_stream_with_several_readers_is_emitted_once() -> None:
    outputs = (SparkOutput(1, None, None), SparkOutput(1, "late", None))
    (unit, *_) = units_of(node(1), node(2, edge(1, HASH)), node(3, edge(1, HASH)), in_spark=(2, 3), outputs=outputs)
    assert [output.stream for output in unit.outputs] == [(1, None), (1, "late")]


def test_a_sink_whose_chain_has_other_readers_gets_a_pass_of_its_own_if_executors_can_be_lost() -> None:
    sinks = [node(number, edge(1), spec=specs.SinkSpec(None)) for number in (2, 3)]
    alone = units_of(node(1), *sinks, separates_sinks=True)
    assert shapes(alone) == [[1, 2, 3]], "nothing else reads the chain"
    other = node(4, edge(1, HASH))
    assert shapes(units_of(node(1), *sinks, other)) == [[1, 2, 3], [4]]
    units = units_of(node(1), *sinks, other, separates_sinks=True)
    assert shapes(units) == [[1], [2], [3], [4]]
    assert [(output.stream, output.consumer.id) for output in units[0].outputs] == [
        ((1, None), 4),
        ((1, None), 2),
        ((1, None), 3),
    ]


def test_accumulators_travel_with_an_output_whose_reader_passes_them_on() -> None:
    (unit, *_) = units_of(node(1), node(2, edge(1, HASH)), node(3, edge(1, HASH)), in_spark=(2,))
    assert [output.consumer is None for output in unit.outputs] == [True, False]
    assert report_output_of(unit, set()) == 1
    (alone, _) = units_of(node(1), node(2, edge(1, HASH)), in_spark=(2,))
    assert report_output_of(alone, set()) == SINKS
    assert report_output_of(alone, {(1, None)}) == 0


def test_only_functions_that_ask_for_their_context_may_have_accumulators() -> None:
    from flinkpy.datastream import MapFunction, RuntimeContext

    class Plain(MapFunction):
        def map(self, value: Any) -> Any:
            return value

    class Opened(Plain):
        def open(self, runtime_context: RuntimeContext) -> None:
            return

    assert not may_have_accumulators(PassUnit([node(1, edge(-1), spec=specs.MapSpec(Plain()))]))
    assert may_have_accumulators(PassUnit([node(1, edge(-1), spec=specs.MapSpec(Opened()))]))
    assert may_have_accumulators(PassUnit([node(1, edge(-1), spec=specs.BatchSpec(specs.ReduceSpec(None, Opened())))]))


def test_before_spark_4_1_the_hash_of_an_integer_selects_the_partition() -> None:
    assert has_repartition_by_id("4.1.0")
    assert has_repartition_by_id("5.0.0-preview1")
    assert not has_repartition_by_id("4.0.1")
    # Spark says: SELECT pmod(hash(12), 7), pmod(hash(0), 7), ... is 0, 1, ...
    assert values_of_partitions(7) == (12, 0, 1, 9, 3, 2, 11)
    assert len(set(values_of_partitions(200))) == 200
