"""MetricReporter: the interface of reporters; ReportedMetric: one metric in a report.

Source: org.apache.flink.metrics.reporter.{MetricReporter,Scheduled}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flinkpy.metrics.metric_registry import MetricValue

__all__ = ["MetricReporter", "ReportedMetric"]


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """A metric to report.

    Attributes:
        identifier: scope and name, separated by `metrics.scope.delimiter`.
        variables: the variables of the metric's group.
        reading: the current value.
        name: the name alone.
        logical_scope: the kinds of the enclosing scopes, such as `("taskmanager", "job", "task")`. Unlike the scope it
            has no values of variables, so metrics of all subtasks have the same one.
    """

    identifier: str
    variables: Mapping[str, str]
    reading: MetricValue
    name: str = ""
    logical_scope: tuple[str, ...] = ()


class MetricReporter(ABC):
    """Base class of reporters. Thread: its own thread makes all calls except the constructor."""

    @abstractmethod
    def open(self, options: Mapping[str, str]) -> None:
        """Prepares the reporter.

        Args:
            options: the options below `metrics.reporter.<name>.`, without this prefix.

        Raises:
            ConfigurationError: an option is missing or invalid.
        """

    @abstractmethod
    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        """Reports all current metrics, and those of ended tasks for the last time."""

    def close(self) -> None:
        return
