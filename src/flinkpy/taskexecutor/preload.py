"""Imports modules that nearly every task needs, after the process has started.

A TaskExecutor reports that it is ready before these imports, because they take longer than the rest of its start. They
save the first task about a tenth of a second.
"""

from __future__ import annotations

import importlib
import logging

logger = logging.getLogger(__name__)

#: Modules that are imported lazily. Found with `python -X importtime` on the first task of a word count.
PRELOADED_MODULES = (
    "flinkpy.network.partitioner",
    "flinkpy.network.record_writer",
    "flinkpy.functions.stream_functions",
    "flinkpy.records.lanes",
    "flinkpy.state.factory",
    "flinkpy.streaming.operators.keyed_process_operator",
    "flinkpy.streaming.operators.reduce_operator",
    "flinkpy.connectors.collection",
    "flinkpy.connectors.print_sink",
    # Imported by `Array.cast` and many other methods of Arrow.
    "pyarrow.compute",
)


def preload() -> None:
    """Imports the modules. Thread: I/O; tasks wait only for a module they need."""
    for name in PRELOADED_MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            # The task that needs it will fail with this error.
            logger.warning("cannot import %s", name, exc_info=True)
