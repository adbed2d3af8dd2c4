"""Starts service processes on this host and waits until they are ready.

A child reports over a pipe that it is ready. If the pipe closes without a message, the child has died. So the parent
polls nothing, and learns at once when a service cannot start, and why.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from flinkpy.common.addresses import RESERVED_PORT_VARIABLE
from flinkpy.common.errors import ExternalError, UnsupportedOperationError
from flinkpy.common.process import (
    FAILURE_MARK,
    OWN_LOG_VARIABLE,
    PARENT_PID_VARIABLE,
    ProcessIdentity,
    environment_for_child,
)
from flinkpy.configuration import security_options
from flinkpy.configuration.options import read_option
from flinkpy.platforms import unsupported_services
from flinkpy.security.confidential_settings import settings_for_child
from flinkpy.security.security_context import TOKEN_VARIABLE

#: Starts a process, as `subprocess.Popen` does. The project's own tests set it, to start processes faster.
start_process: type[subprocess.Popen[bytes]] = subprocess.Popen
#: Bytes at the end of a dead service's output that are searched for the reason.
_TAIL_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """The command and the environment of a service.

    Attributes:
        name: name of the process in logs and errors.
        verb: verb of `flinkpy`.
        arguments: arguments of the verb.
        properties: configuration of the service.
        log: file for standard output and error; None means a temporary file.
        inherit_output: print to this process's standard output and error instead.
        dies_with_parent: end the service when this process ends, in whatever way.
        temporary_dir: directory for temporary files of the service and its user code; None means the system's.
        trailing: words at the end of the command line, after all options.
        environment: variables to add to those of this process.
    """

    name: str
    verb: str
    arguments: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    inherit_output: bool = False
    dies_with_parent: bool = True
    temporary_dir: Path | None = None
    trailing: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class ServiceProcess:
    """A started service.

    Thread: if the service dies with its parent, the thread that creates this object must outlive it.
    """

    def __init__(self, spec: ServiceSpec) -> None:
        """Starts the service. Raises: UnsupportedOperationError if this system is not Linux."""
        check_services_run_here(sys.platform)
        self.spec = spec
        self.address: str | None = None
        #: Address for data between tasks. Only TaskExecutors have one.
        self.data_address: str | None = None
        self._reason: str | None = None
        self._ready_pipe, child_end = os.pipe()
        try:
            with _open_log(spec) as log, settings_for_child(spec.properties) as settings:
                self._log_descriptor = os.dup(log.fileno())
                self.popen = start_process(
                    command_line(spec, child_end, settings.arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=None if spec.inherit_output else log,
                    stderr=None if spec.inherit_output else log,
                    env={**_environment(spec), **settings.environment},
                    pass_fds=(child_end, *settings.descriptors),
                    # Ctrl-C at a terminal must reach only the client, which then stops its services in order.
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._ready_pipe)
            raise
        finally:
            os.close(child_end)
        identity = ProcessIdentity.of(self.popen.pid)
        self.identity = identity or ProcessIdentity(self.popen.pid, 0)

    @property
    def ready_pipe(self) -> int:
        return self._ready_pipe

    def read_readiness(self) -> bool:
        """Returns True if the service is ready, False if it has died. Call it when `ready_pipe` is readable."""
        text = os.read(self._ready_pipe, 4096).decode(errors="replace")
        os.close(self._ready_pipe)
        self._ready_pipe = -1
        if text.startswith(FAILURE_MARK):
            self._reason = text.removeprefix(FAILURE_MARK)
            return False
        if not text:
            return False
        address, _, data = text.strip().partition(" data ")
        self.address, self.data_address = address, data or None
        return True

    def output_tail(self) -> str:
        """Returns the last lines of the service's log."""
        with contextlib.ExitStack() as stack:
            descriptor = self._log_descriptor
            if self.spec.log is not None:
                # The service may have rotated its log, so the descriptor may be that of an old file.
                with contextlib.suppress(OSError):
                    descriptor = stack.enter_context(self.spec.log.open("rb")).fileno()
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        return tail.decode(errors="replace").strip()

    def reason_of_death(self) -> str:
        """Returns why the service ended: the error it reported, else the last line of its log."""
        status = self.popen.wait()
        if self._reason is not None:
            return self._reason
        lines = self.output_tail().splitlines()
        last = lines[-1] if lines else "its log is empty"
        return f"{self.spec.name} ended with status {status}: {last}"

    def close(self) -> None:
        """Closes the descriptors on this side. The process continues."""
        if self._ready_pipe >= 0:
            os.close(self._ready_pipe)
            self._ready_pipe = -1
        if self._log_descriptor >= 0:
            os.close(self._log_descriptor)
            self._log_descriptor = -1


def check_services_run_here(platform: str) -> None:
    """Raises UnsupportedOperationError, which says what to do, if services cannot run on this system."""
    reason = unsupported_services(platform)
    if reason is not None:
        raise UnsupportedOperationError(reason)


def command_line(spec: ServiceSpec, ready_descriptor: int, settings: Sequence[str] = ()) -> list[str]:
    command = [sys.executable, "-m", "flinkpy.cli.main", spec.verb, *spec.arguments]
    return [*command, "--ready-file", f"fd:{ready_descriptor}", *settings, *spec.trailing]


def _open_log(spec: ServiceSpec) -> IO[bytes]:
    if spec.log is None:
        return tempfile.TemporaryFile()
    umask = int(read_option(spec.properties, security_options.UMASK), 8)
    spec.log.parent.mkdir(parents=True, exist_ok=True, mode=0o777 & ~umask)
    return open(os.open(spec.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666 & ~umask), "ab+")


def _environment(spec: ServiceSpec) -> dict[str, str]:
    environment = environment_for_child() if spec.dies_with_parent else dict(os.environ)
    if not spec.dies_with_parent:
        environment.pop(PARENT_PID_VARIABLE, None)
    environment.pop(OWN_LOG_VARIABLE, None)
    if spec.log is not None and not spec.inherit_output:
        environment[OWN_LOG_VARIABLE] = "1"
    if spec.temporary_dir is not None:
        environment["TMPDIR"] = str(spec.temporary_dir)
    # `properties` has everything that the parent read from files and its environment. Services must not get the
    # token of a client.
    for variable in (
        "FLINKPY_CONF_DIR",
        "FLINK_CONF_DIR",
        "FLINKPY_DYNAMIC_PROPERTIES",
        TOKEN_VARIABLE,
        RESERVED_PORT_VARIABLE,
    ):
        environment.pop(variable, None)
    return {**environment, **spec.environment}


def wait_until_ready(processes: Sequence[ServiceProcess], timeout_s: float) -> None:
    """Returns when all processes are ready.

    Raises:
        ExternalError: a process died, or was not ready in time. The others continue to run.
    """
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process.ready_pipe, selectors.EVENT_READ, process)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                waiting = ", ".join(key.data.spec.name for key in selector.get_map().values())
                raise ExternalError(f"{waiting} did not become ready within {timeout_s:g} s")
            for key, _ in ready:
                process = key.data
                selector.unregister(key.fd)
                if not process.read_readiness():
                    raise ExternalError(f"{process.spec.name} could not start: {process.reason_of_death()}")
