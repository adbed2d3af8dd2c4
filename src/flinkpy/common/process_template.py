"""A template process imports the modules of a kind of process once; each new process is a fork of it.

```
   parent ---- socket ----> template (imports, then waits)
     |                         | fork, fork: the one in between ends at once
     | child of               v
     +-------------------> new process: sets itself up as if started by exec, and runs
```

A new process is a child of the *parent*, like a process started by exec: the parent is a subreaper during the request,
so the kernel makes it the parent of the orphan that the process in between leaves. The parent waits for the new process
and gets its exit status. If asked to, the kernel ends the new process with the parent. The end of the template does not
affect the processes that it forked.

Forking is safe because the template is forked from a process with one thread, before gRPC or an event loop starts. It
imports only modules that start no thread, and checks for other threads before each fork. A template that finds one
ends, and its parent uses exec again. The processes share only copy-on-write memory: a new process has its own
session, environment, command line, descriptors, random state and signal handlers.

See docs/decisions/0023-jobmasters-are-forked-from-a-template.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from flinkpy.common.process import die_with_parent

logger = logging.getLogger(__name__)

#: linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
#: Importing takes less than a second, so a template that is silent for this long never answers.
ANSWER_TIMEOUT_S = 30.0
#: An answer is a pid or a short error.
_MAX_ANSWER_BYTES = 256
_MAX_DESCRIPTORS = 16


@dataclass(frozen=True, slots=True)
class _ForkRequest:
    """One process to start.

    Attributes:
        command: the whole command line; the template decides what it means.
        environment: the complete environment.
        handed: environment variables that name a descriptor, each with the index of that descriptor among those passed.
        captured: True if the first descriptor takes the standard output and error.
    """

    command: list[str]
    environment: dict[str, str]
    handed: dict[str, int]
    captured: bool


class ForkedProcess:
    """A forked process that does nothing until its parent calls `begin`."""

    def __init__(self, pid: int, go: int) -> None:
        self.pid = pid
        self._go = go

    def begin(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it was killed; its exit status says so
            os.write(self._go, b"!")
        os.close(self._go)

    def abandon(self) -> None:
        """Makes the process exit without running its command."""
        os.close(self._go)


class ProcessTemplate:
    """The parent's handle of a template. Thread: the event loop of the parent."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._pid = pid
        self._lock: asyncio.Lock | None = None

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def is_open(self) -> bool:
        """True if the template accepts requests; once closed, it stays closed."""
        return self._connection.fileno() >= 0

    async def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        handed: Mapping[str, int],
        output: int | None,
    ) -> ForkedProcess:
        """Forks a child of this process that waits for `begin`. The caller must reap it.

        Args:
            command: the whole command line.
            environment: the complete environment. As with exec, it says whether the process ends with this one.
            handed: descriptors to pass, each under the environment variable that will hold its number.
            output: descriptor for the standard output and error; None for those of the template.

        Raises:
            OSError: the template no longer answers; it has been closed.
        """
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if not self.is_open:
                raise ConnectionError("the template process has ended")
            descriptors = [*([] if output is None else [output]), *handed.values()]
            request = _ForkRequest(
                list(command),
                dict(environment),
                {name: descriptors.index(descriptor) for name, descriptor in handed.items()},
                output is not None,
            )
            go_read, go_write = os.pipe()
            _become_subreaper(True)
            try:
                pid = await asyncio.wait_for(self._ask(request, [go_read, *descriptors]), ANSWER_TIMEOUT_S)
                return ForkedProcess(pid, go_write)
            except (OSError, TimeoutError) as error:
                self.close()
                os.close(go_write)
                raise ConnectionError(f"the template process (pid {self._pid}) does not answer: {error}") from error
            except BaseException:
                # The answer may still arrive; the next request would read it as its own.
                self.close()
                os.close(go_write)
                raise
            finally:
                os.close(go_read)
                _become_subreaper(False)

    async def _ask(self, request: _ForkRequest, descriptors: list[int]) -> int:
        fields = {name: getattr(request, name) for name in _ForkRequest.__dataclass_fields__}
        # A memory file holds a request of any size, and no other process can read the environment in it.
        memory = os.memfd_create("flinkpy-fork-request")
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(json.dumps(fields).encode())
            socket.send_fds(self._connection, [b"fork"], [memory, *descriptors])
        finally:
            os.close(memory)
        answer = await asyncio.get_running_loop().sock_recv(self._connection, _MAX_ANSWER_BYTES)
        if not answer.isdigit():
            raise OSError(answer.decode(errors="replace") or "it has ended")
        return int(answer)

    def close(self) -> None:
        """Ends the template; the processes that it forked keep running."""
        if not self.is_open:
            return
        self._connection.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def start_template(name: str, prepare: Callable[[], None], run: Callable[[list[str]], None]) -> ProcessTemplate | None:
    """Forks a template from this process; returns None if that is not safe or the system lacks `memfd_create`.

    Args:
        name: the name of the template in its command line.
        prepare: imports the modules that the processes need; runs in the template.
        run: runs a command line; called in each forked process.
    """
    if has_other_threads() or not hasattr(os, "memfd_create"):
        return None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent_pid = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return ProcessTemplate(ours, pid)
    ours.close()
    die_with_parent(parent_pid)
    _close_inheritable_descriptors(theirs.fileno())
    # Ctrl-C in a terminal must reach only the parent.
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def begin(command: list[str]) -> None:
        signal.signal(signal.SIGINT, on_interrupt)
        run(command)

    with contextlib.suppress(BrokenPipeError):  # the parent ended before it read the answer
        _answer_requests(theirs, name, prepare, begin)
    os._exit(0)


