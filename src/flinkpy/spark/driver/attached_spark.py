"""AttachedSpark: the Spark session of the program, which `spark-submit`, a notebook or the program has made."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flinkpy
from flinkpy.common.errors import SparkError, SparkUnavailableError, UnsupportedOperationError
from flinkpy.configuration.options import AnyConfiguration, entries_of
from flinkpy.configuration.spark_options import MASTER
from flinkpy.spark.errors import cause_of
from flinkpy.spark.session import ClassicSpark, RunningSpark, python_of_workers
from flinkpy.spark.settings import SparkSettings, settings_of

_LOG = logging.getLogger(__name__)

#: `spark-submit` sets it for the program that it starts.
_GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
_DAEMON = "spark.python.daemon.module"
_PYTHON = "spark.pyspark.python"
_PYTHON_VARIABLE = "PYSPARK_PYTHON"
_SQL = "spark.sql."


class AttachedSpark(ClassicSpark):
    """The driver that this program runs in. `stop` does not end it, because it belongs to the program.

    Args:
        session: a session of Spark that is not one of Spark Connect.
        settings: those of the job, with the master of the session.
    """

    def __init__(self, session: Any, settings: SparkSettings) -> None:
        self.context = session.sparkContext
        self.settings = settings
        self._session = session
        self.files = Path(tempfile.mkdtemp(prefix="flinkpy-spark-"))
        # `flinkpy spark-submit` has sent the archive that this flinkpy is imported from.
        self.sent = {"flinkpy"} if is_archived() else set()

    @property
    def is_alive(self) -> bool:
        try:
            return not self.context._jsc.sc().isStopped()  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 - any error means that it does not answer
            return False

    @property
    def application_id(self) -> str:
        return str(self.context.applicationId)

    @property
    def attempt_number(self) -> int:
        """The attempt of the driver, counted from 0. Only YARN counts attempts."""
        attempt = self.context._jsc.sc().applicationAttemptId()  # type: ignore[attr-defined]
        text = str(attempt.get()) if attempt.isDefined() else "1"
        return max(0, int(text) - 1) if text.isdigit() else 0

    def new_session(self) -> Any:
        """Returns a session with the settings of flinkpy. The program's own session keeps its settings."""
        session = self._session.newSession()
        for key, value in self.settings.conf.items():
            if key.startswith(_SQL) and session.conf.isModifiable(key):
                session.conf.set(key, value)
        return session

    @property
    def may_start_again(self) -> bool:
        """True if the cluster starts another driver of this application when this one fails."""
        return bool(
            self.context.master == "yarn" and self.context.getConf().get("spark.submit.deployMode") == "cluster"
        )

    @property
    def last_words(self) -> str:
        return ""

    @property
    def ending(self) -> str:
        return ""

    def stop(self) -> None:
        shutil.rmtree(self.files, ignore_errors=True)


class AttachedSessions:
    """The session of this program, for all of its jobs. Has the methods of SparkSessions that a RegionRun needs.

    Thread: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spark: AttachedSpark | None = None

    def attach(self, configuration: AnyConfiguration) -> AttachedSpark:
        """Returns the session of this program, and makes one if there is none. Blocks while Spark starts.

        Raises:
            SparkUnavailableError: pyspark is missing.
            SparkError: Spark did not start.
        """
        with self._lock:
            if self._spark is None or not self._spark.is_alive:
                self._spark = _attach(configuration)
                _LOG.info("runs in Spark application %s at %s", self._spark.application_id, self._spark.settings.master)
            else:
                self._spark.settings = settings_of(with_master(configuration, str(self._spark.context.master)))
            return self._spark

    def close(self) -> None:
        """Ends Spark, if a job of this program has used it."""
        with self._lock:
            spark, self._spark = self._spark, None
        if spark is not None:
            spark.stop()
            spark.context.stop()

    @contextlib.contextmanager
    def use(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> Iterator[RunningSpark]:
        assert self._spark is not None, "attach was not called"
        yield self._spark


def is_archived() -> bool:
    """Returns True if flinkpy is imported from an archive, as a program of `flinkpy spark-submit` does."""
    path = Path(flinkpy.__file__)
    return any(zipfile.is_zipfile(parent) for parent in path.parents if parent.is_file())


def with_master(configuration: AnyConfiguration, master: str) -> dict[str, str]:
    """Returns the options with the master of the running Spark."""
    return {**entries_of(configuration), MASTER.key: master}


def _attach(configuration: AnyConfiguration) -> AttachedSpark:
    """Attaches to the active session of this process, or makes one."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailableError(
            f"`execution.target` is `spark`, but this Python cannot import pyspark ({error}): run the program with "
            "`flinkpy spark-submit`, or pip install 'flinkpy[spark]'"
        ) from error
    session: Any = SparkSession.getActiveSession()
    if session is None:
        if _GATEWAY_VARIABLE in os.environ:
            # Without its JVM a SparkConf is empty: it would not name the master, and the program would run locally.
            SparkContext._ensure_initialized()
        conf = SparkConf()  # has the options of `spark-submit` and of spark-defaults.conf
        told = conf.get("spark.master", None)
        settings = settings_of(configuration if told is None else with_master(configuration, told))
        # PySpark reads the Python of workers from this variable only.
        python = os.environ.get(_PYTHON_VARIABLE) or conf.get(_PYTHON, None) or settings.conf.get(_PYTHON)
        for key, value in {"spark.master": settings.master, **settings.conf}.items():
            if key == _DAEMON and (python != sys.executable or is_archived()):
                continue  # the daemon can only import an installed flinkpy
            if not conf.contains(key):
                conf.set(key, value)
        try:
            with python_of_workers(python):
                session = SparkSession.Builder().config(conf=conf).getOrCreate()
        except Exception as error:
            raise SparkError(f"Spark at {settings.redacted_master} has not started: {cause_of(str(error))}") from error
    if not hasattr(session, "_jsparkSession"):
        raise UnsupportedOperationError(
            "`execution.target: spark` needs a driver in this process, but the session of this program is one of Spark "
            "Connect: run the program on a flinkpy cluster with `execution.batch.spark.master: sc://...` instead"
        )
    return AttachedSpark(session, settings_of(with_master(configuration, str(session.sparkContext.master))))


#: The session of this process.
SESSIONS = AttachedSessions()
