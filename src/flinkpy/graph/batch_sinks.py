"""Sinks in batch mode: their writers run like all tasks; what they have written is committed once, at the very end.

In a stream a subtask commits what it wrote itself, when a checkpoint is complete. In a batch there is none, and a
subtask that has finished may have to run again: its input is lost and comes out otherwise. So the writers hand their
committables on, over an exchange that is kept, and one task commits all of them when every writer has finished. Whoever
runs again before that has committed nothing; and that task, once it has finished, never runs again.

Source: org.apache.flink.streaming.api.transformations.SinkTransformation, the batch topology of FLIP-143. Differs:
there a committer follows each writer, and commits when that one ends.
"""

from __future__ import annotations

from flinkpy.connector_api.sink import SinkBase
from flinkpy.graph.operator_specs import SinkCommitterSpec, SinkSpec, SinkWriterSpec
from flinkpy.graph.partitioning import GLOBAL, Partitioning
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flinkpy.graph.transformation import ChainingStrategy, OperatorTransformation


def split_sinks(graph: StreamGraph) -> None:
    """Give each sink that commits a committer of its own. Those in Spark have one already (see `spark_regions`)."""
    for node in list(graph.nodes):
        spec = node.spec
        if isinstance(spec, SinkSpec) and commits(spec.sink):
            node.batch_spec = SinkWriterSpec(spec.sink, input_types=spec.input_types, output_type=None)
            add_committer(graph, node, spec.sink)


def add_committer(graph: StreamGraph, writer: StreamNode, sink: SinkBase) -> StreamNode:
    """Add the node that commits what `writer` hands over."""
    node = _committer(writer, sink, max(node.id for node in graph.nodes) + 1)
    graph.nodes.append(node)
    return node


def commits(sink: SinkBase) -> bool:
    """Whether what it writes is not seen before it has been committed."""
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
