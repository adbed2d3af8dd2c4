"""CompletedCheckpointStore: the complete checkpoints from which a job can be restored, newest last.

A checkpoint is complete once its pointer is durable. Only then may the checkpoints that it replaces be deleted. A
pointer to a deleted checkpoint is dropped when the pointers are read. A checkpoint without a pointer is a leftover.

```
  state files -> _metadata -> pointer | complete from here | -> confirm -> delete older checkpoints
```

Source: org.apache.flink.runtime.checkpoint.DefaultCompletedCheckpointStore.
"""

from __future__ import annotations

import hashlib
import logging
import threading

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.checkpoints_cleaner import CheckpointsCleaner, checkpoint_ids_in
from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention, CompletedCheckpoint
from flinkpy.checkpoint.metadata import METADATA_FILE_NAME, decode_and_resolve, read_metadata_file
from flinkpy.checkpoint.shared_state_registry import SharedStateRegistry
from flinkpy.checkpoint.snapshot_files import snapshot_files, verify_checkpoint
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage
from flinkpy.checkpoint.storage.file_system import join, storage_error
from flinkpy.common.durable_file import CorruptFileError
from flinkpy.common.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    CorruptStateError,
    FlinkError,
    HighAvailabilityError,
    LeadershipLostError,
    StateRestoreError,
)
from flinkpy.common.failpoints import failpoint
from flinkpy.common.job_status import JobStatus
from flinkpy.highavailability.checkpoint_stores import CheckpointPointerStore

logger = logging.getLogger(__name__)


