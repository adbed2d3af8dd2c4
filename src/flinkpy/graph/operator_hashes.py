"""Operator ids: the same for the same program every time, so that a restored job finds its operators' state again.

An operator with a `uid` gets the hash of that; its place in the graph does not matter then. Without one it gets a hash
of its position: how many operators were hashed before it, how many of its outputs are chained, and the ids of its
inputs.

Source: org.apache.flink.streaming.api.graph.StreamGraphHasherV2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from flinkpy.common.errors import JobSubmissionError
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode

_ID_BYTES = 16


def hash_operators(graph: StreamGraph, is_chainable: Callable[[StreamEdge], bool]) -> dict[int, str]:
    """The id of every node (32 hex digits), by node id.

    Raises:
        JobSubmissionError: two operators have the same uid, or one has none where none may be generated.
    """
    ids: dict[int, str] = {}
    owners: dict[str, StreamNode] = {}
    for position, node in enumerate(graph.nodes):
        identity = _id_of(node, position, ids, is_chainable, graph)
        other = owners.setdefault(identity, node)
        if other is not node:
            what = f"uid '{node.transformation.uid}'" if node.transformation.uid else f"id {identity}"
            raise JobSubmissionError(f"operators '{other.name}' and '{node.name}' have the same {what}")
        ids[node.id] = identity
    return ids


def _id_of(
    node: StreamNode,
    position: int,
    ids: dict[int, str],
    is_chainable: Callable[[StreamEdge], bool],
    graph: StreamGraph,
) -> str:
    transformation = node.transformation
    if transformation.uid_hash:
        return transformation.uid_hash
    if transformation.uid:
        return id_of_uid(transformation.uid)
    if not graph.options.are_uids_generated:
        raise JobSubmissionError(
            f"operator '{node.name}' has no uid, and pipeline.auto-generate-uids is false: call uid() on it"
        )
    chained = sum(1 for edge in node.out_edges if is_chainable(edge))
    inputs = ",".join(f"{ids[edge.source.id]}/{edge.input_index}" for edge in node.in_edges)
    return hash_text(f"position:{position}:{chained}:{inputs}")


def id_of_uid(uid: str) -> str:
    """The id of the operator with this uid."""
    return hash_text(f"uid:{uid}")


def hash_text(text: str) -> str:
    """A 128-bit hash in hex."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=_ID_BYTES).hexdigest()
