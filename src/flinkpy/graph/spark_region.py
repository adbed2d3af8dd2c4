"""SparkRegion: describes as plain data a part of a StreamGraph that runs in Spark.

The client creates it (`graph.spark_regions`). A TaskExecutor hosts it as one task, whose head is the SparkRegionSpec.
`flinkpy.spark` translates it to DataFrames. It is pickled with the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkpy.graph.operator_specs import OperatorSpec

#: The `task_kind` of a vertex that hosts a region.
SPARK_TASK = "SPARK"


@dataclass(frozen=True, slots=True)
class SparkEdge:
    """An edge to one input of a node.

    Attributes:
        source: the id of a node of the same region, or -1-k for the region's input k.
        tag: the id of the source's side output; None for its main output. Always None for an input of the region.
        partitioning_kind: a kind of `graph.partitioning`.
        partitioner: the partitioner of `network.partitioner` that a native exchange would use, with the user's
            functions.
        type_info: the type of the records; None for pickled Python objects.
    """

    source: int
    input_index: int
    tag: str | None
    partitioning_kind: str
    partitioner: Any
    type_info: Any = None


@dataclass(frozen=True, slots=True)
class SparkNode:
    """One operator.

    Attributes:
        spec: the spec for batch mode.
        inputs: the edges, ordered by `input_index`. A union has several with the same index, a source has none.
        max_parallelism: the number of key groups; always positive.
        has_default_parallelism: True if the program sets the parallelism of the job only, not of this operator.
    """

    id: int
    name: str
    uid: str
    operator_id: str
    spec: OperatorSpec
    parallelism: int
    inputs: tuple[SparkEdge, ...] = ()
    max_parallelism: int = 128
    has_default_parallelism: bool = False


@dataclass(frozen=True, slots=True)
class SparkInput:
    """Records from a native operator. `type_info` is their type, `name` the name of the producer."""

    type_info: Any
    partitioning_kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class SparkOutput:
    """An output that native operators read: the main output of a node, or its side output `tag`."""

    node: int
    tag: str | None
    type_info: Any


@dataclass(frozen=True, slots=True)
class SparkRegion:
    """A part of a StreamGraph that runs in Spark.

    Attributes:
        nodes: the nodes in topological order.
        committables: the ids of the committing sinks. Their committables leave the region as additional outputs, after
            `outputs`. Native tasks commit them.
        options: the options of the job that the backend reads (`execution.batch.*` and others), by key.
    """

    nodes: tuple[SparkNode, ...]
    inputs: tuple[SparkInput, ...] = ()
    outputs: tuple[SparkOutput, ...] = ()
    committables: tuple[int, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_outputs(self) -> int:
        """The number of outputs, including those for committables."""
        return len(self.outputs) + len(self.committables)

    def output_of_committables(self, node_id: int) -> int:
        """Returns the number of the output for the committables of this sink."""
        return len(self.outputs) + self.committables.index(node_id)

    def type_of_output(self, number: int) -> Any:
        """Returns the type of the records of an output; None for committables, which are bytes."""
        return self.outputs[number].type_info if number < len(self.outputs) else None

    def node(self, node_id: int) -> SparkNode:
        return next(node for node in self.nodes if node.id == node_id)


@dataclass(frozen=True, slots=True)
class SparkRegionSpec(OperatorSpec):
    """The operator that hosts a region.

    Input k of the region is input k of the operator. Output n of the region is the side output with the tag
    `output_tag(n)`.
    """

    region: SparkRegion


def output_tag(number: int) -> str:
    """Returns the tag of the side output for the region's output with this number."""
    return f"out-{number}"


def output_number(tag: str) -> int:
    """Returns the number of the output from its `output_tag`."""
    return int(tag.removeprefix("out-"))
