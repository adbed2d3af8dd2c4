"""How a job executes. Source: org.apache.flink.configuration.ExecutionOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, memory_option, string_option

RUNTIME_MODE = enum_option(
    "execution.runtime-mode",
    ("STREAMING", "BATCH", "AUTOMATIC"),
    "STREAMING",
    "Whether a job runs as a stream or, its sources being bounded, as a batch.",
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
    "How the tasks of a batch job exchange records. BLOCKING: a task runs when those it reads from have finished, and "
    "what they wrote is kept on disk for it; a job needs no more than one slot. PIPELINED: all tasks run at once. The "
    "hybrid ones are refused.",
)
SORT_INPUTS = bool_option(
    "execution.sorted-inputs.enabled",
    True,
    "Whether operators with keys get their input sorted by key in batch mode. There is no other way: `false` is "
    "refused.",
)
SORTED_INPUTS_MEMORY = memory_option(
    "execution.sorted-inputs.memory",
    "128 mb",
    "Memory of one operator in batch mode for the records that wait until its input is complete; what is more goes to "
    "disk.",
    minimum_bytes=1,
)
USE_BATCH_STATE_BACKEND = bool_option(
    "execution.batch-state-backend.enabled",
    True,
    "Whether operators with keys hold the state of one key at a time in batch mode. There is no other way: `false` is "
    "refused.",
)
COLUMN_OPERATOR_MEMORY = memory_option(
    "execution.batch.column-operator.memory",
    None,
    "Memory of one aggregation or join over columns in batch mode; what is more goes to disk. Unset: the part of "
    "taskmanager.memory.managed.size that is one slot's, and without that 512 mb.",
    minimum_bytes=1,
)
BUFFER_TIMEOUT_ENABLED = bool_option(
    "execution.buffer-timeout.enabled", True, "Whether an unfilled batch is sent on after a while."
)
BUFFER_TIMEOUT = duration_option(
    "execution.buffer-timeout.interval", "100 ms", "Longest time a record waits in a batch; 0 sends after every record."
)
CACHED_STREAM_DIR = string_option(
    "execution.cached-stream.dir",
    None,
    "Where the records of cached streams are kept; every process of the cluster, and the program, must reach it under "
    "this path. By default the temporary directory of the program's host, which does for a cluster on that host.",
)
