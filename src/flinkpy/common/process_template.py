"""A template process: it has imported what a kind of process needs, and each new one is a fork of it.

```
   parent ---- socket ----> template (imports, then waits)
     |                         | fork, fork: the one in between ends at once
     | child of               v
     +-------------------> new process: sets itself up as if started by exec, and runs
```

A new process is a child of the *parent*, as one that was started by exec: the parent is a subreaper while it asks, so
that the kernel gives it what the process in between leaves. It waits for it, is told its exit status and, where asked,
the kernel ends it with the parent. The end of the template changes nothing for it.

What makes forking safe: the template is forked from a process of one thread, before gRPC or an event loop have begun,
imports modules that begin nothing, and looks for other threads before each fork; a process that finds one ends, and
its parent starts processes by exec again. Nothing is shared but memory that is copied on write: a new process has a
session, environment, command line, descriptors, random state and signal handlers of its own.

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
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from flinkpy.common.command_line import show_command_line
from flinkpy.common.process import die_with_parent

logger = logging.getLogger(__name__)

#: linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
#: Importing takes less than a second; a template that does not answer for so long never will.
ANSWER_TIMEOUT_S = 30.0
#: Of an answer; more would be a bug.
_MAX_ANSWER_BYTES = 256
_MAX_DESCRIPTORS = 16


@dataclass(frozen=True, slots=True)
class _ForkRequest:
    """One process to start.

    Attributes:
        command: the whole command line; what it means is up to the template.
        environment: all of it.
        handed: variables of the environment that are to name a descriptor, and which one of the passed ones.
        captured: the first descriptor is for its standard output and error.
    """

    command: list[str]
    environment: dict[str, str]
    handed: dict[str, int]
    captured: bool


class ForkedProcess:
    """A process that waits for its parent to be ready for it: nothing of it is seen before `begin`."""

    def __init__(self, pid: int, go: int) -> None:
        self.pid = pid
        self._go = go

    def begin(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has been killed, which its exit status tells
            os.write(self._go, b"!")
        os.close(self._go)

    def abandon(self) -> None:
        """It ends at once instead."""
        os.close(self._go)


class ProcessTemplate:
    """The parent's end. Thread: the loop of the parent, except `start`, which comes before there is one."""

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
        """Whether it can be asked; once it cannot it never can again."""
        return self._connection.fileno() >= 0

    async def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        handed: Mapping[str, int],
        output: int | None,
    ) -> ForkedProcess:
        """Fork a process, which waits to `begin`. It is a child of this process, who has to wait for it.

        Args:
            environment: all of it. It says, as with exec, whether the process ends with this one.
            handed: descriptors for it, each by the variable of its environment that will tell it the number.
            output: descriptor for its standard output and error; where those of the template go if None.

        Raises: OSError: the template does not answer any more. It is closed.
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
                # An answer may be on its way to nobody: the next one to ask would take it for theirs.
                self.close()
                os.close(go_write)
                raise
            finally:
                os.close(go_read)
                _become_subreaper(False)

    async def _ask(self, request: _ForkRequest, descriptors: list[int]) -> int:
        fields = {name: getattr(request, name) for name in _ForkRequest.__dataclass_fields__}
        # Of any size, and seen by nobody: the environment is in it.
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
        """End the template; processes that it has forked go on."""
        if not self.is_open:
            return
        self._connection.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def start_template(name: str, prepare: Callable[[], None], run: Callable[[list[str]], None]) -> ProcessTemplate | None:
    """Fork a template from this process; None where that would not be safe, or processes could not show what they are.

    Args:
        name: what the system shows of the template.
        prepare: imports, in the template, what its processes need.
        run: what a process of the template does with its command line.
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
    _close_what_exec_would_pass_on(theirs.fileno())
    # Ctrl-C at a terminal is for the parent.
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def begin(command: list[str]) -> None:
        signal.signal(signal.SIGINT, on_interrupt)
        run(command)

    with contextlib.suppress(BrokenPipeError):  # the parent has gone while it was answered
        _answer_requests(theirs, name, prepare, begin)
    os._exit(0)


def has_other_threads() -> bool:
    """Whether this process has a thread beside the calling one, of Python's or not."""
    return len(os.listdir("/proc/self/task")) > 1


def _answer_requests(
    connection: socket.socket, name: str, prepare: Callable[[], None], run: Callable[[list[str]], None]
) -> None:
    """The template: returns when its parent has closed its end."""
    shown = show_command_line([sys.executable, "-m", "flinkpy.cli.main", name], os.environ)
    prepare()
    # Looking for garbage would write to every page that is shared with what is forked.
    gc.freeze()
    while True:
        _, descriptors, _, _ = socket.recv_fds(connection, 16, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not descriptors:
            return
        if not shown or has_other_threads():
            connection.send(b"it has threads" if shown else b"what it forks could not show what it is")
            return
        try:
            answer = _fork(connection, list(descriptors), run)
        except OSError as error:
            answer = str(error)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(answer.encode()[:_MAX_ANSWER_BYTES])


def _fork(connection: socket.socket, descriptors: list[int], run: Callable[[list[str]], None]) -> str:
    """Returns the pid of the new process, whose parent is the template's parent then. Raises: OSError."""
    told_read, told_write = os.pipe()
    between = os.fork()
    if between == 0:
        _fork_and_end(told_write)
        # The new process. Its parent, which it has once the one in between is gone, tells it to go on.
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
            raise OSError("the system has no room for another process")
        return pid
    finally:
        os.close(told_read)


def _fork_and_end(told: int) -> None:
    """The process in between: it tells the pid of the new one, the only one that returns from here."""
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(told, str(pid).encode())
        os._exit(0)


def _become(memory: int, passed: list[int], run: Callable[[list[str]], None]) -> NoReturn:
    """Be the process that was asked for, until it ends."""
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
    tempfile.tempdir = None  # it depends on the environment, and is looked up once
    sys.orig_argv[:] = request.command
    run(request.command)
    raise SystemExit(0)


def _close_what_exec_would_pass_on(but: int) -> None:
    """Descriptors that somebody handed to this process's parent, which the parent alone should hold."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor != but:
            with contextlib.suppress(OSError):  # the one that listed them
                if os.get_inheritable(descriptor):
                    os.close(descriptor)


def _become_subreaper(wanted: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)
