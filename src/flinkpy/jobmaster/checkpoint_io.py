"""CheckpointIo: the blocking operations on the checkpoints of a job.

Source: org.apache.flink.runtime.scheduler.SchedulerUtils, org.apache.flink.runtime.checkpoint.CheckpointCoordinator.
Thread: I/O threads. Calls of `finalize`, `drop_damaged` and `shut_down` must not overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention, CompletedCheckpoint
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.checkpoint.coordinator.effects import FinalizeCheckpoint, MakeLocation
from flinkpy.checkpoint.savepoint_loader import SavepointRestoreSettings, load_savepoint
from flinkpy.checkpoint.state_handles import shared_paths_of_snapshot
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage, CheckpointStorageLocation
from flinkpy.common.errors import CommittablesLostError, ConfigurationError, FlinkError, is_caused_by
from flinkpy.common.job_status import JobStatus
from flinkpy.common.states import JobState
from flinkpy.configuration import checkpointing_options as options
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.checkpoint_stores import CheckpointIDCounter, CheckpointRecovery
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointRecovery

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The checkpoint that a job restores. `checkpoint` None: the job starts without state.

    Attributes:
        next_checkpoint_id: an id that has never been used.
        must_be_full: the first checkpoint must not refer to files of `checkpoint`.
    """

    checkpoint: CompletedCheckpoint | None
    next_checkpoint_id: int
    must_be_full: bool = False


@dataclass(frozen=True, slots=True)
class Finalized:
    """A finalized checkpoint. Delete the checkpoints `replaced` after it has been confirmed."""

    external_path: str
    retained_ids: tuple[int, ...] = ()
    replaced: tuple[CompletedCheckpoint, ...] = ()


