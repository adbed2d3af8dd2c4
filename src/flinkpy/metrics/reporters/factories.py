"""Creates reporters by the values of `metrics.reporter.<name>.factory.class`.

Source: org.apache.flink.runtime.metrics.ReporterSetup.
"""

from __future__ import annotations

import importlib

from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.reporters.metric_reporter import MetricReporter

__all__ = ["REPORTERS", "create_reporter"]

_PACKAGE = "flinkpy.metrics.reporters"
#: The reporters of flinkpy: `module:Class` by the short name. A module is imported when its reporter is configured.
REPORTERS = {
    "prometheus": f"{_PACKAGE}.prometheus:PrometheusReporter",
    "prometheus-push-gateway": f"{_PACKAGE}.prometheus_push_gateway:PrometheusPushGatewayReporter",
    "otel": f"{_PACKAGE}.otel:OpenTelemetryMetricReporter",
    "influxdb": f"{_PACKAGE}.influxdb:InfluxdbReporter",
    "statsd": f"{_PACKAGE}.statsd:StatsDReporter",
    "datadog": f"{_PACKAGE}.datadog:DatadogHttpReporter",
    "graphite": f"{_PACKAGE}.graphite:GraphiteReporter",
    "log": f"{_PACKAGE}.log:LogReporter",
    "jsonlines": f"{_PACKAGE}.json_lines:JsonLinesReporter",
    "jmx": f"{_PACKAGE}.jmx:JmxReporter",
}
#: The short names by the class names in configurations written for Flink.
FLINK_FACTORIES = {
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": "prometheus",
    "org.apache.flink.metrics.prometheus.PrometheusPushGatewayReporterFactory": "prometheus-push-gateway",
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": "otel",
    "org.apache.flink.metrics.influxdb.InfluxdbReporterFactory": "influxdb",
    "org.apache.flink.metrics.statsd.StatsDReporterFactory": "statsd",
    "org.apache.flink.metrics.datadog.DatadogHttpReporterFactory": "datadog",
    "org.apache.flink.metrics.graphite.GraphiteReporterFactory": "graphite",
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": "log",
    "org.apache.flink.metrics.jmx.JMXReporterFactory": "jmx",
}
#: The extra of flinkpy that has the library of a reporter. The others need no library.
EXTRAS = {"prometheus": "prometheus", "prometheus-push-gateway": "prometheus", "otel": "otel"}


def create_reporter(name: str, factory_class: str | None) -> MetricReporter:
    """Returns a new reporter. Raises: ConfigurationError if there is no such reporter, or its library is missing."""
    if not factory_class:
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class is not set")
    short_name = FLINK_FACTORIES.get(factory_class, factory_class)
    module, _, class_name = REPORTERS.get(short_name, factory_class).partition(":")
    try:
        reporter = getattr(importlib.import_module(module), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        if short_name in EXTRAS and isinstance(error, ImportError):
            raise ConfigurationError(
                f"metrics.reporter.{name}.factory.class: {factory_class!r} needs a library that cannot be imported "
                f"({error}): pip install 'flinkpy[{EXTRAS[short_name]}]'"
            ) from error
        raise ConfigurationError(
            f"metrics.reporter.{name}.factory.class: {factory_class!r} is neither one of {', '.join(REPORTERS)} nor "
            f"a loadable module:Class: {error}"
        ) from error
    if not isinstance(reporter, MetricReporter):
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class: {factory_class!r} is not a MetricReporter")
    return reporter
