"""Assigns the state of a checkpoint to the subtasks of a job, at any parallelism. Pure.

Keyed state is assigned by key groups, operator state by its mode, and in-flight data by its edge. Handles are passed on
unchanged: a backend gets every file that holds some of its key groups, and reads only those.

Source: org.apache.flink.runtime.checkpoint.{StateAssignmentOperation,MappingBasedRepartitioner,
RoundRobinOperatorStateRepartitioner}, org.apache.flink.runtime.io.network.api.writer.SubtaskStateMapper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.job_description import OperatorDescription, VertexDescription
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.key_groups import KeyGroupRange, key_group_range


@dataclass(frozen=True, slots=True)
class StateAssignment:
    """The state of each task and operator coordinator.

    Attributes:
        task_states: by vertex id and subtask. Each subtask has one, which may be empty.
        coordinator_states: by operator id.
    """

    task_states: dict[tuple[str, int], checkpoint_pb2.TaskStateSnapshot]
    coordinator_states: dict[str, checkpoint_pb2.StreamStateHandle]


def assign_state(
    metadata: checkpoint_pb2.CheckpointMetadata,
    vertices: Sequence[VertexDescription],
    *,
    ignore_in_flight_data: bool = False,
) -> StateAssignment:
    """Assigns the state of a checkpoint to the subtasks.

    Args:
        vertices: all vertices of the job, with the max parallelism that `restore_checks.check_restore` returned.
        ignore_in_flight_data: drops the in-flight data of an unaligned checkpoint.

    Raises: StateRestoreError, which names the operator.
    """
    stored = {operator.operator_id: operator for operator in metadata.operators}
    channels = {} if ignore_in_flight_data else assign_channel_state(stored, vertices)
    task_states = {}
    for vertex in vertices:
        snapshots = _snapshots_of_vertex(vertex, stored, channels)
        task_states.update({(vertex.vertex_id, subtask): snapshot for subtask, snapshot in enumerate(snapshots)})
    known = {operator.operator_id for vertex in vertices for operator in vertex.operators}
    coordinators = {
        operator_id: operator.coordinator
        for operator_id, operator in stored.items()
        if operator_id in known and operator.HasField("coordinator")
    }
    return StateAssignment(task_states, coordinators)


def _snapshots_of_vertex(
    vertex: VertexDescription,
    stored: Mapping[str, checkpoint_pb2.OperatorState],
    channels: Mapping[tuple[str, int], AssignedChannels],
) -> list[checkpoint_pb2.TaskStateSnapshot]:
    snapshots = [checkpoint_pb2.TaskStateSnapshot() for _ in range(vertex.parallelism)]
    for operator in vertex.operators:
        state = stored.get(operator.operator_id)
        if state is not None:
            _check_finished_in_part(operator, state)
            _assign_operator(vertex, operator, state, snapshots)
    head = vertex.operators[0].operator_id
    for subtask, snapshot in enumerate(snapshots):
        in_flight = channels.get((vertex.vertex_id, subtask))
        if in_flight is not None:
            snapshot.operators[head].channels.extend(in_flight.handles)
            snapshot.operators[head].filter_channels = in_flight.needs_filter
    for subtask in _finished_subtasks(vertex, stored):
        states = snapshots[subtask].operators
        # A finished task may still have work, such as a commit. Then it runs again to its end. Keyed state does not
        # count as work, because no more records arrive.
        if not any(state.operator or state.channels for state in states.values()):
            states.clear()
            snapshots[subtask].is_finished = True
    return snapshots


def _assign_operator(
    vertex: VertexDescription,
    operator: OperatorDescription,
    state: checkpoint_pb2.OperatorState,
    snapshots: Sequence[checkpoint_pb2.TaskStateSnapshot],
) -> None:
    old = {subtask: state.subtasks[subtask] for subtask in sorted(state.subtasks)}
    keyed = [(handle, _range_of(handle)) for given in old.values() for handle in given.keyed]
    operator_states = repartition(
        {subtask: given.operator for subtask, given in old.items()}, state.parallelism, vertex.parallelism
    )
    for subtask, snapshot in enumerate(snapshots):
        own = key_group_range(vertex.max_parallelism, vertex.parallelism, subtask)
        # The files that may have keys of these key groups.
        wanted = [handle for handle, stored in keyed if stored.start <= own.end and own.start <= stored.end]
        if wanted or operator_states[subtask]:
            assigned = snapshot.operators[operator.operator_id]
            assigned.keyed.extend(wanted)
            assigned.operator.extend(operator_states[subtask])


def _range_of(handle: checkpoint_pb2.KeyedStateHandle) -> KeyGroupRange:
    key_groups = (handle.incremental if handle.HasField("incremental") else handle.key_groups).key_groups
    return KeyGroupRange(key_groups.start, key_groups.end)


def _finished_subtasks(vertex: VertexDescription, stored: Mapping[str, checkpoint_pb2.OperatorState]) -> list[int]:
    """Returns the subtasks that had finished at the checkpoint, if the parallelism is unchanged."""
    states = [stored.get(operator.operator_id) for operator in vertex.operators]
    if any(state is None for state in states):
        return []
    known = [state for state in states if state is not None]
    if all(state.is_fully_finished for state in known):
        return list(range(vertex.parallelism))
    if any(state.parallelism != vertex.parallelism for state in known):
        return []
    finished = set(range(vertex.parallelism)).intersection(*(state.finished_subtasks for state in known))
    return sorted(finished)


def _check_finished_in_part(operator: OperatorDescription, state: checkpoint_pb2.OperatorState) -> None:
    """Checks union list state, which must be complete. The parts of finished subtasks are lost."""
    if state.is_fully_finished or not state.finished_subtasks:
        return
    known = state.subtasks
    finished = [s for s in state.finished_subtasks if s not in known or not known[s].operator]
    has_union = any(
        elements.mode == checkpoint_pb2.UNION
        for subtask in state.subtasks.values()
        for handle in subtask.operator
        for elements in handle.states
    )
    if finished and has_union:
        raise StateRestoreError(
            f"{operator} has union list state, and some of its subtasks ({', '.join(map(str, finished))}) had "
            "finished when the checkpoint was taken: their part of the state is lost",
            details={"operator": operator.operator_id},
        )


OperatorStateHandle = checkpoint_pb2.OperatorStateHandle
_Elements = OperatorStateHandle.Elements


def repartition(
    old: Mapping[int, Sequence[OperatorStateHandle]], old_parallelism: int, new_parallelism: int
) -> list[list[OperatorStateHandle]]:
    """Distributes operator state to another number of subtasks.

    SPLIT_DISTRIBUTE state is split evenly: each subtask gets consecutive elements, and their numbers differ by at most
    one. UNION state goes to each subtask as a whole. BROADCAST state goes to each subtask as the copy of one subtask.

    Source: org.apache.flink.runtime.checkpoint.RoundRobinOperatorStateRepartitioner.

    Args:
        old: the handles by subtask. Subtasks without state may be missing.

    Returns: the handles of each new subtask.
    """
    sources = [handle for subtask in sorted(old) for handle in old[subtask]]
    given = _Given(new_parallelism, sources)
    unions = [(handle, part) for handle in sources if (part := _part(handle, checkpoint_pb2.UNION))]
    for subtask in range(new_parallelism):
        for handle, part in unions:
            given.add(subtask, handle, part)
    if old_parallelism == new_parallelism:
        for subtask, handles in sorted(old.items()):
            for handle in handles:
                given.add(subtask, handle, _part(handle, checkpoint_pb2.SPLIT_DISTRIBUTE))
    else:
        _split(old, given)
    _broadcast(old, given)
    return given.handles()


class _Given:
    """Collects the handles of subtasks. Parts of one file become one handle, and files keep their order."""

    def __init__(self, parallelism: int, sources: Sequence[OperatorStateHandle]) -> None:
        self.parallelism = parallelism
        self._ranks = {id(source): rank for rank, source in enumerate(sources)}
        self._by_file: list[dict[int, OperatorStateHandle]] = [{} for _ in range(parallelism)]

    def add(self, subtask: int, source: OperatorStateHandle, states: Sequence[_Elements]) -> None:
        if not states:
            return
        rank = self._ranks[id(source)]
        handle = self._by_file[subtask].get(rank)
        if handle is None:
            handle = self._by_file[subtask][rank] = OperatorStateHandle(file=source.file)
        handle.states.extend(states)

    def handles(self) -> list[list[OperatorStateHandle]]:
        return [[by_file[rank] for rank in sorted(by_file)] for by_file in self._by_file]


def _part(handle: OperatorStateHandle, mode: checkpoint_pb2.OperatorStateModeMessage) -> list[_Elements]:
    return [elements for elements in handle.states if elements.mode == mode]


def _split(old: Mapping[int, Sequence[OperatorStateHandle]], given: _Given) -> None:
    """Splits each state evenly. The surplus elements of different states go to different subtasks."""
    by_name: dict[str, list[tuple[OperatorStateHandle, _Elements]]] = {}
    for subtask in sorted(old):
        for handle in old[subtask]:
            for elements in _part(handle, checkpoint_pb2.SPLIT_DISTRIBUTE):
                by_name.setdefault(elements.name, []).append((handle, elements))
    first_with_odd = 0
    for name, sources in sorted(by_name.items()):
        total = sum(len(elements.offsets) for _, elements in sources)
        each, odd = divmod(total, given.parallelism)
        shares = [each + ((s - first_with_odd) % given.parallelism < odd) for s in range(given.parallelism)]
        first_with_odd = (first_with_odd + odd) % given.parallelism
        subtask = 0
        for handle, elements in sources:
            start, end = 0, len(elements.offsets)
            if start == end:
                # An empty state is passed on too, because its name and mode matter to the operator.
                given.add(min(subtask, given.parallelism - 1), handle, [elements])
            while start < end:
                while not shares[subtask]:
                    subtask += 1
                taken = min(shares[subtask], end - start)
                part = _Elements(
                    name=name,
                    mode=elements.mode,
                    offsets=elements.offsets[start : start + taken],
                    lengths=elements.lengths[start : start + taken],
                )
                given.add(subtask, handle, [part])
                shares[subtask] -= taken
                start += taken


def _broadcast(old: Mapping[int, Sequence[OperatorStateHandle]], given: _Given) -> None:
    """Gives each subtask its own copy if it has one, else the copy of another subtask. All copies are equal."""
    copies: dict[str, dict[int, list[tuple[OperatorStateHandle, _Elements]]]] = {}
    for subtask in sorted(old):
        for handle in old[subtask]:
            for elements in _part(handle, checkpoint_pb2.BROADCAST):
                copies.setdefault(elements.name, {}).setdefault(subtask, []).append((handle, elements))
    for _, by_subtask in sorted(copies.items()):
        sources = list(by_subtask.values())
        for subtask in range(given.parallelism):
            for handle, elements in by_subtask.get(subtask, sources[subtask % len(sources)]):
                given.add(subtask, handle, [elements])


ChannelStateHandle = checkpoint_pb2.ChannelStateHandle

#: The partitioners that may send each record to any subtask.
_ANY_SUBTASK = frozenset({"REBALANCE", "SHUFFLE"})


@dataclass(slots=True)
class AssignedChannels:
    """The in-flight data that one subtask processes before its inputs.

    All handles are relative to the consumer: `is_output` is False, `edge_index` is the input edge, and `channel_index`
    is the subtask of the producer at the time of the checkpoint.

    Attributes:
        received: the data that the consumer had received.
        queued: the data that the producer had queued.
        needs_filter: the data of HASH edges contains rows of other subtasks.
    """

    received: list[ChannelStateHandle] = field(default_factory=list)
    queued: list[ChannelStateHandle] = field(default_factory=list)
    needs_filter: bool = False

    @property
    def handles(self) -> list[ChannelStateHandle]:
        """The handles in the order in which they must be processed."""
        return [*self.received, *self.queued]


#: Maps (input edge, subtask of the consumer, subtask of the producer) to (received handles, queued handles).
_Channels = dict[tuple[int, int, int], tuple[list[ChannelStateHandle], list[ChannelStateHandle]]]


def assign_channel_state(
    stored: Mapping[str, checkpoint_pb2.OperatorState], vertices: Sequence[VertexDescription]
) -> dict[tuple[str, int], AssignedChannels]:
    """Assigns the in-flight data of an unaligned checkpoint to the subtasks that process it.

    A channel's data consists of the data that its consumer had received and the data that its producer had queued. A
    restore gives both to the consumer, and the received data first, because it was sent earlier. If the parallelism of
    the consumer has changed, a subtask of a HASH edge gets all channels that may hold its keys and skips the rows of
    other subtasks. The channels of other edges are distributed round robin.

    Returns: the data by vertex id and subtask, without subtasks that get none.
    Raises: StateRestoreError, which names the vertex and the edge, if the edge does not exist any more or its
        partitioner does not allow another parallelism.
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
        if state is None:
            continue
        for handle in [handle for subtask in sorted(state.subtasks) for handle in state.subtasks[subtask].channels]:
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
                    raise _missing_edge_error(vertex, f"input {seen.edge_index}")
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
        raise StateRestoreError(f"the checkpoint has in-flight data for {vertex.name!r}, but no state of it")
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
        raise _missing_edge_error(producer, f"output {handle.edge_index}")
    return found


def _check_only_head_has_channels(
    vertex: VertexDescription, stored: Mapping[str, checkpoint_pb2.OperatorState]
) -> None:
    for operator in vertex.operators[1:]:
        state = stored.get(operator.operator_id)
        if state is not None and any(subtask.channels for subtask in state.subtasks.values()):
            raise _missing_edge_error(vertex, f"the input of {operator}, which is now in the middle of a chain")


def _missing_edge_error(vertex: VertexDescription, what: str) -> StateRestoreError:
    return StateRestoreError(
        f"the checkpoint has in-flight data of {vertex.name!r}, {what}, which the job does not have any more. A "
        "changed job can be restored from a savepoint, but not from an unaligned checkpoint"
    )
