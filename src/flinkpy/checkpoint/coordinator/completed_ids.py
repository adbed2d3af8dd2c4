"""CompletedIds: which of the recent checkpoints have been completed.

An acknowledgement may come twice, the second time when the checkpoint is over. What it names must be deleted where the
checkpoint failed, and must not be where it was completed.
"""

from __future__ import annotations

from collections import deque

#: No acknowledgement is repeated for longer than it takes to complete so many checkpoints.
MAX_REMEMBERED = 1_024


class CompletedIds:
    def __init__(self) -> None:
        self._ids: deque[int] = deque(maxlen=MAX_REMEMBERED)

    def add(self, checkpoint_id: int) -> None:
        self._ids.append(checkpoint_id)

    def is_known_failed(self, checkpoint_id: int) -> bool:
        """Of an id that was given out and is no longer in progress. False where that has been forgotten."""
        if checkpoint_id in self._ids:
            return False
        return len(self._ids) < MAX_REMEMBERED or checkpoint_id > min(self._ids)
