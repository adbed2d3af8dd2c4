"""CheckpointingMode."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """What a recovery promises for each record."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
