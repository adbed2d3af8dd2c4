"""The handles by which a TaskExecutor holds Spark sessions: a driver's JVM, or a session on a Spark Connect server.

A TaskExecutor can hold several. It does not use PySpark's SparkContext, of which a process can have only one: it holds
the JVM by py4j alone. A region runs in a process of its own (`flinkpy.spark.region_process`), which attaches to the
session by an Attachment. For each region a driver opens an entrance with its own secret. When the region has ended,
the entrance is closed, and the JVM forgets every object that the region held, even if its process was killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flinkpy.common.errors import SparkError, SparkUnavailableError
from flinkpy.common.java_runtime import java_obstacle
from flinkpy.spark.errors import cause_of, with_last_words
from flinkpy.spark.java_gateway import CONNECT_MODE
from flinkpy.spark.settings import SparkSettings, driver_defaults
from flinkpy.spark.yarn_addresses import resource_manager_addresses

if TYPE_CHECKING:
    from flinkpy.spark.java_gateway import DriverProcess

_LOG = logging.getLogger(__name__)

C = TypeVar("C", bound="Closeable")

_CONNECT_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(?:spark|sc)://([^/;?]+)")
_CONNECT_PORT = 15002
#: Calls to a server that does not answer are repeated for some seconds.
CONNECT_RETRIES = 6
CONNECT_BACKOFF_MS = 2_000
#: The variables that name the directory of Hadoop's configuration.
_OF_YARN = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: The settings that name the image of executors on Kubernetes.
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")
#: Settings that PySpark gives every SparkContext, because its pickled records need them.
_PYSPARK_DEFAULTS = {"spark.serializer.objectStreamReset": "100", "spark.rdd.compress": "True"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """How the process of a region attaches to a session.

    Attributes:
        files: the directory of the files that were sent to the executors.
        port, secret: the entrance to a driver's JVM.
        session_id: the session on a Spark Connect server.
    """

    settings: SparkSettings
    files: Path
    port: int = 0
    secret: str = ""
    session_id: str = ""


class Startup:
    """The start of a session, for the region that waits for it. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._driver: DriverProcess | None = None
        self._is_abandoned = False

    def on_driver(self, driver: DriverProcess) -> None:
        """The JVM of the driver runs."""
        with self._lock:
            self._driver = driver
        if self._is_abandoned:
            driver.stop()

    @property
    def is_abandoned(self) -> bool:
        return self._is_abandoned

    @property
    def waits_for_resources(self) -> bool:
        """True if the cluster manager has accepted the application, so that it is still coming."""
        driver = self._driver
        return driver is not None and driver.waits_for_resources

    def abandon(self) -> None:
        """Ends the driver, because nobody waits for it any more."""
        with self._lock:
            self._is_abandoned = True
            driver = self._driver
        if driver is not None:
            driver.stop()


class Closeable(Protocol):
    def close(self) -> None: ...


