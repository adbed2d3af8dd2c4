"""Starts processes of flinkpy by forking them from templates that have imported what they need.

Starting Python and importing what a service needs takes 0.3 to 0.8 s of a processor, and a run of all tests starts more
than a thousand services. `ForkingPopen` is a `subprocess.Popen` that asks a template process for a fork where the
command is `python -m flinkpy.cli.main ...`, and starts every other command as usual.

    pytest worker ---- socket ----> template (imports, then waits)
         |                            | fork, fork: the process in between ends at once
         | child of                   v
         +----------------------> service or CLI call: flinkpy.cli.main.main(arguments)

A forked process is a child of the worker. It gets the descriptors, environment, working directory, umask, session and
command line that it would have after exec. Three things differ from a process that was started by exec: all modules
that it may need are in memory, it ends without freeing its objects one by one, and processes of one template have the
same seed for `hash(str)`. So there are two templates for TaskExecutors, which take turns: code that relies on `hash`
being equal in two processes fails here too.

These tests start the real command instead, in the way that users do: `test_cli_services` (each service by itself),
`test_cli_cluster` (`flinkpy cluster start` starts its services), `test_application_mode`, `test_embedded_programs`,
`test_examples`, `test_pyflink_examples`, `test_compose_topology`, `test_rpc_faults`, `test_jobmaster_process`; and
everywhere the TaskExecutors that a ResourceManager starts. `tests/unit/cli/test_imports_of_services.py` imports each
service in a process of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import inspect
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flinkpy.common import failpoints
from flinkpy.common.process import die_with_parent
from flinkpy.common.process_template import has_other_threads, show_command_line
from flinkpy.taskexecutor.preload import PRELOADED_MODULES

_MODULE = "flinkpy.cli.main"
_PREFIX = [sys.executable, "-m", _MODULE]
#: Modules that most services import only when they need them.
_LAZY_MODULES = (
    "flinkpy.configuration.client_options",
    "flinkpy.configuration.jobmanager_options",
    "flinkpy.configuration.spark_options",
    "flinkpy.connectors.collect_sink",
    "flinkpy.connectors.number_sequence",
    "flinkpy.highavailability.file_job_graph_store",
    "flinkpy.highavailability.file_job_result_store",
    "flinkpy.highavailability.standalone_services",
    "flinkpy.security.certificates",
    "flinkpy.security.confidential_settings",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.x509",
)
#: Modules of the verbs that clients use, and of the services that do not load Arrow.
CONTROL_MODULES = (
    "flinkpy.cli.main",
    "flinkpy.cli.services",
    "flinkpy.cli.jobs",
    "flinkpy.cli.checkpoints",
    "flinkpy.cli.logs",
    "flinkpy.logs.setup",
    "flinkpy.configuration.key_notices",
    "flinkpy.common.file_permissions",
    "flinkpy.client.cluster_client",
    "flinkpy.client.executor",
    "flinkpy.datastream.stream_execution_environment",
    "flinkpy.dispatcher.entrypoint",
    "flinkpy.resourcemanager.entrypoint",
    "flinkpy.jobmaster.entrypoint",
    *_LAZY_MODULES,
    "flinkpy.configuration.metric_options",
    "flinkpy.configuration.state_backend_options",
    "flinkpy.connectors.collect_coordinator",
)
TASK_EXECUTOR_MODULES = (
    "flinkpy.cli.main",
    "flinkpy.cli.services",
    "flinkpy.logs.setup",
    "flinkpy.configuration.key_notices",
    "flinkpy.common.file_permissions",
    "flinkpy.taskexecutor.entrypoint",
    *PRELOADED_MODULES,
    *_LAZY_MODULES,
    "flinkpy.streaming.operators.function_source_sink",
)
#: Options that keep libraries from starting threads at import: a process with threads cannot be forked safely.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
#: Variables that the interpreter and libraries read before `main`. A process with other values is started by exec.
_READ_AT_START = (
    "PYTHON",
    "LD_",
    "MALLOC_",
    "GRPC_",
    "ARROW_",
    "JE_ARROW_",
    "OMP_",
    "OPENBLAS_",
    "NUMBA_",
    "COVERAGE_",
)
#: A template imports for a second or two, or for many on a loaded machine; one that takes longer will never answer.
_ANSWER_TIMEOUT_S = 120.0
_MAX_DESCRIPTORS = 64
#: Received descriptors are moved above these numbers before they get the numbers that the process expects.
_FIRST_SPARE_DESCRIPTOR = 500
_PR_SET_CHILD_SUBREAPER = 36


class _Template:
    """A template process, as the pytest worker sees it."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(_ANSWER_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                env={**os.environ, **_NO_THREADS},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Returns the pid of the new process, which is a child of this one. Raises: RuntimeError."""
        go_read, go_write = os.pipe()
        memory = os.memfd_create("flinkpy-tests-fork")
        with self._lock:
            _become_subreaper(True)
            try:
                with open(memory, "wb", closefd=False) as file:
                    file.write(json.dumps(request).encode())
                socket.send_fds(self._connection, [b"fork"], [memory, go_read, *descriptors])
                answer = self._connection.recv(256).decode()
            except ConnectionError as error:
                raise RuntimeError(f"the template process does not answer, see standard error: {error}") from error
            finally:
                _become_subreaper(False)
                os.close(memory)
                os.close(go_read)
                # The new process goes on when it reads the end of this pipe: by then it is a child of this one.
                os.close(go_write)
        if not answer.isdigit():
            raise RuntimeError(f"the template process cannot fork: {answer or 'it has ended'}")
        return int(answer)

    def close(self) -> None:
        self._connection.close()
        self._process.wait(_ANSWER_TIMEOUT_S)


