"""Options of clients and of the embedded cluster. Source: org.apache.flink.client.cli.ClientOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, int_option, memory_option

CLIENT_TIMEOUT = duration_option("client.timeout", "1 min", "Timeout of a client's call to the cluster.", minimum_ms=1)
CLIENT_HEARTBEAT_INTERVAL = duration_option(
    "client.heartbeat.interval",
    "30 s",
    "Interval of the heartbeats that a client sends while its job depends on it. Jobs of `execute_and_collect` and "
    "`collect_async` always do, other jobs if `execution.shutdown-on-attached-exit` is set. Must be shorter than "
    "`client.heartbeat.timeout`.",
    minimum_ms=1,
)
CLIENT_HEARTBEAT_TIMEOUT = duration_option(
    "client.heartbeat.timeout",
    "3 min",
    "The cluster cancels a job that depends on its client if no heartbeat of the client arrives for this long.",
    minimum_ms=1,
)
COLLECT_MAX_RECORD = memory_option(
    "collect-sink.batch-size.max",
    "256 mb",
    "Maximum serialized size of a record of `execute_and_collect` and `collect_async`. The JobMaster and the "
    "program each hold a whole record in memory.",
    minimum_bytes=1024,
)
LOCAL_NUMBER_TASKMANAGER = int_option(
    "minicluster.number-of-taskmanagers",
    1,
    "Minimum number of TaskExecutor processes of a local cluster. An embedded cluster starts as many as the job has "
    "slots.",
    minimum=1,
    maximum=256,
)