class Reserve(Generic[C]):
    """Holds one object for the next user, until it is closed. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: C | None = None
        self._is_closed = False

    @property
    def wants_one(self) -> bool:
        """True if there is none, and `put` would keep one."""
        return self._held is None and not self._is_closed

    def put(self, one: C) -> None:
        """Keeps the object, or closes it if there is another one or the reserve is closed."""
        with self._lock:
            if self.wants_one:
                self._held = one
                return
        one.close()

    def take(self) -> C | None:
        """Returns the object, which belongs to the caller from now on; None if there is none."""
        with self._lock:
            one, self._held = self._held, None
        return one

    def close(self) -> None:
        """Closes the object and all later ones. Idempotent."""
        self._is_closed = True
        one = self.take()
        if one is not None:
            one.close()


class SessionHandle(Protocol):
    """A running session. Thread: any.

    Attributes:
        reserve: the process of the next region, which is attached already. It stays empty for a server.
    """

    settings: SparkSettings
    reserve: Reserve[Any]

    @property
    def is_alive(self) -> bool: ...

    @property
    def num_executors(self) -> int | None:
        """The number of executors; None if the session has none of its own or does not know."""
        ...

    def attachment(self) -> contextlib.AbstractContextManager[Attachment]:
        """Returns a context in which a region can be attached."""
        ...

    @property
    def sent(self) -> frozenset[str]:
        """The names of the files that regions have sent to the executors."""
        ...

    def add_sent(self, names: set[str]) -> None:
        """Records files that a region has sent to the executors."""
        ...

    def interrupt(self, tag: str) -> None:
        """Cancels the jobs with the tag, after their region has been killed."""
        ...

    def tidy(self) -> None:
        """Lets Spark forget the results of all regions. Called while no region uses the session."""
        ...

    def remove_directory(self, uri: str) -> None:
        """Removes a directory of a file system that the driver reaches. Logs a warning if it cannot."""
        ...

    @property
    def last_words(self) -> str:
        """The last log lines of the driver; empty if they are not known."""
        ...

    @property
    def ending(self) -> str:
        """A description of the end of the driver; empty if it runs or is not a process of this host."""
        ...

    def stop(self) -> None: ...


class DriverHandle:
    """A driver of our own, whose JVM is a child of this process."""

    def __init__(self, settings: SparkSettings, startup: Startup) -> None:
        obstacle = java_obstacle()
        if obstacle is not None:
            raise SparkUnavailableError(obstacle)
        from flinkpy.spark.java_gateway import launch

        self.settings = settings
        self.reserve: Reserve[Any] = Reserve()
        self._sent: set[str] = set()
        #: The number of shuffles that the driver has forgotten.
        self._num_shuffles = 0
        _check_reachable(settings)
        self._directory = Path(tempfile.mkdtemp(prefix="flinkpy-spark-"))
        try:
            conf = {**settings.conf, "spark.master": settings.master}
            if settings.is_local:
                # Executors on other hosts have directories of their own, and their cluster has a warehouse.
                conf.setdefault("spark.local.dir", str(self._directory))
                conf.setdefault("spark.sql.warehouse.dir", str(self._directory / "warehouse"))
            self._process, self._gateway = launch(conf, self._directory, settings.start_timeout_ms / 1000)
            startup.on_driver(self._process)
            try:
                self._jsc = self._create_context(conf)
            except SparkUnavailableError:
                self._process.stop()
                raise
            except Exception as error:  # noqa: BLE001 - raised as one of ours
                # Reading the text of the error needs the JVM.
                reason = with_last_words(cause_of(str(error)), self._process.last_words)
                self._process.stop()
                raise SparkError(f"Spark at {settings.redacted_master} cannot be used: {reason}") from None
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def _create_context(self, conf: dict[str, str]) -> Any:
        jvm: Any = self._gateway.jvm
        told = jvm.SparkConf(True)
        # The user's spark-defaults.conf is part of it already.
        for key, value in {**_PYSPARK_DEFAULTS, **driver_defaults(self.settings, told)}.items():
            told.setIfMissing(key, value)
        for key, value in conf.items():
            told.set(key, value)
        if self.settings.is_kubernetes and not any(told.contains(key) for key in _IMAGES):
            # Without an image, Spark would wait for executors for ever.
            raise SparkUnavailableError(
                f"Spark at {self.settings.redacted_master} cannot be used: set execution.batch.spark.conf.{_IMAGES[0]} "
                "to the image of the executors"
            )
        context = jvm.JavaSparkContext(told)
        # The regions share its catalog. Each has a session of its own.
        jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
        return context

    @property
    def is_alive(self) -> bool:
        if not self._process.is_alive:
            return False
        try:
            return not self._jsc.sc().isStopped()
        except Exception:  # noqa: BLE001 - any error means that it does not answer
            return False

    @property
    def num_executors(self) -> int | None:
        if self.settings.is_local:
            return None
        try:
            # The driver is one of them.
            return len(self._jsc.sc().statusTracker().getExecutorInfos()) - 1
        except Exception as error:  # noqa: BLE001 - the region fails with the cause
            _LOG.debug("the executors of Spark are not known: %s", error)
            return None

    @contextlib.contextmanager
    def attachment(self) -> Iterator[Attachment]:
        try:
            # The name as a whole is looked up at once.
            server = getattr(self._gateway.jvm, "org.apache.spark.api.python.Py4JServer")
            entrance = server(self._jsc.sc().conf())
            entrance.start()
            port, secret = entrance.getListeningPort(), entrance.secret()
        except Exception as error:
            raise SparkError(
                f"Spark at {self.settings.redacted_master} is gone: "
                f"{with_last_words(self.ending or cause_of(str(error)), self.last_words)}"
            ) from error
        try:
            yield Attachment(self.settings, self._directory, port, secret)
        finally:
            with contextlib.suppress(Exception):  # the JVM has ended
                entrance.shutdown()

    @property
    def sent(self) -> frozenset[str]:
        return frozenset(self._sent)

    def add_sent(self, names: set[str]) -> None:
        self._sent |= names

    def interrupt(self, tag: str) -> None:
        self._jsc.cancelJobsWithTag(tag)

    def tidy(self) -> None:
        self._num_shuffles = forget_results(self._gateway.jvm, self._jsc, self._num_shuffles)

    def remove_directory(self, uri: str) -> None:
        jvm: Any = self._gateway.jvm
        try:
            path = jvm.org.apache.hadoop.fs.Path(uri)
            path.getFileSystem(self._jsc.hadoopConfiguration()).delete(path, True)
        except Exception as error:  # noqa: BLE001 - the files are not needed; the driver may be gone
            _LOG.warning("%s could not be removed: %s", uri, cause_of(str(error)))

    @property
    def last_words(self) -> str:
        return self._process.last_words

    @property
    def ending(self) -> str:
        return self._process.ending

    def stop(self) -> None:
        self.reserve.close()
        try:
            if self._process.is_alive:
                self._jsc.stop()
        except Exception as error:  # noqa: BLE001 - the process is ended anyway
            _LOG.warning("Spark's driver did not stop cleanly: %s", cause_of(str(error)))
        finally:
            with contextlib.suppress(Exception):  # the JVM has ended
                self._gateway.shutdown()
            self._process.stop()
            shutil.rmtree(self._directory, ignore_errors=True)


def forget_results(jvm: Any, java_context: Any, first_shuffle: int = 0) -> int:
    """Lets a driver forget all shuffles and stored frames. No job that needs any of them may run.

    Dynamic allocation does not give back executors that hold some of them. Spark itself forgets a shuffle when the JVM
    collects the objects that stand for it, and something may refer to these objects for long. It never forgets frames
    of a region whose process was killed.

    Args:
        first_shuffle: the number of the first shuffle that may exist.

    Returns:
        The number of the next shuffle.
    """
    jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate().catalog().clearCache()
    for kept in list(java_context.getPersistentRDDs().values()):
        kept.unpersist(False)
    # Shuffles are numbered. This takes the next number, for a shuffle that never exists.
    last_shuffle: int = java_context.sc().newShuffleId()
    cleaner = java_context.sc().cleaner()
    if cleaner.isDefined():
        for shuffle_id in range(first_shuffle, last_shuffle):
            cleaner.get().doCleanupShuffle(shuffle_id, False)
    _forget_jobs(java_context.sc().dagScheduler())
    jvm.java.lang.System.gc()
    return last_shuffle + 1


def _forget_jobs(scheduler: Any) -> None:
    """Lets Spark's scheduler forget the jobs that `toLocalIterator` has started after the end of its query.

    Spark 4.3 keeps them for ever, with their stages. Earlier releases have no such list.
    """
    from py4j.protocol import Py4JError

    try:
        queries = list(scheduler.activeQueryToJobs().keySet())
    except Py4JError as error:
        _LOG.debug("Spark keeps no jobs of queries: %s", error)
        return
    for query in queries:
        scheduler.cleanupQueryJobs(query)


class ServerHandle:
    """A session on a Spark Connect server. Regions attach to it by its id."""

    def __init__(self, settings: SparkSettings) -> None:
        _check_reachable(settings)
        self.settings = settings
        self.reserve: Reserve[Any] = Reserve()
        self._sent: set[str] = set()
        self._session = connect(settings.master, settings.conf)
        os.environ.pop(CONNECT_MODE, None)
        _ = self._session.version  # the first call to the server
        self._directory = Path(tempfile.mkdtemp(prefix="flinkpy-spark-"))

    @property
    def is_alive(self) -> bool:
        try:
            # A restarted server does not know the session, but would still answer a question for its version.
            self._session.conf.get("spark.sql.session.timeZone")
            return not self._session.is_stopped
        except Exception:  # noqa: BLE001 - any error means that it does not answer
            return False

    @property
    def num_executors(self) -> None:
        """None, because the server's executors belong to others too."""

    @contextlib.contextmanager
    def attachment(self) -> Iterator[Attachment]:
        yield Attachment(self.settings, self._directory, session_id=str(self._session.session_id))

    @property
    def sent(self) -> frozenset[str]:
        return frozenset(self._sent)

    def add_sent(self, names: set[str]) -> None:
        self._sent |= names

    def interrupt(self, tag: str) -> None:
        self._session.interruptTag(tag)

    def tidy(self) -> None:
        """Does nothing, because the server belongs to others too."""

    def remove_directory(self, uri: str) -> None:
        """Does nothing, because a server has no such directories (see HadoopDirectory)."""

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
            shutil.rmtree(self._directory, ignore_errors=True)


