"""Metrics. Source: org.apache.flink.configuration.MetricOptions, org.apache.flink.python.PythonOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, int_option, string_option

REPORTERS = string_option(
    "metrics.reporters",
    None,
    "Names of the reporters of this process, separated by commas; each is set up by `metrics.reporter.<name>.` with "
    "`factory.class` (`jsonlines`, `log` or module:Class), `interval` and what it needs besides.",
)
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
LATENCY_INTERVAL = duration_option(
    "metrics.latency.interval",
    "0 ms",
    "How often each source sends a latency marker, whose age operators note in their histogram `latency`; 0: never.",
)
LATENCY_GRANULARITY = enum_option(
    "metrics.latency.granularity",
    ("single", "operator", "subtask"),
    "operator",
    "Whose markers an operator tells apart: nobody's, those of different sources, or of each subtask of a source.",
)
LATENCY_HISTORY_SIZE = int_option(
    "metrics.latency.history-size", 128, "Measured latencies that a histogram looks back on.", minimum=1
)
PYTHON_METRIC_ENABLED = bool_option(
    "python.metric.enabled", True, "Whether user functions may register metrics; asking for a group fails otherwise."
)
