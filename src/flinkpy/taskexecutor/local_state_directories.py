"""LocalStateDirectories: where the local copies of state lie.

By default inside the working directory. Directories that were configured may be shared with other processes of the
host, so each process has one of its own in them, which the next process removes if this one is killed.

Source: org.apache.flink.configuration.CheckpointingOptions#LOCAL_RECOVERY_TASK_MANAGER_STATE_ROOT_DIRS.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.working_directory import WorkingDirectory

_NAME = "localState"


class LocalStateDirectories:
    def __init__(self, roots: Sequence[Path], owned: Sequence[WorkingDirectory]) -> None:
        self._roots = tuple(roots)
        self._owned = tuple(owned)

    @classmethod
    def open(cls, configured: str | None, working_directory: WorkingDirectory) -> LocalStateDirectories:
        """Args: configured: directories separated by commas.

        Raises: ConfigurationError where one cannot be used.
        """
        paths = [part.strip() for part in (configured or "").split(",") if part.strip()]
        if not paths:
            return cls([working_directory.subdirectory(_NAME, empty=True)], [])
        owned: list[WorkingDirectory] = []
        try:
            for path in paths:
                Path(path).mkdir(parents=True, exist_ok=True)
                owned.append(WorkingDirectory.open(None, path, _NAME))
        except (OSError, ConfigurationError) as error:
            for directory in owned:
                directory.close()
            raise ConfigurationError(
                f"`execution.checkpointing.local-backup.dirs`: {path} cannot be used: {error}",
                details={"option": "execution.checkpointing.local-backup.dirs"},
            ) from error
        return cls([directory.path for directory in owned], owned)

    def of_job(self, name: str) -> list[Path]:
        return [root / name for root in self._roots]

    def close(self) -> None:
        for directory in self._owned:
            directory.close()
