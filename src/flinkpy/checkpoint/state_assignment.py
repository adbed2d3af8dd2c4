"""StateAssignment: which subtask gets which state of a checkpoint, at whatever parallelism. Pure.

Keyed state goes by key groups, operator state by its mode, in-flight data by its edge. Handles are passed on as they
are: a backend gets every file with some of its key groups, and reads only those.

Source: org.apache.flink.runtime.checkpoint.StateAssignmentOperation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.channel_state_assignment import AssignedChannels, assign_channel_state
from flinkpy.checkpoint.job_description import OperatorDescription, VertexDescription
from flinkpy.checkpoint.operator_state_repartitioner import repartition
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.key_groups import KeyGroupRange, key_group_range


@dataclass(frozen=True, slots=True)
class StateAssignment:
    """Attributes:
    task_states: by vertex id and subtask; every subtask has one, which may be empty.
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
    """Hand out the state of a checkpoint that has been checked (`restore_checks`).

    Args:
        vertices: of the whole job, with the max parallelism that those checks have given them.

    Raises: StateRestoreError naming the operator.
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
        # What had finished may still have something to do, e.g. to commit: then it runs again, to its end. Keyed state
        # is for records, of which none will come.
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
        # A file that may have keys of these key groups.
        wanted = [handle for handle, stored in keyed if stored.start <= own.end and own.start <= stored.end]
        if wanted or operator_states[subtask]:
            assigned = snapshot.operators[operator.operator_id]
            assigned.keyed.extend(wanted)
            assigned.operator.extend(operator_states[subtask])


def _range_of(handle: checkpoint_pb2.KeyedStateHandle) -> KeyGroupRange:
    key_groups = (handle.incremental if handle.HasField("incremental") else handle.key_groups).key_groups
    return KeyGroupRange(key_groups.start, key_groups.end)


def _finished_subtasks(vertex: VertexDescription, stored: Mapping[str, checkpoint_pb2.OperatorState]) -> list[int]:
    """Subtasks that had finished when the checkpoint was taken, and are the same now."""
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
    """Of subtasks that had finished nothing is left, and union list state must be complete."""
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
            "finished when the checkpoint was taken: their part of it is gone",
            details={"operator": operator.operator_id},
        )
