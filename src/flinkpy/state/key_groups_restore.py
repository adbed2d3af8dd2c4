"""Reads the key groups of one subtask from any number of files in the canonical format; for every backend."""

from __future__ import annotations

from collections.abc import Iterator

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import StateMigrationError, StateRestoreError
from flinkpy.state.backend import KeyedStateBackendParameters
from flinkpy.state.key_groups_file import Chunk, KeyGroupsFileReader, KeyGroupsHeader
from flinkpy.state.meta_info import StateMetaInfo, key_conversion_is_possible
from flinkpy.state.type_snapshot import describe_type, show_type


def restored_chunks(
    parameters: KeyedStateBackendParameters, handle: checkpoint_pb2.KeyGroupsStateHandle
) -> Iterator[tuple[StateMetaInfo, Chunk]]:
    """The chunks of the subtask's key groups, in order of key group; none where the file has none of them.

    Raises: StateRestoreError (newer format, other max parallelism), StateMigrationError (another type of key),
        CorruptStateError, CheckpointStorageError.
    """
    wanted = parameters.key_group_range
    if handle.key_groups.end < wanted.start or handle.key_groups.start > wanted.end:
        return
    if parameters.files is None:
        raise StateRestoreError(f"operator {parameters.operator_name!r}: there is state, but nothing to read it with")
    with parameters.files.open(handle.file) as file:
        reader = KeyGroupsFileReader(file, handle)
        check_header(parameters, reader.header)
        states = reader.header.states
        for chunk in reader.chunks(wanted):
            yield states[chunk.state_index], chunk


def check_header(parameters: KeyedStateBackendParameters, header: KeyGroupsHeader) -> None:
    """Whether the subtask may take this state. Raises: as `restored_chunks`."""
    operator = f"operator {parameters.operator_name!r}"
    if header.max_parallelism != parameters.max_parallelism:
        raise StateRestoreError(
            f"{operator}: the state was written with max parallelism {header.max_parallelism} and cannot be restored "
            f"with {parameters.max_parallelism}: keys would belong to other key groups"
        )
    key_type = None if parameters.key_type is None else describe_type(parameters.key_type)
    if not key_conversion_is_possible(header.key_type, key_type):
        assert header.key_type is not None
        assert key_type is not None
        raise StateMigrationError(
            f"{operator}: the type of the key was {show_type(header.key_type)} and is {show_type(key_type)} now",
            details={"operator": parameters.operator_name, "field": "key"},
        )
