"""Operator ids: the same for the same program every time, so that a restored job finds the state of its operators.

The id of an operator with a `uid` is the hash of the uid and does not depend on its position in the graph. The id of
any other operator is a hash of its position: the number of operators before it, and the ids of its inputs. So names,
functions and settings may change, and operators may be added after it, but not before it.

Source: org.apache.flink.streaming.api.graph.StreamGraphHasherV2. Differs: the number of chained outputs is not part of
the hash, because it depends on the parallelism, and a job may be restored with another parallelism.
"""

from __future__ import annotations

import hashlib

from flinkpy.common.errors import JobSubmissionError
from flinkpy.graph.stream_graph import StreamGraph, StreamNode

_ID_BYTES = 16


def hash_operators(graph: StreamGraph) -> dict[int, str]:
    """Returns the operator id of every node (32 hex digits), by node id.

    Raises:
        JobSubmissionError: if two operators have the same uid, or one has no uid and ids may not be generated.
    """
    ids: dict[int, str] = {}
    owners: dict[str, StreamNode] = {}
    for position, node in enumerate(graph.nodes):
        identity = _id_of(node, position, ids, graph)
        other = owners.setdefault(identity, node)
        if other is not node:
            uid = node.transformation.uid
            what = f"uid '{uid}'" if uid and uid == other.transformation.uid else f"id {identity}"
            raise JobSubmissionError(f"operators '{other.name}' and '{node.name}' have the same {what}")
        ids[node.id] = identity
    return ids


def _id_of(node: StreamNode, position: int, ids: dict[int, str], graph: StreamGraph) -> str:
    transformation = node.transformation
    if transformation.uid_hash:
        return transformation.uid_hash
    if transformation.uid:
        return id_of_uid(transformation.uid)
    if not graph.options.are_uids_generated:
        raise JobSubmissionError(
            f"operator '{node.name}' has no uid, and pipeline.auto-generate-uids is false: call uid() on it"
        )
    inputs = ",".join(f"{ids[edge.source.id]}/{edge.input_index}" for edge in node.in_edges)
    return hash_text(f"position:{position}:{inputs}")


def id_of_uid(uid: str) -> str:
    """Returns the id of the operator with this uid."""
    return hash_text(f"uid:{uid}")


def hash_text(text: str) -> str:
    """Returns a 128-bit hash in hex digits."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=_ID_BYTES).hexdigest()
