"""Finds the vertices of a batch job whose parallelism the JobMaster decides from the amount of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinkpy.configuration import read_option
from flinkpy.configuration.batch_options import AUTO_PARALLELISM_ENABLED
from flinkpy.graph.partitioning import CUSTOM, FORWARD

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.graph.chaining import Chain
    from flinkpy.graph.stream_graph import StreamGraph


def undecided_heads(graph: StreamGraph, chains: Sequence[Chain], configuration: Configuration) -> frozenset[int]:
    """Returns the ids of the head nodes of the vertices whose parallelism the JobMaster decides.

    It decides the parallelism of a vertex if the user set none on its operators. The parallelism of the environment is
    the upper bound. Vertices that are connected by forward edges have the same parallelism: the JobMaster decides for
    all of them or for none.

    Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator, with ForwardGroup. Differs: an operator
    without a parallelism stays chained to an operator that has set the environment's parallelism, so the parallelism of
    the chain is decided. So is that of a vertex that reads from a user's partitioner, because the partition numbers of
    the user are subtask indexes.
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
