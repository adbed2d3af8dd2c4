"""Generates the JobGraph from a StreamGraph: one vertex per chain, one data set per edge between chains.

In batch mode, data sets are kept until they have been read. So edges with the same records and the same partitioning
share a data set, which is written once.

Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkpy import __version__
from flinkpy._proto import common_pb2, job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.error_text import bounded_text, safe_repr, valid_text
from flinkpy.common.errors import UserError
from flinkpy.common.ids import JobID
from flinkpy.common.key_groups import UNDECIDED_PARALLELISM
from flinkpy.common.names import MAX_NAME_CHARS
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.configuration import read_option
from flinkpy.configuration.execution_options import AUTO_PARALLELISM_ENABLED
from flinkpy.graph.chaining import Chain, build_chains, chain_name
from flinkpy.graph.operator_hashes import hash_operators, hash_text
from flinkpy.graph.operator_specs import OperatorSpec, SinkCommitterSpec, SinkSpec, SinkWriterSpec, SourceSpec
from flinkpy.graph.partitioning import CUSTOM, FORWARD
from flinkpy.graph.pickling import dumps_function, user_python_path
from flinkpy.graph.resource_profiles import resource_profile_to_proto
from flinkpy.graph.spark_region import SPARK_TASK, SparkRegionSpec
from flinkpy.graph.stream_graph import DEFAULT_SLOT_SHARING_GROUP, StreamEdge, StreamGraph, StreamNode, type_of_records

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration


def generate_job_graph(
    graph: StreamGraph,
    configuration: Configuration,
    *,
    job_id: JobID | None = None,
    artifacts: Sequence[job_pb2.UserArtifact] = (),
) -> job_pb2.JobGraph:
    """Returns the JobGraph, which contains every user function pickled.

    Raises:
        FunctionSerializationError: if a function cannot be pickled. Names the object inside it that cannot.
        JobSubmissionError: if two operators have the same uid.
    """
    ids = hash_operators(graph)
    chains = build_chains(graph)
    undecided = undecided_heads(graph, chains, configuration)
    data_sets = _DataSets(graph, ids, chains, undecided)
    job_graph = job_pb2.JobGraph(
        job_id=str(job_id or JobID.generate()),
        name=graph.job_name,
        configuration=common_pb2.Configuration(entries=_entries(configuration)),
        artifacts=artifacts,
        client_version=__version__,
        python_version=platform.python_version(),
        created_ms=SystemClock().now_ms(),
        python_path=user_python_path(),
        working_directory=os.getcwd(),
    )
    job_graph.vertices.extend(_vertex(chain, graph, ids, data_sets) for chain in chains)
    return job_graph


def _entries(configuration: Configuration) -> dict[str, str]:
    """Returns the options. Raises: UserError naming an option whose key or value is not valid text."""
    entries = configuration.to_dict()
    for key, value in entries.items():
        if valid_text(key) != key or valid_text(value) != value:
            raise UserError(f"option {safe_repr(key)}: its key or value is not valid text: {safe_repr(value)}")
    return entries


class _DataSets:
    """Maps edges to data sets.

    The id of a data set is derived from the producer's id and the position of the data set's first edge among the
    producer's outputs.
    """

    def __init__(
        self, graph: StreamGraph, operator_ids: dict[int, str], chains: Sequence[Chain], undecided: frozenset[int]
    ) -> None:
        self.are_blocking = graph.are_exchanges_blocking
        #: The heads of the vertices whose parallelism the JobMaster decides.
        self.undecided = undecided
        self._operator_ids = operator_ids
        self._max_parallelism = {chain.head.id: chain.max_parallelism for chain in chains}

    def first_of(self, edge: StreamEdge) -> StreamEdge:
        """Returns the first edge of the edge's data set."""
        if not self.are_blocking:
            return edge
        return next(other for other in edge.source.out_edges if other is edge or (self._is_same(other, edge)))

    def of_chain(self, chain: Chain) -> list[StreamEdge]:
        """Returns the first edge of each data set that the chain produces, in order."""
        return [edge for edge in chain.results if self.first_of(edge) is edge]

    def id_of(self, edge: StreamEdge) -> str:
        number = edge.source.out_edges.index(self.first_of(edge))
        return hash_text(f"data set:{self._operator_ids[edge.source.id]}:{number}")

    def _is_same(self, one: StreamEdge, other: StreamEdge) -> bool:
        """True if both consumers read the same subpartitions. A consumer reads a data set only once."""
        if one.target is other.target or one.target.id not in self._max_parallelism:  # or the target is chained
            return False
        ours, theirs = one.partitioning, other.partitioning
        return (
            one.side_output_tag == other.side_output_tag
            and one.target.parallelism == other.target.parallelism
            and (one.target.id in self.undecided) == (other.target.id in self.undecided)
            and self._max_parallelism[one.target.id] == self._max_parallelism[other.target.id]
            and ours.kind == theirs.kind
            and ours.key_selector is theirs.key_selector
            and ours.key_type is theirs.key_type
            and ours.function is theirs.function
        )