def has_other_threads() -> bool:
    """True if this process has more threads than the calling one, including threads that Python did not start."""
    return len(os.listdir("/proc/self/task")) > 1


def _answer_requests(
    connection: socket.socket, name: str, prepare: Callable[[], None], run: Callable[[list[str]], None]
) -> None:
    """Serves fork requests in the template until the parent closes its end."""
    shown = show_command_line([sys.executable, "-m", "flinkpy.cli.main", name], os.environ)
    prepare()
    # A garbage collection would write to every page that the forked processes share, and so copy it.
    gc.freeze()
    while True:
        _, descriptors, _, _ = socket.recv_fds(connection, 16, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not descriptors:
            return
        if not shown or has_other_threads():
            connection.send(b"it has other threads" if shown else b"it cannot set the command line of a process")
            return
        try:
            answer = _fork(connection, list(descriptors), run)
        except OSError as error:
            answer = str(error)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(answer.encode()[:_MAX_ANSWER_BYTES])


def _fork(connection: socket.socket, descriptors: list[int], run: Callable[[list[str]], None]) -> str:
    """Forks a child of the template's parent and returns its pid. Raises: OSError."""
    told_read, told_write = os.pipe()
    between = os.fork()
    if between == 0:
        _fork_and_end(told_write)
        # This is the new process. It waits for `begin` from the parent that adopts it.
        os.close(told_read)
        os.close(told_write)
        connection.close()
        memory, go, *passed = descriptors
        if not os.read(go, 1):
            os._exit(1)
        os.close(go)
        _become(memory, passed, run)
    os.close(told_write)
    try:
        os.waitpid(between, 0)
        pid = os.read(told_read, 32).decode()
        if not pid:
            raise OSError("the system refused to fork another process")
        return pid
    finally:
        os.close(told_read)


def _fork_and_end(told: int) -> None:
    """Forks from the process in between, which reports the pid and ends; only the new process returns."""
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(told, str(pid).encode())
        os._exit(0)


def _become(memory: int, passed: list[int], run: Callable[[list[str]], None]) -> NoReturn:
    """Turns this process into the requested one and runs it to its end."""
    with open(memory, "rb") as file:
        file.seek(0)
        request = _ForkRequest(**json.loads(file.read()))
    os.setsid()
    no_input = os.open(os.devnull, os.O_RDONLY)
    os.dup2(no_input, 0)
    os.close(no_input)
    if request.captured:
        os.dup2(passed[0], 1)
        os.dup2(passed[0], 2)
        os.close(passed[0])
    environment = request.environment | {name: str(passed[position]) for name, position in request.handed.items()}
    show_command_line(request.command, environment)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # a cached value of the old environment
    sys.orig_argv[:] = request.command
    run(request.command)
    raise SystemExit(0)


def _close_inheritable_descriptors(but: int) -> None:
    """Closes the descriptors that were handed to this process's parent, and that only the parent should hold."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor != but:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself, closed by now
                if os.get_inheritable(descriptor):
                    os.close(descriptor)


def _become_subreaper(wanted: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


#: linux/prctl.h. Setting the whole memory map needs no privilege, unlike setting one of its addresses.
_PR_SET_MM = 35
_PR_SET_MM_MAP = 14
#: Numbers of the /proc/self/stat fields (proc_pid_stat(5)) that are copied into the map.
_START_CODE, _END_CODE, _START_STACK, _START_DATA, _END_DATA, _START_BRK = 26, 27, 28, 45, 46, 47
#: This file descriptor leaves the executable unchanged.
_NO_EXECUTABLE = 0xFFFFFFFF


def show_command_line(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Sets the command line and environment that `ps` and /proc show for this process.

    A forked process shows those of its template until it sets its own.

    Returns: False, without any change, if the system refuses.
    """
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
