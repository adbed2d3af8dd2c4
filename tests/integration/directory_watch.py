"""Waits for files to appear in a directory, and wakes at once.

The kernel reports new entries of the directory (inotify(7)), so user functions of tests need not ask again and again.
"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Callable
from pathlib import Path

#: sys/inotify.h: a file was created in the directory, or moved to it. The second one closes the descriptor on exec.
_IN_MOVED_TO, _IN_CREATE, _IN_CLOEXEC = 0x80, 0x100, 0o2000000
#: A task can be interrupted only between two steps of Python code, so no call waits longer than this.
_INTERRUPTIBLE_AFTER_MS = 100


def wait_for_entry(directory: str | Path, is_there: Callable[[], bool]) -> None:
    """Returns when `is_there` is true. Asks it now and then after each new entry of the directory."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(_IN_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    try:
        # From here on no entry is missed: one that came earlier is there when `is_there` is asked.
        if libc.inotify_add_watch(descriptor, os.fsencode(directory), _IN_CREATE | _IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(directory))
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not is_there():
            while not poll.poll(_INTERRUPTIBLE_AFTER_MS):
                pass
            os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)
