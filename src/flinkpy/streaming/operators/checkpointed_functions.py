"""Calls the checkpoint methods of user functions. A function takes part if it has the method; it inherits nothing.

Source: org.apache.flink.streaming.util.functions.StreamingFunctionUtils.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import describe, format_user_traceback
from flinkpy.common.errors import FlinkError, FunctionError, UnsupportedOperationError

if TYPE_CHECKING:
    from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

#: The same as in `flinkpy.common.error_text`.
_USER_ERRORS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)


class StateInitializationContext:
    """The context that a function's `initialize_state` gets."""

    def __init__(self, operator: StreamOperator, keyed_state_store: Any = None) -> None:
        self._operator = operator
        self._keyed = keyed_state_store

    def is_restored(self) -> bool:
        return self.get_restored_checkpoint_id() is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._operator.context.environment.state.restored_checkpoint_id

    def get_operator_state_store(self) -> Any:
        return self._operator.operator_state

    def get_keyed_state_store(self) -> Any:
        if self._keyed is None:
            raise UnsupportedOperationError(
                f"operator {self._operator.context.name}: keyed state needs a keyed stream: call key_by first"
            )
        return self._keyed


class StateSnapshotContext:
    """The context that a function's `snapshot_state` gets."""

    __slots__ = ("_checkpoint_id", "_timestamp_ms")

    def __init__(self, checkpoint_id: int, timestamp_ms: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._timestamp_ms = timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp_ms


_METHODS = ("initialize_state", "snapshot_state", "notify_checkpoint_complete", "notify_checkpoint_aborted")


def has_checkpoint_methods(function: Any) -> bool:
    return any(hasattr(function, method) for method in _METHODS)


def call_functions(functions: Iterable[Any], method: str, argument: Any, context: OperatorContext) -> None:
    """Calls `method` of each function that has it. Raises: FunctionError, which names the operator and the method."""
    for function in functions:
        call = getattr(function, method, None)
        if call is None:
            continue
        try:
            call(argument)
        except _USER_ERRORS as error:
            raise _method_error(error, function, method, context) from error


def _method_error(error: BaseException, function: Any, method: str, context: OperatorContext) -> FlinkError:
    if isinstance(error, FlinkError):
        return error
    task = context.environment.task_name
    return FunctionError(
        f"{task}, operator {context.name}: {type(function).__name__}.{method}: {describe(error)}",
        details={"task": task, "operator": context.name, "method": method},
        remote_traceback=format_user_traceback(error),
    )
