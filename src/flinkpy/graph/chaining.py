"""Chaining: determines the operators that run in one task, where one calls the next.

An edge is chained if all of these conditions hold:

* Chaining is enabled.
* The consumer has one input with only this edge, and it is a forward edge.
* Both operators have the same slot sharing group and the same parallelism.
* The chaining strategy of the producer is not NEVER, and that of the consumer is ALWAYS.
* Both have the same maximum parallelism, unless an option allows it to differ.

Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator#isChainable.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.graph.partitioning import FORWARD
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamGraphOptions, StreamNode
from flinkpy.graph.transformation import ChainingStrategy


@dataclass(slots=True, eq=False)
class Chain:
    """The operators of one task, the head first, and each operator after the operator that feeds it."""

    nodes: list[StreamNode] = field(default_factory=list)
    #: Edges that leave the chain, in the order of their producers.
    results: list[StreamEdge] = field(default_factory=list)

    @property
    def head(self) -> StreamNode:
        return self.nodes[0]

    @property
    def max_parallelism(self) -> int:
        """The smallest maximum parallelism that an operator sets; -1 if none does."""
        return min((node.max_parallelism for node in self.nodes if node.max_parallelism > 0), default=-1)

    def position_of(self, node: StreamNode) -> int:
        return self.nodes.index(node)


def is_chainable(edge: StreamEdge, options: StreamGraphOptions) -> bool:
    source, target = edge.source, edge.target
    return (
        options.is_chaining_enabled
        and len(target.transformation.inputs) == 1
        and len(target.in_edges) == 1
        and source.slot_sharing_group == target.slot_sharing_group
        and source.parallelism == target.parallelism
        and edge.partitioning.kind == FORWARD
        and source.chaining_strategy is not ChainingStrategy.NEVER
        and target.chaining_strategy is ChainingStrategy.ALWAYS
        and (
            options.is_chaining_with_different_max_parallelism_enabled
            or source.max_parallelism == target.max_parallelism
        )
    )


def build_chains(graph: StreamGraph) -> list[Chain]:
    """Returns all chains, in the order of their heads. Every node is in exactly one chain."""
    options = graph.options
    chains = []
    for head in graph.nodes:
        if any(is_chainable(edge, options) for edge in head.in_edges):
            continue
        chain = Chain()
        pending = [head]
        while pending:
            node = pending.pop()
            chain.nodes.append(node)
            followers = []
            for edge in node.out_edges:
                if is_chainable(edge, options):
                    followers.append(edge.target)
                else:
                    chain.results.append(edge)
            pending.extend(reversed(followers))
        chains.append(chain)
    return chains


def chain_name(chain: Chain, options: StreamGraphOptions) -> str:
    """Returns the name: `A -> B` for a linear chain, `A -> (B, C -> D)` for one that branches."""
    names: dict[int, str] = {}
    for node in reversed(chain.nodes):
        followers = [names[edge.target.id] for edge in node.out_edges if is_chainable(edge, options)]
        if not followers:
            names[node.id] = node.name
        elif len(followers) == 1:
            names[node.id] = f"{node.name} -> {followers[0]}"
        else:
            names[node.id] = f"{node.name} -> ({', '.join(followers)})"
    return names[chain.head.id]
