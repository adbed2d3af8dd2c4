"""Options of clients, of the embedded cluster, and of applications (programs with a cluster of their own).

Source: org.apache.flink.client.cli.ClientOptions, org.apache.flink.configuration.{DeploymentOptions,ClusterOptions},
org.apache.flink.runtime.highavailability.ApplicationResultStoreOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    int_option,
    list_option,
    memory_option,
    string_option,
)

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
    "Minimum number of TaskExecutor processes of a local cluster. An embedded cluster starts one per slot of the job, "
    "up to the number of cores, unless `taskmanager.numberOfTaskSlots` is set.",
    minimum=1,
    maximum=256,
)

#: The value of `cluster.id` that means "not set".
NO_CLUSTER_ID = "0" * 32

CLUSTER_ID = string_option(
    "cluster.id",
    NO_CLUSTER_ID,
    "Id of an application, 32 hex digits. The ids of its jobs are derived from it. If it is all zeros, it is "
    "derived from `high-availability.cluster-id`, or drawn at random without high availability.",
)
APPLICATION_ID = string_option(
    "$internal.application.id", None, "Id of the application that a job belongs to. Programs of applications set it."
)
SHUTDOWN_ON_APPLICATION_FINISH = bool_option(
    "execution.shutdown-on-application-finish",
    True,
    "Shut the cluster of an application down when the application has finished, failed or been canceled.",
)
TERMINATE_ON_ANY_JOB_EXCEPTION = bool_option(
    "execution.terminate-application-on-any-job-terminated-exceptionally",
    True,
    "End an application as failed or canceled as soon as one of its jobs fails or is canceled. If false, the "
    "application ends when its program and all its jobs have ended.",
)
SUBMIT_FAILED_JOB_ON_APPLICATION_ERROR = bool_option(
    "execution.submit-failed-job-on-application-error",
    False,
    "Add a failed job that shows the error if a program fails before it has submitted a job. Useful for a cluster "
    "that outlives its application.",
)
APPLICATION_RESULT_STORE_PATH = string_option(
    "application-result-store.storage-path",
    None,
    "Directory for the state and the results of applications. With high availability all masters must share it. "
    "Default with high availability: `application-result-store/<cluster id>` in `high-availability.storageDir`.",
)
PROGRAM_CONFIG_ENABLED = bool_option(
    "execution.program-config.enabled",
    True,
    "Allow a program to set options. If false, a program that sets an option to another value than the cluster's "
    "configuration fails.",
)
PROGRAM_CONFIG_WILDCARDS = list_option(
    "execution.program-config.wildcards",
    (),
    "Options that a program may set even if `execution.program-config.enabled` is false. An entry also allows all "
    "keys that begin with it and a dot.",
)
JOB_LISTENERS = list_option(
    "execution.job-listeners",
    (),
    "Listener classes as `package.module.Class`, created without arguments. They are notified, in the program's own "
    "process, of every job that the program submits and of its end.",
)
