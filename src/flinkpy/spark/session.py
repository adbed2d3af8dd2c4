"""SparkSessions: the Spark of this process, shared by the tasks that run here.

There is one at a time: of Spark's driver there can be no more in a process, nor of the two kinds of sessions, those of
an own driver and those of Spark Connect. Tasks with equal settings share it, also one after the other, so that only the
first waits for its start; one with other settings waits until nobody uses it and then replaces it.
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

#: How often a task that waits looks whether it has been cancelled.
_LOOK_S = 0.2
_CONNECT_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(?:spark|sc)://([^/;?]+)")
_CONNECT_PORT = 15002
#: A server that does not answer is tried again for some seconds.
_CONNECT_RETRIES = 6
_CONNECT_BACKOFF_MS = 2_000
#: Directories of Hadoop's configuration.
_OF_YARN = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: How PySpark tells its own modules that sessions are those of Spark Connect.
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"


class StartAbandonedError(Exception):
    """Whoever waited for a session was cancelled."""


class RunningSpark(Protocol):
    """Thread: any."""

    settings: SparkSettings
    #: Names of the files that executors have been brought.
    sent: set[str]
    #: Where they are: executors fetch them when they need them.
    files: Path

    @property
    def is_alive(self) -> bool: ...

    def new_session(self) -> SparkSession: ...

    def begin(self, session: SparkSession, tag: str, description: str) -> None:
        """What this thread does from now on in the session has this tag."""
        ...

    def interrupt(self, session: SparkSession, tag: str) -> None:
        """End what has the tag and runs now. Raises what Spark raises where it does not answer."""
        ...

    def watch(self, session: SparkSession, tag: str, tracker: ProgressTracker) -> ProgressWatch: ...

    def stop(self) -> None: ...

    @property
    def last_words(self) -> str:
        """What it has logged last."""
        ...

    @property
    def ending(self) -> str:
        """How its driver has ended; empty where it runs, or nobody here can see it."""
        ...


class ClassicSpark:
    """A driver of our own: the JVM is a child of this process."""

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
                # Its text is asked of the JVM.
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
        except Exception:  # noqa: BLE001 - whatever it is: it does not answer
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
        except Exception as error:  # noqa: BLE001 - its process is ended in any case
            _LOG.warning("Spark's driver did not stop as it should: %s", cause_of(str(error)))
        finally:
            self._forget()
            self._process.stop()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _forget(self) -> None:
        """PySpark would go on using the JVM that was."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None


class ConnectSpark:
    """A session on a Spark Connect server. It stays as it is: what jobs bring along has names of its own."""

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
        # Its own policy goes on for ten minutes; the job has a restart strategy.
        policy = DefaultPolicy(max_retries=_CONNECT_RETRIES, max_backoff=_CONNECT_BACKOFF_MS)
        self._session.client.set_retry_policies([policy])
        self.version = self._session.version  # the first thing that is asked of the server
        self.files = Path(tempfile.mkdtemp(prefix="flinkpy-spark-"))

    @property
    def is_alive(self) -> bool:
        try:
            # Not its version: that, a server which was started anew, and does not know the session, tells too.
            self._session.conf.get("spark.sql.session.timeZone")
            return not self._session.is_stopped
        except Exception:  # noqa: BLE001 - whatever it is: it does not answer
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
        except Exception as error:  # noqa: BLE001 - the server ends sessions that nobody uses
            _LOG.warning("the session on %s could not be ended: %s", self.settings.redacted_master, error)
        finally:
            os.environ.pop(_CONNECT_MODE, None)
            shutil.rmtree(self.files, ignore_errors=True)


@contextlib.contextmanager
def _python_of_workers(path: str | None) -> Iterator[None]:
    """A context reads this variable, and nothing else, where spark-submit would read the configuration."""
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
    """Raises: SparkUnavailableError: there is nothing to start; SparkError: it did not start."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkUnavailableError("the Spark backend needs pyspark: pip install 'flinkpy[spark]'")
    # It tells of each of its connections.
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
    """Raises: SparkError at once; Spark itself would try for a minute or more. SparkUnavailableError: nobody says where
    YARN is.
    """
    if settings.master == "yarn" and not any(os.environ.get(name) for name in _OF_YARN):
        raise SparkUnavailableError(
            "Spark at yarn cannot be used: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set for the TaskExecutor, and "
            "only the files there say where YARN is"
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
    """Thread: any; `use` blocks."""

    def __init__(self, start_spark: Callable[[SparkSettings], RunningSpark] = start) -> None:
        self._start = start_spark
        self._changed = threading.Condition()
        self._running: RunningSpark | None = None
        self._is_starting = False
        self._users = 0

    @contextlib.contextmanager
    def use(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> Iterator[RunningSpark]:
        """Raises: SparkUnavailableError, SparkError; StartAbandonedError: `is_cancelled` says so."""
        running = self._acquire(settings, is_cancelled)
        try:
            yield running
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """End it, also where somebody uses it. Another one may be started afterwards."""
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
            except BaseException as error:  # noqa: BLE001 - raised by who waits
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


#: Of this process.
SESSIONS = SparkSessions()
atexit.register(SESSIONS.close)
