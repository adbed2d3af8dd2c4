"""ExternalizedCheckpointRetention."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Whether the retained checkpoints outlive their job.

    A job that has finished keeps none in any case; a failed one keeps them unless NO_EXTERNALIZED_CHECKPOINTS says
    otherwise.
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
