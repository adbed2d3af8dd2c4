"""Options of metrics. Source: org.apache.flink.configuration.MetricOptions, org.apache.flink.python.PythonOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, int_option, string_option

REPORTERS = string_option(
    "metrics.reporters",
    None,
    "Names of the metric reporters, separated by commas. Each is configured by "
    "`metrics.reporter.<name>.factory.class` (`jsonlines`, `log` or `module:Class`), "
    "`metrics.reporter.<name>.interval`, and the reporter's own options below `metrics.reporter.<name>.`.",
)
SCOPE_DELIMITER = string_option("metrics.scope.delimiter", ".", "Delimiter between the parts of a metric's full name.")
SCOPE_TASK = string_option(
    "metrics.scope.task",
    "<host>.taskmanager.<tm_id>.<job_name>.<task_name>.<subtask_index>",
    "Scope format of task metrics.",
)
SCOPE_OPERATOR = string_option(
    "metrics.scope.operator",
    "<host>.taskmanager.<tm_id>.<job_name>.<operator_name>.<subtask_index>",
    "Scope format of operator metrics, including those of user functions.",
)
LATENCY_INTERVAL = duration_option(
    "metrics.latency.interval",
    "0 ms",
    "Interval at which each source emits latency markers. Operators record their age in the histogram `latency`. 0 "
    "disables latency tracking.",
)
LATENCY_GRANULARITY = enum_option(
    "metrics.latency.granularity",
    ("single", "operator", "subtask"),
    "operator",
    "Granularity of the latency metric: `single` does not distinguish sources, `operator` distinguishes sources, "
    "`subtask` distinguishes the subtasks of each source.",
)
LATENCY_HISTORY_SIZE = int_option(
    "metrics.latency.history-size", 128, "Number of latency measurements that a histogram covers.", minimum=1
)
PYTHON_METRIC_ENABLED = bool_option(
    "python.metric.enabled",
    True,
    "Allow user functions to register metrics. If false, requesting a metric group fails.",
)
