"""A part of a StreamGraph that runs in Spark, as plain data.

The client cuts it out (`graph.spark_regions`); a TaskExecutor hosts it as one task, whose head is the SparkRegionSpec;
`flinkpy.spark` translates it to DataFrames. Everything in here is pickled with the spec, as functions are.
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
    """Records that one input of a node gets.

    `source`: id of a node of the same region, or -1-k for the region's input k. `tag`: id of the source's side output;
    None: its main output (always None for a region's input). `partitioning_kind`: of `graph.partitioning`.
    `partitioner`: the object of `network.partitioner` that the exchange would run with, keys and user's functions in
    it. `type_info`: of the records; None: pickled Python objects.
    """

    source: int
    input_index: int
    tag: str | None
    partitioning_kind: str
    partitioner: Any
    type_info: Any = None

    @property
    def external_input(self) -> int | None:
        """The position in the region's `inputs`, or None where the source is a node of the region."""
        return -1 - self.source if self.source < 0 else None


@dataclass(frozen=True, slots=True)
class SparkNode:
    """One operator. `spec` is what it does in batch mode; `inputs` are ordered by `input_index`, a union has several
    of one index, a source has none. `max_parallelism` is positive: it is the number of key groups.
    """

    id: int
    name: str
    uid: str
    operator_id: str
    spec: OperatorSpec
    parallelism: int
    inputs: tuple[SparkEdge, ...] = ()
    max_parallelism: int = 128


@dataclass(frozen=True, slots=True)
class SparkInput:
    """What a native region sends. `type_info`: of the records. `name`: of the producer."""

    type_info: Any
    partitioning_kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class SparkOutput:
    """What a native region consumes: the main output of a node, or its side output `tag`."""

    node: int
    tag: str | None
    type_info: Any


@dataclass(frozen=True, slots=True)
class SparkRegion:
    """Nodes in topological order.

    `committables`: ids of the sinks that commit. Their committables leave the region as further outputs, after
    `outputs`; native tasks commit them.
    `options`: configuration of the job that the backend reads (`execution.batch.*` and the like), by key.
    """

    nodes: tuple[SparkNode, ...]
    inputs: tuple[SparkInput, ...] = ()
    outputs: tuple[SparkOutput, ...] = ()
    committables: tuple[int, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_outputs(self) -> int:
        """Including those of committables."""
        return len(self.outputs) + len(self.committables)

    def output_of_committables(self, node_id: int) -> int:
        """The number of the output by which the committables of this sink leave the region."""
        return len(self.outputs) + self.committables.index(node_id)

    def type_of_output(self, number: int) -> Any:
        """The type of the records of an output; None for committables, which are bytes."""
        return self.outputs[number].type_info if number < len(self.outputs) else None

    def node(self, node_id: int) -> SparkNode:
        return next(node for node in self.nodes if node.id == node_id)


@dataclass(frozen=True, slots=True)
class SparkRegionSpec(OperatorSpec):
    """A task that hosts a region. Input k of the region is input k of the operator; output n is the side output whose
    tag is `output_tag(n)`.
    """

    region: SparkRegion


def output_tag(number: int) -> str:
    """Tag of the side output by which a region's task emits the region's output of this number."""
    return f"out-{number}"


def output_number(tag: str) -> int:
    """The number that `output_tag` made this of."""
    return int(tag.removeprefix("out-"))
