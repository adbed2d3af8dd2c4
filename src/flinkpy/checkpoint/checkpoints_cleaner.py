"""CheckpointsCleaner: deletes the files of checkpoints that are not needed any more. Blocking; never on a main thread.

It deletes `_metadata` first, so that a half-deleted checkpoint does not look like a complete one. Missing files are no
error. If a file cannot be deleted, the cleaner logs a warning, and the next JobMaster of the job finds the file again.

Source: org.apache.flink.runtime.checkpoint.CheckpointsCleaner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.metadata import CHECKPOINT_DIRECTORY_PREFIX, METADATA_FILE_NAME
from flinkpy.checkpoint.shared_state_registry import SharedStateRegistry
from flinkpy.checkpoint.state_handles import (
    handles_of_metadata,
    handles_of_snapshot,
    paths_of,
    shared_paths_of_snapshot,
)
from flinkpy.checkpoint.storage.checkpoint_storage import (
    SHARED_DIRECTORY,
    TASK_OWNED_DIRECTORY,
    CheckpointStorage,
    CheckpointStorageLocation,
)
from flinkpy.checkpoint.storage.file_system import is_below, join, name_of, parent_of
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.common.durable_file import UNFINISHED_SUFFIX
from flinkpy.common.errors import CheckpointStorageError
from flinkpy.common.failpoints import failpoint

logger = logging.getLogger(__name__)

#: The number of parallel deletions on remote file systems, where each deletion waits for an answer.
_DELETING_THREADS = 8
#: The tolerance for different clocks of hosts: only files that are older by more than this count as old.
CLOCK_SKEW_MS = 5 * 60_000


class CheckpointsCleaner:
    """Deletes the files of checkpoints of one job. Thread: any.

    Args:
        in_use: returns the directories of checkpoints that must not lose a file. Called before each deletion.
        is_parallel: execution.checkpointing.cleaner.parallel-mode.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        registry: SharedStateRegistry,
        in_use: Callable[[], Collection[str]],
        *,
        is_parallel: bool = True,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._in_use = in_use
        self._is_parallel = is_parallel

    def discard_completed(self, checkpoint: CompletedCheckpoint) -> None:
        """Deletes a checkpoint that is not in use any more, and the shared files that no other checkpoint uses.

        Raises: ValueError if it is in use.
        """
        if checkpoint.external_path in self._in_use():
            raise ValueError(f"{checkpoint!r} is in use")
        freed = self._registry.unregister(checkpoint.checkpoint_id)
        if not checkpoint.is_owned:
            return
        with _left_for_later(f"{checkpoint!r}"):
            failpoint("discard.before_metadata")
            if checkpoint.external_path == self._storage.directory_of(checkpoint.checkpoint_id):
                discard_directory(self._storage.file_systems, checkpoint.external_path)
            else:
                # Another job made it, so only the files that it names are deleted.
                discard_exactly(self._storage.file_systems, checkpoint.external_path, checkpoint.metadata)
        with _left_for_later(f"shared files of {checkpoint!r}"):
            failpoint("discard.before_shared")
            self._delete(freed)

    def discard_pending(self, checkpoint_id: int, location: CheckpointStorageLocation | None) -> None:
        """Deletes the directory of an aborted checkpoint, and the shared files that its acknowledgements named.

        Tasks delete the files that they write later themselves, or `discard_states` deletes them when tasks report
        them.
        """
        if location is not None and location.directory in self._in_use():
            raise ValueError(f"checkpoint {checkpoint_id} is complete and in use")
        freed = self._registry.unregister(checkpoint_id)
        if location is not None:
            with _left_for_later(location.directory):
                self._storage.discard_location(location)
        with _left_for_later(f"shared files of checkpoint {checkpoint_id}"):
            self._delete(freed)

    def discard_states(self, states: Iterable[checkpoint_pb2.TaskStateSnapshot]) -> None:
        """Deletes the state that tasks reported for a failed checkpoint, for example too late.

        Keeps the files of complete checkpoints and the shared files in use, because a repeated acknowledgement may name
        them too.
        """
        kept = [directory.rstrip("/") for directory in self._in_use()]
        paths: set[str] = set()
        for snapshot in states:
            shared = shared_paths_of_snapshot(snapshot)
            exclusive = paths_of(handles_of_snapshot(snapshot)) - shared
            paths.update(path for path in exclusive if not any(is_below(path, directory) for directory in kept))
            paths.update(self._registry.deletable(shared))
        with _left_for_later("state of an aborted checkpoint"):
            self._delete(sorted(paths))

    def delete_incomplete(self, below_id: int | None, keep_ids: Collection[int]) -> list[str]:
        """Deletes the directories of checkpoints that never got their `_metadata`.

        Args:
            below_id: the id of a complete checkpoint; only directories of lower ids are deleted. None: all ids.
            keep_ids: the ids of checkpoints in progress.

        Returns: the deleted directories.
        """
        storage = self._storage
        if not storage.owns_job_directory:
            return []
        deleted = []
        with _left_for_later(f"incomplete checkpoints in {storage.job_directory}"):
            file_system = storage.file_systems.of(storage.job_directory)
            in_use = self._in_use()
            for checkpoint_id in self._ids_in_job_directory():
                directory = storage.directory_of(checkpoint_id)
                is_later = below_id is not None and checkpoint_id >= below_id
                if is_later or checkpoint_id in keep_ids or directory in in_use:
                    continue
                if not file_system.exists(join(directory, METADATA_FILE_NAME)):
                    file_system.delete_directory(directory)
                    deleted.append(directory)
        return deleted

    def delete_leftovers(self, next_checkpoint_id: int, now_ms: int) -> list[str]:
        """Deletes the leftovers of the previous JobMaster. Called when the checkpoints to recover from are known.

        Leftovers are directories of checkpoints without a pointer, and shared files that no checkpoint uses. Nothing is
        deleted without a checkpoint to recover from, because that may be an error that a person must investigate.

        Args:
            next_checkpoint_id: only lower ids belong to the previous JobMaster.
            now_ms: ms since the epoch. Only shared files older than this by more than CLOCK_SKEW_MS are deleted.

        Returns: the deleted directories and files.
        """
        storage = self._storage
        in_use = set(self._in_use())
        if not storage.owns_job_directory or not in_use:
            return []
        deleted: list[str] = []
        with _left_for_later(f"leftovers in {storage.job_directory}"):
            for checkpoint_id in self._ids_in_job_directory():
                directory = storage.directory_of(checkpoint_id)
                if checkpoint_id < next_checkpoint_id and directory not in in_use:
                    discard_directory(storage.file_systems, directory)
                    deleted.append(directory)
        return deleted + self.delete_unused_shared_files(now_ms - CLOCK_SKEW_MS)

    def delete_unused_shared_files(self, before_ms: int) -> list[str]:
        """Deletes shared files that no checkpoint uses, for example of a task that was killed before it acknowledged.

        Args:
            before_ms: ms since the epoch. Later files may belong to a checkpoint that is not acknowledged yet.

        Returns: the deleted files.
        """
        directory = self._storage.shared_directory
        if not self._storage.owns_job_directory:
            return []
        unused: list[str] = []
        with _left_for_later(f"unused files in {directory}"):
            entries = self._storage.file_systems.of(directory).list(directory)
            files = [entry for entry in entries if not entry.is_directory]
            old = [entry.name for entry in files if entry.modified_ms is not None and entry.modified_ms < before_ms]
            unused = self._registry.deletable(join(directory, name) for name in old)
            self._delete(unused)
        return unused

    def delete_job_directory(self) -> None:
        """Deletes the directory of a job that has ended and keeps no checkpoint."""
        storage = self._storage
        if storage.owns_job_directory and not self._in_use():
            with _left_for_later(storage.job_directory):
                storage.file_systems.of(storage.job_directory).delete_directory(storage.job_directory)

    def _ids_in_job_directory(self) -> list[int]:
        return checkpoint_ids_in(self._storage.file_systems, self._storage.job_directory)

    def _delete(self, paths: list[str]) -> None:
        delete_files(self._storage.file_systems, paths, is_parallel=self._is_parallel)


