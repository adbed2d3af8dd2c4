"""ShuffleDirectories: the directories of blocking partitions.

Partitions are spread over `io.tmp.dirs`, or are in the working directory if that is not set. The directories are empty
at the start of the process and removed at its end. The next process on the host removes those of a killed process.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from flinkpy.common.working_directory import WorkingDirectory

_NAME = "blocking-shuffle"


class ShuffleDirectories:
    """Opens and removes the directories. Blocking."""

    def __init__(self, paths: list[Path], owned: list[WorkingDirectory]) -> None:
        self.paths = paths
        self._owned = owned

    @classmethod
    def open(cls, temporary_roots: Sequence[str], working_directory: WorkingDirectory) -> ShuffleDirectories:
        """Opens the directories. Raises: ConfigurationError if one cannot be used."""
        paths: list[Path] = []
        owned: list[WorkingDirectory] = []
        inside = working_directory.path.resolve()
        for root in dict.fromkeys(temporary_roots):
            if inside.is_relative_to(Path(root).resolve()):
                paths.append(working_directory.subdirectory(_NAME, empty=True))
            else:
                owned.append(WorkingDirectory.open(None, root, "shuffle"))
                paths.append(owned[-1].subdirectory(_NAME))
        return cls(paths or [working_directory.subdirectory(_NAME, empty=True)], owned)

    def close(self) -> None:
        """Removes the directories."""
        for path in self.paths:
            shutil.rmtree(path, ignore_errors=True)
        for directory in self._owned:
            directory.close()
