"""SnapshotFiles: which files a checkpoint or savepoint names, and which of them may be deleted with it. Pure.

Metadata may come from anybody who can write to the directory that a user names. So no path in it is followed out of the
places where checkpoints keep their files, and nothing is deleted but what lies in such a place.

    <directory>/...                      the snapshot's own files
    <parent>/shared/, taskowned/         files of several checkpoints of one job, beside its `chk-<n>` directories
    <elsewhere>/shared/, taskowned/      the same of another job, from which this one was restored

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
from flinkpy.checkpoint.storage.file_system import name_of, parent_of
from flinkpy.common.errors import CorruptStateError

_JOB_ID = re.compile("[0-9a-f]{32}")
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The files that one snapshot names, by whose they are.

    Attributes:
        own: in its directory.
        shared: shared by the checkpoints of its job.
        claimable: shared by the checkpoints of another job that keeps its checkpoints in the same place.
        foreign: shared files of another job that are anywhere else; never deleted with this snapshot.
    """

    own: frozenset[str]
    shared: frozenset[str]
    claimable: frozenset[str]
    foreign: frozenset[str]


def snapshot_files(metadata: checkpoint_pb2.CheckpointMetadata, directory: str) -> SnapshotFiles:
    """Sorts the files of a snapshot that lies in `directory`.

    Args:
        metadata: with absolute paths.

    Raises: CorruptStateError naming the first path that cannot be state of a checkpoint.
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
