"""Creates reporters by the values of `metrics.reporter.<name>.factory.class`.

Source: org.apache.flink.runtime.metrics.ReporterSetup.
"""

from __future__ import annotations

import importlib

from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.reporters.metric_reporter import MetricReporter

__all__ = ["create_reporter"]

_PACKAGE = "flinkpy.metrics.reporters"
#: The reporters of flinkpy: `module:Class` by the short name. A module is imported when its reporter is configured.
_BUILT_IN = {
    "jsonlines": f"{_PACKAGE}.json_lines:JsonLinesReporter",
    "log": f"{_PACKAGE}.log:LogReporter",
}
#: The short names by the class names in configurations written for Flink.
_FLINK_FACTORIES = {
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": "log",
}


def create_reporter(name: str, factory_class: str | None) -> MetricReporter:
    """Returns a new reporter. Raises: ConfigurationError if there is no such reporter."""
    if not factory_class:
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class is not set")
    short_name = _FLINK_FACTORIES.get(factory_class, factory_class)
    module, _, class_name = _BUILT_IN.get(short_name, factory_class).partition(":")
    try:
        reporter = getattr(importlib.import_module(module), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"metrics.reporter.{name}.factory.class: {factory_class!r} is neither one of {', '.join(_BUILT_IN)} nor a "
            f"loadable module:Class: {error}"
        ) from error
    if not isinstance(reporter, MetricReporter):
        raise ConfigurationError(f"metrics.reporter.{name}.factory.class: {factory_class!r} is not a MetricReporter")
    return reporter
