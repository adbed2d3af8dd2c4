"""How batch jobs adapt to their data and to slow or lost processes.

Source: org.apache.flink.configuration.{BatchExecutionOptions,SlowTaskDetectorOptions,JobEventStoreOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, float_option, int_option, memory_option

AUTO_PARALLELISM_ENABLED = bool_option(
    "execution.batch.adaptive.auto-parallelism.enabled",
    True,
    "Whether operators of a batch job that set no parallelism of their own get it from how much data there is.",
)
AUTO_PARALLELISM_MIN = int_option(
    "execution.batch.adaptive.auto-parallelism.min-parallelism",
    1,
    "The least parallelism that is decided, where there may be so much.",
    minimum=1,
    maximum=32768,
)
AUTO_PARALLELISM_MAX = int_option(
    "execution.batch.adaptive.auto-parallelism.max-parallelism",
    None,
    "The most that is decided. Unset: the parallelism that the environment gives to operators without one.",
    minimum=1,
    maximum=32768,
)
AUTO_PARALLELISM_DATA_VOLUME = memory_option(
    "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task",
    "16 mb",
    "How much data one task is expected to read, as stored between the tasks.",
    minimum_bytes=1,
)
AUTO_PARALLELISM_SOURCES = int_option(
    "execution.batch.adaptive.auto-parallelism.default-source-parallelism",
    None,
    "The parallelism of sources without one, or the most of it where a source knows how many splits it has. Unset: as "
    "execution.batch.adaptive.auto-parallelism.max-parallelism.",
    minimum=1,
    maximum=32768,
)

SPECULATIVE_ENABLED = bool_option(
    "execution.batch.speculative.enabled",
    False,
    "Whether a slow task of a batch job is attempted a second time elsewhere; the attempt that finishes first counts.",
)
SPECULATIVE_MAX_ATTEMPTS = int_option(
    "execution.batch.speculative.max-concurrent-executions",
    2,
    "How many attempts of one task may run at once, the first one included.",
    minimum=1,
)
BLOCK_SLOW_NODE_DURATION = duration_option(
    "execution.batch.speculative.block-slow-node-duration",
    "1 min",
    "How long the host of a slow task gets no attempts of slow tasks.",
)
SLOW_TASK_CHECK_INTERVAL = duration_option(
    "slow-task-detector.check-interval", "1 s", "How often slow tasks are looked for.", minimum_ms=1
)
SLOW_TASK_BASELINE_LOWER_BOUND = duration_option(
    "slow-task-detector.execution-time.baseline-lower-bound", "1 min", "No task that ran for less than this is slow."
)
SLOW_TASK_BASELINE_RATIO = float_option(
    "slow-task-detector.execution-time.baseline-ratio",
    0.75,
    "The part of a vertex's tasks that must have finished before others of it can be slow.",
    minimum=0,
    maximum=1,
)
SLOW_TASK_BASELINE_MULTIPLIER = float_option(
    "slow-task-detector.execution-time.baseline-multiplier",
    1.5,
    "A task is slow that runs for more than this many times the median of those that finished.",
    minimum=0,
)

JOB_RECOVERY_ENABLED = bool_option(
    "execution.batch.job-recovery.enabled",
    False,
    "Whether a batch job goes on with what its finished tasks have produced when its JobMaster is lost.",
)
JOB_RECOVERY_WORKER_TIMEOUT = duration_option(
    "execution.batch.job-recovery.previous-worker.recovery.timeout",
    "30 s",
    "How long a new JobMaster waits for the TaskExecutors that hold results of the job, and they for it.",
)
JOB_RECOVERY_SNAPSHOT_MIN_PAUSE = duration_option(
    "execution.batch.job-recovery.snapshot.min-pause",
    "3 min",
    "The least time between two snapshots of an operator coordinator for the recovery of a job.",
)
EVENT_STORE_BUFFER_SIZE = memory_option(
    "job-event.store.write-buffer.size", "1 mb", "Job events that wait to be written at most; then they are written."
)
EVENT_STORE_FLUSH_INTERVAL = duration_option(
    "job-event.store.write-buffer.flush-interval", "1 s", "How long a job event waits to be written at most."
)
