"""JmxReporter: refuses a configuration written for Flink's reporter of this name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric

__all__ = ["JmxReporter"]


class JmxReporter(MetricReporter):
    """Cannot report: JMX is an interface of Java virtual machines."""

    def open(self, options: Mapping[str, str]) -> None:
        raise ConfigurationError(
            "JMX is an interface of Java virtual machines, and flinkpy has none. Use the reporter `prometheus` or "
            "`otel`, or read metrics with `flinkpy metrics` or GET /jobs/:jobid/metrics"
        )

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        return
