"""LogReporter: writes metrics to the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric

__all__ = ["LogReporter"]

logger = logging.getLogger(__name__)


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
