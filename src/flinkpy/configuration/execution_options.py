"""How a job executes. Source: org.apache.flink.configuration.ExecutionOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, string_option

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
    "ALL_EXCHANGES_PIPELINED",
    "How the tasks of a batch job exchange records. BLOCKING: a task runs when those it reads from have finished, and "
    "what they wrote is kept on disk for it; a job needs no more than one slot. PIPELINED: all tasks run at once. The "
    "hybrid ones are refused.",
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
