"""Metrics of user functions and of the runtime: PyFlink's `pyflink.metrics` with additions from Flink's Java API.

Source: pyflink.metrics, org.apache.flink.metrics.
"""

from flinkpy.metrics.metricbase import Counter, Distribution, Gauge, Histogram, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Gauge", "Histogram", "Meter", "Metric", "MetricGroup"]
