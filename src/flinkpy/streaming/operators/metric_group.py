"""The metric groups of a task and of its operators. User functions get them from their RuntimeContext.

Source: org.apache.flink.runtime.metrics.groups.{TaskMetricGroup,InternalOperatorMetricGroup}, ScopeFormat.
Differs: metrics live in the task process, so updating one never crosses a process boundary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.configuration import read_option
from flinkpy.configuration.metric_options import SCOPE_DELIMITER, SCOPE_OPERATOR, SCOPE_TASK
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup

if TYPE_CHECKING:
    from flinkpy.configuration.options import ConfigOption

#: Source: org.apache.flink.runtime.metrics.groups.TaskMetricGroup.METRICS_OPERATOR_NAME_MAX_LENGTH.
MAX_OPERATOR_NAME_CHARS = 80
#: The logical scopes of tasks and operators.
TASK_SCOPE = ("taskmanager", "job", "task")
OPERATOR_SCOPE = ("taskmanager", "job", "operator")


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
        self._configuration = configuration or Configuration()
        delimiter = read_option(self._configuration, SCOPE_DELIMITER)
        super().__init__(self._components(SCOPE_TASK, variables), variables, delimiter, TASK_SCOPE)
        self._metric_scope = scope
        self._registry = registry or MetricRegistry()
        self._registered: list[tuple[MetricScope, NamedMetricGroup]] = []
        self._register(scope, self)

    def add_operator(self, operator_id: str, name: str) -> OperatorMetricGroup:
        """Creates and registers the group of one of the task's operators."""
        name = name[:MAX_OPERATOR_NAME_CHARS]
        variables = {**self._variables, "<operator_id>": operator_id, "<operator_name>": name}
        group = OperatorMetricGroup(
            self._components(SCOPE_OPERATOR, variables), variables, self._delimiter, OPERATOR_SCOPE
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

    def _components(self, option: ConfigOption[str], variables: dict[str, str]) -> tuple[str, ...]:
        """Returns the parts of the scope format, with all variables replaced by their values."""
        parts = []
        for part in str(read_option(self._configuration, option)).split("."):
            for name, value in variables.items():
                part = part.replace(name, value)
            parts.append(part)
        return tuple(parts)
