"""The files that a checkpoint or savepoint names: the owners of the files, and the check that they are whole.

Anybody who can write to the directory that a user names could have written the metadata. So paths outside of the places
where checkpoints keep their files are refused, and only files in such places are deleted.

    <directory>/...                      the snapshot's own files
    <parent>/shared/, taskowned/         shared files of the checkpoints of its job, beside the `chk-<n>` directories
    <elsewhere>/shared/, taskowned/      shared files of another job, from which this one was restored

Source: org.apache.flink.runtime.checkpoint.Checkpoints.
Differs: Flink deletes every path that the metadata names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.completed_checkpoint import is_savepoint
from flinkpy.checkpoint.metadata import CHECKPOINT_DIRECTORY_PREFIX
from flinkpy.checkpoint.state_handles import handles_of_metadata, paths_of
from flinkpy.checkpoint.storage.checkpoint_storage import SHARED_DIRECTORY, TASK_OWNED_DIRECTORY
from flinkpy.checkpoint.storage.file_system import MissingFileError, name_of, parent_of
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.checkpoint.storage.reader import StateFileReader, check_size, missing_error
from flinkpy.common.errors import CorruptStateError

_JOB_ID = re.compile("[0-9a-f]{32}")
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The files that one snapshot names, by their owner. Pure.

    Attributes:
        own: the files in its directory.
        shared: files that the checkpoints of its job share.
        claimable: files that the checkpoints of another job share, which keeps its checkpoints in the same place.
        foreign: shared files of other jobs in all other places. They are never deleted with this snapshot.
    """

    own: frozenset[str]
    shared: frozenset[str]
    claimable: frozenset[str]
    foreign: frozenset[str]


def snapshot_files(metadata: checkpoint_pb2.CheckpointMetadata, directory: str) -> SnapshotFiles:
    """Sorts the files of the snapshot in `directory` by their owner.

    Args:
        metadata: the metadata with absolute paths.

    Raises: CorruptStateError, which names the first path that cannot be state of a checkpoint.
    """
    own, shared, claimable, foreign = set(), set(), set(), set()
    job_directory = parent_of(directory)
    is_checkpoint = not is_savepoint(metadata) and _is_checkpoint_directory(directory)
    for path in sorted(paths_of(handles_of_metadata(metadata))):
        place = parent_of(path)
        owner = parent_of(place)
        if place == directory:
            own.add(path)
        elif name_of(place) not in (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY):
            shown = ascii(path[:_SHOWN_CHARS])
            raise CorruptStateError(
                f"the metadata in {directory} names {shown}, which is neither in this directory nor shared state of a "
                "job; nothing was read from there or deleted",
                details={"path": directory, "named": shown},
            )
        elif is_checkpoint and owner == job_directory:
            shared.add(path)
        elif is_checkpoint and parent_of(owner) == parent_of(job_directory) and _JOB_ID.fullmatch(name_of(owner)):
            claimable.add(path)
        else:
            foreign.add(path)
    return SnapshotFiles(frozenset(own), frozenset(shared), frozenset(claimable), frozenset(foreign))


def _is_checkpoint_directory(directory: str) -> bool:
    name = name_of(directory)
    return name.startswith(CHECKPOINT_DIRECTORY_PREFIX) and name[len(CHECKPOINT_DIRECTORY_PREFIX) :].isdecimal()


def verify_checkpoint(
    metadata: checkpoint_pb2.CheckpointMetadata, file_systems: FileSystems, *, read_everything: bool = False
) -> None:
    """Checks that all files of a checkpoint exist with their stored lengths. Blocking.

    Args:
        metadata: the metadata with absolute paths.
        read_everything: also compares the checksums, which reads the whole state.

    Raises: CorruptStateError, which names the first missing or different file; CheckpointStorageError if a file system
        fails.
    """
    reader = StateFileReader({}, file_systems, use_local=False) if read_everything else None
    seen = set()
    for handle in handles_of_metadata(metadata):
        is_file = handle.WhichOneof("location") == "path"
        if is_file and handle.path in seen:
            continue
        if is_file:
            seen.add(handle.path)
            try:
                size_bytes = file_systems.of(handle.path).size_bytes(handle.path)
            except MissingFileError:
                raise missing_error(handle.path) from None
            check_size(handle.path, size_bytes, handle)
        if reader is not None:
            reader.open(handle).close()
