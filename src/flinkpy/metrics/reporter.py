"""MetricReporters export the metrics of a process at intervals; MetricReporting runs them.

```
metrics.reporters: files
metrics.reporter.files.factory.class: jsonlines      # or log, or module.path:Class of a MetricReporter
metrics.reporter.files.interval: 10 s
metrics.reporter.files.path: /var/log/flinkpy/metrics.jsonl
```

Source: org.apache.flink.metrics.reporter.{MetricReporter,Scheduled}, runtime.metrics.ReporterSetup.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, FlinkError
from flinkpy.configuration import metric_options, read_option
from flinkpy.configuration.options import duration_option
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, MetricValue, NamedMetricGroup, read_metric

__all__ = [
    "JsonLinesReporter",
    "LogReporter",
    "MetricReporter",
    "MetricReporting",
    "ReportedMetric",
    "create_reporter",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """A metric to report.

    Attributes:
        identifier: scope and name, separated by `metrics.scope.delimiter`.
        variables: the variables of the metric's group.
        reading: the current value.
    """

    identifier: str
    variables: Mapping[str, str]
    reading: MetricValue


class MetricReporter(ABC):
    """Base class of reporters. Thread: its own thread makes all calls except the constructor."""

    @abstractmethod
    def open(self, options: Mapping[str, str]) -> None:
        """Prepares the reporter.

        Args:
            options: the options below `metrics.reporter.<name>.`, without this prefix.

        Raises:
            ConfigurationError: an option is missing or invalid.
        """

    @abstractmethod
    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        """Reports all current metrics, and those of ended tasks for the last time."""

    def close(self) -> None:
        return


class JsonLinesReporter(MetricReporter):
    """Appends one JSON object per line to the file `path`, in which `%p` is replaced by the process id."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._path = ""

    def open(self, options: Mapping[str, str]) -> None:
        path = options.get("path")
        if not path:
            raise ConfigurationError("the jsonlines reporter needs the option `path`, the file that it writes to")
        self._path = path.replace("%p", str(os.getpid()))

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        now_ms = self._clock.now_ms()
        lines = [
            json.dumps(
                {
                    "timestamp_ms": now_ms,
                    "metric": metric.identifier,
                    "kind": metric.reading.kind,
                    "value": metric.reading.value,
                    **metric.reading.statistics,
                    "variables": {name.strip("<>"): value for name, value in metric.variables.items()},
                }
            )
            for metric in metrics
        ]
        if lines:
            # One write, so that processes that share the file do not mix their lines.
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("\n".join([*lines, ""]))


class LogReporter(MetricReporter):
    """Writes metrics to the log at INFO. Source: org.apache.flink.metrics.slf4j.Slf4jReporter."""

    def open(self, options: Mapping[str, str]) -> None:
        return

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        lines = [
            f"{metric.identifier}: {metric.reading.value} "
            + " ".join(f"{name}={value:g}" for name, value in metric.reading.statistics.items())
            for metric in metrics
        ]
        if lines:
            logger.info("metrics\n%s", "\n".join(line.rstrip() for line in lines))


_BUILT_IN: dict[str, type[MetricReporter]] = {
    "jsonlines": JsonLinesReporter,
    "log": LogReporter,
    # The class name in a configuration written for Flink.
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": LogReporter,
}


def create_reporter(name: str, factory_class: str | None) -> MetricReporter:
    """Returns a new reporter. Raises: ConfigurationError if there is no such reporter."""
    if not factory_class:
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class is not set")
    built_in = _BUILT_IN.get(factory_class)
    if built_in is not None:
        return built_in()
    module, _, class_name = factory_class.partition(":")
    try:
        reporter = getattr(importlib.import_module(module), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        known = ", ".join(kind for kind in _BUILT_IN if "." not in kind)
        raise ConfigurationError(
            f"metrics.reporter.{name}.factory.class: {factory_class!r} is neither one of {known} nor a loadable "
            f"module:Class: {error}"
        ) from error
    if not isinstance(reporter, MetricReporter):
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class: {factory_class!r} is not a MetricReporter")
    return reporter


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


def _setups(names: str, configuration: Mapping[str, str]) -> Iterator[_Setup]:
    for name in filter(None, (name.strip() for name in names.split(","))):
        prefix = f"metrics.reporter.{name}."
        options = {key.removeprefix(prefix): value for key, value in configuration.items() if key.startswith(prefix)}
        reporter = create_reporter(name, options.get("factory.class"))
        try:
            interval_ms = read_option(options, _INTERVAL)
        except ConfigurationError as error:
            raise ConfigurationError(f"{prefix}interval: {error}") from error
        yield _Setup(name, reporter, max(interval_ms, 1) / 1000, options)


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
            self._setup.reporter.report(list(_reported(groups)))
        except Exception as error:
            logger.warning("Metric reporter %s failed", self._setup.name, exc_info=error)


def _reported(groups: Iterable[NamedMetricGroup]) -> Iterator[ReportedMetric]:
    for root in groups:
        for group in root.groups():
            variables = group.get_all_variables()
            for name, metric in group.own_metrics():
                yield ReportedMetric(group.get_metric_identifier(name), variables, read_metric(metric, name))
