"""MetricReporters: they export the metrics of a process at intervals.

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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.metric_registry import MetricValue

__all__ = ["JsonLinesReporter", "LogReporter", "MetricReporter", "ReportedMetric", "create_reporter"]

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