class CheckpointIo:
    """Reads and writes the checkpoints of one job. Accesses no files before `open`.

    Args:
        recovery_directory: for checkpoints if no checkpoint directory is configured.
        recovery: the store of checkpoint pointers for the next JobMaster; None: files in `recovery_directory`.

    Raises at construction: ConfigurationError.
    """

    def __init__(
        self,
        configuration: AnyConfiguration,
        job_id: str,
        recovery_directory: Path,
        recovery: CheckpointRecovery | None = None,
    ) -> None:
        self._configuration = configuration
        self._recovery = recovery or FileCheckpointRecovery(recovery_directory)
        self._storage = CheckpointStorage.from_configuration(configuration, job_id, recovery_directory)
        self._retention = CheckpointRetention[read_option(configuration, options.EXTERNALIZED_CHECKPOINT_RETENTION)]
        self._store: CompletedCheckpointStore | None = None
        self._counter: CheckpointIDCounter | None = None
        self._keeps_everything = False

    @property
    def store(self) -> CompletedCheckpointStore:
        assert self._store is not None, "the checkpoint store is not open"
        return self._store

    # Before the job starts

    def open(self, now_ms: int) -> StartingPoint:
        """Finds the checkpoint to restore: the latest one of an earlier JobMaster, else the one that the user named.

        Raises:
            CheckpointStorageError, CorruptStateError, StateRestoreError, ConfigurationError: each names the path.
            LeadershipLostError, HighAvailabilityError: from the high-availability store of pointers.
        """
        self._store = CompletedCheckpointStore(
            self._recovery.pointers(),
            self._storage,
            read_option(self._configuration, options.NUM_RETAINED),
            is_cleaner_parallel=read_option(self._configuration, options.CLEANER_PARALLEL_MODE),
        )
        if (read_option(self._configuration, options.INTERVAL) or 0) > 0:
            self._storage.check_writable()
        settings = SavepointRestoreSettings.from_configuration(self._configuration)
        checkpoint = self._store.recover()
        is_recovered = checkpoint is not None
        if checkpoint is None and settings is not None:
            checkpoint = load_savepoint(settings, self._storage.file_systems)
        at_least = 1 if checkpoint is None else checkpoint.checkpoint_id + 1
        self._counter = self._recovery.counter(at_least)
        if checkpoint is not None and not is_recovered:
            self._store.add(checkpoint)
        if is_recovered:
            self._store.cleaner.delete_leftovers(self._counter.next_id, now_ms)
        must_be_full = checkpoint is not None and not checkpoint.is_owned
        if settings is not None and not settings.claim_mode.needs_full_checkpoint:
            must_be_full = False
        return StartingPoint(checkpoint, self._counter.next_id, must_be_full)

    def keep_everything(self) -> None:
        """Stops all deletions from now on. The next JobMaster of the job cleans up.

        Call it if the job cannot start, or if this JobMaster lost its leadership and so does not know which checkpoints
        are valid.
        """
        self._keeps_everything = True

    # While it runs

    def check_request(self, properties: CheckpointProperties, target_directory: str) -> None:
        """Checks a request. Does not block. Raises: ConfigurationError if a savepoint has no directory."""
        if (
            properties.is_savepoint
            and not target_directory
            and not read_option(self._configuration, options.SAVEPOINT_DIRECTORY)
        ):
            raise ConfigurationError(
                f"no savepoint directory: pass one, or set `{options.SAVEPOINT_DIRECTORY.key}`",
                details={"option": options.SAVEPOINT_DIRECTORY.key},
            )

    def make_location(self, effect: MakeLocation) -> CheckpointStorageLocation:
        """Creates the location of a new checkpoint. Raises: CheckpointStorageError, OSError, LeadershipLostError."""
        assert self._counter is not None
        self._counter.advance_to(effect.checkpoint_id + 1)
        if effect.properties.is_savepoint:
            return self._storage.savepoint_location(effect.target_directory or None)
        location = self._storage.location_of(effect.checkpoint_id)
        self._storage.initialize(location)
        return location

    def acknowledged(self, checkpoint_id: int, state: checkpoint_pb2.TaskStateSnapshot) -> None:
        """Registers the shared files that a pending checkpoint needs. Does not block."""
        paths = shared_paths_of_snapshot(state)
        if paths:
            self.store.registry.register(checkpoint_id, paths)

    def finalize(self, effect: FinalizeCheckpoint) -> Finalized:
        """Completes a checkpoint: writes its metadata and adds it to the store.

        Raises:
            CheckpointStorageError: the checkpoint is not complete.
            LeadershipLostError: the checkpoint is not complete for this JobMaster.
        """
        path = self._storage.write_metadata(effect.location, effect.metadata)
        if not effect.properties.counts_for_recovery:
            return Finalized(path, self._retained_ids)
        checkpoint = CompletedCheckpoint(effect.metadata, path, is_owned=not effect.properties.is_savepoint)
        replaced = self.store.add(checkpoint)
        return Finalized(path, self._retained_ids, replaced)

    @property
    def _retained_ids(self) -> tuple[int, ...]:
        return tuple(checkpoint.checkpoint_id for checkpoint in self.store.checkpoints)

    # Deletion

    def discard_completed(self, checkpoints: Iterable[CompletedCheckpoint]) -> None:
        for checkpoint in checkpoints:
            if not self._keeps_everything:
                self.store.cleaner.discard_completed(checkpoint)

    def discard_pending(self, checkpoint_id: int, location: CheckpointStorageLocation | None) -> None:
        if not self._keeps_everything:
            self.store.cleaner.discard_pending(checkpoint_id, location)

    def discard_states(self, states: Iterable[checkpoint_pb2.TaskStateSnapshot]) -> None:
        if not self._keeps_everything:
            self.store.cleaner.discard_states(states)

    def delete_incomplete(self, below_id: int, keep_ids: Iterable[int]) -> None:
        """Deletes leftover directories of discarded checkpoints, which tasks may have written to afterwards."""
        if not self._keeps_everything:
            self.store.cleaner.delete_incomplete(below_id, tuple(keep_ids))

    def drop_damaged(self) -> CompletedCheckpoint | None:
        """Drops damaged checkpoints. Returns the newest undamaged one, or None if there never was one.

        Raises: CorruptStateError if all are damaged; CheckpointStorageError.
        """
        self.store.drop_damaged()
        return self.store.latest

    def remedy(self, state: JobState, cause: FlinkError | None) -> str:
        """Returns a text about the kept checkpoints for a job that failed because a sink has lost records.

        Empty for every other end of a job. Does not block.
        """
        if state is not JobState.FAILED or not is_caused_by(cause, CommittablesLostError):
            return ""
        kept = self._store.checkpoints if self._store is not None else ()
        if not read_option(self._configuration, options.DIRECTORY):
            return f"No checkpoint is kept, because `{options.DIRECTORY.key}` is not set."
        if not kept:
            return "There is no checkpoint."
        return "These are kept: " + ", ".join(map(repr, kept))

    def shut_down(self, state: JobState, cause: FlinkError | None) -> None:
        """Deletes all checkpoints except those that the retention policy keeps.

        Call it after the job has ended in `state`, because of `cause`, and its result has been stored durably.
        """
        if self._store is None or self._keeps_everything or not state.is_globally_terminal:
            return
        self._store.shut_down(JobStatus[state.name], self._retention, cause)
        if self._counter is not None:
            self._counter.remove()
