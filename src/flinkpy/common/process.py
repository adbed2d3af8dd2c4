"""Helpers to tie a process to its parent, to announce that it is ready, to request its shutdown, and to end it.

Linux only: the kernel ties a child to its parent (`PR_SET_PDEATHSIG`), so `kill -9` of a parent leaves no child behind.
"""

from __future__ import annotations

import asyncio
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
#: Set for a process that alone writes to the file of its standard error, and so may rotate it.
OWN_LOG_VARIABLE = "FLINKPY_OWN_LOG"
#: Environment variable with the parent's pid; see `die_with_parent`.
PARENT_PID_VARIABLE = "FLINKPY_PARENT_PID"
#: Environment variable of a service that is started again when it ends. It then tells by its exit status that it ends
#: because the whole cluster does.
SUPERVISED_VARIABLE = "FLINKPY_SUPERVISED"
#: The exit status of such a service. Other supervisors, for example systemd, see 0.
EXIT_CLUSTER_SHUT_DOWN = 80


def die_with_parent(parent_pid: int | None = None, sig: signal.Signals = signal.SIGKILL) -> None:
    """Makes the kernel send `sig` to this process when its parent dies.

    The kernel watches the *thread* that started this process, so start children from a thread that lives as long as
    the parent. SIGKILL is the default because a process without a parent has nobody to wait for an orderly end, and
    because its own children die the same way.

    Args:
        parent_pid: the expected parent. If another process is the parent by now, the expected one died before this
            call, and this process ends at once.
        sig: the signal to send.

    Raises:
        ExternalError: the system does not support it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0) != 0:
        raise ExternalError(f"this process cannot be tied to its parent: {os.strerror(ctypes.get_errno())}")
    if parent_pid is not None and os.getppid() != parent_pid:
        os.kill(os.getpid(), sig)


def die_with_parent_if_asked() -> None:
    """Calls `die_with_parent` if flinkpy put the parent's pid into this process's environment."""
    parent_pid = os.environ.pop(PARENT_PID_VARIABLE, None)
    if parent_pid is not None:
        die_with_parent(int(parent_pid))


def environment_for_child() -> dict[str, str]:
    """Returns this process's environment plus the variable that makes a flinkpy child end with this process."""
    return {**os.environ, PARENT_PID_VARIABLE: str(os.getpid())}


def announce_ready(service: str, address: str, data_address: str | None = None, ready_file: str | None = None) -> None:
    """Announces that this process serves: prints a line and writes the address to `ready_file`.

    `ready_file` is either a path, which is written atomically, or `fd:N`, an inherited pipe. A pipe that closes without
    a message tells its reader that this process has died. With a pipe nothing is printed, because the output may be a
    user's terminal.
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


#: First character of the message that a child writes to its ready pipe if it cannot start.
FAILURE_MARK = "!"


def announce_failure(ready_file: str, message: str) -> None:
    """Writes the reason why this process cannot start to an `fd:N` ready pipe; does nothing for a path."""
    if not ready_file.startswith("fd:"):
        return
    try:
        os.write(int(ready_file.removeprefix("fd:")), f"{FAILURE_MARK}{message}"[:4096].encode())
    except OSError:
        return  # the service failed after it was ready, and the pipe is closed


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid and a start time, which identify a process even after the system reuses its pid."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Returns the identity of the live process with `pid`, or None if there is none or only a zombie."""
        fields = _stat_fields(pid)
        if fields is None or fields[0] in ("Z", "X"):
            return None
        return cls(pid, int(fields[19]))

    @property
    def is_alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def send_signal(self, sig: signal.Signals) -> bool:
        """Sends `sig` if the process is still alive; returns True if it was sent."""
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, sig)
        except ProcessLookupError:
            return False
        return True

    def wait_exit(self, timeout_s: float) -> bool:
        """Waits up to `timeout_s`; returns True if the process has ended. The process need not be a child."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive:
                return True
            import select

            # A pidfd becomes readable when its process ends.
            readable, _, _ = select.select([descriptor], [], [], timeout_s)
            return bool(readable)
        finally:
            os.close(descriptor)


def _stat_fields(pid: int) -> list[str] | None:
    """Returns the fields of /proc/PID/stat after the command name: [0] is the state, [19] the start time in ticks."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def terminate_and_wait(processes: Sequence[ProcessIdentity], grace_s: float) -> list[ProcessIdentity]:
    """Sends SIGTERM to all, then SIGKILL to those still alive after `grace_s`; returns the killed ones."""
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
    """Sends SIGTERM to all children, SIGKILL after `grace_s`, and reaps them; returns when all have ended."""
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


class ShutdownRequest:
    """A request to end, set once by a signal or by `request`. Thread: the event loop that created it."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._reason = ""
        #: whether a signal came first
        self.is_by_signal = False

    def listen_to_signals(self) -> None:
        """Makes SIGTERM and SIGINT request the shutdown instead of killing the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signaled, number)

    def _signaled(self, number: signal.Signals) -> None:
        self.is_by_signal = self.is_by_signal or not self._requested.is_set()
        self.request(f"signal {number.name}")

    def request(self, reason: str) -> None:
        """Requests the shutdown; later requests have no effect."""
        if not self._requested.is_set():
            self._reason = reason
            self._requested.set()

    async def wait(self) -> str:
        """Waits for a request and returns its reason."""
        await self._requested.wait()
        return self._reason
