"""CheckpointingMode: the guarantee of checkpoints."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """The number of times that a record affects the state if a job fails and recovers."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
