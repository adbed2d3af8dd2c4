"""How a job executes. Source: org.apache.flink.configuration.ExecutionOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, memory_option, string_option

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
