"""NoCheckpoints: the state manager of a task that starts from nothing and takes no checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class NoCheckpoints:
    """Implements `flinkpy.streaming.tasks.environment.TaskStateManager` as far as such a task needs it."""

    restored_checkpoint_id = None
    is_restored_as_finished = False
    files: Any = None
    io_executor: Any = None

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def restored_state(self, operator_id: str) -> None:
        return None
