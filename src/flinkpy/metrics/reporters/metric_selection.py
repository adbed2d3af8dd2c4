"""MetricSelection: the metrics and variables that one reporter gets, by its options.

Source: org.apache.flink.runtime.metrics.ReporterSetup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flinkpy.configuration import read_option
from flinkpy.configuration.options import map_option, string_option
from flinkpy.metrics.metric_filter import MetricFilter
from flinkpy.metrics.metric_registry import NamedMetricGroup, read_metric
from flinkpy.metrics.reporters.metric_reporter import ReportedMetric

__all__ = ["MetricSelection"]

#: Source: org.apache.flink.configuration.MetricOptions.REPORTER_*.
_DELIMITER = string_option("scope.delimiter", None, "Delimiter of identifiers; default: `metrics.scope.delimiter`.")
_ADDITIONAL_VARIABLES = map_option("scope.variables.additional", "More variables, e.g. `region:eu,stage:test`.")
_EXCLUDED_VARIABLES = string_option(
    "scope.variables.excludes",
    None,
    "Variables not to report, separated by semicolons, e.g. `job_id;task_attempt_num`.",
)


class MetricSelection:
    """The metrics and variables that a reporter gets, by its options.

    Raises: ConfigurationError
    """

    def __init__(self, options: Mapping[str, str], default_delimiter: str) -> None:
        self._filter = MetricFilter(options)
        self._delimiter = read_option(options, _DELIMITER) or default_delimiter
        self._additional = {
            _in_brackets(name): value for name, value in read_option(options, _ADDITIONAL_VARIABLES).items()
        }
        excluded = (read_option(options, _EXCLUDED_VARIABLES) or "").split(";")
        self._excluded = frozenset(_in_brackets(name.strip()) for name in excluded if name.strip())

    def reported(self, groups: Iterable[NamedMetricGroup]) -> Iterator[ReportedMetric]:
        for root in groups:
            for group in root.groups():
                yield from self._of_group(group)

    def _of_group(self, group: NamedMetricGroup) -> Iterator[ReportedMetric]:
        metrics = group.own_metrics()
        if not metrics:
            return
        scope = group.get_scope_components()
        logical_scope = _joined(group.logical_scope, ".")
        variables = self._variables(group)
        for name, metric in metrics:
            if self._filter.accepts(logical_scope, name, metric.kind):
                identifier = _joined((*scope, name), self._delimiter)
                reading = read_metric(metric, name)
                yield ReportedMetric(identifier, variables, reading, name, scope, logical_scope, self._delimiter)

    def _variables(self, group: NamedMetricGroup) -> dict[str, str]:
        everything = {**group.get_all_variables(), **self._additional}
        return {name: value for name, value in everything.items() if name not in self._excluded}


def _joined(parts: Iterable[str], delimiter: str) -> str:
    """Joins parts, in which `_` replaces the delimiter.

    Source: org.apache.flink.runtime.metrics.groups.FrontMetricGroup.
    """
    return delimiter.join(part.replace(delimiter, "_") if delimiter else part for part in parts)


def _in_brackets(name: str) -> str:
    """Returns the name of a variable with angle brackets, which options may leave out."""
    return name if name.startswith("<") else f"<{name}>"
