"""MetricReporter: the interface of reporters; ReportedMetric: one metric in a report.

Source: org.apache.flink.metrics.reporter.{MetricReporter,Scheduled}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flinkpy.configuration.options import AnyConfiguration, ConfigOption
from flinkpy.metrics.metric_registry import MetricValue

__all__ = ["CharacterFilter", "MetricReporter", "PulledReporter", "ReportedMetric"]


#: Replaces the characters that a system for metrics does not accept. Source: org.apache.flink.metrics.CharacterFilter.
CharacterFilter = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """A metric to report.

    Attributes:
        identifier: scope and name, separated by the delimiter of the reporter. `_` replaces the delimiter within parts.
        variables: the variables of the metric's group with angle brackets, as the reporter's options choose them.
        reading: the current value.
        name: the name without the scope.
        scope: the parts of the scope, outermost first.
        logical_scope: the kinds of the enclosing scopes and names of groups, e.g. `taskmanager.job.task`. Unlike the
            scope it has no values of variables, so the metrics of all subtasks have the same one.
        delimiter: the delimiter of the reporter.
    """

    identifier: str
    variables: Mapping[str, str]
    reading: MetricValue
    name: str = ""
    scope: tuple[str, ...] = ()
    logical_scope: str = ""
    delimiter: str = "."

    def filtered_identifier(self, character_filter: CharacterFilter) -> str:
        """Returns the identifier with every part passed through the filter, but not the delimiters."""
        parts = (part.replace(self.delimiter, "_") if self.delimiter else part for part in (*self.scope, self.name))
        return self.delimiter.join(map(character_filter, parts))


class MetricReporter(ABC):
    """Base class of reporters. Thread: its own thread makes all calls except the constructor.

    Attributes:
        OPTIONS: the options of this class of reporters, without the prefix `metrics.reporter.<name>.`.
    """

    OPTIONS: ClassVar[tuple[ConfigOption[Any], ...]] = ()

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


class PulledReporter(MetricReporter):
    """Base class of reporters that read the metrics when another system asks for them, instead of at intervals."""

    @abstractmethod
    def serve(self, read: Callable[[], list[ReportedMetric]], configuration: AnyConfiguration) -> None:
        """Starts to answer, on threads of the reporter. Is called once after `open`, and does not block.

        Args:
            read: returns the current metrics. Any thread may call it. It runs gauges of user functions, which may hang.
            configuration: the configuration of the process.

        Raises:
            ConfigurationError, AddressInUseError: the reporter cannot listen.
        """

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        return