def _vertex(chain: Chain, graph: StreamGraph, ids: dict[int, str], data_sets: _DataSets) -> job_pb2.JobVertex:
    head = chain.head
    name = chain_name(chain, graph.options)
    described = [
        bounded_text(node.transformation.description, MAX_NAME_CHARS)
        for node in chain.nodes
        if node.transformation.description
    ]
    return job_pb2.JobVertex(
        id=ids[head.id],
        name=name,
        description="; ".join(described) or name,
        parallelism=UNDECIDED_PARALLELISM if head.id in data_sets.undecided else head.parallelism,
        parallelism_bound=head.parallelism if head.id in data_sets.undecided else 0,
        supports_concurrent_attempts=all(_supports_concurrent_attempts(node.spec) for node in chain.nodes),
        max_parallelism=chain.max_parallelism,
        is_non_parallel=any(node.transformation.is_non_parallel for node in chain.nodes),
        slot_sharing_group=_slot_sharing_group(head, data_sets),
        slot_resources=resource_profile_to_proto(
            graph.options.slot_sharing_groups.get(head.slot_sharing_group, ResourceProfile.UNKNOWN)
        ),
        chain=[_operator(node, chain, ids, data_sets) for node in chain.nodes],
        inputs=[
            job_pb2.JobEdge(
                source_data_set_id=data_sets.id_of(edge),
                input_index=edge.input_index,
                partitioner_name=edge.partitioning.kind,
            )
            for edge in head.in_edges
        ],
        results=[_data_set(edge, data_sets) for edge in data_sets.of_chain(chain)],
        # In streaming mode a committer that has finished is restored, like all other tasks.
        is_committer=isinstance(head.spec, SinkCommitterSpec) and any(edge.is_blocking for edge in head.in_edges),
        task_kind=SPARK_TASK if isinstance(head.spec, SparkRegionSpec) else "",
    )


def _slot_sharing_group(head: StreamNode, data_sets: _DataSets) -> str:
    """Returns the group. By default a blocking region does not share slots: its tasks use memory as if alone."""
    if data_sets.are_blocking and head.slot_sharing_group == DEFAULT_SLOT_SHARING_GROUP:
        return f"{DEFAULT_SLOT_SHARING_GROUP}-{head.id}"
    return head.slot_sharing_group


def _operator(node: StreamNode, chain: Chain, ids: dict[int, str], data_sets: _DataSets) -> job_pb2.OperatorDescriptor:
    coordinator = _coordinator_provider(node.spec)
    transformation = node.transformation
    return job_pb2.OperatorDescriptor(
        operator_id=ids[node.id],
        name=node.name,
        uid=transformation.uid,
        description=bounded_text(transformation.description, MAX_NAME_CHARS),
        factory_pickle=dumps_function(node.spec, user_function_of(node.spec), node.name),
        outputs=_outputs(node, chain, data_sets),
        coordinator_pickle=b"" if coordinator is None else dumps_function(coordinator, coordinator, node.name),
    )


def _outputs(node: StreamNode, chain: Chain, data_sets: _DataSets) -> list[job_pb2.OutputDescriptor]:
    """Returns one output per data set and one per chained operator that this operator feeds."""
    results = data_sets.of_chain(chain)
    outputs = []
    for edge in node.out_edges:
        output = job_pb2.OutputDescriptor(input_index=edge.input_index, side_output_tag=edge.side_output_tag)
        if edge not in chain.results:
            output.chained_operator = chain.position_of(edge.target)
        elif edge in results:
            output.result = results.index(edge)
        else:
            continue
        outputs.append(output)
    return outputs


