"""Splits sinks into parallel writers and one committer, if one committer must commit the output of all writers.

In batch mode that holds for each sink that commits, in streaming mode for those that ask for it.
"""

from __future__ import annotations

from flinkpy.connector_api.sink import SinkBase
from flinkpy.graph.operator_specs import SinkCommitterSpec, SinkSpec, SinkWriterSpec
from flinkpy.graph.partitioning import GLOBAL, RESCALE, Partitioning
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flinkpy.graph.transformation import ChainingStrategy, OperatorTransformation


def split_sinks(graph: StreamGraph) -> None:
    """Splits each committing sink into a writer and a committer. `spark_regions` does this for sinks in Spark.

    In streaming mode a subtask commits its output when a checkpoint is complete. Batch mode has no checkpoints, and a
    finished subtask may have to run again because its output was lost. So the writers send their committables over a
    blocking exchange to one task, which commits all of them after every writer has finished. A writer that runs again
    earlier has committed nothing, and the committer never runs again after it has finished. The JobMaster keeps the
    committables (`jobmaster.kept_results`), so no failure makes the writers run again once it has all of them.

    Source: org.apache.flink.streaming.api.transformations.SinkTransformation, the batch topology of FLIP-143. Differs:
    in Flink a committer follows each writer and commits when that writer ends.
    """
    for node in list(graph.nodes):
        spec = node.spec
        if isinstance(spec, SinkSpec) and commits(spec.sink):
            _split(graph, node, spec, is_batch=True)


def split_global_sinks(graph: StreamGraph) -> None:
    """Splits each sink with a global committer into writers and a committer, in streaming mode.

    The writers send the committables of a checkpoint before its barrier. So the committer has all of them in its part
    of the checkpoint, and commits them together when the checkpoint is complete. The edge is pointwise, because no
    barrier overtakes records on a pointwise edge.

    Source: the `global()` committables of org.apache.flink.streaming.api.connector.sink2.SupportsPreCommitTopology,
    as Flink's Iceberg sink uses them.
    """
    for node in list(graph.nodes):
        spec = node.spec
        if isinstance(spec, SinkSpec) and commits(spec.sink) and spec.sink.has_global_committer:
            _split(graph, node, spec, is_batch=False)


def _split(graph: StreamGraph, node: StreamNode, spec: SinkSpec, *, is_batch: bool) -> None:
    node.batch_spec = SinkWriterSpec(spec.sink, input_types=spec.input_types, at_checkpoints=not is_batch)
    committer = add_committer(graph, node, spec.sink)
    if not is_batch:
        committer.batch_spec = SinkCommitterSpec(spec.sink, input_types=(None,), at_checkpoints=True)
        (edge,) = committer.in_edges
        edge.partitioning, edge.is_blocking = Partitioning(RESCALE), False


def add_committer(graph: StreamGraph, writer: StreamNode, sink: SinkBase) -> StreamNode:
    """Adds the node that commits the committables of `writer`."""
    node = _committer(writer, sink, max(node.id for node in graph.nodes) + 1)
    graph.nodes.append(node)
    return node


def commits(sink: SinkBase) -> bool:
    """True if the output of the sink becomes visible only when it is committed."""
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
