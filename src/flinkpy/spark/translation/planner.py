"""What of a region becomes which pass over which frames, without Spark.

A *unit* is a pass (a chain of operators in Python workers), or a node that Spark runs by itself. Records go between
units in frames; within a pass, from operator to operator.

A node joins the pass of its producer where that is in Python, it has this one input, and the edge is a forward edge
between the same number of subtasks. Whether Spark has it itself does not matter then: its columns would have to leave
the worker for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.graph.operator_specs import PartitionSpec, SinkSpec
from flinkpy.graph.partitioning import FORWARD
from flinkpy.graph.spark_region import SparkEdge, SparkNode, SparkRegion

#: The stream of a node that others read: (node, side output).
StreamKey = tuple[int, str | None]


@dataclass(slots=True)
class PassUnit:
    """Operators of one chain, the head first, each after the one that feeds it."""

    nodes: list[SparkNode]
    #: What others read of it.
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
        """Whether an operator's result depends on how many subtasks there are."""
        return any(isinstance(node.spec, PartitionSpec) for node in self.nodes)


@dataclass(slots=True)
class PassOutput:
    """`edge`: the exchange it is for, with `consumer`; None: a frame for Spark's own operators or a native region.
    `type_info`: of the records.
    """

    stream: StreamKey
    type_info: Any
    edge: SparkEdge | None = None
    consumer: SparkNode | None = None


@dataclass(slots=True)
class SparkUnit:
    """A node that Spark runs by itself."""

    node: SparkNode


Unit = PassUnit | SparkUnit


@dataclass(slots=True)
class Plan:
    """`units`: producers before their consumers. `pass_of`: by node, where it is in one."""

    units: list[Unit]
    pass_of: dict[int, PassUnit]


def plan(region: SparkRegion, runs_in_spark: Callable[[SparkNode], bool]) -> Plan:
    """`runs_in_spark`: whether Spark has the node itself, given columns."""
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
    return Plan(units, pass_of)


def _chain_to_join(region: SparkRegion, node: SparkNode, pass_of: dict[int, PassUnit]) -> PassUnit | None:
    if len(node.inputs) != 1:
        return None
    edge = node.inputs[0]
    chain = pass_of.get(edge.source)
    if chain is None or edge.partitioning_kind != FORWARD:
        return None
    return chain if region.node(edge.source).parallelism == node.parallelism else None


def _add_outputs(region: SparkRegion, units: list[Unit], pass_of: dict[int, PassUnit]) -> None:
    """What each pass has to put out: an exchange per edge to the head of another one; one frame per stream for all who
    read it as it is.
    """

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