def connect(address: str, conf: Any = ()) -> Any:
    """Returns a session on a Spark Connect server. Sets the environment variable CONNECT_MODE."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    builder = SparkSession.Builder().remote(address)
    for key, value in dict(conf).items():
        builder = builder.config(key, value)
    session: Any = builder.create()
    # The default policy retries for ten minutes, but the job has a restart strategy.
    session.client.set_retry_policies([DefaultPolicy(max_retries=CONNECT_RETRIES, max_backoff=CONNECT_BACKOFF_MS)])
    return session


def attachment_address(attachment: Attachment) -> str:
    """Returns the address by which a second client shares the session on a Spark Connect server."""
    master = attachment.settings.master
    authority, slash, parameters = master.removeprefix("sc://").partition("/")
    return f"sc://{authority}/{parameters.rstrip(';') if slash else ''};session_id={attachment.session_id}"


def start(settings: SparkSettings, startup: Startup) -> SessionHandle:
    """Starts a session.

    Raises:
        SparkUnavailableError: pyspark or Java is missing.
        SparkError: Spark did not start.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkUnavailableError("the Spark backend needs pyspark: pip install 'flinkpy[spark]'")
    # py4j logs each of its connections.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        running: SessionHandle = ServerHandle(settings) if settings.is_connect else DriverHandle(settings, startup)
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
    if settings.master == "yarn":
        _check_yarn()
        return
    found = _ADDRESS.match(settings.master)
    if found is None:
        return
    failures = _failures(found[1].split(","), _CONNECT_PORT)
    if failures:
        raise SparkError(f"the master of Spark does not answer: {'; '.join(failures)}")


def _check_yarn() -> None:
    directory = next(filter(None, (os.environ.get(name) for name in _OF_YARN)), None)
    if directory is None:
        raise SparkUnavailableError(
            "Spark at yarn cannot be used: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set for the TaskExecutor; "
            "set one of them to the directory of the files that say where YARN is"
        )
    failures = _failures(resource_manager_addresses(Path(directory)))
    if failures:
        raise SparkError(
            f"the ResourceManager of YARN does not answer: {'; '.join(failures)} ({directory}/yarn-site.xml)"
        )


def _failures(addresses: list[str], default_port: int | None = None) -> list[str]:
    """Returns why each of the addresses does not answer; nothing if one does, or if there are none."""
    failures = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host:
            host, port = address, str(default_port)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S):
                return []
        except (OSError, ValueError) as error:
            failures.append(f"{address}: {error}")
    return failures
