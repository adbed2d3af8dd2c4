"""Metric reporters: they export the metrics of a process to other systems.

Users implement MetricReporter to write their own. MetricReporting runs the reporters of a process.

Source: org.apache.flink.metrics.{prometheus,otel,influxdb,statsd,datadog,graphite,slf4j}.
"""

from flinkpy.metrics.reporters.factories import create_reporter
from flinkpy.metrics.reporters.metric_reporter import MetricReporter, ReportedMetric
from flinkpy.metrics.reporters.metric_reporting import MetricReporting

__all__ = ["MetricReporter", "MetricReporting", "ReportedMetric", "create_reporter"]
