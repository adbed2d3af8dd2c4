"""SparkSessions: the Spark of this process, which its tasks share.

A process can have only one driver, and either a driver of its own or a session on Spark Connect. Tasks with equal
settings share it, even one after the other, so only the first waits for its start. A task with other settings waits
until it is unused and then replaces it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import logging
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.errors import SparkError, SparkUnavailableError
from flinkpy.common.java_runtime import java_obstacle
from flinkpy.spark.errors import cause_of, with_last_words
from flinkpy.spark.progress import ClassicProgress, ConnectProgress, ProgressTracker, ProgressWatch
from flinkpy.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

#: How often a waiting task checks whether it was canceled.
_LOOK_S = 0.2
_CONNECT_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(?:spark|sc)://([^/;?]+)")
_CONNECT_PORT = 15002
#: Calls to a server that does not answer are repeated for some seconds.
_CONNECT_RETRIES = 6
_CONNECT_BACKOFF_MS = 2_000
#: The variables that name the directory of Hadoop's configuration.
_OF_YARN = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: The variable by which PySpark switches its modules to Spark Connect.
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"


class StartAbandonedError(Exception):
    """Raised if the task was canceled while it waited for Spark."""


class RunningSpark(Protocol):
    """A driver of our own, or a session on Spark Connect. Thread: any."""

    settings: SparkSettings
    #: The names of the files that were sent to the executors.
    sent: set[str]
    #: The directory of these files. Executors fetch them on demand.
    files: Path

    @property
    def is_alive(self) -> bool: ...

    def new_session(self) -> SparkSession: ...

    def begin(self, session: SparkSession, tag: str, description: str) -> None:
        """Gives the later jobs of this thread in the session a tag and a description."""
        ...

    def interrupt(self, session: SparkSession, tag: str) -> None:
        """Cancels the running jobs with the tag. Raises the error of Spark if it does not answer."""
        ...

    def watch(self, session: SparkSession, tag: str, tracker: ProgressTracker) -> ProgressWatch: ...

    def stop(self) -> None: ...

    @property
    def last_words(self) -> str:
        """The last log lines of the driver; empty if they are not known."""
        ...

    @property
    def ending(self) -> str:
        """A description of the end of the driver; empty if it runs or is not a process of this host."""
        ...


class ClassicSpark:
    """A driver of our own, whose JVM is a child of this process."""

    def __init__(self, settings: SparkSettings) -> None:
        obstacle = java_obstacle()
        if obstacle is not None:
            raise SparkUnavailableError(obstacle)
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        from flinkpy.spark.java_gateway import launch

        self.settings = settings
        self.sent: set[str] = set()
        _check_reachable(settings)
        os.environ.pop(_CONNECT_MODE, None)
        self._directory = self.files = Path(tempfile.mkdtemp(prefix="flinkpy-spark-"))
        try:
            conf = {**settings.conf, "spark.master": settings.master}
            conf.setdefault("spark.local.dir", str(self._directory))
            conf.setdefault("spark.sql.warehouse.dir", str(self._directory / "warehouse"))
            self._process, self._gateway = launch(conf, self._directory, settings.start_timeout_ms / 1000)
            try:
                SparkContext._ensure_initialized(gateway=self._gateway)
                told = SparkConf(loadDefaults=True)
                for key, value in conf.items():
                    told.set(key, value)
                with _python_of_workers(conf.get("spark.pyspark.python")):
                    self.context = SparkContext(conf=told, gateway=self._gateway)
                self._session = SparkSession(self.context)
            except Exception as error:  # noqa: BLE001 - raised as one of ours
                # Reading the text of the error needs the JVM.
                reason = with_last_words(cause_of(str(error)), self._process.last_words)
                self._forget()
                self._process.stop()
                raise SparkError(f"Spark at {settings.redacted_master} cannot be used: {reason}") from None
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    @property
    def is_alive(self) -> bool:
        if not self._process.is_alive:
            return False
        try:
            return not self.context._jsc.sc().isStopped()  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 - any error means that it does not answer
            return False

    def new_session(self) -> SparkSession:
        return self._session.newSession()

    def begin(self, session: SparkSession, tag: str, description: str) -> None:
        self.context.setJobGroup(tag, description)
        self.context.addJobTag(tag)

    def interrupt(self, session: SparkSession, tag: str) -> None:
        self.context.cancelJobsWithTag(tag)

    def watch(self, session: SparkSession, tag: str, tracker: ProgressTracker) -> ProgressWatch:
        return ClassicProgress(self.context, tag, tracker)

    @property
    def last_words(self) -> str:
        return self._process.last_words

    @property
    def ending(self) -> str:
        return self._process.ending

    def stop(self) -> None:
        try:
            if self._process.is_alive:
                self.context.stop()
        except Exception as error:  # noqa: BLE001 - the process is ended anyway
            _LOG.warning("Spark's driver did not stop cleanly: %s", cause_of(str(error)))
        finally:
            self._forget()
            self._process.stop()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _forget(self) -> None:
        """Makes PySpark forget the JVM that has ended."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None


