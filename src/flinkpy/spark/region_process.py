"""RegionProcess: runs a region in a process of its own, with a session of Spark that it shares.

```
  task thread:   inputs -> StagedInput ... start() ........ poll() -> batches of outputs ... (end)
  run thread:                      session, process: order -> | items, progress, log lines <- | (end)
```

The process is forked from a template (`flinkpy.spark.region_main`), which the TaskExecutor starts with its first
region. See docs/decisions/0035-a-spark-region-has-its-own-process.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from flinkpy.common.errors import SparkError
from flinkpy.logs.context import in_current_context, in_no_context
from flinkpy.logs.helper_threads import helper_thread
from flinkpy.logs.output import STDERR, STDOUT
from flinkpy.spark.errors import as_flink_error, cause_of
from flinkpy.spark.executor_wait import ExecutorWait
from flinkpy.spark.java_gateway import CONNECT_MODE
from flinkpy.spark.progress import ProgressTracker, SparkProgress
from flinkpy.spark.region_messages import (
    CANCEL,
    DriverQuestion,
    DriverState,
    LogLine,
    RegionOrder,
    SentFiles,
    dump,
    load,
)
from flinkpy.spark.region_run import CancelledError, Finished, Item, ItemQueue
from flinkpy.spark.session_handles import SessionHandle
from flinkpy.spark.sessions import SparkSessions
from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.staging import StagedInput, Staging
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.user_files import UserFiles

_LOG = logging.getLogger(__name__)

#: How long a canceled region may take to cancel its Spark jobs before its process is killed.
_KILL_S = 10.0
#: How long the task waits for the end of its region. Longer than _KILL_S.
_CLOSE_S = 20.0
#: How often the executors of a region are counted while it runs.
_LOOK_S = 1.0


class RegionTemplate:
    """The process that the processes of regions are forked from. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def fork(self) -> tuple[int, Connection]:
        """Returns the pid of a new process and the connection to it. Raises: SparkError."""
        ours, theirs = socket.socketpair()
        try:
            with self._lock, theirs:
                pid = self._ask(b"fork", [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return pid, Connection(ours.detach())

    def wait(self, pid: int) -> int:
        """Returns the exit code of a process that has ended, or is about to: -N if signal N has killed it."""
        with self._lock:
            return self._ask(b"wait %d" % pid, [])

    def close(self) -> None:
        """Ends the template. The processes that it has forked go on."""
        with self._lock:
            self._close()

    def _ask(self, request: bytes, descriptors: list[int]) -> int:
        if self._process is None:
            self._start()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [request], descriptors)
            answer = self._control.recv(32)
            if answer:
                return int(answer)
            reason = "it has ended"
        except OSError as error:
            reason = str(error)
        self._close()
        raise SparkError(f"the process that starts regions in Spark does not answer: {reason}")

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flinkpy.spark.region_main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={name: value for name, value in os.environ.items() if name != CONNECT_MODE},
                start_new_session=True,
            )
        self._control = ours

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


class AttachedProcess:
    """The process of a region, which attaches to a session before it gets its region.

    Raises:
        SparkError: the driver does not answer, or no process can be forked.
    """

    def __init__(self, template: RegionTemplate, session: SessionHandle) -> None:
        self._template = template
        self._entrance = contextlib.ExitStack()
        attachment = self._entrance.enter_context(session.attachment())
        try:
            self.pid, self.connection = template.fork()
        except BaseException:
            self._entrance.close()
            raise
        self.send(dump(attachment))

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the process has died; the next read says so
            self.connection.send_bytes(data)

    @property
    def is_waiting(self) -> bool:
        """True if it waits for its region. A process without one sends nothing, so only its end can be read."""
        return not self.connection.poll()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits for the end of the process, which has finished or was killed. Returns its exit code.

        The JVM then forgets all objects that the process held.
        """
        try:
            self.connection.close()
            return self._template.wait(self.pid)
        finally:
            self._entrance.close()

    def close(self) -> None:
        """Ends a process that got no region."""
        self.kill()
        self.wait()


@dataclass(frozen=True, slots=True)
class RegionJob:
    """The job of a region's attempt, as RegionOrder describes it."""

    spec_pickle: bytes
    settings: SparkSettings
    job: JobFacts
    user_files: UserFiles
    task_name: str
    tag: str
    staging: Staging
    import_path: tuple[str, ...]
    working_directory: str


