"""Metrics that user functions and the runtime itself register: PyFlink's `pyflink.metrics`, and what Java has beyond.

Source: pyflink.metrics, org.apache.flink.metrics.
"""

from flinkpy.metrics.metricbase import Counter, Distribution, Gauge, Histogram, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Gauge", "Histogram", "Meter", "Metric", "MetricGroup"]