def checkpoint_ids_in(file_systems: FileSystems, job_directory: str) -> list[int]:
    """Returns the ids of the directories chk-<id>, in order."""
    names = [entry.name for entry in file_systems.of(job_directory).list(job_directory) if entry.is_directory]
    numbers = [name.removeprefix(CHECKPOINT_DIRECTORY_PREFIX) for name in names if name.startswith("chk-")]
    return sorted(int(number) for number in numbers if number.isdigit())


def discard_directory(file_systems: FileSystems, directory: str) -> None:
    """Deletes the directory of a checkpoint with its whole content. Raises: CheckpointStorageError."""
    file_system = file_systems.of(directory)
    file_system.delete_file(join(directory, METADATA_FILE_NAME))
    failpoint("discard.after_metadata")
    file_system.delete_directory(directory)


def discard_exactly(file_systems: FileSystems, directory: str, metadata: checkpoint_pb2.CheckpointMetadata) -> None:
    """Deletes the `_metadata` of a checkpoint, the files in its directory that it names, and the directory if empty.

    Also deletes unfinished files there, which a crash may have left.

    Raises: CheckpointStorageError.
    """
    file_system = file_systems.of(directory)
    file_system.delete_file(join(directory, METADATA_FILE_NAME))
    failpoint("discard.after_metadata")
    own = sorted(path for path in paths_of(handles_of_metadata(metadata)) if parent_of(path) == directory)
    own += [join(directory, e.name) for e in file_system.list(directory) if e.name.endswith(UNFINISHED_SUFFIX)]
    delete_files(file_systems, own)
    file_system.delete_empty_directory(directory)


def delete_files(file_systems: FileSystems, paths: list[str], *, is_parallel: bool = True) -> None:
    """Deletes files of checkpoints. Does not delete files in a directory `shared` that is a symbolic link.

    Raises: CheckpointStorageError, after all files have been tried.
    """
    errors: list[CheckpointStorageError] = []

    def delete(path: str) -> None:
        place = parent_of(path)
        is_shared = name_of(place) in (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY)
        try:
            file_systems.of(path).delete_file_below(parent_of(place) if is_shared else place, path)
        except CheckpointStorageError as error:
            errors.append(error)

    if is_parallel and len(paths) > 1 and not file_systems.of(paths[0]).is_local:
        with ThreadPoolExecutor(_DELETING_THREADS, thread_name_prefix="checkpoints-cleaner") as executor:
            list(executor.map(delete, paths))
    else:
        for path in paths:
            delete(path)
    if errors:
        raise CheckpointStorageError(
            f"{len(errors)} of {len(paths)} files could not be deleted: {errors[0]}", details=errors[0].details
        )


class _left_for_later:
    """A context manager that turns storage errors of a deletion into a warning."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        if isinstance(error, CheckpointStorageError | OSError):
            logger.warning("Could not delete %s now: %s", self._what, error)
            return True
        return False
