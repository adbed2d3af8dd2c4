"""The process of a region, and the template that it is forked from. Run as `python -m flinkpy.spark.region_main FD`.

```
   TaskExecutor -- "fork" with a connection --> template (has imported PySpark, Arrow and flinkpy; one thread)
        |                                          | fork
        +------------ connection ----------> process of a region: attaches to the session, runs, ends
```

A region has a process of its own because PySpark has one SparkContext per process, and Python has one `sys.modules`: so
regions with different settings, and jobs with different modules of the same name, run at the same time. A process
costs some 50 ms of CPU time. It ends with its TaskExecutor, whose connection it watches.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import pickle
import queue
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from flinkpy.checkpoint.storage.file_systems import initialize_file_systems
from flinkpy.common.configuration import Configuration
from flinkpy.logs.context import LogContext, set_process_context
from flinkpy.logs.output import MAX_LINE_CHARS, STDERR, STDOUT, TaskOutput
from flinkpy.spark.jvm_view import JvmView
from flinkpy.spark.progress import SparkProgress
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
from flinkpy.spark.region_run import Finished, RegionRun
from flinkpy.spark.session import ClassicSpark, ConnectSpark, RunningSpark, python_of_workers
from flinkpy.spark.session_handles import Attachment, attachment_address, connect
from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.user_files import PACKAGE

#: A question about the driver is answered at once, unless the TaskExecutor is stopped.
_ANSWER_S = 10.0
#: How often progress is reported while there are no results.
_LOOK_S = 0.05
#: How long a process waits until it tells the JVM which objects it has dropped, with a call for each. The JVM forgets
#: all of them when the region ends, so most regions need no such call.
_FORGET_S = 30
#: The prefix of settings that are environment variables of executors.
_EXECUTOR_VARIABLES = "spark.executorEnv."
_PYSPARK = (
    "pandas",
    "pyspark.sql.classic.column",
    "pyspark.sql.classic.dataframe",
    "pyspark.sql.functions",
    "pyspark.sql.pandas.map_ops",
    "pyspark.java_gateway",
    "flinkpy.spark.translation.translator",
    "flinkpy.spark.columns",
)


# -- the template ----------------------------------------------------------------------------------------------------


def main() -> None:
    """Serves fork requests until the TaskExecutor closes its end of the connection."""
    control = socket.socket(fileno=int(sys.argv[1]))
    # Ctrl-C in a terminal must reach only the TaskExecutor.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _PYSPARK:
        with contextlib.suppress(ImportError):  # an older PySpark, or one without pandas
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        py4j = importlib.import_module("py4j.clientserver")
        py4j.DEFAULT_WORKER_SLEEP_TIME = _FORGET_S  # type: ignore[attr-defined]
    gc.collect()
    # A garbage collection would write to every page that the forked processes share, and so copy it.
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 64, 1, socket.MSG_CMSG_CLOEXEC)
        if not request:
            return
        word, _, argument = request.decode().partition(" ")
        if word == "wait":
            answer = os.waitstatus_to_exitcode(os.waitpid(int(argument), 0)[1])
        else:
            answer = _fork(control, descriptors[0])
        control.send(str(answer).encode())


def _fork(control: socket.socket, descriptor: int) -> int:
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    control.close()
    code = 0
    try:
        _RegionProcess(Connection(descriptor)).run()
    except BaseException:  # noqa: BLE001 - shown in the log of the TaskExecutor, which reports the exit code
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    return _exit(code)


def _exit(code: int) -> NoReturn:
    # Neither the threads of Spark's clients nor their exit handlers, which would end the session, run any more.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# -- the process of a region -----------------------------------------------------------------------------------------


class _RegionProcess:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._answers: queue.Queue[DriverState] = queue.Queue()
        self._run: RegionRun | None = None
        self._is_cancelled = threading.Event()

    def run(self) -> None:
        attachment: Attachment = load(self._connection.recv_bytes())
        before = set(sys.path)
        sessions = _Attached(attachment, self.ask_driver)
        # PySpark's handler would cancel the jobs of all regions of the session.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The directories of files that the settings of the session name.
        added = [path for path in sys.path if path not in before]
        order = self._next_order()
        sys.path[:] = [*order.import_path[:1], *added, *order.import_path[1:]]
        importlib.invalidate_caches()
        os.chdir(order.working_directory)
        initialize_file_systems(Configuration.from_dict(dict(order.job.configuration)))
        logging.getLogger().handlers[:] = [_Forward(self._send)]
        logging.getLogger().setLevel(order.log_level)
        self._send_output()
        inputs = [load(self._connection.recv_bytes()) for _ in range(order.num_inputs)]
        is_available = threading.Event()
        sessions.sent.update(order.sent)
        run = self._run = RegionRun(
            region=pickle.loads(order.spec_pickle).region,
            settings=order.settings,
            sessions=sessions,
            job=order.job,
            user_files=order.user_files,
            task_name=order.task_name,
            tag=order.tag,
            staging=order.staging,
            on_available=is_available.set,
        )
        threading.Thread(target=self._receive, name="region-orders", daemon=True).start()
        run.start(inputs)
        if self._is_cancelled.is_set():
            run.cancel()
        self._report(run, is_available, sessions.sent)

    def _send_output(self) -> None:
        """Sends what functions print to the TaskExecutor too, which knows the task that it belongs to."""

        def send(_: LogContext, name: str, lines: list[str]) -> None:
            for line in lines:
                self._send(LogLine(name, logging.INFO, line))

        # All output of this process belongs to its region.
        set_process_context(LogContext("region"))
        sys.stdout = TaskOutput(STDOUT, sys.stdout, send, MAX_LINE_CHARS)  # type: ignore[assignment]
        sys.stderr = TaskOutput(STDERR, sys.stderr, send, MAX_LINE_CHARS)  # type: ignore[assignment]

    def _next_order(self) -> RegionOrder:
        """Waits for the region. Ends this process if none comes, because the session or the TaskExecutor has ended."""
        try:
            order: RegionOrder = load(self._connection.recv_bytes())
        except (EOFError, OSError):
            _exit(0)
        return order

    def _report(self, run: RegionRun, is_available: threading.Event, sent: set[str]) -> None:
        """Sends the results and the progress of the run until it ends. A canceled run has no last result."""
        told: SparkProgress | None = None
        while True:
            is_available.clear()
            item = run.poll()
            if item is None and run.tracker.now is not told:
                told = run.tracker.now
                self._send(told)
            elif item is None:
                if run.has_ended:
                    run.close()
                    return
                is_available.wait(_LOOK_S)
            elif isinstance(item, Finished):
                run.close()
                self._send(run.tracker.now)
                self._send(SentFiles(frozenset(sent)))
                self._send(item)
                return
            else:
                self._send(item)

    def _send(self, message: Any) -> None:
        data = dump(message)
        with self._sending:
            self._connection.send_bytes(data)

    def _receive(self) -> None:
        """Takes the words of the TaskExecutor. Ends this process if the TaskExecutor has ended."""
        while True:
            try:
                data = self._connection.recv_bytes()
            except (EOFError, OSError):
                _exit(1)
            if data == CANCEL:
                self._is_cancelled.set()
                if self._run is not None:
                    self._run.cancel()
            else:
                self._answers.put(load(data))

    def ask_driver(self) -> DriverState:
        """Asks the TaskExecutor for the state of the driver, which is its child."""
        try:
            self._send(DriverQuestion())
            return self._answers.get(timeout=_ANSWER_S)
        except (OSError, queue.Empty):
            return DriverState("", "")


class _Forward(logging.Handler):
    """Sends log records to the TaskExecutor, which writes them to its log."""

    def __init__(self, send: Callable[[LogLine], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._send(LogLine(record.name, record.levelno, self.format(record)))
        except OSError:
            self.handleError(record)


class _Attached:
    """The session of this process. Implements `Sessions`.

    Attributes:
        sent: the names of the files that were sent to the executors.
    """

    def __init__(self, attachment: Attachment, ask_driver: Callable[[], DriverState]) -> None:
        self._attachment = attachment
        self.sent: set[str] = set()
        self._driver: _AttachedDriver | None = None
        self._error: Exception | None = None
        if not attachment.settings.is_connect:
            try:
                self._driver = _AttachedDriver(attachment, self.sent, ask_driver)
            except Exception as error:  # noqa: BLE001 - the region fails with it
                self._error = error

    @contextlib.contextmanager
    def use(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> Iterator[RunningSpark]:
        if self._error is not None:
            raise self._error
        if self._driver is None:
            yield _AttachedServer(self._attachment, self.sent)
            return
        try:
            self._driver.enter()
            yield self._driver
        finally:
            self._driver.remove_files()


class _AttachedDriver(ClassicSpark):
    """A driver that is a child of the TaskExecutor. Its SparkContext is shared with the processes of other regions."""

    def __init__(self, attachment: Attachment, sent: set[str], ask: Callable[[], DriverState]) -> None:
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        self.settings = attachment.settings
        self.files = attachment.files
        self.sent = sent
        self._ask = ask
        os.environ.update(PYSPARK_GATEWAY_PORT=str(attachment.port), PYSPARK_GATEWAY_SECRET=attachment.secret)
        gateway = launch_gateway()
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        jvm: Any = JvmView(gateway.jvm)
        gateway.jvm = jvm
        java_context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
        with python_of_workers(attachment.settings.conf.get("spark.pyspark.python")):
            self.context = SparkContext(conf=_running_conf(java_context), jsc=java_context, gateway=gateway)
        self._session = SparkSession(self.context)

    def enter(self) -> None:
        """Prepares for the region. Called by the thread that runs it."""
        from pyspark.sql import SparkSession

        # The JVM has a session per thread, and PySpark would look for one again and again.
        SparkSession._get_j_spark_session_class(self.context._jvm).setActiveSession(self._session._jsparkSession)
        # Functions of this SparkContext import flinkpy from the archive that an earlier region has sent.
        self.context._python_includes += [path.name for path in self.files.glob(f"{PACKAGE}-*.zip")]

    def remove_files(self) -> None:
        """Removes the directory that PySpark has made for this SparkContext."""
        shutil.rmtree(self.context._temp_dir, ignore_errors=True)

    @property
    def last_words(self) -> str:
        return self._ask().last_words

    @property
    def ending(self) -> str:
        return self._ask().ending


def _running_conf(java_context: Any) -> Any:
    """Returns the configuration of a running context for a SparkContext that attaches to it."""
    from pyspark import SparkConf

    class RunningConf(SparkConf):
        def getAll(self) -> list[tuple[str, str]]:
            """Returns the variables of executors only. A SparkContext looks for nothing else among all settings.

            Each setting takes three calls to the JVM.
            """
            found = self._jconf.getAllWithPrefix(_EXECUTOR_VARIABLES)  # type: ignore[union-attr]
            return [(_EXECUTOR_VARIABLES + pair._1(), pair._2()) for pair in found]

    return RunningConf(_jconf=java_context.getConf())


class _AttachedServer(ConnectSpark):
    """A session on a Spark Connect server, shared with the processes of other regions."""

    def __init__(self, attachment: Attachment, sent: set[str]) -> None:
        self.settings = attachment.settings
        self.files = attachment.files
        self.sent = sent
        self._session = connect(attachment_address(attachment))

    @property
    def last_words(self) -> str:
        return ""

    @property
    def ending(self) -> str:
        return ""


if __name__ == "__main__":
    main()
