"""Settings of the C library's allocator for processes that compute on columns (docs/decisions/0083)."""

from __future__ import annotations

import ctypes
import os
from typing import Any

#: Smaller blocks are cut from memory that the process keeps. The columns of a batch of 65,536 rows are below this;
#: larger blocks are mostly state, and go back to the system when they are freed.
MMAP_THRESHOLD_BYTES = 8 << 20
#: How much free memory at the end of its heap a thread keeps: the temporary columns of a few batches.
TRIM_THRESHOLD_BYTES = 64 << 20

#: The numbers of these parameters in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Variables of the environment by which a user sets the parameters of glibc.
_CHOSEN_BY_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Makes the allocator keep the memory of freed columns for the next batch. Returns whether it does.

    Otherwise NumPy's temporary arrays go back to the system after each batch, and each of their pages costs a page
    fault in the next one. Allocators other than glibc's have no such setting, and one that the user has chosen stays.
    """
    libc = _glibc()
    if libc is None or any(name in os.environ for name in _CHOSEN_BY_USER):
        return False
    wanted = {_M_MMAP_THRESHOLD: MMAP_THRESHOLD_BYTES, _M_TRIM_THRESHOLD: TRIM_THRESHOLD_BYTES}
    return sum(libc.mallopt(parameter, size) for parameter, size in wanted.items()) == len(wanted)


def return_free_memory() -> None:
    """Gives memory that no object uses back to the system, for example after a task has ended."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(ctypes.c_size_t(0))


def _glibc() -> Any:
    """Returns the C library of this process; None if it is another one than glibc."""
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
