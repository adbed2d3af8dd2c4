"""CheckpointIo: everything of a job's checkpoints that blocks.

Source: org.apache.flink.runtime.scheduler.SchedulerUtils, org.apache.flink.runtime.checkpoint.CheckpointCoordinator.
Thread: any but the main thread; `finalize` and `shut_down` one at a time, in order.
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
from flinkpy.checkpoint.file_checkpoint_recovery import FileCheckpointRecovery
from flinkpy.checkpoint.savepoint_loader import SavepointRestoreSettings, load_savepoint
from flinkpy.checkpoint.state_handles import shared_paths_of_snapshot
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage, CheckpointStorageLocation
from flinkpy.common.errors import CommittablesLostError, ConfigurationError, FlinkError, is_caused_by
from flinkpy.common.job_status import JobStatus
from flinkpy.common.states import JobState
from flinkpy.configuration import checkpointing_options as options
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.checkpoint_recovery import CheckpointIDCounter, CheckpointRecovery

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What a job begins from; `checkpoint` None: from the beginning. `next_checkpoint_id` has never been used."""

    checkpoint: CompletedCheckpoint | None
    next_checkpoint_id: int
    #: The first checkpoint may not refer to files of that one.
    must_be_full: bool = False


@dataclass(frozen=True, slots=True)
class Finalized:
    """`replaced` are to be deleted once the checkpoint has been confirmed."""

    external_path: str
    retained_ids: tuple[int, ...] = ()
    replaced: tuple[CompletedCheckpoint, ...] = ()


class CheckpointIo:
    """Raises at construction: ConfigurationError. Touches no file before `open`.

    Args:
        recovery_directory: for checkpoints without a place of their own.
        recovery: what the job's next JobMaster finds them by; None: files in `recovery_directory`.
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
        assert self._store is not None, "before open"
        return self._store

    # Before the job starts

    def open(self, now_ms: int) -> StartingPoint:
        """Find what the job begins from: the last checkpoint of an earlier JobMaster, else what the user named.

        Raises: CheckpointStorageError, CorruptStateError, StateRestoreError, ConfigurationError; each names the path.
            LeadershipLostError, HighAvailabilityError where pointers are not files.
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
        """Delete nothing any more: what is there is for whoever takes up the job next, and cleans up first.

        The job cannot start, or this JobMaster does not lead it any more and knows no longer which checkpoints count.
        """
        self._keeps_everything = True

    # While it runs

    def check_request(self, properties: CheckpointProperties, target_directory: str) -> None:
        """Does not block. Raises: ConfigurationError for a savepoint without a place."""
        if (
            properties.is_savepoint
            and not target_directory
            and not read_option(self._configuration, options.SAVEPOINT_DIRECTORY)
        ):
            raise ConfigurationError(
                f"no directory for savepoints: name one, or set `{options.SAVEPOINT_DIRECTORY.key}`",
                details={"option": options.SAVEPOINT_DIRECTORY.key},
            )

    def make_location(self, effect: MakeLocation) -> CheckpointStorageLocation:
        """Raises: CheckpointStorageError, OSError, LeadershipLostError."""
        assert self._counter is not None
        self._counter.advance_to(effect.checkpoint_id + 1)
        if effect.properties.is_savepoint:
            return self._storage.savepoint_location(effect.target_directory or None)
        location = self._storage.location_of(effect.checkpoint_id)
        self._storage.initialize(location)
        return location

    def acknowledged(self, checkpoint_id: int, state: checkpoint_pb2.TaskStateSnapshot) -> None:
        """A pending checkpoint needs these shared files. Does not block."""
        paths = shared_paths_of_snapshot(state)
        if paths:
            self.store.registry.register(checkpoint_id, paths)

    def finalize(self, effect: FinalizeCheckpoint) -> Finalized:
        """Raises: CheckpointStorageError; the checkpoint does not count then. LeadershipLostError: it does not count
        for this JobMaster.
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

    # What is no longer needed

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
        """Directories of checkpoints that were given up, and written to after that."""
        if not self._keeps_everything:
            self.store.cleaner.delete_incomplete(below_id, tuple(keep_ids))

    def drop_damaged(self) -> CompletedCheckpoint | None:
        """A task found the newest checkpoint damaged. Returns: the newest that is whole; None: there never was any.

        Raises: CorruptStateError where none is left, CheckpointStorageError.
        """
        self.store.drop_damaged()
        return self.store.latest

    def remedy(self, state: JobState, cause: FlinkError | None) -> str:
        """Returns where the user of a job that failed because a sink has lost records finds its checkpoints.

        Empty for every other end of a job. Does not block.
        """
        if state is not JobState.FAILED or not is_caused_by(cause, CommittablesLostError):
            return ""
        kept = self._store.checkpoints if self._store is not None else ()
        if not read_option(self._configuration, options.DIRECTORY):
            return f"No checkpoint is kept, because `{options.DIRECTORY.key}` is not set."
        return "These are kept: " + ", ".join(map(repr, kept)) if kept else "There is no checkpoint."

    def shut_down(self, state: JobState, cause: FlinkError | None) -> None:
        """Gives up what the retention does not keep.

        Call it when the job has ended in `state`, because of `cause`, and that has been noted where it will be found.
        """
        if self._store is None or self._keeps_everything or not state.is_globally_terminal:
            return
        self._store.shut_down(JobStatus[state.name], self._retention, cause)
        if self._counter is not None:
            self._counter.remove()
