"""Options of clients and of the embedded cluster. Source: org.apache.flink.client.cli.ClientOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, int_option

CLIENT_TIMEOUT = duration_option(
    "client.timeout", "1 min", "Time a client waits for one answer of a cluster.", minimum_ms=1
)
LOCAL_NUMBER_TASKMANAGER = int_option(
    "minicluster.number-of-taskmanagers",
    1,
    "TaskExecutor processes of a local cluster, at least; an embedded one starts as many as the job has slots.",
    minimum=1,
    maximum=256,
)
