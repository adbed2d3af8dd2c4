"""ScopeFormats: the scopes of metric groups, as configured by `metrics.scope.*`.

A format is a list of names and variables, e.g. `<host>.jobmanager.<job_name>`. A first part `*` stands for the format
of the enclosing scope.

Source: org.apache.flink.runtime.metrics.scope.{ScopeFormat,ScopeFormats}.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from flinkpy.common.configuration import Configuration
from flinkpy.configuration import metric_options, read_option
from flinkpy.configuration.options import ConfigOption
from flinkpy.metrics.metric_registry import NamedMetricGroup

__all__ = ["GroupKind", "ScopeFormats"]

#: Separates the parts of a format. The parts of a scope are joined by `metrics.scope.delimiter`.
_SEPARATOR = "."
_INHERITED = "*"


class GroupKind(enum.Enum):
    """A kind of metric groups. The value is the logical scope, which filters and Prometheus' names use."""

    JOB_MANAGER = "jobmanager"
    JOB_MANAGER_JOB = "jobmanager.job"
    JOB_MANAGER_OPERATOR = "jobmanager.job.operator"
    TASK_MANAGER = "taskmanager"
    TASK_MANAGER_JOB = "taskmanager.job"
    TASK = "taskmanager.job.task"
    OPERATOR = "taskmanager.job.task.operator"

    @property
    def logical_scope(self) -> tuple[str, ...]:
        return tuple(self.value.split("."))


#: The option of each kind, and the kind whose format `*` stands for.
_OPTIONS: dict[GroupKind, tuple[ConfigOption[str], GroupKind | None]] = {
    GroupKind.JOB_MANAGER: (metric_options.SCOPE_JM, None),
    GroupKind.JOB_MANAGER_JOB: (metric_options.SCOPE_JM_JOB, GroupKind.JOB_MANAGER),
    GroupKind.JOB_MANAGER_OPERATOR: (metric_options.SCOPE_JM_OPERATOR, GroupKind.JOB_MANAGER_JOB),
    GroupKind.TASK_MANAGER: (metric_options.SCOPE_TM, None),
    GroupKind.TASK_MANAGER_JOB: (metric_options.SCOPE_TM_JOB, GroupKind.TASK_MANAGER),
    GroupKind.TASK: (metric_options.SCOPE_TASK, GroupKind.TASK_MANAGER_JOB),
    GroupKind.OPERATOR: (metric_options.SCOPE_OPERATOR, GroupKind.TASK),
}


class ScopeFormats:
    """Makes metric groups with the configured scopes."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        configuration = configuration or Configuration()
        self.delimiter = read_option(configuration, metric_options.SCOPE_DELIMITER)
        self._formats: dict[GroupKind, tuple[str, ...]] = {}
        for kind, (option, parent) in _OPTIONS.items():
            parts = tuple(read_option(configuration, option).split(_SEPARATOR))
            if parts[0] == _INHERITED and parent is not None:
                parts = (*self._formats[parent], *parts[1:])
            self._formats[kind] = parts

    def components(self, kind: GroupKind, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the parts of a scope, with all variables replaced by their values."""
        parts = []
        for part in self._formats[kind]:
            for name, value in variables.items():
                part = part.replace(name, value)
            parts.append(part)
        return tuple(parts)

    def group(self, kind: GroupKind, variables: Mapping[str, str]) -> NamedMetricGroup:
        """Returns a new group, which is not registered."""
        return NamedMetricGroup(
            self.components(kind, variables), dict(variables), self.delimiter, logical_scope=kind.logical_scope
        )
