"""Imports what nearly every first task needs while the process has nothing else to do.

A TaskExecutor says that it is ready before it has these, because they take longer than all the rest of its start; the
first task of a job finds them loaded, instead of waiting about a tenth of a second for them.
"""

from __future__ import annotations

import importlib
import logging

from flinkpy.taskexecutor.garbage_collection import tune_garbage_collector

logger = logging.getLogger(__name__)

#: Imported lazily where they are used. Found with `python -X importtime` on the first task of a word count.
_MODULES = (
    "flinkpy.network.partitioner",
    "flinkpy.network.record_writer",
    "flinkpy.datastream.functions",
    "flinkpy.records.lanes",
    "flinkpy.state.factory",
    "flinkpy.streaming.operators.keyed_process_operator",
    "flinkpy.streaming.operators.reduce_operator",
    "flinkpy.connectors.collection",
    "flinkpy.connectors.print_sink",
    # Behind `Array.cast` and many other methods of Arrow.
    "pyarrow.compute",
)


def preload() -> None:
    """Import them all, then tune the garbage collector. Thread: I/O; a task that needs one waits for that one only."""
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            # The task that needs it will fail with this error and say what for.
            logger.warning("%s cannot be imported", name, exc_info=True)
    # Last, so that everything imported is left alone from now on.
    tune_garbage_collector()
