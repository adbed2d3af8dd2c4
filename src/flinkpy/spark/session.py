"""The Spark that a region runs in, as the process of the region sees it: a driver's JVM, or a Spark Connect server.

The sessions themselves belong to the TaskExecutor (`flinkpy.spark.session_handles`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.spark.progress import ClassicProgress, ConnectProgress, ProgressTracker, ProgressWatch
from flinkpy.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

#: The reason of executors that Spark itself gave back.
_GIVEN_BACK = "killed by driver"
#: The number of lost executors that an error names.
_SHOWN_LOSSES = 2
#: Spark's option with the address of YARN's proxy for the web page of a driver.
_YARN_PROXY = "spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.PROXY_URI_BASES"


class RunningSpark(Protocol):
    """A driver, or a session on Spark Connect. Thread: any."""

    settings: SparkSettings
    #: The names of the files that were sent to the executors.
    sent: set[str]
    #: The directory of these files. Executors fetch them on demand.
    files: Path

    def new_session(self) -> SparkSession: ...

    def begin(self, session: SparkSession, tag: str, description: str) -> None:
        """Gives the later jobs of this thread in the session a tag and a description."""
        ...

    def interrupt(self, session: SparkSession, tag: str) -> None:
        """Cancels the running jobs with the tag. Raises the error of Spark if it does not answer."""
        ...

    def watch(self, session: SparkSession, tag: str, tracker: ProgressTracker) -> ProgressWatch: ...

    @property
    def web_url(self) -> str:
        """The address of Spark's web page for this application; empty if there is none or it is not known."""
        ...

    @property
    def lost_executors(self) -> str:
        """The executors that were lost last, with the reasons; empty if there are none or they are not known."""
        ...

    @property
    def last_words(self) -> str:
        """The last log lines of the driver; empty if they are not known."""
        ...

    @property
    def ending(self) -> str:
        """A description of the end of the driver; empty if it runs or is not a process of this host."""
        ...


class Sessions(Protocol):
    """Provides the Spark of a region."""

    def use(self, settings: SparkSettings, is_cancelled: Callable[[], bool]) -> AbstractContextManager[RunningSpark]:
        """Returns a context in which a Spark with these settings runs."""
        ...


class ClassicSpark:
    """A driver that this process has a SparkContext for."""

    context: Any
    settings: SparkSettings
    sent: set[str]
    files: Path
    _session: Any

    def new_session(self) -> SparkSession:
        session: SparkSession = self._session.newSession()
        return session

    def begin(self, session: SparkSession, tag: str, description: str) -> None:
        self.context.setJobGroup(tag, description)
        self.context.addJobTag(tag)

    def interrupt(self, session: SparkSession, tag: str) -> None:
        self.context.cancelJobsWithTag(tag)

    def watch(self, session: SparkSession, tag: str, tracker: ProgressTracker) -> ProgressWatch:
        return ClassicProgress(self.context, tag, tracker)

    @property
    def lost_executors(self) -> str:
        if self.settings.is_local:
            return ""
        try:
            known = self.context._jsc.sc().statusStore().executorList(False)
            executors = [known.apply(number) for number in range(known.size())]
            ends = [(executor, executor.removeReason()) for executor in executors if not executor.isActive()]
        except Exception as error:  # noqa: BLE001 - the driver is gone, which is the cause
            _LOG.debug("the lost executors of Spark are not known: %s", error)
            return ""
        reasons = [
            (int(executor.id()), f"executor {executor.id()} on {executor.hostPort()}: {reason.get()}")
            for executor, reason in ends
            if reason.isDefined() and _GIVEN_BACK not in reason.get()
        ]
        return ", ".join(text for _, text in sorted(reasons)[-_SHOWN_LOSSES:])

    @property
    def web_url(self) -> str:
        # YARN shows the page of a driver below its own address.
        # `getConf` would copy all settings, with three calls to the JVM for each.
        return self.context._conf.get(_YARN_PROXY) or self.context.uiWebUrl or ""


class ConnectSpark:
    """A session on a Spark Connect server. Jobs share it, because the files of each job have names of their own."""

    settings: SparkSettings
    sent: set[str]
    files: Path
    _session: Any

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
    def lost_executors(self) -> str:
        return ""

    @property
    def web_url(self) -> str:
        return ""


@contextlib.contextmanager
def python_of_workers(path: str | None) -> Iterator[None]:
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