class CompletedCheckpointStore:
    """The retained checkpoints of one job. Blocking, except the properties. Thread: any; changes one at a time.

    Args:
        max_retained: execution.checkpointing.num-retained.

    Attributes:
        registry: the users of the shared files. Checkpoints in progress may be registered there too, by their ids.
        cleaner: deletes checkpoints, but not those of this store.
    """

    def __init__(
        self,
        pointers: CheckpointPointerStore,
        storage: CheckpointStorage,
        max_retained: int = 1,
        *,
        is_cleaner_parallel: bool = True,
    ) -> None:
        if max_retained < 1:
            raise ValueError(f"max_retained must be at least 1, not {max_retained}")
        self._pointers = pointers
        self._storage = storage
        self._max_retained = max_retained
        self._retained: tuple[CompletedCheckpoint, ...] = ()
        #: The directories of damaged checkpoints. They are kept as long as whole ones, so that a person can inspect
        #: them.
        self._damaged: tuple[str, ...] = ()
        #: The SHA-256 digest of `_metadata` by its directory.
        self._digests: dict[str, bytes] = {}
        self._changing = threading.Lock()
        self.registry = SharedStateRegistry()
        self.cleaner = CheckpointsCleaner(
            storage, self.registry, self._directories_in_use, is_parallel=is_cleaner_parallel
        )

    @property
    def checkpoints(self) -> tuple[CompletedCheckpoint, ...]:
        """The retained checkpoints, oldest first."""
        return self._retained

    @property
    def latest(self) -> CompletedCheckpoint | None:
        retained = self._retained
        return retained[-1] if retained else None

    def recover(self, *, read_everything: bool = False) -> CompletedCheckpoint | None:
        """Finds the checkpoints of the previous JobMaster. Called once, before all other methods.

        The job continues from the newest checkpoint that is not damaged. For a damaged or missing checkpoint an error
        is logged, and its directory is not changed. If a sink has committed the results of such a checkpoint, a restore
        from an older one repeats them.

        Args:
            read_everything: compares the checksums of all files of the newest checkpoint, which reads its whole state.

        Returns: the newest checkpoint; None if the job has none.
        Raises:
            CorruptStateError: the job has checkpoints, and all of them are damaged.
            StateRestoreError: a newer release or another job wrote the checkpoint.
            CheckpointStorageError: the checkpoints cannot be read.
        """
        with self._changing:
            try:
                pointers = list(self._pointers.load().pointers)
            except CorruptFileError as error:
                logger.error("%s; searching for checkpoints in %s", error, self._storage.job_directory)
                pointers = self._pointers_from_directory(error)
            usable: list[CompletedCheckpoint] = []
            problems: list[str] = []
            for pointer in reversed(pointers):
                if len(usable) == self._max_retained:
                    break
                try:
                    checkpoint = self._load(pointer)
                    verify_checkpoint(
                        checkpoint.metadata, self._storage.file_systems, read_everything=read_everything and not usable
                    )
                except (CorruptStateError, CheckpointNotFoundError) as error:
                    # If a newer one is usable, it has replaced this one, which may have been deleted.
                    if not usable:
                        problems.append(f"checkpoint {pointer.checkpoint_id}: {error}")
                        self._damaged += (pointer.external_path,)
                        logger.error("checkpoint %d cannot be used: %s", pointer.checkpoint_id, error)
                    continue
                usable.insert(0, checkpoint)
            if not usable and problems:
                raise CorruptStateError(
                    f"job {self._storage.job_id} has checkpoints, but none of them can be used: {'; '.join(problems)}"
                )
            for checkpoint in usable:
                self._register(checkpoint)
            self._retained = tuple(usable)
            if problems:
                logger.error(
                    "continuing from checkpoint %d instead: results that were committed since then are repeated",
                    usable[-1].checkpoint_id,
                )
            return self.latest

    def add(self, checkpoint: CompletedCheckpoint) -> tuple[CompletedCheckpoint, ...]:
        """Stores the pointer to a checkpoint whose `_metadata` is written. The checkpoint is complete on return.

        Returns: the replaced checkpoints, oldest first. Pass them to `cleaner.discard_completed` once this one is
            confirmed.
        Raises:
            CheckpointStorageError: the checkpoint is not complete. The other checkpoints are not affected.
            LeadershipLostError, HighAvailabilityError: it is not known whether the checkpoint is complete. Nothing may
                be added to this store any more.
        """
        with self._changing:
            others = tuple(c for c in self._retained if c.checkpoint_id != checkpoint.checkpoint_id)
            retained = (*others, checkpoint)
            freed = self.registry.freed(checkpoint.shared_paths)
            if freed:
                self.registry.unregister(checkpoint.checkpoint_id)
                raise CheckpointStorageError(
                    f"checkpoint {checkpoint.checkpoint_id} needs {freed[0]}, which was deleted with an earlier one",
                    details={"path": freed[0]},
                )
            self._register(checkpoint)
            try:
                failpoint("completed.before_pointers")
                # The replaced checkpoints are included. So after a failure either the old or the new pointers are
                # stored, and they always contain a checkpoint that exists.
                self._save(retained)
                failpoint("completed.after_pointers")
            except (LeadershipLostError, HighAvailabilityError):
                raise  # the pointer may be stored, and only the next leader knows; so nothing may be undone here
            except (OSError, FlinkError) as error:
                if checkpoint.checkpoint_id not in {c.checkpoint_id for c in self._retained}:
                    self.registry.unregister(checkpoint.checkpoint_id)
                raise storage_error("store the pointer to", checkpoint.external_path, error) from error
            self._retained = retained[-self._max_retained :]
            return retained[: -self._max_retained]

    def drop_damaged(self) -> tuple[CompletedCheckpoint, ...]:
        """Drops damaged checkpoints. Called after a task has found damage.

        It reads the whole state of the newest checkpoint. If that is damaged, it drops the checkpoint and continues
        with the next one. The directories of dropped checkpoints are kept.

        Returns: the dropped checkpoints, newest first.
        Raises: CorruptStateError if no checkpoint is left.
        """
        with self._changing:
            dropped: list[CompletedCheckpoint] = []
            problem = ""
            while self._retained:
                newest = self._retained[-1]
                try:
                    verify_checkpoint(newest.metadata, self._storage.file_systems, read_everything=True)
                    break
                except CorruptStateError as error:
                    logger.error("%r is damaged and not used any more: %s", newest, error)
                    problem = f"{newest!r}: {error}"
                    dropped.append(newest)
                    self._damaged += (newest.external_path,)
                    self.registry.register(newest.checkpoint_id, newest.shared_paths, is_owned=False)
                    self.registry.unregister(newest.checkpoint_id)
                    self._retained = self._retained[:-1]
            if dropped and not self._retained:
                raise CorruptStateError(f"all checkpoints of job {self._storage.job_id} are damaged; {problem}")
            if dropped:
                self._save(self._retained)
            return tuple(dropped)

    def shut_down(self, status: JobStatus, retention: CheckpointRetention, cause: BaseException | None = None) -> None:
        """Removes the pointers of a job that has ended for good, and the checkpoints that `retention` does not keep.

        Args:
            cause: the failure of the job; None if it did not fail.

        Raises: OSError if the pointers cannot be removed.
        """
        with self._changing:
            if not status.is_globally_terminal_state():
                return
            self._pointers.remove()
            retained = self._retained
            if retention.keeps_after(status, cause) and (retained or self._damaged):
                for checkpoint in retained:
                    logger.info("keeping %r", checkpoint)
                for directory in self._damaged:
                    logger.warning("keeping the damaged checkpoint in %s", directory)
                self.cleaner.delete_incomplete(None, ())
                return
            self._retained, self._damaged = (), ()
        for checkpoint in retained:
            self.cleaner.discard_completed(checkpoint)
        self.cleaner.delete_job_directory()

    def _register(self, checkpoint: CompletedCheckpoint) -> None:
        shared = checkpoint.shared_paths
        foreign: frozenset[str] = frozenset()
        if checkpoint.external_path != self._storage.directory_of(checkpoint.checkpoint_id):
            # Another job made it. This job only owns the files in the directories of that job.
            foreign = snapshot_files(checkpoint.metadata, checkpoint.external_path).foreign
            self.registry.register(checkpoint.checkpoint_id, shared & foreign, is_owned=False)
        self.registry.register(checkpoint.checkpoint_id, shared - foreign, is_owned=checkpoint.is_owned)

    def _directories_in_use(self) -> list[str]:
        return [*(checkpoint.external_path for checkpoint in self._retained), *self._damaged]

    def _save(self, retained: tuple[CompletedCheckpoint, ...]) -> None:
        message = checkpoint_pb2.CompletedCheckpointPointers(
            next_checkpoint_id=max((c.checkpoint_id for c in retained), default=0) + 1
        )
        for checkpoint in retained:
            directory = checkpoint.external_path
            if directory not in self._digests:
                content = read_metadata_file(self._storage.file_systems, directory)
                self._digests[directory] = hashlib.sha256(content).digest()
            message.pointers.add(
                checkpoint_id=checkpoint.checkpoint_id,
                external_path=directory,
                is_owned=checkpoint.is_owned,
                job_id=checkpoint.metadata.job_id,
                metadata_sha256=self._digests[directory],
            )
        self._pointers.save(message)
        self._digests = {checkpoint.external_path: self._digests[checkpoint.external_path] for checkpoint in retained}

    def _load(self, pointer: checkpoint_pb2.CompletedCheckpointPointers.Pointer) -> CompletedCheckpoint:
        directory = pointer.external_path
        content = read_metadata_file(self._storage.file_systems, directory)
        path = join(directory, METADATA_FILE_NAME)
        metadata = decode_and_resolve(content, directory)
        if pointer.metadata_sha256 and hashlib.sha256(content).digest() != pointer.metadata_sha256:
            raise CorruptStateError(
                f"{path} is not the file that was written for checkpoint {pointer.checkpoint_id}",
                details={"path": path},
            )
        if pointer.job_id and metadata.job_id != pointer.job_id:
            raise StateRestoreError(
                f"{path} belongs to job {metadata.job_id} ({metadata.job_name!r}), not to job {pointer.job_id}",
                details={"path": path},
            )
        self._digests[directory] = hashlib.sha256(content).digest()
        return CompletedCheckpoint(metadata, directory, pointer.is_owned)

    def _pointers_from_directory(
        self, error: CorruptFileError
    ) -> list[checkpoint_pb2.CompletedCheckpointPointers.Pointer]:
        """Returns pointers to all checkpoints in the job's directory that have `_metadata`, which is written last."""
        storage = self._storage
        if not storage.owns_job_directory:
            raise CorruptStateError(f"the checkpoints of job {storage.job_id} cannot be found: {error}") from error
        file_system = storage.file_systems.of(storage.job_directory)
        found = [
            checkpoint_id
            for checkpoint_id in checkpoint_ids_in(storage.file_systems, storage.job_directory)
            if file_system.exists(join(storage.directory_of(checkpoint_id), METADATA_FILE_NAME))
        ]
        pointers = [
            checkpoint_pb2.CompletedCheckpointPointers.Pointer(
                checkpoint_id=checkpoint_id,
                external_path=storage.directory_of(checkpoint_id),
                is_owned=True,
                job_id=storage.job_id,
            )
            for checkpoint_id in found
        ]
        if not pointers:
            raise CorruptStateError(
                f"the checkpoints of job {storage.job_id} cannot be found: {error}, and {storage.job_directory} "
                "contains none"
            ) from error
        return pointers