class RegionStatus:
    """The waits of a region, for metrics. Thread: the run thread writes, any thread reads."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.num_executors: int | None = None
        self.executors = ExecutorWait()
        self._now_s = now_s
        self._waits_for_session_since_s: float | None = None

    def wait_for_session(self) -> None:
        if self._waits_for_session_since_s is None:
            self._waits_for_session_since_s = self._now_s()

    def on_session(self) -> None:
        self._waits_for_session_since_s = None

    def look(self, num_executors: int | None, num_open_tasks: int) -> str:
        """Returns the line to log; empty if there is none."""
        self.num_executors = num_executors
        return self.executors.update(self._now_s(), num_executors, num_open_tasks)

    def end(self) -> None:
        self.num_executors, self.executors, self._waits_for_session_since_s = None, ExecutorWait(), None

    @property
    def waiting_for_executors_ms(self) -> int:
        return self.executors.waited_ms(self._now_s())

    @property
    def waiting_for_session_ms(self) -> int:
        since_s = self._waits_for_session_since_s
        return 0 if since_s is None else max(1, round((self._now_s() - since_s) * 1000))


class RegionProcess:
    """One attempt of a region. Thread: `poll` and `close` run on the task thread, `cancel` on any.

    Args:
        on_available: called from any thread when `poll` has something to return.
    """

    def __init__(
        self, job: RegionJob, sessions: SparkSessions, template: RegionTemplate, on_available: Callable[[], None]
    ) -> None:
        self.tracker = ProgressTracker(job.task_name)
        self.status = RegionStatus()
        self._job = job
        self._sessions = sessions
        self._template = template
        self._is_cancelled = threading.Event()
        self._items = ItemQueue(self._is_cancelled, on_available)
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None

    def start(self, inputs: list[StagedInput]) -> None:
        name = f"spark {self._job.task_name}"
        self._thread = helper_thread(self._run, name, (inputs,))
        self._thread.start()

    def poll(self) -> Item | None:
        return self._items.poll()

    def cancel(self) -> None:
        """Stops the jobs of this region in Spark. Does not wait."""
        self._is_cancelled.set()
        with self._lock:
            if self._connection is not None:
                self._send(self._connection, CANCEL)

    def close(self) -> None:
        """Waits until Spark has stopped. Idempotent."""
        self.cancel()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)
            if thread.is_alive():
                _LOG.warning("%s: Spark has not stopped within %d s", self._job.task_name, _CLOSE_S)
        self._job.staging.close()

    # -- run thread --------------------------------------------------------------------------------------------------

    def _run(self, inputs: list[StagedInput]) -> None:
        job = self._job
        end: Finished | None = None
        try:
            with self._sessions.use(job.settings, self._is_cancelled.is_set, self._on_wait) as session:
                self.status.on_session()
                end = self._run_in(session, inputs)
        except BaseException as raised:  # noqa: BLE001 - raised by the task
            error: BaseException = raised
            if not self._is_cancelled.is_set():
                error = as_flink_error(raised, job.task_name, job.settings.redacted_master)
            end = Finished(error, 0)
        finally:
            self.status.end()
        with contextlib.suppress(CancelledError):  # nobody waits for the end of a canceled region
            self._items.put(end)

    def _prepare_next(self, session: SessionHandle, ended: AttachedProcess) -> None:
        """Lets a process attach to the session for its next region, which then starts earlier.

        Args:
            ended: the process of this region, which exits.
        """

        def prepare() -> None:
            try:
                ended.wait()
                if self._job.settings.is_connect or not session.reserve.wants_one:
                    return
                session.reserve.put(AttachedProcess(self._template, session))
            except Exception as error:  # noqa: BLE001 - the next region attaches by itself, and fails with the cause
                _LOG.debug("no process is prepared for the next region: %s", error)

        threading.Thread(target=in_no_context(prepare), name="spark-prepare", daemon=True).start()

    def _on_wait(self, reason: str) -> None:
        self.status.wait_for_session()
        _LOG.info("%s waits: %s", self._job.task_name, reason)

    def _run_in(self, session: SessionHandle, inputs: list[StagedInput]) -> Finished:
        job = self._job
        process: AttachedProcess | None = session.reserve.take()
        if process is not None and not process.is_waiting:
            process.close()
            process = None
        if process is None:
            process = AttachedProcess(self._template, session)
        connection = process.connection
        end: Finished | None = None
        # A read blocks, so another thread counts the executors, and kills a process that does not end.
        watch = threading.Thread(
            target=in_current_context(self._watch), args=(session, process), name="spark-watch", daemon=True
        )
        try:
            order = RegionOrder(
                sent=session.sent,
                spec_pickle=job.spec_pickle,
                settings=job.settings,
                job=job.job,
                user_files=job.user_files,
                task_name=job.task_name,
                tag=job.tag,
                staging=job.staging,
                num_inputs=len(inputs),
                import_path=job.import_path,
                working_directory=job.working_directory,
                log_level=logging.getLogger().getEffectiveLevel(),
            )
            watch.start()
            self._send(connection, dump(order))
            for one in inputs:
                one.complete()
                self._send(connection, dump(one))
            with self._lock:
                self._connection = connection
                if self._is_cancelled.is_set():
                    self._send(connection, CANCEL)
            end = self._receive(session, connection)
        finally:
            with self._lock:
                self._connection = None
            self._is_over.set()
            exit_code = 0
            if end is None:
                process.kill()
                exit_code = process.wait()
                self._interrupt(session)
            else:
                # The process only has to exit, so the task does not wait for it.
                self._prepare_next(session, process)
            watch.join(_CLOSE_S)
            if job.staging.remote is not None:
                session.remove_directory(job.staging.remote.uri)
        if end is not None:
            return end
        how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
        return Finished(SparkError(f"{job.task_name}: the process of the region {how}"), 0)

    def _receive(self, session: SessionHandle, connection: Connection) -> Finished | None:
        """Takes what the process sends. Returns its end; None if it has died."""
        while True:
            try:
                message: Any = load(connection.recv_bytes())
            except (EOFError, OSError):
                return None
            if isinstance(message, SparkProgress):
                self.tracker.now = message
            elif isinstance(message, LogLine):
                _log(message)
            elif isinstance(message, SentFiles):
                session.add_sent(set(message.names))
            elif isinstance(message, DriverQuestion):
                self._send(connection, dump(DriverState(session.last_words, session.ending)))
            elif isinstance(message, Finished):
                return message
            else:
                with contextlib.suppress(CancelledError):
                    self._items.put(message)

    def _send(self, connection: Connection, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the process has died; the next read says so
            connection.send_bytes(data)

    def _interrupt(self, session: SessionHandle) -> None:
        """Cancels the Spark jobs of a process that could not do it itself."""
        try:
            session.interrupt(self._job.tag)
        except Exception as error:  # noqa: BLE001 - Spark is gone, and its jobs with it
            _LOG.debug("%s: Spark does not cancel jobs: %s", self._job.task_name, cause_of(str(error)))

    # -- watch thread ------------------------------------------------------------------------------------------------

    def _watch(self, session: SessionHandle, process: AttachedProcess) -> None:
        while not self._is_over.wait(_LOOK_S):
            if self._is_cancelled.is_set():
                if not self._is_over.wait(_KILL_S):
                    _LOG.warning("%s: kills its process, which does not end", self._job.task_name)
                    process.kill()
                return
            now = self.tracker.now
            line = self.status.look(session.num_executors, now.tasks - now.tasks_done)
            if line:
                _LOG.info("%s %s", self._job.task_name, line)


def _log(line: LogLine) -> None:
    if line.logger in (STDOUT, STDERR):
        # The stream of a TaskExecutor with a log file makes it a record of the task of this thread.
        (sys.stdout if line.logger == STDOUT else sys.stderr).write(f"{line.text}\n")
        return
    logger = logging.getLogger(line.logger)
    if logger.isEnabledFor(line.level):
        logger.log(line.level, "%s", line.text)


#: The template of this process.
TEMPLATE = RegionTemplate()


def register_waits(group: Any, status: RegionStatus) -> None:
    """Registers what a region waits for as metrics of its task."""
    group.gauge("sparkExecutors", lambda: status.num_executors or 0)
    group.gauge("sparkWaitingForExecutorsMs", lambda: status.waiting_for_executors_ms)
    group.gauge("sparkWaitingForSessionMs", lambda: status.waiting_for_session_ms)
