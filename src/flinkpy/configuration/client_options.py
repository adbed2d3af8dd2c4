"""Options of clients and of the embedded cluster. Source: org.apache.flink.client.cli.ClientOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, int_option, memory_option

CLIENT_TIMEOUT = duration_option(
    "client.timeout", "1 min", "Time a client waits for one answer of a cluster.", minimum_ms=1
)
CLIENT_HEARTBEAT_INTERVAL = duration_option(
    "client.heartbeat.interval",
    "30 s",
    "How often a client tells the cluster that it lives, where its job needs it: always for `execute_and_collect` and "
    "`collect_async`, else where `execution.shutdown-on-attached-exit` is set. Shorter than "
    "`client.heartbeat.timeout`.",
    minimum_ms=1,
)
CLIENT_HEARTBEAT_TIMEOUT = duration_option(
    "client.heartbeat.timeout",
    "3 min",
    "A job that needs its client is canceled where nothing was heard of the client for so long.",
    minimum_ms=1,
)
COLLECT_MAX_RECORD = memory_option(
    "collect-sink.batch-size.max",
    "256 mb",
    "The largest record, as it is sent, of `execute_and_collect` and `collect_async`. JobMaster and program hold each "
    "record as a whole.",
    minimum_bytes=1024,
)
LOCAL_NUMBER_TASKMANAGER = int_option(
    "minicluster.number-of-taskmanagers",
    1,
    "TaskExecutor processes of a local cluster, at least; an embedded one starts as many as the job has slots.",
    minimum=1,
    maximum=256,
)
