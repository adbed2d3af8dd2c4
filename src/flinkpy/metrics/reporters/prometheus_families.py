"""Metrics in the form of Prometheus: names, labels and families, as Flink makes them.

Source: org.apache.flink.metrics.prometheus.AbstractPrometheusReporter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.registry import Collector

from flinkpy.common.error_text import valid_text
from flinkpy.configuration import read_option
from flinkpy.configuration.options import bool_option, string_option
from flinkpy.metrics.reporters.metric_reporter import ReportedMetric
from flinkpy.metrics.reporters.numbers import number_of, variable_name

__all__ = ["FAMILY_OPTIONS", "MetricFamilies"]

_INVALID = re.compile(r"[^a-zA-Z0-9:_]")
_INVALID_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")
#: The quantiles of a histogram by the statistic that has the value.
_QUANTILES = (("0.5", "p50"), ("0.75", "p75"), ("0.95", "p95"), ("0.98", "p98"), ("0.99", "p99"), ("0.999", "p999"))

FILTER_LABEL_VALUES = bool_option(
    "filterLabelValueCharacters",
    True,
    "Replace all characters of label values but `a-z A-Z 0-9 : _` by `_`. Values are escaped correctly either way.",
)
ALLOW_LIST = string_option(
    "allowList",
    "",
    "Report only metrics whose logical scope and name, e.g. `taskmanager.job.task.numRecordsIn`, contain one of these "
    "texts, separated by commas. By default all metrics are reported.",
)
FAMILY_OPTIONS = (FILTER_LABEL_VALUES, ALLOW_LIST)


class MetricFamilies:
    """Makes families of metrics. Counters, gauges and meters are gauges; histograms and distributions are summaries.

    Differs: metrics without a number are left out, where Flink reports 0. Names of labels are always valid; Flink drops
    the metric.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._filters_values = read_option(options, FILTER_LABEL_VALUES)
        self._allowed = [text.strip() for text in read_option(options, ALLOW_LIST).split(",") if text.strip()]

    def of(self, metrics: Iterable[ReportedMetric]) -> list[Metric]:
        """Returns the families. Of two samples with the same name and labels, the later one is kept."""
        names: dict[tuple[str, str], str] = {}
        families: dict[str, Metric] = {}
        chosen: dict[str, dict[int, tuple[ReportedMetric, _Labels]]] = {}
        labels_of = _LabelsOfGroups(filters_values=self._filters_values)
        for metric in metrics:
            if self._is_allowed(metric):
                key = (metric.logical_scope, metric.name)
                name = names.get(key) or names.setdefault(key, _metric_name(metric))
                family = families.get(name)
                if family is None:
                    scope = _INVALID.sub("_", metric.logical_scope)
                    help_text = valid_text(f"{metric.name} (scope: {scope})")
                    family = families[name] = Metric(name, help_text, _family_type(metric))
                # A family has one type. A user has given this name to two kinds of metrics.
                if family.type == _family_type(metric):
                    number, labels = labels_of.group(metric.variables)
                    chosen.setdefault(name, {})[number] = (metric, labels)
        for name, by_labels in chosen.items():
            for metric, labels in by_labels.values():
                for suffix, quantile, value in _samples(metric):
                    of_sample = labels if quantile is None else {**labels, "quantile": quantile}
                    families[name].add_sample(name + suffix, of_sample, value)
        return [family for family in families.values() if family.samples]

    def collected(self, metrics: Iterable[ReportedMetric]) -> Collector:
        """Returns the families as a collector, which a registry of prometheus_client takes."""
        return _Collected(self.of(metrics))

    def _is_allowed(self, metric: ReportedMetric) -> bool:
        if not self._allowed:
            return True
        full_name = f"{metric.logical_scope}.{metric.name}"
        return any(text in full_name for text in self._allowed)


_Labels = dict[str, str]


class _LabelsOfGroups:
    """Makes the labels of each group once: a task has dozens of metrics with the same variables."""

    def __init__(self, *, filters_values: bool) -> None:
        self._filters_values = filters_values
        #: Number and labels by the identity of the variables, which are kept, so that it stays unique.
        self._groups: dict[int, tuple[int, _Labels, Mapping[str, str]]] = {}
        self._numbers: dict[tuple[tuple[str, str], ...], int] = {}

    def group(self, variables: Mapping[str, str]) -> tuple[int, _Labels]:
        """Returns a number for these labels, and the labels. Equal labels have one number."""
        known = self._groups.get(id(variables))
        if known is None:
            labels = {_label_name(variable_name(name)): self._value(value) for name, value in variables.items()}
            number = self._numbers.setdefault(tuple(labels.items()), len(self._numbers))
            known = self._groups[id(variables)] = (number, labels, variables)
        return known[0], known[1]

    def _value(self, value: str) -> str:
        return _INVALID.sub("_", value) if self._filters_values else valid_text(value)


class _Collected(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _metric_name(metric: ReportedMetric) -> str:
    parts = (part for part in ("flink", metric.logical_scope, metric.name) if part)
    return _INVALID.sub("_", "_".join(parts))


def _label_name(name: str) -> str:
    """Returns a valid name. Prometheus refuses the whole answer for one that begins with a digit."""
    valid = _INVALID_IN_LABELS.sub("_", name)
    if valid.startswith("__"):
        # Such names are reserved for Prometheus itself.
        valid = "_" + valid.lstrip("_")
    if valid == "quantile":
        valid = "quantile_"  # the label of summaries
    return valid if valid and not valid[0].isdigit() else f"_{valid}"


def _family_type(metric: ReportedMetric) -> str:
    return "summary" if metric.reading.kind in ("histogram", "distribution") else "gauge"


def _samples(metric: ReportedMetric) -> Iterator[tuple[str, str | None, float]]:
    """Yields suffix of the name, quantile and value of each sample."""
    reading = metric.reading
    if _family_type(metric) == "gauge":
        number = reading.value if isinstance(reading.value, float) else number_of(reading.value)
        if number is not None:
            yield "", None, float(number)
        return
    if isinstance(reading.value, str):
        return
    statistics = reading.statistics
    yield "_count", None, float(reading.value)
    if reading.kind == "distribution":
        yield "_sum", None, statistics["sum"]
        yield "", "0", statistics["min"]
        yield "", "1", statistics["max"]
        return
    for quantile, statistic in _QUANTILES:
        yield "", quantile, statistics[statistic]
