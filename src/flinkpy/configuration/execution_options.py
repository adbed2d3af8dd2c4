"""Options of the execution of a job, with those of batch jobs and of column programs.

Source: org.apache.flink.configuration.{ExecutionOptions,BatchExecutionOptions,SlowTaskDetectorOptions,
JobEventStoreOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    float_option,
    int_option,
    memory_option,
    string_option,
)

RUNTIME_MODE = enum_option(
    "execution.runtime-mode",
    ("STREAMING", "BATCH", "AUTOMATIC"),
    "STREAMING",
    "Execute the job as a stream or, if all its sources are bounded, as a batch. AUTOMATIC chooses by the sources.",
)
BATCH_SHUFFLE_MODE = enum_option(
    "execution.batch-shuffle-mode",
    (
        "ALL_EXCHANGES_BLOCKING",
        "ALL_EXCHANGES_PIPELINED",
        "ALL_EXCHANGES_HYBRID_FULL",
        "ALL_EXCHANGES_HYBRID_SELECTIVE",
    ),
    "ALL_EXCHANGES_BLOCKING",
    "How tasks of a batch job exchange records. BLOCKING: a task starts after its producers have finished and reads "
    "their results from disk, so the job needs only one slot. PIPELINED: all tasks run at the same time. The hybrid "
    "modes are refused.",
)
SORT_INPUTS = bool_option(
    "execution.sorted-inputs.enabled",
    True,
    "Sort the input of keyed operators by key in batch mode. `false` is refused.",
)
SORTED_INPUTS_MEMORY = memory_option(
    "execution.sorted-inputs.memory",
    "128 mb",
    "Memory of one batch operator for records that wait for the end of its input. Records that do not fit are "
    "spilled to disk.",
    minimum_bytes=1,
)
USE_BATCH_STATE_BACKEND = bool_option(
    "execution.batch-state-backend.enabled",
    True,
    "Let keyed operators in batch mode hold the state of only one key at a time. `false` is refused.",
)
COLUMN_OPERATOR_MEMORY = memory_option(
    "execution.batch.column-operator.memory",
    None,
    "Memory of one column aggregation or join in batch mode. Data that does not fit is spilled to disk. Default: "
    "one slot's share of `taskmanager.memory.managed.size`, or 512 mb if that is unset.",
    minimum_bytes=1,
)
BUFFER_TIMEOUT_ENABLED = bool_option(
    "execution.buffer-timeout.enabled", True, "Send a partly filled batch after `execution.buffer-timeout.interval`."
)
BUFFER_TIMEOUT = duration_option(
    "execution.buffer-timeout.interval",
    "100 ms",
    "Maximum time that a record waits in a batch. 0 sends each record at once.",
)
CACHED_STREAM_DIR = string_option(
    "execution.cached-stream.dir",
    None,
    "Directory for the records of cached streams. All processes of the cluster and the program must be able to "
    "access it under this path. Default: the temporary directory of the program's host, which suits a cluster on "
    "that host.",
)

AUTO_PARALLELISM_ENABLED = bool_option(
    "execution.batch.adaptive.auto-parallelism.enabled",
    True,
    "Derive the parallelism of batch operators from the amount of data, unless the operator sets its own parallelism.",
)
AUTO_PARALLELISM_MIN = int_option(
    "execution.batch.adaptive.auto-parallelism.min-parallelism",
    1,
    "Lower bound of a derived parallelism. The maximum parallelism of the operator takes precedence.",
    minimum=1,
    maximum=32768,
)
AUTO_PARALLELISM_MAX = int_option(
    "execution.batch.adaptive.auto-parallelism.max-parallelism",
    None,
    "Upper bound of a derived parallelism. Default: the parallelism that the environment gives to operators without "
    "their own.",
    minimum=1,
    maximum=32768,
)
AUTO_PARALLELISM_DATA_VOLUME = memory_option(
    "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task",
    "16 mb",
    "Average amount of data that each task should read, measured as it is stored between tasks.",
    minimum_bytes=1,
)
AUTO_PARALLELISM_SOURCES = int_option(
    "execution.batch.adaptive.auto-parallelism.default-source-parallelism",
    None,
    "Parallelism of sources without their own, or the upper bound of it if the source knows its number of splits. "
    "Default: `execution.batch.adaptive.auto-parallelism.max-parallelism`.",
    minimum=1,
    maximum=32768,
)

SPECULATIVE_ENABLED = bool_option(
    "execution.batch.speculative.enabled",
    False,
    "Start a second attempt of a slow batch task on another host. The attempt that finishes first is used.",
)
SPECULATIVE_MAX_ATTEMPTS = int_option(
    "execution.batch.speculative.max-concurrent-executions",
    2,
    "Maximum number of attempts of one task that run at the same time, including the first.",
    minimum=1,
)
BLOCK_SLOW_NODE_DURATION = duration_option(
    "execution.batch.speculative.block-slow-node-duration",
    "1 min",
    "How long the host of a slow task gets no further attempts of slow tasks.",
)
SLOW_TASK_CHECK_INTERVAL = duration_option(
    "slow-task-detector.check-interval", "1 s", "Interval between two checks for slow tasks.", minimum_ms=1
)
SLOW_TASK_BASELINE_LOWER_BOUND = duration_option(
    "slow-task-detector.execution-time.baseline-lower-bound",
    "1 min",
    "Minimum run time of a task before it can count as slow.",
)
SLOW_TASK_BASELINE_RATIO = float_option(
    "slow-task-detector.execution-time.baseline-ratio",
    0.75,
    "Fraction of a vertex's tasks that must have finished before the remaining ones can count as slow.",
    minimum=0,
    maximum=1,
)
SLOW_TASK_BASELINE_MULTIPLIER = float_option(
    "slow-task-detector.execution-time.baseline-multiplier",
    1.5,
    "A task counts as slow if it runs longer than this multiple of the median run time of the finished tasks.",
    minimum=0,
)

JOB_RECOVERY_ENABLED = bool_option(
    "execution.batch.job-recovery.enabled",
    False,
    "Keep the results of finished tasks if the JobMaster of a batch job is lost, so the job continues from them.",
)
JOB_RECOVERY_WORKER_TIMEOUT = duration_option(
    "execution.batch.job-recovery.previous-worker.recovery.timeout",
    "30 s",
    "How long a new JobMaster waits for the TaskExecutors that hold results of the job, and how long they wait for it.",
)
JOB_RECOVERY_SNAPSHOT_MIN_PAUSE = duration_option(
    "execution.batch.job-recovery.snapshot.min-pause",
    "3 min",
    "Minimum pause between two snapshots of an operator coordinator for the recovery of a batch job.",
)
EVENT_STORE_BUFFER_SIZE = memory_option(
    "job-event.store.write-buffer.size",
    "1 mb",
    "Maximum size of the buffered job events. A full buffer is written to storage.",
)
EVENT_STORE_FLUSH_INTERVAL = duration_option(
    "job-event.store.write-buffer.flush-interval",
    "1 s",
    "Maximum time that a job event stays in the buffer before it is written to storage.",
)

COLUMN_OPTIMIZER_ENABLED = bool_option(
    "execution.columns.optimizer.enabled",
    True,
    "Optimize column programs so that they process less data: push projections and predicates into sources and, in "
    "batch mode, fuse selections and aggregate by key before exchanges.",
)
