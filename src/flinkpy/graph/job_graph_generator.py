"""From the StreamGraph to the JobGraph: a vertex per chain, a data set per edge between chains.

Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator. Differs: a data set has one consumer, always.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkpy import __version__
from flinkpy._proto import common_pb2, job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.ids import JobID
from flinkpy.graph.chaining import Chain, build_chains, chain_name
from flinkpy.graph.operator_hashes import hash_operators, hash_text
from flinkpy.graph.operator_specs import OperatorSpec, SinkSpec, SourceSpec
from flinkpy.graph.pickling import dumps_function
from flinkpy.graph.python_path import user_python_path
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flinkpy.graph.transformation import SideOutputTransformation

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration


def generate_job_graph(
    graph: StreamGraph,
    configuration: Configuration,
    *,
    job_id: JobID | None = None,
    artifacts: Sequence[job_pb2.UserArtifact] = (),
) -> job_pb2.JobGraph:
    """The JobGraph, with every user function pickled into it.

    Raises:
        FunctionSerializationError: names the function and what in it cannot be pickled.
        JobSubmissionError: two operators with the same uid.
    """
    ids = hash_operators(graph)
    data_sets = _DataSets(ids)
    chains = build_chains(graph)
    job_graph = job_pb2.JobGraph(
        job_id=str(job_id or JobID.generate()),
        name=graph.job_name,
        configuration=common_pb2.Configuration(entries=configuration.to_dict()),
        artifacts=artifacts,
        client_version=__version__,
        python_version=platform.python_version(),
        created_ms=SystemClock().now_ms(),
        python_path=user_python_path(),
        working_directory=os.getcwd(),
    )
    job_graph.vertices.extend(_vertex(chain, graph, ids, data_sets) for chain in chains)
    return job_graph


class _DataSets:
    """Ids of the data sets: that of the producer and the number of the edge among its outputs."""

    def __init__(self, operator_ids: dict[int, str]) -> None:
        self._operator_ids = operator_ids

    def id_of(self, edge: StreamEdge) -> str:
        number = edge.source.out_edges.index(edge)
        return hash_text(f"data set:{self._operator_ids[edge.source.id]}:{number}")


def _vertex(chain: Chain, graph: StreamGraph, ids: dict[int, str], data_sets: _DataSets) -> job_pb2.JobVertex:
    head = chain.head
    name = chain_name(chain, graph.options)
    described = [node.transformation.description for node in chain.nodes if node.transformation.description]
    return job_pb2.JobVertex(
        id=ids[head.id],
        name=name,
        description="; ".join(described) or name,
        parallelism=head.parallelism,
        max_parallelism=chain.max_parallelism,
        slot_sharing_group=head.slot_sharing_group,
        chain=[_operator(node, chain, ids) for node in chain.nodes],
        inputs=[
            job_pb2.JobEdge(
                source_data_set_id=data_sets.id_of(edge),
                input_index=edge.input_index,
                partitioner_name=edge.partitioning.kind,
            )
            for edge in head.in_edges
        ],
        results=[_data_set(edge, data_sets) for edge in chain.results],
    )


def _operator(node: StreamNode, chain: Chain, ids: dict[int, str]) -> job_pb2.OperatorDescriptor:
    coordinator = _coordinator_provider(node.spec)
    transformation = node.transformation
    return job_pb2.OperatorDescriptor(
        operator_id=ids[node.id],
        name=node.name,
        uid=transformation.uid,
        description=transformation.description,
        factory_pickle=dumps_function(node.spec, user_function_of(node.spec), node.name),
        outputs=[_output(edge, chain) for edge in node.out_edges],
        coordinator_pickle=b"" if coordinator is None else dumps_function(coordinator, coordinator, node.name),
    )


def _output(edge: StreamEdge, chain: Chain) -> job_pb2.OutputDescriptor:
    output = job_pb2.OutputDescriptor(input_index=edge.input_index, side_output_tag=edge.side_output_tag)
    if edge in chain.results:
        output.result = chain.results.index(edge)
    else:
        output.chained_operator = chain.position_of(edge.target)
    return output


def _data_set(edge: StreamEdge, data_sets: _DataSets) -> job_pb2.IntermediateDataSet:
    partitioning = edge.partitioning
    type_info = _type_of(edge)
    pattern = job_pb2.POINTWISE if partitioning.is_pointwise else job_pb2.ALL_TO_ALL
    return job_pb2.IntermediateDataSet(
        id=data_sets.id_of(edge),
        type=job_pb2.PIPELINED_BOUNDED,
        partitioner_pickle=dumps_function(
            partitioning.create_partitioner(), partitioning.user_function, f"{edge.source.name} ({partitioning.kind})"
        ),
        partitioner_name=partitioning.kind,
        type_pickle=b"" if type_info is None else dumps_function(type_info, type_info, edge.source.name),
        distribution=pattern,
        buffer_timeout_ms=edge.source.buffer_timeout_ms,
    )


def _type_of(edge: StreamEdge) -> Any:
    """The type of the edge's records: the producer's, or that of the side output's tag."""
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


def _coordinator_provider(spec: OperatorSpec) -> Any:
    if isinstance(spec, SourceSpec):
        from flinkpy.connector_api.source_coordinator import SourceCoordinatorProvider

        strategy = spec.watermark_strategy
        return SourceCoordinatorProvider(spec.source, None if strategy is None else strategy.alignment)
    if isinstance(spec, SinkSpec):
        return spec.sink.coordinator_provider
    return None


def user_function_of(spec: OperatorSpec) -> Any:
    """What of an operator the user gave: a function, a source or a sink; the spec itself where nothing."""
    for attribute in ("function", "source", "sink", "watermark_strategy"):
        value = getattr(spec, attribute, None)
        if value is not None:
            return value
    return spec