class ConnectSpark:
    """A session on a Spark Connect server. Jobs share it, because the files of each job have names of their own."""

    def __init__(self, settings: SparkSettings) -> None:
        _check_reachable(settings)
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.retries import DefaultPolicy

        self.settings = settings
        self.sent: set[str] = set()
        builder = SparkSession.Builder().remote(settings.master)
        for key, value in settings.conf.items():
            builder = builder.config(key, value)
        self._session: Any = builder.create()
        # The default policy retries for ten minutes, but the job has a restart strategy.
        policy = DefaultPolicy(max_retries=_CONNECT_RETRIES, max_backoff=_CONNECT_BACKOFF_MS)
        self._session.client.set_retry_policies([policy])
        self.version = self._session.version  # the first call to the server
        self.files = Path(tempfile.mkdtemp(prefix="flinkpy-spark-"))

    @property
    def is_alive(self) -> bool:
        try:
            # A restarted server does not know the session, but would still answer a question for its version.
            self._session.conf.get("spark.sql.session.timeZone")
            return not self._session.is_stopped
        except Exception:  # noqa: BLE001 - any error means that it does not answer
            return False

    def new_session(self) -> SparkSession:
        session: SparkSession = self._session
        return session

    def begin(self, session: SparkSession, tag: str, description: str) -> None:
        session.clearTags()  # of this thread
        session.addTag(tag)

    def interrupt(self, session: SparkSession, tag: str) -> None:
        session.interruptTag(tag)

    def watch(self, session: SparkSession, tag: str, tracker: ProgressTracker) -> ProgressWatch:
        return ConnectProgress(session, tracker)

    @property
    def last_words(self) -> str:
        return ""

    @property
    def ending(self) -> str:
        return ""

    def stop(self) -> None:
        try:
            self._session.stop()
        except Exception as error:  # noqa: BLE001 - the server ends unused sessions itself
            _LOG.warning("the session on %s could not be ended: %s", self.settings.redacted_master, error)
        finally:
            os.environ.pop(_CONNECT_MODE, None)
            shutil.rmtree(self.files, ignore_errors=True)


@contextlib.contextmanager
def _python_of_workers(path: str | None) -> Iterator[None]:
    """Sets the Python of workers. A SparkContext reads this variable only; spark-submit reads the configuration."""
    before = os.environ.get("PYSPARK_PYTHON")
    if path is not None:
        os.environ["PYSPARK_PYTHON"] = path
    try:
        yield
    finally:
        if path is not None:
            os.environ.pop("PYSPARK_PYTHON")
            if before is not None:
                os.environ["PYSPARK_PYTHON"] = before


