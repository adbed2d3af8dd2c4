"""Start service processes on this host and learn when they serve.

A child tells its parent over a pipe that it is ready; the end of that pipe without a message means that it died. So
nothing is polled, and a service that cannot start is known at once, with the reason it gave.
"""

from __future__ import annotations

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

from flinkpy.common.errors import ExternalError, UnsupportedOperationError
from flinkpy.common.port_reservation import RESERVED_PORT_VARIABLE
from flinkpy.common.process import (
    FAILURE_MARK,
    PARENT_PID_VARIABLE,
    ProcessIdentity,
    environment_for_child,
)
from flinkpy.configuration import security_options
from flinkpy.configuration.options import read_option
from flinkpy.platforms import unsupported_services
from flinkpy.security.confidential_settings import settings_for_child
from flinkpy.security.security_context import TOKEN_VARIABLE

#: Bytes at the end of a dead service's output in which its reason is looked for.
_TAIL_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """What to start: the verb of `flinkpy`, its arguments, and where its output goes.

    Attributes:
        log: file for standard output and error; a temporary one where None.
        inherit_output: let what user code prints appear where this process prints, instead.
        dies_with_parent: end the service when this process ends, however it ends.
        temporary_dir: where the service and user code in it put temporary files; the system's directory where None.
        trailing: words at the end of the command line, behind all options.
        environment: beside what this process has in its own.
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
    """One started service. Thread: the one that started it must outlive it where it dies with its parent."""

    def __init__(self, spec: ServiceSpec) -> None:
        """Start it. Raises: UnsupportedOperationError on another system than Linux."""
        check_services_run_here(sys.platform)
        self.spec = spec
        self.address: str | None = None
        #: Address of the data plane; only TaskExecutors have one.
        self.data_address: str | None = None
        self._reason: str | None = None
        self._ready_pipe, child_end = os.pipe()
        try:
            with _open_log(spec) as log, settings_for_child(spec.properties) as settings:
                self._log_descriptor = os.dup(log.fileno())
                self.popen = subprocess.Popen(
                    command_line(spec, child_end, settings.arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=None if spec.inherit_output else log,
                    stderr=None if spec.inherit_output else log,
                    env={**_environment(spec), **settings.environment},
                    pass_fds=(child_end, *settings.descriptors),
                    # Ctrl-C at a terminal is for the client, which then stops its services in order.
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
        """Whether the service is ready, called when its pipe is readable; False means that it has died."""
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
        """The last lines the service wrote to its log."""
        size = os.fstat(self._log_descriptor).st_size
        tail = os.pread(self._log_descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        return tail.decode(errors="replace").strip()

    def reason_of_death(self) -> str:
        """Why the service ended: its own error message where it left one, else the last line of its log."""
        status = self.popen.wait()
        if self._reason is not None:
            return self._reason
        lines = self.output_tail().splitlines()
        last = lines[-1] if lines else "it wrote nothing to its log"
        return f"{self.spec.name} ended with status {status}: {last}"

    def close(self) -> None:
        """Close this side's descriptors; the process itself is left alone."""
        if self._ready_pipe >= 0:
            os.close(self._ready_pipe)
            self._ready_pipe = -1
        if self._log_descriptor >= 0:
            os.close(self._log_descriptor)
            self._log_descriptor = -1


def check_services_run_here(platform: str) -> None:
    """Raises: UnsupportedOperationError that says what to do where services cannot run on this system."""
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
    if spec.temporary_dir is not None:
        environment["TMPDIR"] = str(spec.temporary_dir)
    # What the parent read from a file or its own environment is in `properties` already.
    # And a client's token is none of theirs.
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
    """Returns when all processes serve.

    Raises:
        ExternalError: one has died (with its own reason) or is not ready in time; the others are left running.
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
