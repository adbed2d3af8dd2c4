"""JobRecoveryDirectories: for each job the directory in which its JobMasters leave what the next one must find.

It lies in the Dispatcher's working directory or, with high availability, in the storage directory of all masters, and
lives as long as the job. Blocking, except `path_of`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from flinkpy.common.durable_file import sync_directory
from flinkpy.common.ids import JobID
from flinkpy.common.safe_paths import safe_join


class JobRecoveryDirectories:
    """Args:
    check_leadership: raises where this process does not lead any more; others may use the same directories then.
    """

    def __init__(self, root: Path, check_leadership: Callable[[], None] = lambda: None) -> None:
        self._root = root
        self._check_leadership = check_leadership

    def path_of(self, job_id: JobID) -> Path:
        return safe_join(self._root, str(job_id))

    def check_leadership(self) -> None:
        """Raises: LeadershipLostError where this process does not lead any more; HighAvailabilityError where it cannot
        be known.
        """
        self._check_leadership()

    def create(self, job_id: JobID) -> None:
        """Durable when this returns; may be repeated."""
        self.path_of(job_id).mkdir(exist_ok=True)
        sync_directory(self._root)

    def remove(self, job_id: JobID) -> None:
        """With all that is in it, unless a checkpoint lies there that its job has left to be kept; idempotent.

        Raises: OSError.
        """
        path = self.path_of(job_id)
        if path.exists() and not _holds_checkpoints(path):
            shutil.rmtree(path)
            sync_directory(self._root)

    def remove_others(self, job_ids: set[JobID]) -> None:
        """Of jobs that nobody knows any more: a crash came between the removal of the job and that of its directory."""
        # Listed before the check: what another leader makes after it is not among them, however long this takes.
        paths = list(self._root.iterdir())
        self._check_leadership()
        for path in paths:
            if JobID(path.name) not in job_ids:
                shutil.rmtree(path, ignore_errors=True)


def _holds_checkpoints(path: Path) -> bool:
    """Checkpoints of a job without execution.checkpointing.dir; those that are not to be kept have been removed."""
    return any(path.glob("checkpoints/**/_metadata"))
