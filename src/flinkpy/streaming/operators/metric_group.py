"""The metric groups of a task and of its operators. User functions get them from their RuntimeContext.

Source: org.apache.flink.runtime.metrics.groups.{TaskMetricGroup,InternalOperatorMetricGroup}, ScopeFormat.
Differs: metrics live in the task process, so updating one never crosses a process boundary.
"""

from __future__ import annotations

from flinkpy.common.configuration import Configuration
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.scope_formats import GroupKind, ScopeFormats

#: Source: org.apache.flink.runtime.metrics.groups.TaskMetricGroup.METRICS_OPERATOR_NAME_MAX_LENGTH.
MAX_OPERATOR_NAME_CHARS = 80


class OperatorMetricGroup(NamedMetricGroup):
    """The metrics of one operator in one subtask."""


class TaskMetricGroup(NamedMetricGroup):
    """The metrics of one subtask. Creates the groups of its operators. Registered until `close`.

    Args:
        variables: the values of `<host>`, `<tm_id>` and the other scope variables of a task.
        registry: None if these metrics are not reported.
    """

    def __init__(
        self,
        scope: MetricScope,
        variables: dict[str, str],
        configuration: Configuration | None = None,
        registry: MetricRegistry | None = None,
    ) -> None:
        self._formats = ScopeFormats(configuration)
        super().__init__(
            self._formats.components(GroupKind.TASK, variables),
            variables,
            self._formats.delimiter,
            logical_scope=GroupKind.TASK.logical_scope,
        )
        self._metric_scope = scope
        self._registry = registry or MetricRegistry()
        self._registered: list[tuple[MetricScope, NamedMetricGroup]] = []
        self._register(scope, self)

    def add_operator(self, operator_id: str, name: str) -> OperatorMetricGroup:
        """Creates and registers the group of one of the task's operators."""
        name = name[:MAX_OPERATOR_NAME_CHARS]
        variables = {**self._variables, "<operator_id>": operator_id, "<operator_name>": name}
        group = OperatorMetricGroup(
            self._formats.components(GroupKind.OPERATOR, variables),
            variables,
            self._delimiter,
            logical_scope=GroupKind.OPERATOR.logical_scope,
        )
        task = self._metric_scope
        scope = MetricScope(
            task.job_id, task.vertex_id, task.subtask_index, task.attempt_number, operator_id, operator_name=name
        )
        self._register(scope, group)
        return group

    def close(self) -> None:
        """Unregisters all groups when the task has ended. Idempotent."""
        while self._registered:
            self._registry.unregister(*self._registered.pop())

    def _register(self, scope: MetricScope, group: NamedMetricGroup) -> None:
        self._registry.register(scope, group)
        self._registered.append((scope, group))
