"""MetricReporting: runs the configured reporters of a process.

```
metrics.reporters: files
metrics.reporter.files.factory.class: jsonlines      # or log, or module.path:Class of a MetricReporter
metrics.reporter.files.interval: 10 s
metrics.reporter.files.path: /var/log/flinkpy/metrics.jsonl
```

Source: org.apache.flink.runtime.metrics.{MetricRegistryImpl,ReporterSetup}.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, FlinkError
from flinkpy.configuration import metric_options, read_option
from flinkpy.configuration.options import duration_option
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.reporters.factories import create_reporter
from flinkpy.metrics.reporters.metric_reporter import MetricReporter
from flinkpy.metrics.reporters.metric_selection import MetricSelection

__all__ = ["MetricReporting"]

logger = logging.getLogger(__name__)


#: Source: org.apache.flink.configuration.MetricOptions.REPORTER_INTERVAL.
_INTERVAL = duration_option("interval", "10 s", "Time between two reports.")
#: Maximum number of groups of ended tasks that wait for their last report.
MAX_ENDED = 10_000
#: Maximum time that the end of a process waits for a reporter's last report.
STOP_TIMEOUT_S = 2.0


class MetricReporting:
    """Runs the configured reporters, each on its own thread, from `start` to `close`.

    Raises:
        ConfigurationError: a reporter is not configured correctly (raised by the constructor).
    """

    def __init__(self, configuration: Configuration, registry: MetricRegistry) -> None:
        self._registry = registry
        names = read_option(configuration, metric_options.REPORTERS) or ""
        everything = configuration.to_dict()
        self._threads = [_ReporterThread(setup, registry) for setup in _setups(names, everything)]

    def start(self) -> None:
        for thread in self._threads:
            self._registry.on_unregistered(thread.ended)
            thread.start()

    def close(self) -> None:
        """Stops the reporters after a last report. Blocks for at most `STOP_TIMEOUT_S` per reporter."""
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class _Setup:
    name: str
    reporter: MetricReporter
    interval_s: float
    options: Mapping[str, str]
    selection: MetricSelection


def _setups(names: str, configuration: Mapping[str, str]) -> Iterator[_Setup]:
    for name in filter(None, (name.strip() for name in names.split(","))):
        prefix = f"metrics.reporter.{name}."
        options = {key.removeprefix(prefix): value for key, value in configuration.items() if key.startswith(prefix)}
        reporter = create_reporter(name, options.get("factory.class"))
        try:
            interval_ms = read_option(options, _INTERVAL)
            selection = MetricSelection(options, read_option(configuration, metric_options.SCOPE_DELIMITER))
        except ConfigurationError as error:
            raise ConfigurationError(f"metrics.reporter.{name}: {error}") from error
        yield _Setup(name, reporter, max(interval_ms, 1) / 1000, options, selection)


class _ReporterThread(threading.Thread):
    """Runs one reporter. It is a daemon thread, so a reporter that hangs does not keep the process alive."""

    def __init__(self, setup: _Setup, registry: MetricRegistry) -> None:
        super().__init__(name=f"metric reporter {setup.name}", daemon=True)
        self._setup = setup
        self._registry = registry
        self._ended: deque[tuple[MetricScope, NamedMetricGroup]] = deque(maxlen=MAX_ENDED)
        self._is_stopped = threading.Event()

    def ended(self, scope: MetricScope, group: NamedMetricGroup) -> None:
        """Includes the last metrics of an ended task in the next report. Any thread."""
        self._ended.append((scope, group))

    def stop(self) -> None:
        self._is_stopped.set()

    def run(self) -> None:
        reporter = self._setup.reporter
        try:
            reporter.open(self._setup.options)
        except FlinkError as error:
            logger.error("Cannot open metric reporter %s: %s", self._setup.name, error)
            return
        while not self._is_stopped.wait(self._setup.interval_s):
            self._report()
        self._report()
        reporter.close()

    def _report(self) -> None:
        groups = []
        while self._ended:
            groups.append(self._ended.popleft()[1])
        groups += [group for _, group in self._registry.groups()]
        try:
            self._setup.reporter.report(list(self._setup.selection.reported(groups)))
        except Exception as error:
            logger.warning("Metric reporter %s failed", self._setup.name, exc_info=error)
