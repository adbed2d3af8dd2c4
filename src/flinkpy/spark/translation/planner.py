"""Plans the passes of a region. Pure; does not need Spark.

A *unit* is a pass (a chain of operators in Python workers), or a node that Spark runs itself. Records travel in
frames between units, and from operator to operator within a pass.

A node joins the pass of its producer if this is its only input and the edge is a forward edge between equal numbers of
subtasks. It does so even if Spark could run it, because its columns would have to leave the worker for that. Parts of
SQL queries do not, because no operator of flinkpy computes them.

If executors can be lost, a sink gets a pass of its own when its chain has other readers. The frame of such a chain is
kept for all of its readers, and Spark may compute a part of it again later. The sink would then write again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.graph.operator_specs import PartitionSpec, SinkSpec
from flinkpy.graph.partitioning import FORWARD, REBALANCE, RESCALE, SHUFFLE
from flinkpy.graph.spark_region import SparkEdge, SparkNode, SparkRegion
from flinkpy.graph.table_specs import SparkQuerySpec

#: Partitionings that allow a record to go to any subtask.
ANYWHERE = frozenset({FORWARD, REBALANCE, RESCALE, SHUFFLE})
#: A stream that others read: (node, side output).
StreamKey = tuple[int, str | None]


@dataclass(slots=True)
class PassUnit:
    """The operators of one chain, each after its producer."""

    nodes: list[SparkNode]
    #: The streams that others read.
    outputs: list[PassOutput] = field(default_factory=list)

    @property
    def head(self) -> SparkNode:
        return self.nodes[0]

    @property
    def name(self) -> str:
        return " -> ".join(node.name for node in self.nodes)

    @property
    def sinks(self) -> list[SparkNode]:
        return [node for node in self.nodes if isinstance(node.spec, SinkSpec)]

    @property
    def is_source(self) -> bool:
        return not self.head.inputs

    @property
    def wants_exact_parallelism(self) -> bool:
        """True if the result of an operator depends on the number of subtasks."""
        return any(isinstance(node.spec, PartitionSpec) for node in self.nodes)


@dataclass(slots=True)
class PassOutput:
    """A stream that a pass emits.

    Attributes:
        type_info: the type of the records.
        edge, consumer: the exchange that the stream is for. None for a frame that Spark's own operators or the tasks
            behind the region read.
    """

    stream: StreamKey
    type_info: Any
    edge: SparkEdge | None = None
    consumer: SparkNode | None = None


@dataclass(slots=True)
class SparkUnit:
    """A node that Spark runs without Python workers."""

    node: SparkNode


Unit = PassUnit | SparkUnit


@dataclass(slots=True)
class Plan:
    """The units of a region.

    Attributes:
        units: the units, producers before their consumers.
        pass_of: the pass of a node, for nodes that are in one.
    """

    units: list[Unit]
    pass_of: dict[int, PassUnit]


def plan(region: SparkRegion, runs_in_spark: Callable[[SparkNode], bool], *, separates_sinks: bool = False) -> Plan:
    """Returns the plan of a region.

    Args:
        runs_in_spark: returns True if Spark can run a node without Python workers.
        separates_sinks: True to give a sink a pass of its own if its chain has other readers.
    """
    units: list[Unit] = []
    pass_of: dict[int, PassUnit] = {}
    for node in region.nodes:
        if (chain := _chain_to_join(region, node, pass_of)) is not None:
            chain.nodes.append(node)
            pass_of[node.id] = chain
        elif runs_in_spark(node):
            units.append(SparkUnit(node))
        else:
            pass_of[node.id] = unit = PassUnit([node])
            units.append(unit)
    _add_outputs(region, units, pass_of)
    if separates_sinks:
        units = _with_separate_sinks(units, pass_of)
    return Plan(units, pass_of)


def _chain_to_join(region: SparkRegion, node: SparkNode, pass_of: dict[int, PassUnit]) -> PassUnit | None:
    if len(node.inputs) != 1 or isinstance(node.spec, SparkQuerySpec):
        return None
    edge = node.inputs[0]
    chain = pass_of.get(edge.source)
    if chain is None or edge.partitioning_kind != FORWARD:
        return None
    return chain if region.node(edge.source).parallelism == node.parallelism else None


def _with_separate_sinks(units: list[Unit], pass_of: dict[int, PassUnit]) -> list[Unit]:
    """Moves the sinks of passes that have outputs to passes of their own, each after its producer."""
    result: list[Unit] = []
    for unit in units:
        result.append(unit)
        if not isinstance(unit, PassUnit) or not unit.outputs or unit.head in unit.sinks:
            continue
        for sink in unit.sinks:
            unit.nodes.remove(sink)
            pass_of[sink.id] = alone = PassUnit([sink])
            (edge,) = sink.inputs
            unit.outputs.append(PassOutput((edge.source, edge.tag), edge.type_info, edge, sink))
            result.append(alone)
    return result


def _add_outputs(region: SparkRegion, units: list[Unit], pass_of: dict[int, PassUnit]) -> None:
    """Adds the outputs of each pass: an exchange per edge to another pass, and one frame per stream for all others."""

    def add_plain(stream: StreamKey, type_info: Any) -> None:
        producer = pass_of.get(stream[0])
        if producer is not None and all(one.edge is not None or one.stream != stream for one in producer.outputs):
            producer.outputs.append(PassOutput(stream, type_info))

    for unit in units:
        if isinstance(unit, PassUnit):
            for edge in unit.head.inputs:
                if edge.source in pass_of:
                    pass_of[edge.source].outputs.append(
                        PassOutput((edge.source, edge.tag), edge.type_info, edge, unit.head)
                    )
        else:
            for edge in unit.node.inputs:
                add_plain((edge.source, edge.tag), edge.type_info)
    for output in region.outputs:
        add_plain((output.node, output.tag), output.type_info)
