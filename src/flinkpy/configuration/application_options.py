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
    "Id of an application, 32 hex digits. The ids of its jobs are derived from it. If it is all zeros, it is "
    "derived from `high-availability.cluster-id`, or drawn at random without high availability.",
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
