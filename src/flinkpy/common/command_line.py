"""Sets the command line and environment that `ps` and /proc show for this process.

A forked process shows those of its template until it sets its own.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping, Sequence

#: linux/prctl.h. Setting the whole memory map needs no privilege, unlike setting one of its addresses.
_PR_SET_MM = 35
_PR_SET_MM_MAP = 14
#: Numbers of the /proc/self/stat fields (proc_pid_stat(5)) that are copied into the map.
_START_CODE, _END_CODE, _START_STACK, _START_DATA, _END_DATA, _START_BRK = 26, 27, 28, 45, 46, 47
#: This file descriptor leaves the executable unchanged.
_NO_EXECUTABLE = 0xFFFFFFFF


def show_command_line(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Sets the shown command line and environment; returns False, without any change, if the system refuses."""
    arguments = b"".join(os.fsencode(word) + b"\0" for word in command)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    memory = ctypes.create_string_buffer(arguments + variables, len(arguments) + len(variables))
    start = ctypes.addressof(memory)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sbrk.restype = ctypes.c_ulong
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = ["", "", "", *file.read().rpartition(")")[2].split()]
    # struct prctl_mm_map; a size of 0 leaves the auxiliary vector as it is.
    memory_map = struct.pack(
        "=12QII",
        *(int(fields[number]) for number in (_START_CODE, _END_CODE, _START_DATA, _END_DATA, _START_BRK)),
        libc.sbrk(0),
        int(fields[_START_STACK]),
        start,
        start + len(arguments),
        start + len(arguments),
        start + len(arguments) + len(variables),
        0,
        0,
        _NO_EXECUTABLE,
    )
    described = ctypes.create_string_buffer(memory_map, len(memory_map))
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.addressof(described), len(memory_map), 0) != 0:
        return False
    # The kernel reads this memory until the process ends, so it must never be freed, not even at interpreter shutdown.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return True
