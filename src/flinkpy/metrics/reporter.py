"""MetricReporters: who takes the metrics of a process elsewhere, now and then.

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
    """`identifier`: scope and name, separated by `metrics.scope.delimiter`. `variables`: of its group."""

    identifier: str
    variables: Mapping[str, str]
    reading: MetricValue


class MetricReporter(ABC):
    """Thread: one of its own, for all calls but the constructor."""

    @abstractmethod
    def open(self, options: Mapping[str, str]) -> None:
        """`options`: what the configuration has under `metrics.reporter.<name>.`. Raises: ConfigurationError."""

    @abstractmethod
    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        """All metrics there are, or those of a task that has ended, for the last time."""

    def close(self) -> None:
        return


class JsonLinesReporter(MetricReporter):
    """One JSON object a line, appended to the file `path`; `%p` in it is the number of the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._path = ""

    def open(self, options: Mapping[str, str]) -> None:
        path = options.get("path")
        if not path:
            raise ConfigurationError("the jsonlines reporter needs `path`, the file that it writes to")
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
            # In one piece: processes that share the file do not tear each other's lines.
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("\n".join([*lines, ""]))


class LogReporter(MetricReporter):
    """To the log, at INFO. Source: org.apache.flink.metrics.slf4j.Slf4jReporter."""

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
    # What a configuration written for Flink names.
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": LogReporter,
}


def create_reporter(name: str, factory_class: str | None) -> MetricReporter:
    """Raises: ConfigurationError where there is no such reporter."""
    if not factory_class:
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class is not set")
    built_in = _BUILT_IN.get(factory_class)
    if built_in is not None:
        return built_in()
    module, _, class_name = factory_class.partition(":")
    try:
        made = getattr(importlib.import_module(module), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        known = ", ".join(kind for kind in _BUILT_IN if "." not in kind)
        raise ConfigurationError(
            f"metrics.reporter.{name}.factory.class: {factory_class!r} is none of {known}, and no module:Class: {error}"
        ) from error
    if not isinstance(made, MetricReporter):
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class: {factory_class!r} is no MetricReporter")
    return made
