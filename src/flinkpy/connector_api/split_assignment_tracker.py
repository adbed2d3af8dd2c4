"""SplitAssignmentTracker: which splits a reader was given since which checkpoint.

A split that was handed over before checkpoint N was taken is in the reader's part of N (or was finished before). So a
reader that is restored from N has to give back what it was handed later, and nothing else. What was handed over before
a completed checkpoint is forgotten: no restore goes further back.

Source: org.apache.flink.runtime.source.coordinator.SplitAssignmentTracker.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import InternalError


class SplitAssignmentTracker:
    """Pure; all splits by subtask, in the order in which they were handed over.

    Args:
        restored_checkpoint_id: the checkpoint everything begins from; 0: the beginning of the job.
    """

    def __init__(self, restored_checkpoint_id: int = 0) -> None:
        #: No restore goes back behind this one.
        self.completed_checkpoint_id = restored_checkpoint_id
        self._since_last: dict[int, list[Any]] = {}
        #: What was handed over between the checkpoint before and that one; ids ascend.
        self._before: dict[int, dict[int, list[Any]]] = {}

    def record(self, subtask_index: int, splits: list[Any] | tuple[Any, ...]) -> None:
        self._since_last.setdefault(subtask_index, []).extend(splits)

    def checkpoint(self, checkpoint_id: int) -> None:
        """That checkpoint is being taken now."""
        if self._before and checkpoint_id <= max(self._before):
            raise InternalError(f"checkpoint {checkpoint_id} comes after checkpoint {max(self._before)}")
        self._before[checkpoint_id], self._since_last = self._since_last, {}

    def complete(self, checkpoint_id: int) -> None:
        """That checkpoint is completed; late and repeated calls change nothing."""
        self.completed_checkpoint_id = max(self.completed_checkpoint_id, checkpoint_id)
        for known in [known for known in self._before if known <= checkpoint_id]:
            del self._before[known]

    def take_back(self, subtask_index: int, checkpoint_id: int) -> list[Any]:
        """Forget and return what the subtask was handed after that checkpoint (0: the beginning of the job).

        Raises:
            InternalError: a later checkpoint is completed, so some of it is forgotten already.
        """
        if checkpoint_id < self.completed_checkpoint_id:
            raise InternalError(
                f"subtask {subtask_index} is restored from checkpoint {checkpoint_id}, "
                f"but splits are known only since the completed checkpoint {self.completed_checkpoint_id}"
            )
        later = [splits for known, splits in self._before.items() if known > checkpoint_id]
        return [split for splits in (*later, self._since_last) for split in splits.pop(subtask_index, ())]

    def assigned(self, subtask_index: int) -> list[Any]:
        """All that is remembered of the subtask."""
        return [
            split for splits in (*self._before.values(), self._since_last) for split in splits.get(subtask_index, ())
        ]
