"""How the kernel shares the CPUs between the threads of services and those of tasks.

Tasks use all the CPU time that they get. A service, e.g. a Dispatcher, wakes up for a moment to answer a call. On a
busy host each of its wake-ups waits for its turn, and an answer of several services takes several of them.

- *Time slices.* Since Linux 6.12 a thread may ask for a time slice of its own. A thread that wakes up interrupts one
  that has a longer slice. Its share of the CPU stays the same, so other processes lose nothing, and it needs no rights.
- *Niceness.* Processes with a higher niceness get less of a CPU that several want. Anyone may raise it.
- *Affinity.* A process may be bound to some CPUs.

Thread: any; each call concerns the calling thread, and the threads and processes that it starts later.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import struct

from flinkpy.common.errors import ConfigurationError

logger = logging.getLogger(__name__)

#: The slice of services. Linux's own is 0.7 ms to 2.8 ms, depending on the number of CPUs. A slice of 0.1 ms, the
#: shortest, would make a service that computes for long change places with others more often than it helps.
SERVICE_SLICE_NS = 300_000
#: Lets Linux choose.
DEFAULT_SLICE_NS = 0

#: The numbers of the system calls `sched_setattr` and `sched_getattr`, by architecture. The C library has no functions
#: for them before glibc 2.41.
_SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
#: `struct sched_attr` (linux/sched/types.h): size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("IIQiIQQQ")
#: The policy of ordinary threads, whose `runtime` is the slice.
_SCHED_OTHER = 0
#: Processes of one session compete with other sessions as a whole where this file exists (`sched_autogroup_enabled`),
#: so that the niceness of a thread counts only within its session.
_AUTOGROUP = "/proc/self/autogroup"


def request_time_slice(slice_ns: int) -> bool:
    """Asks for time slices of this length, `DEFAULT_SLICE_NS` for those of Linux.

    Returns: False if this system does not grant any.
    """
    calls = _SYSTEM_CALLS.get(platform.machine())
    if calls is None:
        return False
    set_attributes, get_attributes = calls
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    size = _ATTRIBUTES.size
    buffer = ctypes.create_string_buffer(size)
    if system_call(get_attributes, 0, buffer, size, 0) != 0:
        return False
    _, policy, flags, nice, priority, _, deadline, period = _ATTRIBUTES.unpack(buffer.raw)
    if policy != _SCHED_OTHER:
        return False  # somebody chose another one, whose `runtime` means something else
    wanted = _ATTRIBUTES.pack(size, policy, flags, nice, priority, slice_ns, deadline, period)
    if system_call(set_attributes, 0, ctypes.c_char_p(wanted), 0) != 0:
        logger.debug("No time slice of %d ns: %s", slice_ns, os.strerror(ctypes.get_errno()))
        return False
    return True


def bind_to_cpus(text: str) -> None:
    """Binds the threads of this process to CPUs.

    Args:
        text: numbers and ranges, such as `0-3,8`.

    Raises:
        ConfigurationError: it is no such list, or this process may not use one of the CPUs.
    """
    wanted: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdigit() or not last.isdigit() or int(last) < int(first):
            raise ConfigurationError(f"{text!r} is no list of CPUs, such as 0-3,8")
        wanted.update(range(int(first), int(last) + 1))
    usable = os.sched_getaffinity(0)
    if not wanted <= usable:
        missing, known = (",".join(map(str, sorted(cpus))) for cpus in (wanted - usable, usable))
        raise ConfigurationError(f"this process cannot use the CPUs {missing}; it can use {known}")
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), wanted)


def raise_niceness(niceness: int) -> None:
    """Gives way to processes of a lower niceness. 0 changes nothing.

    Args:
        niceness: from 0 to 19. The share of the CPU falls by about a fifth per step.
    """
    if niceness <= 0:
        return
    os.nice(niceness)
    try:
        with open(_AUTOGROUP, "w") as file:
            file.write(str(niceness))
    except OSError as error:
        logger.debug("The session has no niceness of its own: %s", error)
