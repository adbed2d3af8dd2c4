"""Loads the savepoint or retained checkpoint from which a job starts, and disposes of savepoints. Blocking.

Source: org.apache.flink.runtime.checkpoint.Checkpoints.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass

from flinkpy.checkpoint.checkpoints_cleaner import checkpoint_ids_in, delete_files, discard_exactly
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint, is_savepoint
from flinkpy.checkpoint.metadata import CHECKPOINT_DIRECTORY_PREFIX, load_metadata
from flinkpy.checkpoint.snapshot_files import snapshot_files, verify_checkpoint
from flinkpy.checkpoint.state_handles import handles_of_metadata, paths_of
from flinkpy.checkpoint.storage.file_system import join, name_of, parent_of
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.common.errors import CheckpointStorageError, CorruptStateError, StateRestoreError
from flinkpy.configuration.checkpointing_options import CLAIM_MODE, IGNORE_UNCLAIMED_STATE, RESTORE_PATH
from flinkpy.configuration.options import AnyConfiguration, read_option

logger = logging.getLogger(__name__)


class RecoveryClaimMode(enum.Enum):
    """The owner of the snapshot from which a job starts. Source: org.apache.flink.core.execution.RecoveryClaimMode."""

    CLAIM = "owned by the job, which deletes it when it is not needed any more"
    NO_CLAIM = "owned by the user and never changed; the first checkpoint shares no files with it"
    LEGACY = "owned by the user and never changed; later checkpoints may use its files"

    @property
    def is_owned(self) -> bool:
        return self is RecoveryClaimMode.CLAIM

    @property
    def needs_full_checkpoint(self) -> bool:
        """True if the first checkpoint after the restore must not refer to files of the snapshot."""
        return self is RecoveryClaimMode.NO_CLAIM


@dataclass(frozen=True, slots=True)
class SavepointRestoreSettings:
    """The user's settings for the restore. Source: org.apache.flink.runtime.jobgraph.SavepointRestoreSettings."""

    path: str
    claim_mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM
    allow_non_restored_state: bool = False

    @classmethod
    def from_configuration(cls, configuration: AnyConfiguration) -> SavepointRestoreSettings | None:
        """Reads the settings. Returns None if the job starts without state. Raises: ConfigurationError."""
        path = read_option(configuration, RESTORE_PATH)
        if not path:
            return None
        claim_mode = RecoveryClaimMode[read_option(configuration, CLAIM_MODE)]
        return cls(path, claim_mode, read_option(configuration, IGNORE_UNCLAIMED_STATE))


def load_savepoint(settings: SavepointRestoreSettings, file_systems: FileSystems) -> CompletedCheckpoint:
    """Returns the snapshot from which the job starts.

    All files that it names exist, in places where checkpoints keep files.

    Raises: CheckpointNotFoundError, CorruptStateError, CheckpointStorageError, ConfigurationError; StateRestoreError if
        a newer release wrote it. All of them name the path.
    """
    directory, metadata = load_metadata(file_systems, settings.path)
    snapshot_files(metadata, directory)
    try:
        verify_checkpoint(metadata, file_systems)
    except CorruptStateError as error:
        kind = "savepoint" if is_savepoint(metadata) else "checkpoint"
        raise CorruptStateError(f"the {kind} at {directory} is not complete: {error}", details=error.details) from error
    return CompletedCheckpoint(metadata, directory, settings.claim_mode.is_owned)


def dispose_savepoint(path: str, file_systems: FileSystems) -> None:
    """Deletes a savepoint or a retained checkpoint, but no other files in its directory.

    Shared files of a checkpoint are deleted if no other checkpoint in the directory of its job needs them. Shared files
    of another job are kept, because that job may need them.

    Raises: CheckpointNotFoundError, CorruptStateError, StateRestoreError, CheckpointStorageError. Nothing is deleted if
        the metadata cannot be read, or if it names a file that cannot belong to the snapshot.
    """
    directory, metadata = load_metadata(file_systems, path)
    files = snapshot_files(metadata, directory)
    deletable = sorted(files.shared - _used_by_siblings(file_systems, directory)) if files.shared else []
    _check_places(file_systems, parent_of(directory), deletable)
    kept = sorted(files.claimable | files.foreign)
    if kept:
        logger.warning("keeping %d shared files of other jobs that %s used, e.g. %s", len(kept), directory, kept[0])
    discard_exactly(file_systems, directory, metadata)
    delete_files(file_systems, deletable)


def _check_places(file_systems: FileSystems, job_directory: str, paths: list[str]) -> None:
    """Raises: CorruptStateError if a file to delete is in a directory that is a link to another place."""
    places = {name_of(parent_of(path)) for path in paths}
    entries = file_systems.of(job_directory).list(job_directory) if places else []
    for entry in entries:
        if entry.name in places and not entry.is_directory:
            raise CorruptStateError(
                f"{join(job_directory, entry.name)} is not a directory but, for example, a link to one: nothing is "
                "deleted there",
                details={"path": join(job_directory, entry.name)},
            )


def _used_by_siblings(file_systems: FileSystems, directory: str) -> set[str]:
    """Returns the files that the other checkpoints of the job need."""
    job_directory = parent_of(directory)
    needed: set[str] = set()
    for checkpoint_id in checkpoint_ids_in(file_systems, job_directory):
        sibling = join(job_directory, f"{CHECKPOINT_DIRECTORY_PREFIX}{checkpoint_id}")
        if name_of(sibling) == name_of(directory):
            continue
        try:
            needed |= paths_of(handles_of_metadata(load_metadata(file_systems, sibling)[1]))
        except (CorruptStateError, StateRestoreError) as error:
            raise CheckpointStorageError(
                f"{directory} is not deleted, because {sibling} may need its shared files and cannot be read: {error}",
                details={"path": directory},
            ) from error
    return needed
