"""Processes that end when they should: with their parent, on request, and without leaving a trace.

Linux only: a child is tied to its parent by the kernel (`PR_SET_PDEATHSIG`), not by polling, so that `kill -9` of a
parent leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from flinkpy.common.errors import ExternalError

#: `prctl` option that names the signal a process gets when its parent thread dies (linux/prctl.h).
_PR_SET_PDEATHSIG = 1
#: The parent's pid as its child was told it; see `die_with_parent`.
PARENT_PID_VARIABLE = "FLINKPY_PARENT_PID"


def die_with_parent(parent_pid: int | None = None, sig: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `sig` to this process as soon as its parent is dead.

    The kernel watches the *thread* of the parent that started this process: start children from a thread that lives as
    long as the process. SIGKILL is the default because a process whose parent is dead has nobody left to wait for an
    orderly end, and because its own children die the same way.

    Args:
        parent_pid: who the parent should be; where it is given and another process is the parent already (the true one
            died before this call), this process ends at once.

    Raises:
        ExternalError: the system does not support it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0) != 0:
        raise ExternalError(f"this process cannot be tied to its parent: {os.strerror(ctypes.get_errno())}")
    if parent_pid is not None and os.getppid() != parent_pid:
        os.kill(os.getpid(), sig)


def die_with_parent_if_asked() -> None:
    """`die_with_parent` where the environment says who the parent is: how a child started by flinkpy is told."""
    parent_pid = os.environ.pop(PARENT_PID_VARIABLE, None)
    if parent_pid is not None:
        die_with_parent(int(parent_pid))


def environment_for_child() -> dict[str, str]:
    """This process's environment plus what makes a flinkpy child end with this process."""
    return {**os.environ, PARENT_PID_VARIABLE: str(os.getpid())}


def announce_ready(service: str, address: str, data_address: str | None = None, ready_file: str | None = None) -> None:
    """Tell whoever started this process that it serves: a line on standard output, and the address in `ready_file`.

    `ready_file` is a path, written whole or not at all, or `fd:N`, an inherited pipe, whose end without a message tells
    its reader that this process has died. With a pipe nothing is printed: the output may be a user's terminal.
    """
    addresses = address if data_address is None else f"{address} data {data_address}"
    text = f"{addresses}\n".encode()
    if ready_file is not None and ready_file.startswith("fd:"):
        descriptor = int(ready_file.removeprefix("fd:"))
        os.write(descriptor, text)
        os.close(descriptor)
        return
    if ready_file is not None:
        unfinished = f"{ready_file}.{os.getpid()}.tmp"
        with open(unfinished, "wb") as file:
            file.write(text)
        os.replace(unfinished, ready_file)
    print(f"flinkpy {service} ready {addresses}", flush=True)  # noqa: T201 - the line is the interface


#: First character of what a child writes to its ready pipe where it could not start.
FAILURE_MARK = "!"


def announce_failure(ready_file: str, message: str) -> None:
    """Tell the parent behind an `fd:N` ready pipe why this process could not start; other forms are left alone."""
    if not ready_file.startswith("fd:"):
        return
    try:
        os.write(int(ready_file.removeprefix("fd:")), f"{FAILURE_MARK}{message}"[:4096].encode())
    except OSError:
        return  # the service had become ready before it failed, and its pipe is closed


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process for good: its pid and its start time, because a pid alone is given to another process later."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has `pid` now; None where there is none, or only a zombie."""
        fields = _stat_fields(pid)
        if fields is None or fields[0] in ("Z", "X"):
            return None
        return cls(pid, int(fields[19]))

    @property
    def is_alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def send_signal(self, sig: signal.Signals) -> bool:
        """Send `sig` where the process still is this one; whether it was sent."""
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, sig)
        except ProcessLookupError:
            return False
        return True

    def wait_exit(self, timeout_s: float) -> bool:
        """Whether the process has ended within `timeout_s`; works for processes that are not children."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive:
                return True
            import select

            # A pidfd becomes readable when its process ends, so that nobody has to poll.
            readable, _, _ = select.select([descriptor], [], [], timeout_s)
            return bool(readable)
        finally:
            os.close(descriptor)


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command name: [0] is the state, [19] the start time in clock ticks."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def terminate_and_wait(processes: Sequence[ProcessIdentity], grace_s: float) -> list[ProcessIdentity]:
    """SIGTERM to all, then SIGKILL to those that are alive after `grace_s`; returns those that had to be killed."""
    import time

    deadline = time.monotonic() + grace_s
    for process in processes:
        process.send_signal(signal.SIGTERM)
    killed = []
    for process in processes:
        if not process.wait_exit(max(0.0, deadline - time.monotonic())):
            process.send_signal(signal.SIGKILL)
            killed.append(process)
    for process in killed:
        process.wait_exit(grace_s)
    return killed


def stop_children(children: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """SIGTERM to all children, SIGKILL after `grace_s`, and reap them; returns when all are gone."""
    import time

    deadline = time.monotonic() + grace_s
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
    for child in children:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
