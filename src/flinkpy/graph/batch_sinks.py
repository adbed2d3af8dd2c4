"""Sinks in batch mode."""

from __future__ import annotations

from flinkpy.connector_api.sink import SinkBase
from flinkpy.graph.operator_specs import SinkCommitterSpec, SinkSpec, SinkWriterSpec
from flinkpy.graph.partitioning import GLOBAL, Partitioning
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flinkpy.graph.transformation import ChainingStrategy, OperatorTransformation


def split_sinks(graph: StreamGraph) -> None:
    """Splits each committing sink into a writer and a committer. Those in Spark have a committer (see `spark_regions`).

    In streaming mode a subtask commits what it wrote when a checkpoint is complete. Batch mode has no checkpoints, and
    a finished subtask may have to run again because its output was lost. So the writers send their committables over a
    blocking exchange to one task, which commits all of them after every writer has finished. A writer that runs again
    earlier has committed nothing, and the committer never runs again after it has finished.

    Source: org.apache.flink.streaming.api.transformations.SinkTransformation, the batch topology of FLIP-143. Differs:
    in Flink a committer follows each writer and commits when that writer ends.
    """
    for node in list(graph.nodes):
        spec = node.spec
        if isinstance(spec, SinkSpec) and commits(spec.sink):
            node.batch_spec = SinkWriterSpec(spec.sink, input_types=spec.input_types, output_type=None)
            add_committer(graph, node, spec.sink)


def add_committer(graph: StreamGraph, writer: StreamNode, sink: SinkBase) -> StreamNode:
    """Adds the node that commits what `writer` sends."""
    node = _committer(writer, sink, max(node.id for node in graph.nodes) + 1)
    graph.nodes.append(node)
    return node


def commits(sink: SinkBase) -> bool:
    """True if what the sink writes becomes visible only when it is committed."""
    return sink.sink_function is None and type(sink).create_committer is not SinkBase.create_committer


def _committer(writer: StreamNode, sink: SinkBase, node_id: int) -> StreamNode:
    transformation = OperatorTransformation(
        f"{writer.name.removesuffix(': Writer')}: Committer",
        SinkCommitterSpec(sink, input_types=(None,), output_type=None),
        (writer.transformation,),
        max_allowed_parallelism=1,
    )
    transformation.uid = f"{writer.transformation.uid}: committer" if writer.transformation.uid else ""
    transformation.chaining_strategy = ChainingStrategy.NEVER
    node = StreamNode(
        id=node_id,
        name=transformation.name,
        transformation=transformation,
        parallelism=1,
        max_parallelism=-1,
        slot_sharing_group=writer.slot_sharing_group,
        buffer_timeout_ms=writer.buffer_timeout_ms,
    )
    edge = StreamEdge(writer, node, Partitioning(GLOBAL), 0, is_blocking=True)
    writer.out_edges.append(edge)
    node.in_edges.append(edge)
    return node
