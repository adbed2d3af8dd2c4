"""The memory that an operator may use in batch mode before it writes to files."""

from __future__ import annotations

from flinkpy.configuration import execution_options, state_backend_options, taskmanager_options
from flinkpy.configuration.options import read_option
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.sort.spill_file import SpillDirectory

#: The memory of an operator over columns if no option sets it.
_COLUMN_OPERATOR_BYTES = 512 << 20


def sorted_inputs_bytes(context: OperatorContext) -> int:
    """Returns the memory for records that wait for the end of an input."""
    return read_option(context.environment.configuration, execution_options.SORTED_INPUTS_MEMORY)


def column_operator_bytes(context: OperatorContext) -> int:
    """Returns the memory of an aggregation or a join over columns."""
    configuration = context.environment.configuration
    configured = read_option(configuration, execution_options.COLUMN_OPERATOR_MEMORY)
    if configured is not None:
        return configured
    managed = read_option(configuration, state_backend_options.MANAGED_MEMORY_SIZE)
    if managed is not None:
        return managed // read_option(configuration, taskmanager_options.NUM_TASK_SLOTS)
    return _COLUMN_OPERATOR_BYTES


def spill_directory(context: OperatorContext) -> SpillDirectory:
    """Returns the spill directory of one operator. It is created when something is spilled."""
    return SpillDirectory(context.environment.state.directory / f"op-{context.operator_id}", context.name)
