"""Applications: programs that a cluster belongs to.

Source: org.apache.flink.configuration.{DeploymentOptions,ClusterOptions},
org.apache.flink.runtime.highavailability.ApplicationResultStoreOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, list_option, string_option

#: The value of `cluster.id` that stands for none.
NO_CLUSTER_ID = "0" * 32

CLUSTER_ID = string_option(
    "cluster.id",
    NO_CLUSTER_ID,
    "Id of an application (32 hex digits), which the ids of its jobs are made of; where it is all zeros it is made of "
    "`high-availability.cluster-id`, and without high availability drawn at random.",
)
SHUTDOWN_ON_APPLICATION_FINISH = bool_option(
    "execution.shutdown-on-application-finish",
    True,
    "Whether the cluster of an application ends with it, whether it finished or failed.",
)
TERMINATE_ON_ANY_JOB_EXCEPTION = bool_option(
    "execution.terminate-application-on-any-job-terminated-exceptionally",
    True,
    "Whether an application ends, failed or canceled, as soon as one of its jobs does; else it goes on, and ends when "
    "its program and all its jobs have ended.",
)
SUBMIT_FAILED_JOB_ON_APPLICATION_ERROR = bool_option(
    "execution.submit-failed-job-on-application-error",
    False,
    "Whether a program that fails before it has submitted a job leaves a failed job that shows the error. For a "
    "cluster that outlives its application.",
)
APPLICATION_RESULT_STORE_PATH = string_option(
    "application-result-store.storage-path",
    None,
    "Directory of what is known of applications: with high availability one that all masters share, "
    "`application-result-store/<cluster id>` in `high-availability.storageDir` where unset.",
)
PROGRAM_CONFIG_ENABLED = bool_option(
    "execution.program-config.enabled",
    True,
    "Whether a program may set options of its own; else one that differs from the cluster's configuration is an error.",
)
PROGRAM_CONFIG_WILDCARDS = list_option(
    "execution.program-config.wildcards",
    (),
    "Options that a program may set even so; each also stands for the options whose keys begin with it and a dot.",
)
JOB_LISTENERS = list_option(
    "execution.job-listeners",
    (),
    "Classes, as `package.module.Class` with no arguments, that are told of every job a program submits and of its "
    "end, in the program's own process.",
)
