"""ExternalizedCheckpointRetention: when checkpoints are kept after the end of their job."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Decides if checkpoints are kept when a job is cancelled or fails.

    A finished job keeps none. A failed job keeps them, except with NO_EXTERNALIZED_CHECKPOINTS.
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
