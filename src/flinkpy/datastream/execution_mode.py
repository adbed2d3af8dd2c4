"""RuntimeExecutionMode: streaming or batch."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """The execution mode of a program.

    STREAMING emits all intermediate results. BATCH, for bounded sources only, emits final results. AUTOMATIC chooses
    BATCH if all sources are bounded.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
