"""ReporterThread: runs one reporter, so that its failures and delays concern nothing else. FailureLog: logs failures.

Each reporter has its own daemon thread. A reporter that hangs keeps neither the others, nor a task, nor the end of the
process waiting. What it holds meanwhile is bounded by `MAX_ENDED`.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import USER_ERRORS, describe
from flinkpy.common.errors import FlinkError
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, PulledReporter, ReportedMetric

__all__ = ["FailureLog", "ReporterThread"]

logger = logging.getLogger(__name__)

#: Maximum number of groups of ended tasks that wait for their last report.
MAX_ENDED = 10_000
#: Time between two lines about a reporter that keeps failing.
FAILURE_INTERVAL_MS = 60_000
#: Failures of the other side, which a traceback does not explain.
_EXTERNAL = (FlinkError, OSError, http.client.HTTPException)


class FailureLog:
    """Logs the failures of a reporter: the first, then one per minute with the number of the others, and the recovery.

    Thread: that of the reporter.
    """

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._num_failures = 0
        self._num_not_logged = 0
        self._logged_ms = 0

    def failed(self, error: BaseException) -> None:
        self._num_failures += 1
        now_ms = self._clock.monotonic_ms()
        if self._num_failures > 1 and now_ms - self._logged_ms < FAILURE_INTERVAL_MS:
            self._num_not_logged += 1
            return
        more = f" ({self._num_not_logged} more failures since the last line)" if self._num_not_logged else ""
        is_known = isinstance(error, _EXTERNAL) or self._num_failures > 1
        logger.warning(
            "Metric reporter %s failed: %s%s", self._name, describe(error), more, exc_info=None if is_known else error
        )
        self._logged_ms, self._num_not_logged = now_ms, 0

    def succeeded(self) -> None:
        if self._num_failures:
            logger.warning("Metric reporter %s works again after %d failures", self._name, self._num_failures)
        self._num_failures = self._num_not_logged = 0


class ReporterThread(threading.Thread):
    """Opens a reporter, and reports at intervals until `stop`, then for the last time.

    Args:
        name: the name of the reporter.
        options: its options, without the prefix.
        reported: returns the metrics of groups that this reporter gets, and reads their values.
    """

    def __init__(
        self,
        name: str,
        reporter: MetricReporter,
        interval_s: float,
        options: Mapping[str, str],
        reported: Callable[[Iterable[NamedMetricGroup]], Iterator[ReportedMetric]],
        registry: MetricRegistry,
        configuration: Configuration,
    ) -> None:
        super().__init__(name=f"metric reporter {name}", daemon=True)
        self._name_of_reporter = name
        self._reporter = reporter
        self._interval_s = interval_s
        self._options = options
        self._reported = reported
        self._registry = registry
        self._configuration = configuration
        #: The groups of ended tasks that wait for their last report.
        self.waiting: deque[tuple[MetricScope, NamedMetricGroup]] = deque(maxlen=MAX_ENDED)
        self._stop_requested = threading.Event()
        self._failures = FailureLog(name)
        if not isinstance(reporter, PulledReporter):
            registry.on_unregistered(self.ended)

    def ended(self, scope: MetricScope, group: NamedMetricGroup) -> None:
        """Includes the last metrics of an ended task in the next report. Any thread."""
        # A thread that has ended, because its reporter could not be opened, must not keep groups.
        if self.is_alive():
            self.waiting.append((scope, group))

    def stop(self) -> None:
        """Lets the thread end after a last report. Does not wait."""
        self._stop_requested.set()

    def run(self) -> None:
        if not self._open():
            self.waiting.clear()
            return
        is_pulled = isinstance(self._reporter, PulledReporter)
        while not self._stop_requested.wait(None if is_pulled else self._interval_s):
            self._report()
        if not is_pulled:
            self._report()
        try:
            self._reporter.close()
        except USER_ERRORS as error:
            self._failures.failed(error)

    def _open(self) -> bool:
        try:
            self._reporter.open(self._options)
            if isinstance(self._reporter, PulledReporter):
                self._reporter.serve(self._current, self._configuration)
        except USER_ERRORS as error:
            cause = error if not isinstance(error, _EXTERNAL) else None
            logger.error(
                "Metric reporter %s cannot be opened, so it reports nothing: %s",
                self._name_of_reporter,
                describe(error) if cause else error,
                exc_info=cause,
            )
            return False
        return True

    def _current(self) -> list[ReportedMetric]:
        """Returns the current metrics. Any thread."""
        return list(self._reported(group for _, group in self._registry.groups()))

    def _report(self) -> None:
        ended = []
        while self.waiting:
            ended.append(self.waiting.popleft()[1])
        try:
            self._reporter.report([*self._reported(ended), *self._current()])
        except USER_ERRORS as error:
            self._failures.failed(error)
        else:
            self._failures.succeeded()
