"""CheckpointedFunction and CheckpointListener, which live in `flinkpy.functions.checkpointed_function`."""

from __future__ import annotations

from flinkpy.functions.checkpointed_function import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
]
