"""Options of Dispatcher and JobMaster.

Source: org.apache.flink.configuration.{JobManagerOptions,ClusterOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, int_option, string_option

ADDRESS = string_option(
    "jobmanager.rpc.address", None, "Host at which the Dispatcher is reached by clients, JobMasters and TaskExecutors."
)
PORT = int_option(
    "jobmanager.rpc.port", 6123, "Port of the Dispatcher; 0 takes any free one.", minimum=0, maximum=65535
)
BIND_HOST = string_option(
    "jobmanager.bind-host", None, "Address the Dispatcher and the JobMasters bind; the loopback address where unset."
)
RPC_BIND_PORT = int_option(
    "jobmanager.rpc.bind-port",
    None,
    "Port the Dispatcher binds where it differs from the one it is reached at.",
    minimum=0,
    maximum=65535,
)
RESOURCE_ID = string_option("jobmanager.resource-id", None, "Name of this process in messages; made up where unset.")
FAILOVER_STRATEGY = enum_option(
    "jobmanager.execution.failover-strategy",
    ("region", "full"),
    "region",
    "What restarts after a task failed: `region` its pipelined region, `full` all tasks of the job.",
)
RELEASE_PARTITIONS_DURING_EXECUTION = bool_option(
    "jobmanager.partition.release-during-job-execution",
    True,
    "Whether what the tasks of a batch job have written for others is deleted when these have finished; otherwise at "
    "the end of the job.",
)
ATTEMPTS_HISTORY_SIZE = int_option(
    "jobmanager.execution.attempts-history-size",
    16,
    "Attempts of one ExecutionVertex that the JobMaster remembers.",
    minimum=1,
)
EXCEPTION_HISTORY_SIZE = int_option(
    "web.exception-history-size", 16, "Failures of a job that its exception history keeps.", minimum=1
)
CHECKPOINTS_HISTORY_SIZE = int_option(
    "web.checkpoints.history", 10, "Checkpoints of a job that its checkpoint statistics keep in detail.", minimum=1
)
SLOT_REQUEST_TIMEOUT = duration_option(
    "slot.request.timeout", "5 min", "How long a job waits for a slot before it fails for want of one.", minimum_ms=1
)
SLOT_IDLE_TIMEOUT = duration_option(
    "slot.idle.timeout", "50 s", "How long a JobMaster keeps a slot that it does not use."
)
JOB_STORE_MAX_CAPACITY = int_option(
    "jobstore.max-capacity", 2_147_483_647, "Finished jobs whose details are kept.", minimum=1
)
WORKING_DIR = string_option(
    "process.jobmanager.working-dir",
    None,
    "Directory in which the Dispatcher keeps job graphs, results and blobs; a temporary one where unset.",
)
STANDBY_JOB_MASTERS = int_option(
    "flinkpy.dispatcher.standby-jobmasters",
    1,
    "JobMaster processes kept imported and waiting, so that a submitted job starts at once.",
    minimum=0,
    maximum=64,
)
JOB_MASTER_RECOVERY_ATTEMPTS = int_option(
    "flinkpy.dispatcher.jobmaster-recovery.attempts",
    10,
    "JobMaster processes of one job that may be lost one soon after the other before the job fails.",
    minimum=0,
)
JOB_MASTER_RECOVERY_RESET = duration_option(
    "flinkpy.dispatcher.jobmaster-recovery.reset-after",
    "30 s",
    "A JobMaster process that has lived for so long does not count as lost soon after the one before it.",
    minimum_ms=1,
)
JOB_MASTER_RECOVERY_INITIAL_BACKOFF = duration_option(
    "flinkpy.dispatcher.jobmaster-recovery.initial-backoff",
    "100 ms",
    "Pause before the second JobMaster process of those lost one soon after the other is replaced; doubled with each. "
    "The first is replaced at once.",
    minimum_ms=1,
)
JOB_MASTER_RECOVERY_MAX_BACKOFF = duration_option(
    "flinkpy.dispatcher.jobmaster-recovery.max-backoff",
    "10 s",
    "The longest such pause.",
    minimum_ms=1,
)
JOB_MASTER_ADOPTION_TIMEOUT = duration_option(
    "jobmaster.adoption-timeout",
    "10 s",
    "With high availability: how long a Dispatcher that has become leader, or lost the connection to a JobMaster, "
    "waits for the JobMaster that leads the job to report, before it starts another.",
    minimum_ms=1,
)
JOB_STORE_CACHE_SIZE = int_option(
    "jobstore.cache-size", 52_428_800, "Bytes of finished jobs' details kept in memory.", minimum=0
)
JOB_STORE_EXPIRATION_TIME = int_option(
    "jobstore.expiration-time", 3600, "Seconds for which a finished job's details can be asked for.", minimum=1
)
