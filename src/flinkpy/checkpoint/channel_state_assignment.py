"""In-flight data of an unaligned checkpoint, handed to the tasks that are to process it. Pure.

What a producer had queued and what its consumer had received belong to one channel; a restore gives both to the
consumer, first what it had received, which was sent earlier. Where the consumer has another parallelism now, a subtask
of a HASH edge gets every channel that may hold keys of its own and leaves out the others' rows; channels of any other
edge are dealt out in turn, each as a whole.

Source: org.apache.flink.runtime.checkpoint.{StateAssignmentOperation,MappingBasedRepartitioner},
org.apache.flink.runtime.io.network.api.writer.SubtaskStateMapper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.job_description import VertexDescription
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.key_groups import key_group_range

ChannelStateHandle = checkpoint_pb2.ChannelStateHandle

#: Where each record may go to any subtask, or (GLOBAL) always goes to the first.
_ANY_SUBTASK = frozenset({"REBALANCE", "SHUFFLE"})


@dataclass(slots=True)
class AssignedChannels:
    """What one subtask processes before its inputs. Every handle is seen from the consumer: `is_output` is false,
    `edge_index` is its input edge, `channel_index` the producer's subtask at the checkpoint.

    `needs_filter`: rows of other subtasks are among those of HASH edges.
    """

    received: list[ChannelStateHandle] = field(default_factory=list)
    queued: list[ChannelStateHandle] = field(default_factory=list)
    needs_filter: bool = False

    @property
    def handles(self) -> list[ChannelStateHandle]:
        """In the order in which they are to be processed."""
        return [*self.received, *self.queued]


#: (edge of the consumer, consumer's subtask, producer's subtask) -> handles received, handles queued
_Channels = dict[tuple[int, int, int], tuple[list[ChannelStateHandle], list[ChannelStateHandle]]]


def assign_channel_state(
    stored: Mapping[str, checkpoint_pb2.OperatorState], vertices: Sequence[VertexDescription]
) -> dict[tuple[str, int], AssignedChannels]:
    """By vertex and subtask; only those that get something.

    Raises: StateRestoreError naming vertex and edge: the edge is no longer there, or of a kind that cannot be rescaled.
    """
    by_consumer: dict[str, _Channels] = defaultdict(lambda: defaultdict(lambda: ([], [])))  # type: ignore[arg-type]
    consumers = {
        (edge.producer_vertex_id, edge.producer_result): (vertex, index)
        for vertex in vertices
        for index, edge in enumerate(vertex.inputs)
    }
    for vertex in vertices:
        _check_only_head_has_channels(vertex, stored)
        state = stored.get(vertex.operators[0].operator_id)
        for handle in [] if state is None else [h for s in sorted(state.subtasks) for h in state.subtasks[s].channels]:
            if handle.is_output:
                consumer, edge_index = _consumer_of(consumers, vertex, handle)
                seen = ChannelStateHandle(
                    edge_index=edge_index, subtask_index=handle.channel_index, channel_index=handle.subtask_index
                )
                seen.file.CopyFrom(handle.file)
                seen.offsets.extend(handle.offsets)
                seen.lengths.extend(handle.lengths)
            else:
                consumer, seen = vertex, handle
                if seen.edge_index >= len(vertex.inputs):
                    raise _edge_gone(vertex, f"input {seen.edge_index}")
            key = (seen.edge_index, seen.subtask_index, seen.channel_index)
            by_consumer[consumer.vertex_id][key][handle.is_output].append(seen)
    assigned: dict[tuple[str, int], AssignedChannels] = {}
    for vertex in vertices:
        if vertex.vertex_id in by_consumer:
            _assign(vertex, by_consumer[vertex.vertex_id], stored, assigned)
    return assigned


def _assign(
    vertex: VertexDescription,
    channels: _Channels,
    stored: Mapping[str, checkpoint_pb2.OperatorState],
    assigned: dict[tuple[str, int], AssignedChannels],
) -> None:
    state = stored.get(vertex.operators[0].operator_id)
    if state is None:
        raise StateRestoreError(f"there is in-flight data for {vertex.name!r}, which had no state then")
    dealt = 0
    for (edge_index, old_subtask, _), (received, queued) in sorted(channels.items()):
        kind = vertex.inputs[edge_index].partitioner_name
        needs_filter = False
        if vertex.parallelism == state.parallelism:
            subtasks = [old_subtask]
        elif kind == "HASH":
            subtasks = _subtasks_with_keys_of(vertex, old_subtask, state.parallelism)
            needs_filter = True
        elif kind == "GLOBAL":
            subtasks = [0]
        elif kind in _ANY_SUBTASK:
            subtasks = [dealt % vertex.parallelism]
            dealt += 1
        else:
            raise StateRestoreError(
                f"the parallelism of {vertex.name!r} cannot change from {state.parallelism} to {vertex.parallelism}: "
                f"the checkpoint has in-flight data of its {kind} input, which belongs to the subtask it was sent to. "
                "Take an aligned checkpoint or a savepoint first"
            )
        for subtask in subtasks:
            target = assigned.setdefault((vertex.vertex_id, subtask), AssignedChannels())
            target.received += received
            target.queued += queued
            target.needs_filter |= needs_filter


def _subtasks_with_keys_of(vertex: VertexDescription, old_subtask: int, old_parallelism: int) -> list[int]:
    old = key_group_range(vertex.max_parallelism, old_parallelism, old_subtask)
    found = []
    for subtask in range(vertex.parallelism):
        new = key_group_range(vertex.max_parallelism, vertex.parallelism, subtask)
        if max(old.start, new.start) <= min(old.end, new.end):
            found.append(subtask)
    return found


def _consumer_of(
    consumers: Mapping[tuple[str, int], tuple[VertexDescription, int]],
    producer: VertexDescription,
    handle: ChannelStateHandle,
) -> tuple[VertexDescription, int]:
    found = consumers.get((producer.vertex_id, handle.edge_index))
    if found is None:
        raise _edge_gone(producer, f"output {handle.edge_index}")
    return found


def _check_only_head_has_channels(
    vertex: VertexDescription, stored: Mapping[str, checkpoint_pb2.OperatorState]
) -> None:
    for operator in vertex.operators[1:]:
        state = stored.get(operator.operator_id)
        if state is not None and any(subtask.channels for subtask in state.subtasks.values()):
            raise _edge_gone(vertex, f"the input of {operator}, which is in the middle of a chain now")


def _edge_gone(vertex: VertexDescription, what: str) -> StateRestoreError:
    return StateRestoreError(
        f"the checkpoint has in-flight data of {vertex.name!r}, {what}, which the job does not have any more: a job "
        "can be changed between a savepoint and its restore, not with an unaligned checkpoint"
    )
