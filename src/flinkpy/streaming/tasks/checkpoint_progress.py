"""CheckpointProgress: what a task knows of its checkpoints, and which it must wait for before it may end. Pure."""

from __future__ import annotations

from flinkpy._proto import checkpoint_pb2
from flinkpy.records.elements import CheckpointBarrier

#: Savepoints that stop the job: the tasks wait until they are complete.
_SYNC_KINDS = (checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND, checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE)


class CheckpointProgress:
    """Attributes:
    completed_id: the newest checkpoint that the task was told is complete.
    savepoint_at_end: a savepoint to be taken as soon as the end of data has been emitted.
    """

    def __init__(self) -> None:
        self.completed_id = 0
        self.savepoint_at_end: CheckpointBarrier | None = None
        #: The first checkpoint taken after the end of data: when it or a later one is complete, the task may go.
        self._first_final_id: int | None = None
        #: The savepoint that stops the task, from its snapshot on.
        self._sync_savepoint_id: int | None = None

    def on_taken(self, barrier: CheckpointBarrier, *, is_at_end: bool) -> bool:
        """The task has taken its snapshot. True where it must process nothing more."""
        if is_at_end and self._first_final_id is None:
            self._first_final_id = barrier.checkpoint_id
        if barrier.options is None or barrier.options.kind not in _SYNC_KINDS:
            return False
        self._sync_savepoint_id = barrier.checkpoint_id
        return barrier.options.kind == checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND and not is_at_end

    def on_complete(self, checkpoint_id: int) -> bool:
        """False where that is no news."""
        if checkpoint_id <= self.completed_id:
            return False
        self.completed_id = checkpoint_id
        return True

    def needs(self, checkpoint_id: int) -> bool:
        """Whether the task stops for this one, so that it cannot go on without."""
        at_end = self.savepoint_at_end
        return checkpoint_id == self._sync_savepoint_id or (
            at_end is not None and at_end.checkpoint_id == checkpoint_id
        )

    @property
    def is_savepoint_complete(self) -> bool:
        """Whether no savepoint that stops the task is under way."""
        return self._sync_savepoint_id is None or self.completed_id >= self._sync_savepoint_id

    @property
    def is_end_complete(self) -> bool:
        """Whether a complete checkpoint contains the task's end of data."""
        return self._first_final_id is not None and self.completed_id >= self._first_final_id
