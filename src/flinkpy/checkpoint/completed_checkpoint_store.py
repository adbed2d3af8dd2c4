"""CompletedCheckpointStore: the checkpoints a job can be restored from, newest last.

A checkpoint counts from the moment its pointer is durable. What it replaces may be deleted only after that; a pointer
to something deleted is dropped when the pointers are read, a checkpoint without pointer is a leftover.

```
  state files -> _metadata -> pointer | counts from here | -> confirm -> delete what is older
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
from flinkpy.checkpoint.snapshot_files import snapshot_files
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage
from flinkpy.checkpoint.storage.file_system import join, storage_error
from flinkpy.checkpoint.verification import verify_checkpoint
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
from flinkpy.highavailability.checkpoint_recovery import CheckpointPointerStore

logger = logging.getLogger(__name__)


class CompletedCheckpointStore:
    """Blocking, except the properties. Thread: any; changes one at a time.

    Args:
        max_retained: execution.checkpointing.num-retained.

    Attributes:
        registry: of the shared files; pending checkpoints may be registered there too, by their ids.
        cleaner: deletes; knows which directories are in use.
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
            raise ValueError(f"{max_retained} checkpoints cannot be retained: at least one must be")
        self._pointers = pointers
        self._storage = storage
        self._max_retained = max_retained
        self._retained: tuple[CompletedCheckpoint, ...] = ()
        #: Directories of checkpoints found to be damaged: left for a person to look at, as long as whole ones would be.
        self._damaged: tuple[str, ...] = ()
        #: sha256 of `_metadata`, by its directory.
        self._digests: dict[str, bytes] = {}
        self._changing = threading.Lock()
        self.registry = SharedStateRegistry()
        self.cleaner = CheckpointsCleaner(
            storage, self.registry, self._directories_in_use, is_parallel=is_cleaner_parallel
        )

    @property
    def checkpoints(self) -> tuple[CompletedCheckpoint, ...]:
        """Oldest first."""
        return self._retained

    @property
    def latest(self) -> CompletedCheckpoint | None:
        retained = self._retained
        return retained[-1] if retained else None

    def recover(self, *, read_everything: bool = False) -> CompletedCheckpoint | None:
        """Find the checkpoints of the JobMaster before this one. Call it once, before anything else.

        The newest that is whole is the one to go on from. One that is damaged or missing is left out, its directory
        is left as it is, and an error is logged: where a sink has committed what that checkpoint contained, going on
        from an older one repeats it.

        Returns: the newest; None where there never was one.
        Raises: CorruptStateError where there are checkpoints and none is usable, StateRestoreError (a newer release
            wrote it, or it is another job's), CheckpointStorageError where that cannot be found out.
        """
        with self._changing:
            try:
                pointers = list(self._pointers.load().pointers)
            except CorruptFileError as error:
                logger.error("%s; looking for checkpoints in %s", error, self._storage.job_directory)
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
                    # Once there is a newer one, an older one that is gone was replaced by it.
                    if not usable:
                        problems.append(f"checkpoint {pointer.checkpoint_id}: {error}")
                        self._damaged += (pointer.external_path,)
                        logger.error("checkpoint %d cannot be used: %s", pointer.checkpoint_id, error)
                    continue
                usable.insert(0, checkpoint)
            if not usable and problems:
                raise CorruptStateError(
                    f"job {self._storage.job_id} has checkpoints and none of them can be used: {'; '.join(problems)}"
                )
            for checkpoint in usable:
                self._register(checkpoint)
            self._retained = tuple(usable)
            if problems:
                logger.error(
                    "going on from checkpoint %d instead: results that were committed since then are repeated",
                    usable[-1].checkpoint_id,
                )
            return self.latest

    def add(self, checkpoint: CompletedCheckpoint) -> tuple[CompletedCheckpoint, ...]:
        """The checkpoint, whose `_metadata` is written, counts when this returns.

        Returns: those it replaces, oldest first; to be given to `cleaner.discard_completed` once it is confirmed.
        Raises: CheckpointStorageError; it does not count then, and the others do as before. LeadershipLostError,
            HighAvailabilityError: it is open whether it counts, and nothing may be added to this store any more.
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
                # With those about to be replaced: whether the old or the new pointers survive a failure in here,
                # there is one to something that still exists.
                self._save(retained)
                failpoint("completed.after_pointers")
            except (LeadershipLostError, HighAvailabilityError):
                raise  # the next leader knows which are noted; here nothing may be given up because of it
            except (OSError, FlinkError) as error:
                if checkpoint.checkpoint_id not in {c.checkpoint_id for c in self._retained}:
                    self.registry.unregister(checkpoint.checkpoint_id)
                raise storage_error("note as completed", checkpoint.external_path, error) from error
            self._retained = retained[-self._max_retained :]
            return retained[: -self._max_retained]

    def drop_damaged(self) -> tuple[CompletedCheckpoint, ...]:
        """After a task found damage: read all of the newest checkpoint, and drop it if something is wrong; and so on.

        Their directories stay. Returns: those dropped, newest first.
        Raises: CorruptStateError where none is left of those there were.
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
                    logger.error("%r is not used any more: %s", newest, error)
                    problem = f"{newest!r}: {error}"
                    dropped.append(newest)
                    self._damaged += (newest.external_path,)
                    self.registry.register(newest.checkpoint_id, newest.shared_paths, is_owned=False)
                    self.registry.unregister(newest.checkpoint_id)
                    self._retained = self._retained[:-1]
            if dropped and not self._retained:
                raise CorruptStateError(f"no checkpoint of job {self._storage.job_id} is usable any more; {problem}")
            if dropped:
                self._save(self._retained)
            return tuple(dropped)

    def shut_down(self, status: JobStatus, retention: CheckpointRetention, cause: BaseException | None = None) -> None:
        """Removes the pointers of a job that has ended for good, and the checkpoints that `retention` does not keep.

        Args:
            cause: why the job ended; None where it did not fail.

        Raises: OSError where the pointers cannot be removed.
        """
        with self._changing:
            if not status.is_globally_terminal_state():
                return
            self._pointers.remove()
            retained = self._retained
            if retention.keeps_after(status, cause) and (retained or self._damaged):
                for checkpoint in retained:
                    logger.info("%r is kept", checkpoint)
                for directory in self._damaged:
                    logger.warning("%s is kept, though it is damaged", directory)
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
            # Not made by this job: it claims what lies where that other job kept its files, and nothing else.
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
                f"{path} is of job {metadata.job_id} ({metadata.job_name!r}), not of job {pointer.job_id}",
                details={"path": path},
            )
        self._digests[directory] = hashlib.sha256(content).digest()
        return CompletedCheckpoint(metadata, directory, pointer.is_owned)

    def _pointers_from_directory(
        self, error: CorruptFileError
    ) -> list[checkpoint_pb2.CompletedCheckpointPointers.Pointer]:
        """Every checkpoint in the job's own directory that has `_metadata`: it was complete when that was written."""
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
                f"the checkpoints of job {storage.job_id} cannot be found: {error}, and there is none in "
                f"{storage.job_directory}"
            ) from error
        return pointers
