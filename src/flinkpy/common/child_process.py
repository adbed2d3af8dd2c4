"""Child processes: they start without blocking the loop, their end is noticed at once, and stopping them always works.

Thread: the asyncio loop that spawned them.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from flinkpy.common.process import environment_for_child
from flinkpy.common.process_template import ProcessTemplate

logger = logging.getLogger(__name__)

#: How many of the last output lines are kept to explain why a child ended.
KEPT_LINES = 40

#: Longer lines are dropped, because the reader of the pipe has a bound.
MAX_LINE_BYTES = 64 * 1024

#: A grandchild may hold the output open after the child has ended; it is not waited for any longer than this.
OUTPUT_DRAIN_S = 0.5

#: SIGKILL works at once unless the process hangs in the kernel.
KILL_WAIT_S = 5.0


class ChildOutput(enum.Enum):
    """The destination of a child's standard output and error."""

    #: this process's own output and error
    INHERIT = 1
    #: this process's standard error; the last lines are also kept
    TEE = 2
    #: none; only the last lines are kept
    KEEP = 3


@dataclass(frozen=True, slots=True)
class ProcessEnding:
    """The end of a process; `last_output` holds the last lines that it printed, if they were captured."""

    return_code: int
    last_output: str = ""

    @property
    def description(self) -> str:
        """`exit code 3` or `killed by SIGKILL`."""
        if self.return_code >= 0:
            return f"exit code {self.return_code}"
        try:
            return f"killed by {signal.Signals(-self.return_code).name}"
        except ValueError:
            return f"killed by signal {-self.return_code}"

    def __str__(self) -> str:
        if not self.last_output:
            return self.description
        return f"{self.description}; its last output:\n{self.last_output}"


class _Process(Protocol):
    """The part of `asyncio.subprocess.Process` that `ChildProcess` uses."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    async def wait(self) -> int: ...


class _AdoptedProcess:
    """A child process that a template forked."""

    def __init__(self, pid: int, stdout: asyncio.StreamReader | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._descriptor = os.pidfd_open(pid)  # never fails for a child that is not reaped yet
        loop.add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set_result(self.returncode)


class ChildProcess:
    """A child process; `spawn_child` creates it."""

    def __init__(self, process: _Process, name: str, output: ChildOutput) -> None:
        self._process = process
        self._output = output
        self._name = name
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._ending: asyncio.Task[ProcessEnding] = asyncio.get_running_loop().create_task(
            self._run(), name=f"wait for {name}"
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str:
        return self._name

    @property
    def has_ended(self) -> bool:
        return self._ending.done()

    async def wait(self) -> ProcessEnding:
        """Returns when the process has ended; any number of callers may wait."""
        return await asyncio.shield(self._ending)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    async def stop(self, grace_s: float) -> ProcessEnding:
        """Sends SIGTERM, then SIGKILL after `grace_s` seconds, and returns when the process has ended."""
        self.terminate()
        try:
            return await asyncio.wait_for(self.wait(), grace_s)
        except TimeoutError:
            self.kill()
            return await asyncio.wait_for(self.wait(), KILL_WAIT_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            try:
                # The process object's own method polls the child first. For an ended child that consumes its status,
                # and the thread that waits for the child then reports 255.
                os.kill(self._process.pid, number)
            except ProcessLookupError:
                return  # it ended just now; `wait` reports how

    async def _run(self) -> ProcessEnding:
        reader = None
        if self._process.stdout is not None:
            reader = asyncio.get_running_loop().create_task(self._read_output(self._process.stdout))
        return_code = await self._process.wait()
        if reader is not None:
            done, _ = await asyncio.wait({reader}, timeout=OUTPUT_DRAIN_S)
            if not done:
                reader.cancel()
                await asyncio.wait({reader})
        return ProcessEnding(return_code, "\n".join(self._lines))

    async def _read_output(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # the line exceeds the reader's bound; the reader has dropped the buffered part
                self._lines.append("... (a line was too long to keep)")
                continue
            if not line:
                return
            self._lines.append(line.decode(errors="replace").rstrip("\n"))
            if self._output is ChildOutput.TEE:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()


async def spawn_child(
    command: Sequence[str],
    *,
    name: str,
    output: ChildOutput,
    temporary_directory: str | None = None,
    dies_with_parent: bool = True,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    template: ProcessTemplate | None = None,
) -> ChildProcess:
    """Starts a flinkpy process as a child that the kernel ends with this process.

    The child gets its own session, so that Ctrl-C in the terminal reaches only its parent, which then ends it.

    Args:
        command: the program and its arguments.
        name: the name of the child in logs.
        output: the destination of the child's standard output and error.
        temporary_directory: the child's directory for temporary files; by default the same as for this process.
        dies_with_parent: False if the child should survive this process. Needs `INHERIT`, because a pipe would break.
        environment: variables to add to this process's environment.
        pass_fds: descriptors that the child inherits; a variable in `environment` holds the number.
        template: the template to fork the child from, if it is still open; it runs the command as exec would.

    Raises:
        OSError: the program cannot be started.
    """
    captured = output is not ChildOutput.INHERIT
    inherited = environment_for_child() if dies_with_parent else dict(os.environ)
    inherited.update(environment or {})
    if temporary_directory is not None:
        inherited["TMPDIR"] = temporary_directory
    if template is not None and template.is_open:
        try:
            handed = _handed(environment or {}, pass_fds)
            forked = await _fork(template, command, inherited, handed, captured)
        except OSError as error:
            logger.warning("Cannot fork %s from its template, starting a new interpreter instead: %s", name, error)
        else:
            return ChildProcess(forked, name, output)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE if captured else None,
        stderr=asyncio.subprocess.STDOUT if captured else None,
        env=inherited,
        pass_fds=pass_fds,
        start_new_session=True,
        limit=MAX_LINE_BYTES,
    )
    return ChildProcess(process, name, output)


def _handed(environment: Mapping[str, str], pass_fds: Sequence[int]) -> dict[str, int]:
    """Returns the descriptor behind each variable. A forked process, unlike one started by exec, sees other numbers."""
    return {name: int(value) for name, value in environment.items() if value in {str(number) for number in pass_fds}}


async def _fork(
    template: ProcessTemplate,
    command: Sequence[str],
    environment: Mapping[str, str],
    handed: Mapping[str, int],
    captured: bool,
) -> _AdoptedProcess:
    """Forks a process that starts only once it is adopted, so its parent knows it before any other process does."""
    if not captured:
        process = await template.fork(command, environment, handed, None)
        forked = _AdoptedProcess(process.pid, None)
        process.begin()
        return forked
    ours, theirs = os.pipe()
    output = open(ours, "rb", buffering=0)  # noqa: SIM115 - the loop closes it at the end of the stream
    try:
        process = await template.fork(command, environment, handed, theirs)
    except BaseException:
        output.close()
        raise
    finally:
        os.close(theirs)
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    forked = _AdoptedProcess(process.pid, reader)
    loop = asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), output)
    except BaseException:
        process.abandon()
        raise
    process.begin()
    return forked
