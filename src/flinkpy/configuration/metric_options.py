"""Metrics. Source: org.apache.flink.configuration.MetricOptions, org.apache.flink.python.PythonOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, string_option

SCOPE_DELIMITER = string_option("metrics.scope.delimiter", ".", "Between the parts of a metric's full name.")
SCOPE_TASK = string_option(
    "metrics.scope.task",
    "<host>.taskmanager.<tm_id>.<job_name>.<task_name>.<subtask_index>",
    "Scope of the metrics of a task.",
)
SCOPE_OPERATOR = string_option(
    "metrics.scope.operator",
    "<host>.taskmanager.<tm_id>.<job_name>.<operator_name>.<subtask_index>",
    "Scope of the metrics of an operator, those of user functions included.",
)
PYTHON_METRIC_ENABLED = bool_option(
    "python.metric.enabled", True, "Whether user functions may register metrics; asking for a group fails otherwise."
)
