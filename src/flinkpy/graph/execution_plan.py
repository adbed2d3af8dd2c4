"""The execution plan: the StreamGraph as JSON, in the form Flink's plan visualiser reads.

Source: org.apache.flink.streaming.api.graph.JSONGenerator.
"""

from __future__ import annotations

import json
from typing import Any

from flinkpy.graph.stream_graph import StreamGraph, StreamNode


def execution_plan(graph: StreamGraph) -> str:
    """Returns the plan as JSON, in the format of Flink's plan visualiser.

    It is `{"nodes": [...]}`. Each node has an id, type, pact, contents, parallelism, and its predecessors with the ship
    strategy.

    Source: org.apache.flink.streaming.api.graph.JSONGenerator.
    """
    return json.dumps({"nodes": [_node(node) for node in graph.nodes]}, indent=2)


def _node(node: StreamNode) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "id": node.id,
        "type": node.name,
        "pact": _pact(node),
        "contents": "; ".join([node.transformation.description or node.name, *node.notes]),
        "parallelism": node.parallelism,
    }
    if node.backend_choice is not None:
        plan["backend"] = node.backend_choice.backend
        plan["backend_reason"] = node.backend_choice.reason
    if node.in_edges:
        plan["predecessors"] = [
            {"id": edge.source.id, "ship_strategy": edge.partitioning.kind, "side": "second"} for edge in node.in_edges
        ]
    return plan


def _pact(node: StreamNode) -> str:
    if node.transformation.is_source:
        return "Data Source"
    return "Data Sink" if node.transformation.is_sink else "Operator"
