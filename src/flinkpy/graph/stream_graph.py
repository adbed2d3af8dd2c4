"""StreamGraph: one node per operator and one edge per connection. Partitions and unions are resolved into edges.

Source: org.apache.flink.streaming.api.graph.{StreamGraph,StreamGraphGenerator}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import JobSubmissionError, UnsupportedOperationError
from flinkpy.common.names import check_name
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.graph.operator_specs import OperatorSpec
from flinkpy.graph.partitioning import BROADCAST, FORWARD, HASH, REBALANCE, Partitioning
from flinkpy.graph.spark_region import SparkRegionSpec, output_number
from flinkpy.graph.transformation import (
    ChainingStrategy,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)

DEFAULT_SLOT_SHARING_GROUP = "default"


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend that runs an operator, and the reason. `backend` is `auto` only until it has been decided."""

    backend: str
    reason: str


@dataclass(frozen=True, slots=True)
class StreamGraphOptions:
    """The settings of the environment, for operators that do not set them."""

    parallelism: int = 1
    #: -1 to derive it from the parallelism.
    max_parallelism: int = -1
    buffer_timeout_ms: int = 100
    is_chaining_enabled: bool = True
    is_chaining_with_different_max_parallelism_enabled: bool = True
    are_uids_generated: bool = True
    #: The resources of a slot of each slot sharing group that has numbers.
    slot_sharing_groups: Mapping[str, ResourceProfile] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class StreamEdge:
    """Connects a node to one input of another node."""

    source: StreamNode
    target: StreamNode
    partitioning: Partitioning
    input_index: int
    side_output_tag: str = ""
    #: True if consumers wait until all records have been written, even if other edges are pipelined.
    is_blocking: bool = False


@dataclass(slots=True, eq=False)
class StreamNode:
    """One operator."""

    id: int
    name: str
    transformation: OperatorTransformation
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    buffer_timeout_ms: int
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)
    #: The spec in batch mode, or that of a writer whose sink has a global committer, if it differs.
    batch_spec: OperatorSpec | None = None
    #: An optimised spec with the same results (see `column_optimizer`), and notes about the optimisations.
    optimized_spec: OperatorSpec | None = None
    notes: list[str] = field(default_factory=list)
    #: The backend that runs it; None in streaming mode.
    backend_choice: BackendChoice | None = None
    #: The nodes of the region that this node hosts.
    replaced: list[StreamNode] = field(default_factory=list)

    @property
    def spec(self) -> OperatorSpec:
        return self.optimized_spec or self.batch_spec or self.transformation.spec

    def note(self, what: str) -> None:
        """Adds a note about an optimisation to the plan."""
        self.notes.append(what)

    @property
    def chaining_strategy(self) -> ChainingStrategy:
        return self.transformation.chaining_strategy


@dataclass(slots=True)
class StreamGraph:
    """The nodes in topological order: producers come before consumers. Ids count from 1 in this order."""

    job_name: str
    options: StreamGraphOptions
    nodes: list[StreamNode] = field(default_factory=list)
    #: True in batch mode: the data set of an edge that is not chained is written completely before it is read.
    are_exchanges_blocking: bool = False

    @property
    def sources(self) -> list[StreamNode]:
        return [node for node in self.nodes if not node.in_edges]


@dataclass(frozen=True, slots=True)
class _Origin:
    """The node that produces the records of a transformation."""

    node: StreamNode
    partitioning: Partitioning | None = None
    side_output_tag: str = ""


def build_stream_graph(
    transformations: Iterable[Transformation], job_name: str, options: StreamGraphOptions
) -> StreamGraph:
    """Returns the graph of the given transformations and everything they depend on.

    Raises:
        JobSubmissionError: if there is nothing to execute, or the settings or inputs of an operator are invalid.
        UserError: if a name in the program cannot be sent to a cluster.
    """
    builder = _Builder(StreamGraph(check_name(job_name, "the name of the job"), options))
    for transformation in transformations:
        builder.origins_of(transformation)
    if not builder.graph.nodes:
        raise JobSubmissionError("No operators defined in streaming topology. Cannot execute.")
    return builder.graph


