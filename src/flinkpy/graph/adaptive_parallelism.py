"""Which vertices of a batch job leave their parallelism to the JobMaster, which decides it from how much data there is.

A vertex does where none of its operators was given a parallelism of its own; the environment's is the most that it can
get. Vertices that a forward edge joins have one parallelism, so that all of them do, or none.

Source: org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator, with ForwardGroup. Differs: an operator without
a parallelism stays in the chain of one that has that of the environment, and so does not leave it open; what reads the
partitions of a user's partitioner does not either, because the user's numbers of partitions are those of its subtasks.
"""

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
    """The ids of the nodes at the head of such vertices."""
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
    """A vertex that can have one subtask only has nothing to decide."""
    if chain.head.parallelism == 1 or any(edge.partitioning.kind == CUSTOM for edge in chain.head.in_edges):
        return False
    return all(node.transformation.has_default_parallelism for node in chain.nodes)