def start(settings: SparkSettings) -> RunningSpark:
    """Starts Spark.

    Raises:
        SparkUnavailableError: pyspark or Java is missing.
        SparkError: Spark did not start.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkUnavailableError("the Spark backend needs pyspark: pip install 'flinkpy[spark]'")
    # py4j logs each of its connections.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        running: RunningSpark = ConnectSpark(settings) if settings.is_connect else ClassicSpark(settings)
    except (SparkError, SparkUnavailableError):
        raise
    except Exception as error:
        raise SparkError(f"Spark at {settings.redacted_master} cannot be used: {cause_of(str(error))}") from error
    _LOG.info("Spark at %s is ready", settings.redacted_master)
    return running


def _check_reachable(settings: SparkSettings) -> None:
    """Checks the connection to the master, which Spark itself would retry for a minute or more.

    Raises:
        SparkError: no master answers.
        SparkUnavailableError: the address of YARN is not configured.
    """
    if settings.master == "yarn" and not any(os.environ.get(name) for name in _OF_YARN):
        raise SparkUnavailableError(
            "Spark at yarn cannot be used: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set for the TaskExecutor; "
            "set one of them to the directory of the files that say where YARN is"
        )
    found = _ADDRESS.match(settings.master)
    if found is None:
        return
    failures = []
    for address in found[1].split(","):
        host, _, port = address.rpartition(":")
        if not host:
            host, port = address, str(_CONNECT_PORT)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S):
                return
        except (OSError, ValueError) as error:
            failures.append(f"{address}: {error}")
    raise SparkError(f"the master of Spark does not answer: {'; '.join(failures)}")


class SparkSessions:
    """The running Spark of this process. Thread: any; `use` blocks."""

    def __init__(self, start_spark: Callable[[SparkSettings], RunningSpark] = start) -> None:
        self._start = start_spark
        self._changed = threading.Condition()
        self._running: RunningSpark | None = None
        self._is_starting = False
        self._users = 0

    @contextlib.contextmanager
    def use(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> Iterator[RunningSpark]:
        """Returns a context in which a Spark with these settings runs. Starts it if necessary.

        Raises:
            SparkUnavailableError, SparkError: as `start` does.
            StartAbandonedError: `is_cancelled` returned True.
        """
        running = self._acquire(settings, is_cancelled)
        try:
            yield running
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Stops Spark, even if it is in use. Another one may be started afterwards."""
        with self._changed:
            running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _acquire(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> RunningSpark:
        with self._changed:
            while True:
                if is_cancelled():
                    raise StartAbandonedError
                running = self._running
                if not self._is_starting:
                    if running is None or (self._users == 0 and not _fits(running, settings)):
                        self._is_starting = True
                        break
                    if running.settings.session_key == settings.session_key and running.is_alive:
                        self._users += 1
                        return running
                self._changed.wait(_LOOK_S)
        try:
            if running is not None:
                running.stop()
            started = self._start_in_time(settings, is_cancelled)
        except BaseException:
            with self._changed:
                self._running, self._is_starting = None, False
                self._changed.notify_all()
            raise
        with self._changed:
            self._running, self._is_starting = started, False
            self._users += 1
            self._changed.notify_all()
        return started

    def _start_in_time(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> RunningSpark:
        result: list[RunningSpark | BaseException] = []
        is_abandoned = threading.Event()

        def run() -> None:
            try:
                started = self._start(settings)
                if is_abandoned.is_set():
                    started.stop()
                result.append(started)
            except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
                result.append(error)

        thread = threading.Thread(target=run, name="spark-start", daemon=True)
        thread.start()
        waited_s = 0.0
        while thread.is_alive():
            thread.join(_LOOK_S)
            waited_s += _LOOK_S
            if is_cancelled():
                is_abandoned.set()
                raise StartAbandonedError
            if waited_s * 1000 > settings.start_timeout_ms:
                is_abandoned.set()
                raise SparkError(
                    f"Spark at {settings.redacted_master} has not started within {settings.start_timeout_ms // 1000} s "
                    "(execution.batch.spark.start-timeout)"
                )
        outcome = result[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def _fits(running: RunningSpark, settings: SparkSettings) -> bool:
    return running.settings.session_key == settings.session_key and running.is_alive


#: The sessions of this process.
SESSIONS = SparkSessions()
atexit.register(SESSIONS.close)
