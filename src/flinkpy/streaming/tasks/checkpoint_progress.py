"""CheckpointProgress: which checkpoints of a task are complete, and which it waits for before it ends. Pure."""

from __future__ import annotations

from flinkpy._proto import checkpoint_pb2
from flinkpy.records.elements import CheckpointBarrier

#: Savepoints that stop the job. The tasks wait until they are complete.
_SYNC_KINDS = (checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND, checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE)


class CheckpointProgress:
    """The checkpoints of a task, as far as its end depends on them.

    Attributes:
        completed_id: the newest checkpoint of which the task knows that it is complete.
        savepoint_at_end: a savepoint to take as soon as the end of data has been emitted.
    """

    def __init__(self) -> None:
        self.completed_id = 0
        self.savepoint_at_end: CheckpointBarrier | None = None
        #: The first checkpoint taken after the end of data. The task may end when it or a later one is complete.
        self._first_final_id: int | None = None
        #: The savepoint that stops the task, once its snapshot has been taken.
        self._sync_savepoint_id: int | None = None

    def on_taken(self, barrier: CheckpointBarrier, *, is_at_end: bool) -> bool:
        """Records that the task has taken its snapshot. Returns True if it must process no more records."""
        if is_at_end and self._first_final_id is None:
            self._first_final_id = barrier.checkpoint_id
        if barrier.options is None or barrier.options.kind not in _SYNC_KINDS:
            return False
        self._sync_savepoint_id = barrier.checkpoint_id
        return barrier.options.kind == checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND and not is_at_end

    def on_complete(self, checkpoint_id: int) -> bool:
        """Records that a checkpoint is complete. Returns False if it or a later one was known to be complete."""
        if checkpoint_id <= self.completed_id:
            return False
        self.completed_id = checkpoint_id
        return True

    def needs(self, checkpoint_id: int) -> bool:
        """True if the task stops for this savepoint, so that it cannot continue if the savepoint fails."""
        at_end = self.savepoint_at_end
        return checkpoint_id == self._sync_savepoint_id or (
            at_end is not None and at_end.checkpoint_id == checkpoint_id
        )

    @property
    def is_savepoint_complete(self) -> bool:
        """True unless a savepoint that stops the task is in progress."""
        return self._sync_savepoint_id is None or self.completed_id >= self._sync_savepoint_id

    @property
    def is_end_complete(self) -> bool:
        """True if a complete checkpoint contains the task's end of data."""
        return self._first_final_id is not None and self.completed_id >= self._first_final_id