class _Templates:
    """The templates of this pytest worker."""

    def __init__(self) -> None:
        self._control = _Template(CONTROL_MODULES)
        self._task_executors = [_Template(TASK_EXECUTOR_MODULES) for _ in range(2)]
        self._environment = _read_at_start(os.environ)

    def of(self, command: Sequence[str], environment: Mapping[str, str]) -> _Template | None:
        """Returns the template for the command, or None if a fork would differ from a process started by exec."""
        if list(command[:3]) != _PREFIX or _read_at_start(environment) != self._environment:
            return None
        if "taskexecutor" not in command[3:4]:
            return self._control
        self._task_executors.reverse()
        return self._task_executors[0]

    def close(self) -> None:
        for template in (self._control, *self._task_executors):
            template.close()


_templates: _Templates | None = None


@contextmanager
def process_templates() -> Iterator[None]:
    """Runs the templates. Without them `ForkingPopen` is no different from `subprocess.Popen`."""
    global _templates
    _templates = _Templates()
    try:
        yield
    finally:
        templates, _templates = _templates, None
        templates.close()


class ForkingPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` that forks `python -m flinkpy.cli.main ...` from a template."""

    def _execute_child(self, *arguments: Any) -> None:
        """Replaces the step of `Popen` that starts the process; the pipes, if any, are there already."""
        start: Any = super()._execute_child  # type: ignore[misc]
        given = inspect.signature(start).bind(*arguments).arguments
        environment = os.environ if given["env"] is None else given["env"]
        is_plain = isinstance(given["args"], list) and given["preexec_fn"] is None and not given["shell"]
        template = _templates.of(given["args"], environment) if _templates is not None and is_plain else None
        if template is None:
            start(*arguments)
            return
        pipes = {name: given[name] for name in inspect.signature(self._close_pipe_fds).parameters}
        # Streams that the caller does not name are shared with this process.
        asked = (pipes["p2cread"], pipes["c2pwrite"], pipes["errwrite"])
        numbers = {number: number if descriptor == -1 else descriptor for number, descriptor in enumerate(asked)}
        numbers |= {number: number for number in given["pass_fds"]}
        request = {
            "command": given["args"],
            "environment": dict(environment),
            "directory": os.fspath(given["cwd"] or os.getcwd()),
            "umask": _umask(),
            "new_session": bool(given["start_new_session"]),
            "numbers": list(numbers),
        }
        self.pid = template.fork(request, list(numbers.values()))
        self._child_created = True
        self._close_pipe_fds(**pipes)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _umask() -> int:
    """Returns the umask of this process; `os.umask` would change it for a moment."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))


def _become_subreaper(wanted: bool) -> None:
    """Makes this process a subreaper or not. The kernel makes a subreaper the parent of its orphaned descendants."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


# --- the template process


def _answer_requests(connection: socket.socket) -> list[str] | None:
    """Forks until the worker has closed its end. Returns twice: None in the template, the command in a new process."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(connection, 16, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not descriptors:
            return None
        if has_other_threads():
            connection.send(b"it has threads")
            return None
        told_read, told_write = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid:
                os.write(told_write, str(pid).encode())
                os._exit(0)
            connection.close()
            os.close(told_read)
            os.close(told_write)
            return _become(*descriptors)
        os.close(told_write)
        os.waitpid(between, 0)
        connection.send(os.read(told_read, 32) or b"there is no room for another process")
        os.close(told_read)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(memory: int, go: int, *passed: int) -> list[str]:
    """Makes this fork what the worker has asked for, as soon as it is a child of the worker. Returns its command."""
    os.read(go, 1)
    os.close(go)
    with open(memory, "rb") as file:
        file.seek(0)
        request = json.loads(file.read())
    # A passed number may be the target number of another descriptor.
    spare = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_SPARE_DESCRIPTOR) for descriptor in passed]
    for descriptor in passed:
        os.close(descriptor)
    for descriptor, number in zip(spare, request["numbers"], strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["directory"])
    os.umask(request["umask"])
    environment = request["environment"]
    if not show_command_line(request["command"], environment):
        raise RuntimeError("this kernel does not let a process change the command line that it shows")
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = os.getcwd()
    sys.argv[:] = request["command"][2:]
    sys.orig_argv[:] = request["command"]
    tempfile.tempdir = None  # it depends on the environment and is cached
    failpoints.arm(environment.get(failpoints.SPECIFICATION_VARIABLE, ""))
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command: list[str] = request["command"]
    return command


def _skip_the_end_of_the_interpreter(status: list[int]) -> None:
    """Ends this process with the status. As the first handler of `atexit` it runs last, after all threads have ended.

    The interpreter would then free every object, and so copy the memory that it shares with the template. That takes as
    long as the start of a small cluster.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status[0])


def main() -> None:
    status = [1]  # of an exception, until the command has ended
    atexit.register(_skip_the_end_of_the_interpreter, status)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    die_with_parent()
    # Ctrl-C at a terminal must reach only the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["GRPC_VERBOSITY"] = "NONE"
    gc.disable()
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if "pyarrow" in sys.modules:
        # Arrow loads pandas, where it is installed, when it gets its first list. That takes longer than a short job.
        sys.modules["pyarrow"].array([0])
    # Garbage collection of the imported modules would copy the memory pages that forks share.
    gc.freeze()
    gc.enable()
    command = _answer_requests(connection)
    if command is None:
        status[0] = 0
    else:
        try:
            sys.modules[_MODULE].main(command[len(_PREFIX) :])
        except SystemExit as ending:
            status[0] = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
            raise


if __name__ == "__main__":
    main()