class _Builder:
    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        self._origins: dict[int, list[_Origin]] = {}

    def origins_of(self, transformation: Transformation) -> list[_Origin]:
        """Returns the origins. Iterative, because a program may chain more operators than Python can nest calls."""
        stack = [transformation]
        while stack:
            current = stack[-1]
            missing = [input_ for input_ in current.inputs if input_.id not in self._origins]
            if current.id in self._origins:
                stack.pop()
            elif missing:
                stack.extend(reversed(missing))
            else:
                self._origins[current.id] = self._resolve(current)
                stack.pop()
        return self._origins[transformation.id]

    def _resolve(self, transformation: Transformation) -> list[_Origin]:
        if isinstance(transformation, OperatorTransformation):
            return [_Origin(self._add_node(transformation))]
        origins = [origin for input_ in transformation.inputs for origin in self._origins[input_.id]]
        if isinstance(transformation, UnionTransformation):
            return origins
        if isinstance(transformation, PartitionTransformation):
            partitioning = transformation.partitioning
            return [_Origin(origin.node, partitioning, origin.side_output_tag) for origin in origins]
        if isinstance(transformation, SideOutputTransformation):
            tag_id = check_name(transformation.tag_id, "the id of an OutputTag")
            return [_Origin(origin.node, None, tag_id) for origin in origins]
        raise UnsupportedOperationError(f"unknown transformation {type(transformation).__name__}")

    def _add_node(self, transformation: OperatorTransformation) -> StreamNode:
        options = self.graph.options
        name = check_name(transformation.display_name, "the name of an operator")
        check_name(transformation.uid, f"the uid of operator '{name}'")
        check_name(transformation.slot_sharing_group or "", f"the slot sharing group of operator '{name}'")
        inputs = [
            (index, origin) for index, one in enumerate(transformation.inputs) for origin in self._origins[one.id]
        ]
        max_parallelism = transformation.max_parallelism or options.max_parallelism
        timeout = transformation.buffer_timeout_ms
        node = StreamNode(
            id=len(self.graph.nodes) + 1,
            name=name,
            transformation=transformation,
            parallelism=transformation.parallelism or options.parallelism,
            max_parallelism=max_parallelism,
            slot_sharing_group=transformation.slot_sharing_group or _common_group([one.node for _, one in inputs]),
            buffer_timeout_ms=options.buffer_timeout_ms if timeout is None else timeout,
        )
        if 0 < max_parallelism < node.parallelism:
            raise JobSubmissionError(
                f"operator '{node.name}': its parallelism {node.parallelism} is higher than its maximum "
                f"parallelism {max_parallelism}"
            )
        for input_index, origin in inputs:
            _connect(origin, node, input_index)
        self.graph.nodes.append(node)
        return node


def _common_group(inputs: list[StreamNode]) -> str:
    groups = {node.slot_sharing_group for node in inputs}
    return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _connect(origin: _Origin, target: StreamNode, input_index: int) -> None:
    source = origin.node
    partitioning = origin.partitioning
    same = source.parallelism == target.parallelism
    if partitioning is None:
        partitioning = Partitioning(FORWARD if same else REBALANCE)
    elif partitioning.kind == FORWARD and not same:
        raise JobSubmissionError(
            "Forward partitioning does not allow change of parallelism: upstream operator "
            f"'{source.name}' has {source.parallelism}, downstream operator '{target.name}' has {target.parallelism}"
        )
    if input_index in target.transformation.keyed_inputs and partitioning.kind != HASH:
        raise JobSubmissionError(f"operator '{target.name}' needs its input {input_index} partitioned by key")
    if input_index in target.transformation.broadcast_inputs and partitioning.kind != BROADCAST:
        raise JobSubmissionError(f"operator '{target.name}' needs its input {input_index} broadcast")
    edge = StreamEdge(source, target, partitioning, input_index, origin.side_output_tag)
    source.out_edges.append(edge)
    target.in_edges.append(edge)


def type_of_records(edge: StreamEdge) -> Any:
    """Returns the type of the edge's records: the output type of the producer, or the type of the side output."""
    if isinstance(edge.source.spec, SparkRegionSpec):
        return edge.source.spec.region.type_of_output(output_number(edge.side_output_tag))
    if not edge.side_output_tag:
        return edge.source.spec.output_type
    pending = [edge.target.transformation.inputs[edge.input_index]]
    while pending:
        transformation = pending.pop()
        if (
            isinstance(transformation, SideOutputTransformation)
            and transformation.tag_id == edge.side_output_tag
            and transformation.inputs[0] is edge.source.transformation
        ):
            return transformation.output_type
        if transformation is not edge.source.transformation:
            pending.extend(transformation.inputs)
    return None


def pact_of(node: StreamNode) -> str:
    """Returns the kind of a node, as Flink's plans call it."""
    if node.transformation.is_source:
        return "Data Source"
    return "Data Sink" if node.transformation.is_sink else "Operator"
