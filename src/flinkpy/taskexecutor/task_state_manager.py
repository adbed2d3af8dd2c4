"""SubtaskStateManager: the restored state and the checkpoint streams of one execution attempt.

Source: org.apache.flink.runtime.state.TaskStateManagerImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path

from flinkpy._proto import checkpoint_pb2
from flinkpy.state.checkpoint_streams import CheckpointStreams, StateFiles
from flinkpy.taskexecutor.contracts import TaskCallbacks
from flinkpy.taskexecutor.local_state_store import LocalBackupStreams, LocalFirstStateFiles, LocalStateStore

logger = logging.getLogger(__name__)

#: Makes the streams of one checkpoint.
StreamsOfLocation = Callable[[checkpoint_pb2.CheckpointLocation], CheckpointStreams]

#: Savepoints have no copies: they belong to the user, and failures are rarely recovered from them.
_KINDS_WITH_COPIES = (checkpoint_pb2.CHECKPOINT, checkpoint_pb2.FULL_CHECKPOINT)


class SubtaskStateManager:
    """Implements `flinkpy.streaming.tasks.environment.TaskStateManager`. Thread: any.

    Args:
        owner: (vertex, subtask), the owner of the local copies.
        restore: the state to start with; None: no state.
        backup: the store for new copies; None: no copies are made.
        local: the store to read copies from; None: copies are not read.
    """

    def __init__(
        self,
        *,
        task_name: str,
        owner: tuple[str, int],
        restore: checkpoint_pb2.TaskRestore | None,
        streams_of_location: StreamsOfLocation,
        files: StateFiles,
        directory: Path,
        io_executor: Executor,
        backup: LocalStateStore | None = None,
        local: LocalStateStore | None = None,
    ) -> None:
        self.restored_checkpoint_id: int | None = None if restore is None else restore.checkpoint_id
        self.is_restored_as_finished: bool = restore is not None and restore.state.is_finished
        self._local_files = LocalFirstStateFiles(files, local)
        self.files: StateFiles = self._local_files
        self.directory: Path = directory
        self.io_executor: Executor = io_executor
        #: Set before the task runs.
        self.callbacks: TaskCallbacks | None = None
        self._task_name = task_name
        self._owner = owner
        self._restore = restore
        self._streams_of_location = streams_of_location
        self._backup = backup
        if backup is not None and restore is not None:
            backup.restored(owner, restore.checkpoint_id)

    def restored_state(self, operator_id: str) -> checkpoint_pb2.OperatorSubtaskState | None:
        if self._restore is None or operator_id not in self._restore.state.operators:
            return None
        return self._restore.state.operators[operator_id]

    def checkpoint_streams(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> CheckpointStreams:
        location = options.location
        streams = self._streams_of_location(location)
        if self._backup is None or options.kind not in _KINDS_WITH_COPIES or not location.exclusive_directory:
            return streams
        buffer_bytes = location.inline_threshold_bytes
        return LocalBackupStreams(streams, self._backup, self._owner, checkpoint_id, buffer_bytes)

    def acknowledge(
        self,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None:
        if self._backup is not None:
            self._backup.acknowledged(self._owner, checkpoint_id, paths_of(state))
        assert self.callbacks is not None
        self.callbacks.acknowledge_checkpoint(checkpoint_id, metrics, state)

    def decline(self, checkpoint_id: int, error: BaseException) -> None:
        if self._backup is not None:
            self._backup.aborted(self._owner, checkpoint_id)
        assert self.callbacks is not None
        self.callbacks.decline_checkpoint(checkpoint_id, error)

    def notify_complete(self, checkpoint_id: int) -> None:
        if self._backup is not None:
            self._backup.completed(self._owner, checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        if self._backup is not None:
            self._backup.aborted(self._owner, checkpoint_id)

    def log_restore(self) -> dict[str, int]:
        """Logs where the state was read from. Called when everything is restored.

        Returns the measurements of the restore by Flink's names; empty if there was no state.
        """
        if self._restore is None:
            return {}
        files = self._local_files
        logger.info(
            "restored %s from checkpoint %d: %d files (%d bytes) read from local copies, %d (%d bytes) from storage",
            self._task_name,
            self._restore.checkpoint_id,
            files.num_local,
            files.local_bytes,
            files.num_remote,
            files.remote_bytes,
        )
        return {
            "RestoredStateSizeBytes": files.local_bytes + files.remote_bytes,
            "DownloadStateDurationMs": files.read_ns // 1_000_000,
        }


def paths_of(state: checkpoint_pb2.TaskStateSnapshot) -> Iterator[str]:
    """Yields the paths of the files that a state refers to."""
    for operator in state.operators.values():
        for handle in _handles_of(operator):
            if handle.WhichOneof("location") == "path":
                yield handle.path


def _handles_of(operator: checkpoint_pb2.OperatorSubtaskState) -> Iterator[checkpoint_pb2.StreamStateHandle]:
    for keyed in operator.keyed:
        if keyed.WhichOneof("kind") == "incremental":
            yield keyed.incremental.meta
            for file in (*keyed.incremental.shared, *keyed.incremental.private):
                yield file.handle
        else:
            yield keyed.key_groups.file
    for elements in operator.operator:
        yield elements.file
    for channel in operator.channels:
        yield channel.file
