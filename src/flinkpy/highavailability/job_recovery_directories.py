"""JobRecoveryDirectories: one directory per job with the files that the next JobMaster of the job needs.

They are in the working directory of the Dispatcher or, with high availability, in the storage directory of all masters.
A directory exists as long as its job. Blocking, except `path_of`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from flinkpy.common.durable_file import sync_directory
from flinkpy.common.ids import JobID
from flinkpy.common.safe_paths import safe_join


class JobRecoveryDirectories:
    """Manages the recovery directories below `root`.

    Args:
        check_leadership: raises if this process does not lead any more. Another leader may use the directories then.
    """

    def __init__(self, root: Path, check_leadership: Callable[[], None] = lambda: None) -> None:
        self._root = root
        self._check_leadership = check_leadership

    def path_of(self, job_id: JobID) -> Path:
        return safe_join(self._root, str(job_id))

    def check_leadership(self) -> None:
        """Checks that this process leads.

        Raises: LeadershipLostError if it does not lead any more; HighAvailabilityError if that is unknown.
        """
        self._check_leadership()

    def create(self, job_id: JobID) -> None:
        """Creates the directory durably. Idempotent."""
        self.path_of(job_id).mkdir(exist_ok=True)
        sync_directory(self._root)

    def remove(self, job_id: JobID) -> None:
        """Removes the directory, unless it holds a retained checkpoint of the job. Idempotent.

        Raises: OSError.
        """
        path = self.path_of(job_id)
        if path.exists() and not _holds_checkpoints(path):
            shutil.rmtree(path)
            sync_directory(self._root)

    def remove_others(self, job_ids: set[JobID]) -> None:
        """Removes the directories of unknown jobs, which are left if a crash interrupts the removal of a job."""
        # Listed before the check, so that directories that a later leader creates are not among them.
        paths = list(self._root.iterdir())
        self._check_leadership()
        for path in paths:
            if JobID(path.name) not in job_ids:
                shutil.rmtree(path, ignore_errors=True)


def _holds_checkpoints(path: Path) -> bool:
    """True if the directory has checkpoints, which a job without execution.checkpointing.dir has retained there."""
    return any(path.glob("checkpoints/**/_metadata"))
