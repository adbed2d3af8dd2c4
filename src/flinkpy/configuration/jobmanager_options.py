"""Options of the Dispatcher and the JobMaster, including restart strategies.

Source: org.apache.flink.configuration.{JobManagerOptions,ClusterOptions,RestartStrategyOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    float_option,
    int_option,
    list_option,
    memory_option,
    string_option,
)

ADDRESS = string_option(
    "jobmanager.rpc.address", None, "Host under which clients, JobMasters and TaskExecutors reach the Dispatcher."
)
PORT = int_option(
    "jobmanager.rpc.port", 6123, "Port of the Dispatcher. 0 chooses a free port.", minimum=0, maximum=65535
)
BIND_HOST = string_option(
    "jobmanager.bind-host",
    None,
    "Address that the Dispatcher and the JobMasters bind to. Default: the loopback address.",
)
RPC_BIND_PORT = int_option(
    "jobmanager.rpc.bind-port",
    None,
    "Port that the Dispatcher binds to. Default: `jobmanager.rpc.port`.",
    minimum=0,
    maximum=65535,
)
RESOURCE_ID = string_option("jobmanager.resource-id", None, "Id of this process in messages. Default: a generated id.")
TOTAL_PROCESS_MEMORY = memory_option(
    "jobmanager.memory.process.size",
    None,
    "Memory that the Dispatcher and its JobMasters may use, for the requests and limits of their pod on Kubernetes. "
    "Default: no limit.",
)
FAILOVER_STRATEGY = enum_option(
    "jobmanager.execution.failover-strategy",
    ("region", "full"),
    "region",
    "Which tasks restart after a task failure: `region` restarts the pipelined region of the failed task, `full` "
    "all tasks of the job.",
)
RELEASE_PARTITIONS_DURING_EXECUTION = bool_option(
    "jobmanager.partition.release-during-job-execution",
    True,
    "Delete the intermediate results of a batch job as soon as their consumers have finished. If false, they are "
    "deleted at the end of the job.",
)
ATTEMPTS_HISTORY_SIZE = int_option(
    "jobmanager.execution.attempts-history-size",
    16,
    "Maximum number of past attempts that the JobMaster remembers for each ExecutionVertex.",
    minimum=1,
)
FAILURE_ENRICHERS = list_option(
    "jobmanager.failure-enrichers",
    (),
    "Python classes, such as `package.module.Class`, that give failures of jobs labels. They are subclasses of "
    "`flinkpy.jobmaster.failure_labels.FailureEnricher` in a package that is installed where JobMasters run.",
)
EXCEPTION_HISTORY_SIZE = int_option(
    "web.exception-history-size", 16, "Maximum number of failures in the exception history of a job.", minimum=1
)
CHECKPOINTS_HISTORY_SIZE = int_option(
    "web.checkpoints.history",
    10,
    "Number of checkpoints for which the checkpoint statistics of a job keep details.",
    minimum=1,
)
SLOT_REQUEST_TIMEOUT = duration_option(
    "slot.request.timeout", "5 min", "How long a job waits for a slot before it fails.", minimum_ms=1
)
SLOT_IDLE_TIMEOUT = duration_option("slot.idle.timeout", "50 s", "How long a JobMaster keeps an unused slot.")
JOB_STORE_MAX_CAPACITY = int_option(
    "jobstore.max-capacity", 2_147_483_647, "Maximum number of finished jobs whose details are kept.", minimum=1
)
WORKING_DIR = string_option(
    "process.jobmanager.working-dir",
    None,
    "Directory where the Dispatcher stores job graphs, results and blobs. Default: a temporary directory.",
)
STANDBY_JOB_MASTERS = int_option(
    "flinkpy.dispatcher.standby-jobmasters",
    1,
    "Number of JobMaster processes that are started in advance, so that a submitted job starts at once.",
    minimum=0,
    maximum=64,
)
JOB_MASTER_RECOVERY_ATTEMPTS = int_option(
    "flinkpy.dispatcher.jobmaster-recovery.attempts",
    10,
    "Maximum number of consecutive losses of a job's JobMaster process. One more loss fails the job.",
    minimum=0,
)
JOB_MASTER_RECOVERY_RESET = duration_option(
    "flinkpy.dispatcher.jobmaster-recovery.reset-after",
    "30 s",
    "A JobMaster process that has run for this long resets the count of consecutive losses.",
    minimum_ms=1,
)
JOB_MASTER_RECOVERY_INITIAL_BACKOFF = duration_option(
    "flinkpy.dispatcher.jobmaster-recovery.initial-backoff",
    "100 ms",
    "Pause before a JobMaster process is replaced after the second consecutive loss. It doubles with each further "
    "loss. The first lost process is replaced at once.",
    minimum_ms=1,
)
JOB_MASTER_RECOVERY_MAX_BACKOFF = duration_option(
    "flinkpy.dispatcher.jobmaster-recovery.max-backoff",
    "10 s",
    "Maximum pause before a lost JobMaster process is replaced.",
    minimum_ms=1,
)
JOB_MASTER_ADOPTION_TIMEOUT = duration_option(
    "jobmaster.adoption-timeout",
    "10 s",
    "With high availability: how long a Dispatcher that becomes leader, or that loses the connection to a "
    "JobMaster, waits for the leading JobMaster of the job to report before it starts another one.",
    minimum_ms=1,
)
TASK_ADOPTION_TIMEOUT = duration_option(
    "jobmaster.task-adoption.timeout",
    "30 s",
    "How long the tasks of a streaming job go on when its JobMaster is lost. Within this time another JobMaster can "
    "continue them without a restore. 0: the tasks fail at once. The value of the TaskExecutor counts, unless the job "
    "has one.",
)
TASK_ADOPTION_REPORT_TIMEOUT = duration_option(
    "jobmaster.task-adoption.report-timeout",
    "2 s",
    "How long a JobMaster that replaces a lost one waits for the reports of all running tasks before it restores the "
    "last checkpoint.",
    minimum_ms=1,
)
JOB_STORE_CACHE_SIZE = int_option(
    "jobstore.cache-size", 52_428_800, "Maximum number of bytes of finished jobs' details to keep in memory.", minimum=0
)
JOB_STORE_EXPIRATION_TIME = int_option(
    "jobstore.expiration-time",
    3600,
    "Seconds that the details of a finished job stay available. Without limit if it is not set and "
    "`jobmanager.archive.fs.dir` is.",
    minimum=1,
)
ARCHIVE_DIRECTORY = string_option(
    "jobmanager.archive.fs.dir",
    None,
    "Directory where the Dispatcher writes an archive of each job and application that has ended, for the history "
    "server. A local path, or a URI of a file system that checkpoints may use.",
)

RESTART_STRATEGY = enum_option(
    "restart-strategy.type",
    ("none", "disable", "off", "fixed-delay", "failure-rate", "exponential-delay"),
    None,
    "Restart strategy after a failure. Default: `exponential-delay` for a job with checkpoints, `none` for a job "
    "without.",
)
FIXED_DELAY_ATTEMPTS = int_option(
    "restart-strategy.fixed-delay.attempts", 1, "Number of restarts before the job fails.", minimum=0
)
FIXED_DELAY_DELAY = duration_option(
    "restart-strategy.fixed-delay.delay", "1 s", "Delay between a failure and the restart."
)
FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = int_option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    1,
    "Maximum number of failures per interval. One more failure in the interval fails the job.",
    minimum=1,
)
FAILURE_RATE_INTERVAL = duration_option(
    "restart-strategy.failure-rate.failure-rate-interval", "1 min", "Interval over which failures are counted."
)
FAILURE_RATE_DELAY = duration_option(
    "restart-strategy.failure-rate.delay", "1 s", "Delay between a failure and the restart."
)
EXPONENTIAL_DELAY_INITIAL_BACKOFF = duration_option(
    "restart-strategy.exponential-delay.initial-backoff", "1 s", "Delay before the first restart.", minimum_ms=1
)
EXPONENTIAL_DELAY_MAX_BACKOFF = duration_option(
    "restart-strategy.exponential-delay.max-backoff", "1 min", "Maximum delay before a restart.", minimum_ms=1
)
EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = float_option(
    "restart-strategy.exponential-delay.backoff-multiplier",
    1.5,
    "Factor by which the delay grows with each failure.",
    minimum=1.0,
)
EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = duration_option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    "1 h",
    "Time without a failure after which the delay is reset to the initial delay.",
)
EXPONENTIAL_DELAY_JITTER_FACTOR = float_option(
    "restart-strategy.exponential-delay.jitter-factor",
    0.1,
    "Random variation of the delay in either direction, as a fraction of the delay.",
    minimum=0.0,
    maximum=1.0,
)
EXPONENTIAL_DELAY_ATTEMPTS = int_option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    2_147_483_647,
    "Number of restarts since the last reset of the delay before the job fails.",
    minimum=0,
)
