"""is_batch_mode: tells operators if their job runs in batch mode."""

from __future__ import annotations

from flinkpy.streaming.operators.stream_operator import OperatorContext


def is_batch_mode(context: OperatorContext) -> bool:
    """True if all inputs are bounded and there are no checkpoints. See `graph.batch_mode`."""
    return context.environment.configuration.get_string("execution.runtime-mode", "STREAMING").upper() == "BATCH"
