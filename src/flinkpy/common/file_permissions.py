"""Who but this user may read the files of a cluster: job graphs, metadata, state, blobs, logs.

Services of one cluster run as one user, so by default nobody else may (`security.umask`). A service that runs nothing
but flinkpy sets the umask of its process. A TaskExecutor runs functions and sinks of users, whose files have the
permissions that the user who started the cluster wants; only what flinkpy itself writes there is restricted.
"""

from __future__ import annotations

import os

#: Tells the processes that a service starts with which umask the first of them was started.
_VARIABLE = "FLINKPY_UMASK_OF_USER"

_mask = 0


def restrict_files(umask: int, *, runs_functions: bool) -> None:
    """Takes the permissions in `umask` from all files that this process makes from now on. At the start of a service.

    Args:
        runs_functions: take them only from flinkpy's own files.
    """
    global _mask
    _mask = umask
    of_process = os.umask(umask)
    # The umask of a parent process says nothing about the user's own files.
    of_user = int(os.environ.setdefault(_VARIABLE, f"{of_process:03o}"), 8)
    os.umask(of_user if runs_functions else of_user | umask)


def restore_umask() -> None:
    """Gives files the permissions that the user wants, in a process that a service has started to run his program."""
    of_user = os.environ.get(_VARIABLE)
    if of_user is not None:
        os.umask(int(of_user, 8))


def file_mode() -> int:
    """The mode to make a file of flinkpy's own with; the umask of the process is applied to it too."""
    return 0o666 & ~_mask


def directory_mode() -> int:
    """The mode to make a directory of flinkpy's own with; the umask of the process is applied to it too."""
    return 0o777 & ~_mask
