"""CheckpointsCleaner: deletes what is no longer needed, and nothing else. Blocking; never on a main thread.

`_metadata` goes first, so that what is half deleted is no checkpoint to anybody. A file that is not there is fine. What
cannot be deleted now is left, with a warning: the next life of the job finds it again.

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

#: Deletions at the same time on a file system that is reached over a network, where each waits for an answer.
_DELETING_THREADS = 8
#: Clocks of hosts differ: a file this much older than "now" is taken for older.
CLOCK_SKEW_MS = 5 * 60_000


class CheckpointsCleaner:
    """Thread: any.

    Args:
        in_use: directories of checkpoints that must not lose a file; asked before each deletion.
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
        """Delete a checkpoint that is not in use any more, and the shared files that were only its.

        Raises: ValueError where it is in use.
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
                # Not made by this job: only what is known to belong to it.
                discard_exactly(self._storage.file_systems, checkpoint.external_path, checkpoint.metadata)
        with _left_for_later(f"shared files of {checkpoint!r}"):
            failpoint("discard.before_shared")
            self._delete(freed)

    def discard_pending(self, checkpoint_id: int, location: CheckpointStorageLocation | None) -> None:
        """Delete what a checkpoint that was given up has written so far, as far as its acknowledgements told.

        What its tasks write later they delete themselves, or `discard_states` does when they tell.
        """
        if location is not None and location.directory in self._in_use():
            raise ValueError(f"checkpoint {checkpoint_id} is completed")
        freed = self._registry.unregister(checkpoint_id)
        if location is not None:
            with _left_for_later(location.directory):
                self._storage.discard_location(location)
        with _left_for_later(f"shared files of checkpoint {checkpoint_id}"):
            self._delete(freed)

    def discard_states(self, states: Iterable[checkpoint_pb2.TaskStateSnapshot]) -> None:
        """Delete what tasks reported for a checkpoint that is not going to be completed, e.g. too late.

        Files of completed checkpoints, and shared ones that any checkpoint uses, stay: a repeated acknowledgement
        may tell of them too.
        """
        kept = [directory.rstrip("/") for directory in self._in_use()]
        paths: set[str] = set()
        for snapshot in states:
            shared = shared_paths_of_snapshot(snapshot)
            exclusive = paths_of(handles_of_snapshot(snapshot)) - shared
            paths.update(path for path in exclusive if not any(is_below(path, directory) for directory in kept))
            paths.update(self._registry.deletable(shared))
        with _left_for_later("state of a checkpoint that was given up"):
            self._delete(sorted(paths))

    def delete_incomplete(self, below_id: int | None, keep_ids: Collection[int]) -> list[str]:
        """Delete directories of earlier checkpoints that never got their `_metadata`.

        Args:
            below_id: only ids lower than this, which has been completed; None: any. keep_ids: pending ones.

        Returns: the directories.
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
        """At the start of a JobMaster, when the checkpoints to recover from are known: what its predecessor left.

        That are directories of checkpoints that nobody points at, and shared files that none of them uses. Only where
        there is a checkpoint to recover from: where there is none, that may be an error which a person has to look at.

        Args:
            next_checkpoint_id: only lower ids are the predecessor's.
            now_ms: since the epoch; shared files must be older than this by more than CLOCK_SKEW_MS.

        Returns: the directories and files.
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
        """Delete shared files that no checkpoint uses, e.g. of a task that was killed before it acknowledged them.

        Args:
            before_ms: since the epoch; files written later may be of a checkpoint that is not acknowledged yet.

        Returns: the files.
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
        """The job has ended and keeps no checkpoint."""
        storage = self._storage
        if storage.owns_job_directory and not self._in_use():
            with _left_for_later(storage.job_directory):
                storage.file_systems.of(storage.job_directory).delete_directory(storage.job_directory)

    def _ids_in_job_directory(self) -> list[int]:
        return checkpoint_ids_in(self._storage.file_systems, self._storage.job_directory)

    def _delete(self, paths: list[str]) -> None:
        delete_files(self._storage.file_systems, paths, is_parallel=self._is_parallel)


def checkpoint_ids_in(file_systems: FileSystems, job_directory: str) -> list[int]:
    """Of the directories chk-n, in order."""
    names = [entry.name for entry in file_systems.of(job_directory).list(job_directory) if entry.is_directory]
    numbers = [name.removeprefix(CHECKPOINT_DIRECTORY_PREFIX) for name in names if name.startswith("chk-")]
    return sorted(int(number) for number in numbers if number.isdigit())


def discard_directory(file_systems: FileSystems, directory: str) -> None:
    """Delete the directory of a checkpoint with whatever is in it. Raises: CheckpointStorageError."""
    file_system = file_systems.of(directory)
    file_system.delete_file(join(directory, METADATA_FILE_NAME))
    failpoint("discard.after_metadata")
    file_system.delete_directory(directory)


def discard_exactly(file_systems: FileSystems, directory: str, metadata: checkpoint_pb2.CheckpointMetadata) -> None:
    """Delete a checkpoint's `_metadata` and the files in its directory that it names, and the directory if that is all.

    Files that a crash left half-written there are its own too.

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
    """Deletes files of checkpoints. What lies in a directory `shared` that is a symbolic link is not deleted.

    Raises: CheckpointStorageError, after the others have been tried.
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
    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        if isinstance(error, CheckpointStorageError | OSError):
            logger.warning("%s is not deleted now: %s", self._what, error)
            return True
        return False