def _data_set(edge: StreamEdge, data_sets: _DataSets) -> job_pb2.IntermediateDataSet:
    partitioning = edge.partitioning
    type_info = type_of_records(edge)
    is_blocking = data_sets.are_blocking or edge.is_blocking
    pattern = job_pb2.POINTWISE if partitioning.is_pointwise else job_pb2.ALL_TO_ALL
    return job_pb2.IntermediateDataSet(
        id=data_sets.id_of(edge),
        type=job_pb2.BLOCKING if is_blocking else job_pb2.PIPELINED_BOUNDED,
        partitioner_pickle=dumps_function(
            partitioning.create_partitioner(), partitioning.user_function, f"{edge.source.name} ({partitioning.kind})"
        ),
        partitioner_name=partitioning.kind,
        type_pickle=b"" if type_info is None else dumps_function(type_info, type_info, edge.source.name),
        distribution=pattern,
        # No consumer reads a blocking data set before its end.
        buffer_timeout_ms=-1 if is_blocking else edge.source.buffer_timeout_ms,
    )


def _supports_concurrent_attempts(spec: OperatorSpec) -> bool:
    """True if two attempts of a subtask may run at once, because the operator has no effects outside the job.

    Sinks decide it themselves. Sources, committers and Spark regions do not support it.
    """
    if isinstance(spec, SinkSpec):
        from flinkpy.connector_api.sink import SinkBase

        commits_itself = type(spec.sink).create_committer is not SinkBase.create_committer
        return bool(spec.sink.supports_concurrent_attempts) and not commits_itself
    if isinstance(spec, SinkWriterSpec):
        return bool(spec.sink.supports_concurrent_attempts)
    return not isinstance(spec, SourceSpec | SinkCommitterSpec | SparkRegionSpec)


def _coordinator_provider(spec: OperatorSpec) -> Any:
    if isinstance(spec, SourceSpec):
        from flinkpy.connector_api.source_coordinator import SourceCoordinatorProvider

        strategy = spec.watermark_strategy
        return SourceCoordinatorProvider(spec.source, None if strategy is None else strategy.alignment)
    if isinstance(spec, (SinkSpec, SinkWriterSpec)):
        return spec.sink.coordinator_provider
    return None


def user_function_of(spec: OperatorSpec) -> Any:
    """Returns the user's function, source or sink of an operator, or the spec itself if there is none."""
    for attribute in ("function", "source", "sink", "watermark_strategy"):
        value = getattr(spec, attribute, None)
        if value is not None:
            return value
    return spec


def undecided_heads(graph: StreamGraph, chains: Sequence[Chain], configuration: Configuration) -> frozenset[int]:
    """Returns the ids of the head nodes of the vertices whose parallelism the JobMaster decides.

    It decides the parallelism of a vertex if the user set none on its operators. The parallelism of the environment is
    the upper bound. Vertices that are connected by forward edges have the same parallelism: the JobMaster decides for
    all of them or for none.

    Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator, with ForwardGroup. Differs: an operator
    without a parallelism stays chained to an operator that has set the environment's parallelism, so the program
    decides the parallelism of the chain. It also decides that of a vertex that reads from a user's partitioner, because
    the user's partition numbers are subtask indexes.
    """
    if not graph.are_exchanges_blocking or not read_option(configuration, AUTO_PARALLELISM_ENABLED):
        return frozenset()
    head_of = {node.id: chain.head.id for chain in chains for node in chain.nodes}
    group_of = {chain.head.id: chain.head.id for chain in chains}

    def find(head: int) -> int:
        while group_of[head] != head:
            head = group_of[head]
        return head

    for chain in chains:
        for edge in chain.results:
            if edge.partitioning.kind == FORWARD:
                group_of[find(head_of[edge.target.id])] = find(chain.head.id)
    decided = {find(chain.head.id) for chain in chains if not _is_open(chain)}
    return frozenset(chain.head.id for chain in chains if find(chain.head.id) not in decided)


def _is_open(chain: Chain) -> bool:
    """True if nothing fixes the parallelism of the chain."""
    if chain.head.parallelism == 1 or any(edge.partitioning.kind == CUSTOM for edge in chain.head.in_edges):
        return False
    return all(node.transformation.has_default_parallelism for node in chain.nodes)
