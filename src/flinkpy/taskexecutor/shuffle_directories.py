"""ShuffleDirectories: where the blocking partitions of this TaskExecutor lie: in each of `io.tmp.dirs`, by turns, or in
its working directory where that is unset.

They do not outlive the process: the directories are empty at its beginning and removed at its end, and what one that
was killed has left is removed by the next one on the host.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from flinkpy.common.working_directory import WorkingDirectory

_NAME = "blocking-shuffle"


class ShuffleDirectories:
    """Blocking."""

    def __init__(self, paths: list[Path], owned: list[WorkingDirectory]) -> None:
        self.paths = paths
        self._owned = owned

    @classmethod
    def open(cls, temporary_roots: Sequence[str], working_directory: WorkingDirectory) -> ShuffleDirectories:
        """Raises: ConfigurationError where one cannot be used."""
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
        """Remove them."""
        for path in self.paths:
            shutil.rmtree(path, ignore_errors=True)
        for directory in self._owned:
            directory.close()
