"""Iterates over the handles in checkpoint messages, to find the files of a checkpoint and their total size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flinkpy._proto import checkpoint_pb2

StreamStateHandle = checkpoint_pb2.StreamStateHandle


def handles_of_keyed(state: checkpoint_pb2.KeyedStateHandle) -> Iterator[StreamStateHandle]:
    if state.WhichOneof("kind") == "incremental":
        incremental = state.incremental
        yield from (file.handle for file in incremental.shared)
        yield from (file.handle for file in incremental.private)
        yield incremental.meta
    else:
        yield state.key_groups.file


def handles_of_subtask(state: checkpoint_pb2.OperatorSubtaskState) -> Iterator[StreamStateHandle]:
    for keyed in state.keyed:
        yield from handles_of_keyed(keyed)
    yield from (operator.file for operator in state.operator)
    yield from (channel.file for channel in state.channels)


def handles_of_snapshot(snapshot: checkpoint_pb2.TaskStateSnapshot) -> Iterator[StreamStateHandle]:
    for state in snapshot.operators.values():
        yield from handles_of_subtask(state)


def handles_of_metadata(metadata: checkpoint_pb2.CheckpointMetadata) -> Iterator[StreamStateHandle]:
    """Yields all handles of a checkpoint. Several handles may refer to one file."""
    for operator in metadata.operators:
        for state in operator.subtasks.values():
            yield from handles_of_subtask(state)
        if operator.HasField("coordinator"):
            yield operator.coordinator


def paths_of(handles: Iterable[StreamStateHandle]) -> set[str]:
    """Returns the paths of the handles that are files."""
    return {handle.path for handle in handles if handle.WhichOneof("location") == "path"}


def shared_paths_of_snapshot(snapshot: checkpoint_pb2.TaskStateSnapshot) -> set[str]:
    """Returns the files that other checkpoints may use too."""
    return {path for state in snapshot.operators.values() for path in _shared_paths(state)}


def shared_paths_of_metadata(metadata: checkpoint_pb2.CheckpointMetadata) -> set[str]:
    """Returns the files that other checkpoints may use too."""
    return {path for operator in metadata.operators for s in operator.subtasks.values() for path in _shared_paths(s)}


def _shared_paths(state: checkpoint_pb2.OperatorSubtaskState) -> set[str]:
    return paths_of(file.handle for keyed in state.keyed for file in keyed.incremental.shared)


def state_size_bytes(handles: Iterable[StreamStateHandle]) -> int:
    """Returns the total size of the files and of inlined state in bytes. Each file counts once."""
    sizes = {}
    inlined = 0
    for handle in handles:
        if handle.WhichOneof("location") == "path":
            sizes[handle.path] = handle.size_bytes
        else:
            inlined += handle.size_bytes
    return inlined + sum(sizes.values())


def has_state(state: checkpoint_pb2.OperatorSubtaskState) -> bool:
    return bool(state.keyed or state.operator or state.channels)
