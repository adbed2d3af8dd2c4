"""Makes the plan and the stream graph of a job in the form of Flink's plan JSON.

Source: org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from msgspec import UNSET

from flinkpy._proto import job_pb2
from flinkpy.rest.messages.job_details import Plan, PlanInput, PlanNode, StreamGraph, StreamGraphNode


def plan_of(details: job_pb2.JobDetails) -> Plan:
    """Returns the graph of the vertices."""
    return Plan(
        jid=details.job_id,
        name=details.name,
        type="BATCH" if details.is_batch else "STREAMING",
        nodes=[_node(vertex) for vertex in details.vertices],
    )


def _node(vertex: job_pb2.VertexDetails) -> PlanNode:
    inputs = [
        PlanInput(num=number, id=one.vertex_id, ship_strategy=one.ship_strategy, exchange=exchange_name(one.exchange))
        for number, one in enumerate(one for one in _head_inputs(vertex) if one.vertex_id)
    ]
    return PlanNode(
        id=vertex.id,
        parallelism=vertex.parallelism,
        operator="",
        operator_strategy="",
        description=as_html(describe_chain(vertex.operators) or vertex.name),
        optimizer_properties={},
        inputs=inputs or UNSET,
    )


def _head_inputs(vertex: job_pb2.VertexDetails) -> Sequence[job_pb2.OperatorDetails.Input]:
    return vertex.operators[0].inputs if vertex.operators else ()


def exchange_name(kind: int) -> str:
    return job_pb2.ResultPartitionType.Name(kind).lower()  # type: ignore[arg-type]


def as_html(text: str) -> str:
    """Returns a text as HTML that shows it. Pages insert descriptions as HTML."""
    escaped = html.escape(text).replace("\\", "&#92;")
    return escaped.replace("\n", "<br/>")


def describe_chain(operators: Sequence[job_pb2.OperatorDetails]) -> str:
    """Returns the operators of a chain as a tree, a line per operator, as `pipeline.vertex-description-mode: TREE`.

    Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator#getDescriptionAsTree.
    """
    if not operators:
        return ""
    children: dict[str, list[job_pb2.OperatorDetails]] = {}
    for operator in operators:
        for one in operator.inputs:
            if not one.vertex_id:
                children.setdefault(one.operator_id, []).append(operator)
    lines: list[str] = []
    # (operator, what precedes its own line, what precedes the lines of its children)
    waiting = [(operators[0], "", "")]
    shown: set[str] = set()
    while waiting:
        operator, lead, indent = waiting.pop()
        lines.append(f"{lead}{operator.description or operator.name}\n")
        if operator.id in shown:
            continue
        shown.add(operator.id)
        below = children.get(operator.id, [])
        for number, child in reversed(list(enumerate(below))):
            is_last = number == len(below) - 1
            waiting.append((child, f"{indent}{'+-' if is_last else ':-'} ", f"{indent}{'   ' if is_last else ':  '}"))
    return "".join(lines)


def stream_graph_of(details: job_pb2.JobDetails) -> StreamGraph:
    """Returns the graph of the operators."""
    return StreamGraph(
        nodes=[_operator_node(vertex, operator) for vertex in details.vertices for operator in vertex.operators]
    )


def _operator_node(vertex: job_pb2.VertexDetails, operator: job_pb2.OperatorDetails) -> StreamGraphNode:
    return StreamGraphNode(
        id=operator.id,
        parallelism=vertex.parallelism,
        operator=operator.name,
        description=as_html(operator.description or operator.name),
        job_vertex_id=vertex.id,
        inputs=[
            PlanInput(
                num=number,
                id=one.operator_id,
                ship_strategy=one.ship_strategy,
                # Records between chained operators are passed on directly.
                exchange=exchange_name(one.exchange) if one.vertex_id else "pipelined",
            )
            for number, one in enumerate(operator.inputs)
        ],
    )
