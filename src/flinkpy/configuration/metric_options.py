"""Options of metrics. Source: org.apache.flink.configuration.MetricOptions, org.apache.flink.python.PythonOptions."""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    int_option,
    list_option,
    string_option,
)

REPORTERS = string_option(
    "metrics.reporters",
    None,
    "Names of the metric reporters, separated by commas. Each is configured by "
    "`metrics.reporter.<name>.factory.class` (`prometheus`, `otel`, a class name of Flink's or `module:Class`), "
    "`metrics.reporter.<name>.interval`, and the reporter's own options below `metrics.reporter.<name>.`: see "
    "[reporters](metrics_reporters.md).",
)
SCOPE_DELIMITER = string_option("metrics.scope.delimiter", ".", "Delimiter between the parts of a metric's full name.")
SCOPE_JM = string_option(
    "metrics.scope.jm", "<host>.jobmanager", "Scope format of metrics of the Dispatcher and the ResourceManager."
)
SCOPE_JM_JOB = string_option(
    "metrics.scope.jm-job", "<host>.jobmanager.<job_name>", "Scope format of metrics of a job in its JobMaster."
)
SCOPE_JM_OPERATOR = string_option(
    "metrics.scope.jm-operator",
    "<host>.jobmanager.<job_name>.<operator_name>",
    "Scope format of metrics of an operator's coordinator in the JobMaster.",
)
SCOPE_TM = string_option(
    "metrics.scope.tm", "<host>.taskmanager.<tm_id>", "Scope format of metrics of a TaskExecutor's process."
)
SCOPE_TM_JOB = string_option(
    "metrics.scope.tm-job",
    "<host>.taskmanager.<tm_id>.<job_name>",
    "Scope format of a job in a TaskExecutor. It has no metrics of its own; formats of tasks that begin with `*` "
    "begin with it.",
)
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
JOB_STATUS_METRICS = list_option(
    "metrics.job.status.enable",
    ("STATE", "CURRENT_TIME", "TOTAL_TIME"),
    "The metrics of each status of a job, separated by semicolons: `STATE` is 1 while the job is in it "
    "(`runningState`), `CURRENT_TIME` is the time since it entered it (`runningTime`), `TOTAL_TIME` adds up all stays "
    "(`runningTimeTotal`). Times are in milliseconds. Flink's default is `CURRENT_TIME`.",
)
SYSTEM_RESOURCE = bool_option(
    "metrics.system-resource",
    False,
    "Report the CPU, memory and network use of the host as `System.*` metrics of each process.",
)
SYSTEM_RESOURCE_PROBING_INTERVAL = duration_option(
    "metrics.system-resource-probing-interval",
    "5000 ms",
    "Time between two readings of the host's resources.",
    minimum_ms=100,
)
PYTHON_METRIC_ENABLED = bool_option(
    "python.metric.enabled",
    True,
    "Allow user functions to register metrics. If false, requesting a metric group fails.",
)
