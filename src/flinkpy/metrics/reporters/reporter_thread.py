"""ReporterThread: runs one reporter, so that its failures and delays concern nothing else. FailureLog: logs failures.

Each reporter has its own daemon thread. A reporter that hangs keeps neither the others, nor a task, nor the end of the
process waiting. What it holds meanwhile is bounded by `MAX_ENDED`.
"""

from __future__ import annotations

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

__all__ = ["FailureLog", "ReporterThread", "log_unusable"]

logger = logging.getLogger(__name__)

#: Maximum number of groups of ended tasks that wait for their last report.
MAX_ENDED = 10_000
#: Time between two lines about a reporter that keeps failing.
FAILURE_INTERVAL_MS = 60_000


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
        is_known = _is_external(error) or self._num_failures > 1
        logger.warning(
            "Metric reporter %s failed: %s%s", self._name, describe(error), more, exc_info=None if is_known else error
        )
        self._logged_ms, self._num_not_logged = now_ms, 0

    def succeeded(self) -> None:
        if self._num_failures:
            logger.warning("Metric reporter %s works again after %d failures", self._name, self._num_failures)
        self._num_failures = self._num_not_logged = 0


def _is_external(error: BaseException) -> bool:
    """True for failures of the other side, which a traceback does not explain."""
    # Every process imports this module, few have reporters, and this import is slow.
    from http.client import HTTPException

    return isinstance(error, (FlinkError, OSError, HTTPException))


def log_unusable(name: str, error: BaseException) -> None:
    """Logs that a reporter does not work, because of its configuration or environment."""
    is_known = _is_external(error)
    logger.error(
        "Metric reporter %s cannot be used, so it reports nothing: %s",
        name,
        error if is_known else describe(error),
        exc_info=None if is_known else error,
    )


class ReporterThread(threading.Thread):
    """Opens a reporter, and reports at intervals until `stop`, then for the last time.

    Args:
        name: the name of the reporter.
        create: returns the reporter. The thread calls it, because it may import a large library.
        options: its options, without the prefix.
        reported: returns the metrics of groups that this reporter gets, and reads their values.
    """

    def __init__(
        self,
        name: str,
        create: Callable[[], MetricReporter],
        interval_s: float,
        options: Mapping[str, str],
        reported: Callable[[Iterable[NamedMetricGroup]], Iterator[ReportedMetric]],
        registry: MetricRegistry,
        configuration: Configuration,
    ) -> None:
        super().__init__(name=f"metric reporter {name}", daemon=True)
        self._name_of_reporter = name
        self._create = create
        self._interval_s = interval_s
        self._options = options
        self._reported = reported
        self._registry = registry
        self._configuration = configuration
        #: The groups of ended tasks that wait for their last report.
        self.waiting: deque[tuple[MetricScope, NamedMetricGroup]] = deque(maxlen=MAX_ENDED)
        self._stop_requested = threading.Event()
        self._failures = FailureLog(name)
        #: False if nothing reports the groups of ended tasks.
        self._keeps_ended = True
        registry.on_unregistered(self.ended)

    def ended(self, scope: MetricScope, group: NamedMetricGroup) -> None:
        """Includes the last metrics of an ended task in the next report. Any thread."""
        if self._keeps_ended:
            self.waiting.append((scope, group))

    def stop(self) -> None:
        """Lets the thread end after a last report. Does not wait."""
        self._stop_requested.set()

    def run(self) -> None:
        reporter = self._open()
        self._keeps_ended = reporter is not None and not isinstance(reporter, PulledReporter)
        if not self._keeps_ended:
            self.waiting.clear()
        if reporter is None:
            return
        if isinstance(reporter, PulledReporter):
            self._stop_requested.wait()
        else:
            while not self._stop_requested.wait(self._interval_s):
                self._report(reporter)
            self._report(reporter)
        try:
            reporter.close()
        except USER_ERRORS as error:
            self._failures.failed(error)

    def _open(self) -> MetricReporter | None:
        """Returns the open reporter, or None if it cannot be used."""
        try:
            reporter = self._create()
            reporter.open(self._options)
            if isinstance(reporter, PulledReporter):
                reporter.serve(self._current, self._configuration)
        except USER_ERRORS as error:
            log_unusable(self._name_of_reporter, error)
            return None
        return reporter

    def _current(self) -> list[ReportedMetric]:
        """Returns the current metrics. Any thread."""
        return list(self._reported(group for _, group in self._registry.groups()))

    def _report(self, reporter: MetricReporter) -> None:
        ended = []
        while self.waiting:
            ended.append(self.waiting.popleft()[1])
        try:
            reporter.report([*self._reported(ended), *self._current()])
        except USER_ERRORS as error:
            self._failures.failed(error)
        else:
            self._failures.succeeded()
