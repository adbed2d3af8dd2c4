"""RuntimeExecutionMode."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """STREAMING emits every intermediate result; BATCH, for bounded input, only final ones; AUTOMATIC decides."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
