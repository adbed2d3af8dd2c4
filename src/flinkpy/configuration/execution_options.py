"""How a job executes. Source: org.apache.flink.configuration.ExecutionOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option

RUNTIME_MODE = enum_option(
    "execution.runtime-mode",
    ("STREAMING", "BATCH", "AUTOMATIC"),
    "STREAMING",
    "Whether a job runs as a stream or, its sources being bounded, as a batch.",
)
BUFFER_TIMEOUT_ENABLED = bool_option(
    "execution.buffer-timeout.enabled", True, "Whether an unfilled batch is sent on after a while."
)
BUFFER_TIMEOUT = duration_option(
    "execution.buffer-timeout.interval", "100 ms", "Longest time a record waits in a batch; 0 sends after every record."
)
