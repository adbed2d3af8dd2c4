"""Permissions of a cluster's files: job graphs, metadata, state, blobs, logs.

All services of a cluster run as one user, so by default no other user can read its files (`security.umask`). A service
that runs only flinkpy's code sets the umask of its process. A TaskExecutor also runs user functions and sinks, whose
files get the permissions of the user who started the cluster; there only flinkpy's own files are restricted.
"""

from __future__ import annotations

import os

#: Environment variable with the umask of the first process, for the processes that it starts.
_VARIABLE = "FLINKPY_UMASK_OF_USER"

_mask = 0


def restrict_files(umask: int, *, runs_functions: bool) -> None:
    """Removes the permissions in `umask` from all files that this process creates; called at the start of a service.

    Args:
        umask: the permissions to remove.
        runs_functions: remove them only from flinkpy's own files.
    """
    global _mask
    _mask = umask
    of_process = os.umask(umask)
    # The umask of a parent process is not the one that the user chose for the user's own files.
    of_user = int(os.environ.setdefault(_VARIABLE, f"{of_process:03o}"), 8)
    os.umask(of_user if runs_functions else of_user | umask)


def restore_umask() -> None:
    """Restores the user's umask, in a process that a service starts to run the user's program."""
    of_user = os.environ.get(_VARIABLE)
    if of_user is not None:
        os.umask(int(of_user, 8))


def file_mode() -> int:
    """Returns the mode for creating flinkpy's own files; the umask of the process applies in addition."""
    return 0o666 & ~_mask


def directory_mode() -> int:
    """Returns the mode for creating flinkpy's own directories; the umask of the process applies in addition."""
    return 0o777 & ~_mask
