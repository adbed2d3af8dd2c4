"""StreamOperator: the base class of all operators, with their life cycle.

```
   created -> initialize_state -> open -> process_batch / process_element ... -> end_input -> finish -> close
                                                               (failed, canceled) ------------> close
   between two batches, and after finish:  prepare_snapshot_pre_barrier -> snapshot_state
                                           notify_checkpoint_complete, notify_checkpoint_aborted
```

Source: org.apache.flink.streaming.api.operators.StreamOperator.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flinkpy.common.error_text import USER_ERRORS, describe, format_user_traceback, safe_repr, text_of
from flinkpy.common.errors import (
    FlinkError,
    FunctionError,
    StateSerializationError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from flinkpy.streaming.operators.failed_call import failed_call
from flinkpy.streaming.operators.output import Output

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.records.scalar_codecs import ValueMismatch
    from flinkpy.state.backend import KeyContext
    from flinkpy.state.checkpoint_streams import StateSnapshot
    from flinkpy.state.operator_state import OperatorStateBackend
    from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
    from flinkpy.streaming.operators.latency import LatencyStats
    from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
    from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
    from flinkpy.streaming.tasks.environment import TaskEnvironment
    from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The parts of the task that an operator may use."""

    operator_id: str
    name: str
    environment: TaskEnvironment
    mailbox: TaskMailbox
    processing_time_service: ProcessingTimeService
    metrics: OperatorMetricGroup

    @property
    def is_batch_mode(self) -> bool:
        """True if all inputs are bounded and there are no checkpoints. See `graph.batch_mode`."""
        return self.environment.configuration.get_string("execution.runtime-mode", "STREAMING").upper() == "BATCH"

    def function_error(self, error: BaseException, name: str | None = None) -> FlinkError:
        """Returns the error that leaves the task.

        A FlinkError is returned as it is, but errors about a key or a state value get the name of the operator. Any
        other error becomes a FunctionError that names the operator.
        """
        details = {"task": self.environment.task_name, "operator": name or self.name}
        if isinstance(error, FlinkError):
            if _needs_operator(error):
                error.message = f"{self.environment.task_name}, operator {name or self.name}: {error.message}"
                error.details.update(details)
                error.remote_traceback = format_user_traceback(error) if _is_in_user_code(error) else ""
            return error
        what = f"{describe(error)}{_hint(error)}"
        if call := failed_call(error):
            details["call"] = call
            what += f", in {call}"
        return FunctionError(
            f"{self.environment.task_name}, operator {name or self.name}: {what}",
            details=details,
            remote_traceback=format_user_traceback(error),
        )

    def type_error(self, mismatch: ValueMismatch, record: Any) -> TypeMismatchError:
        """Returns the error for a result that does not fit the declared type of the operator's results."""
        value, record_text = safe_repr(mismatch.value), safe_repr(record)
        place = f"field {mismatch.path} of {record_text}, {value}" if mismatch.path else value
        reason = f" ({mismatch.reason})" if mismatch.reason else ""
        return TypeMismatchError(
            f"{self.environment.task_name}, operator {self.name}: {place} ({type(mismatch.value).__name__}) "
            f"is not a {mismatch.type_info!r}, the declared type of the function's results{reason}",
            details={
                "task": self.environment.task_name,
                "operator": self.name,
                "field": mismatch.path,
                "value": value,
                "record": record_text,
                "declared_type": repr(mismatch.type_info),
            },
        )


def _needs_operator(error: FlinkError) -> bool:
    """True for errors about a key or a state value. The code that raises them does not know the operator."""
    is_about_key = isinstance(error, TypeMismatchError) and "key" in error.details
    return (is_about_key or isinstance(error, StateSerializationError)) and "operator" not in error.details


#: (part of an error text, hint). The runtime raises these errors when a user function returned a wrong kind of value.
_HINTS = (
    ("object is not iterable", "a function with any number of results must yield them or return an iterable"),
    ("unhashable type", "a map key must be hashable: use a tuple instead of a list or dict"),
    ("has no attribute 'is_fire'", "the methods of a Trigger must return a TriggerResult"),
)


def _is_runtime(file: str) -> bool:
    return "/flinkpy/" in file.replace("\\", "/") or file.startswith("<flinkpy")


def _is_in_user_code(error: BaseException) -> bool:
    return any(not _is_runtime(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def _hint(error: BaseException) -> str:
    """Returns a hint for an error that flinkpy's own code raised because of a function's return value, else ''."""
    if not isinstance(error, (TypeError, AttributeError)):
        return ""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not _is_runtime(frames[-1][0].f_code.co_filename):
        return ""
    text = text_of(error)
    return next((f" ({hint})" for symptom, hint in _HINTS if symptom in text), "")


@dataclass(frozen=True, slots=True)
class OperatorStateDescriptor:
    """Describes a state of the operator itself. State names are per operator, so user functions cannot access it.

    Attributes:
        key_context: holds the key of the state; None for the key context of the user functions' state.
    """

    name: str
    type_info: Any = None
    key_context: KeyContext | None = None
    ttl_config: None = None

    def get_name(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """The state of one operator, frozen. Source: org.apache.flink.streaming.api.operators.OperatorSnapshotFutures."""

    keyed: StateSnapshot[checkpoint_pb2.KeyedStateHandle] | None = None
    operator: StateSnapshot[checkpoint_pb2.OperatorStateHandle] | None = None

    def release(self) -> None:
        if self.keyed is not None:
            self.keyed.release()
        if self.operator is not None:
            self.operator.release()


#: Returns the state to restore for an operator id, or None if there is none.
RestoredStates = Callable[[str], "checkpoint_pb2.OperatorSubtaskState | None"]


class StreamOperator(ABC):
    """Processes batches of records and control elements.

    Thread: task thread.

    Attributes:
        output: the main output.
        side_outputs: the side outputs by tag id. Tags without consumers are missing.
        checkpoint_timestamp_ms: the trigger time of the checkpoint whose snapshot is being taken.
    """

    #: The inputs whose watermarks do not hold back that of the operator.
    inputs_without_watermarks: ClassVar[tuple[int, ...]] = ()
    checkpoint_timestamp_ms = 0
    _operator_state: OperatorStateBackend | None = None
    _latency_stats: LatencyStats | None = None
    _restored: checkpoint_pb2.OperatorSubtaskState | None = None

    def __init__(self, context: OperatorContext, output: Output, side_outputs: dict[str, Output]) -> None:
        self.context = context
        self.output = output
        self.side_outputs = side_outputs
        #: The watermark of the input, combined over all channels and inputs.
        self.current_watermark = -(1 << 63)
        #: The last watermark that was emitted.
        self.current_output_watermark = -(1 << 63)
        #: True while nothing downstream waits for the watermark of this operator.
        self.is_output_idle = False

    # -- state ---------------------------------------------------------------------------------------------------

    def restore(self, states: RestoredStates) -> None:
        """Calls `initialize_state` with the restored state of this operator, or of each operator that it runs."""
        self.initialize_state(states(self.context.operator_id))

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        """Creates the state, from `restored` if it is given. Called once, before `open`.

        Raises: StateRestoreError, StateMigrationError, CorruptStateError; FunctionError if a user function raised.
        """
        self._restored = restored

    @property
    def operator_state(self) -> OperatorStateBackend:
        """The operator state of this subtask. Created on first use, from the restored state."""
        backend = self._operator_state
        if backend is None:
            from flinkpy.state.operator_state import OperatorStateBackend

            restored = () if self._restored is None else tuple(self._restored.operator)
            backend = OperatorStateBackend(restored, self.context.environment.state.files, self.context.name)
            self._operator_state = backend
        return backend

    @property
    def task_state(self) -> OperatorStateBackend:
        """The state of the task itself. Only used on the head of a chain."""
        return self.operator_state

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emits everything that must leave before the barrier of this checkpoint."""
        return

    def snapshots(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> dict[str, OperatorSnapshot]:
        """Returns the snapshot of each operator by its id. If it raises, it releases the snapshots taken so far."""
        return {self.context.operator_id: self.snapshot_state(checkpoint_id, options)}

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        """Freezes the current state. Subclasses first write the state that they keep elsewhere to `operator_state`."""
        return OperatorSnapshot(operator=self.snapshot_operator_state(checkpoint_id, options))

    def snapshot_operator_state(
        self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions
    ) -> StateSnapshot[checkpoint_pb2.OperatorStateHandle] | None:
        """Freezes the operator state. Restored state that was never read stays part of the snapshot."""
        if self._operator_state is None and (self._restored is None or not self._restored.operator):
            return None
        return self.operator_state.snapshot(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handles a completed checkpoint: a recovery now would restore it. An error fails the task."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        """Returns (key selector, key type, record type) of an input. The selector is None if the input has no keys."""
        return None, None, None

    # -- data ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Prepares for the first batch. Operators further down the chain are already open."""
        return

    @abstractmethod
    def process_batch(self, batch: Batch, input_index: int = 0) -> None: ...

    def after_batch(self, num_records: int) -> None:
        """Called after each batch of the input, and only on the head of a chain."""
        return

    def process_element(self, element: Element) -> None:
        """Processes a control element, which is already combined over all channels and inputs."""
        if isinstance(element, Watermark):
            self.current_watermark = element.timestamp
            self.process_watermark(element)
        elif isinstance(element, WatermarkStatus):
            self.emit_to_all(element)
        elif isinstance(element, CheckpointBarrier | EndOfData | EndOfPartition):
            raise UnsupportedOperationError(f"{type(element).__name__} does not pass through operators")
        else:
            if isinstance(element, LatencyMarker):
                self.latency_stats.report(element)
            self.emit_to_all(element)

    @property
    def latency_stats(self) -> LatencyStats:
        stats = self._latency_stats
        if stats is None:
            from flinkpy.streaming.operators.latency import LatencyStats

            stats = self._latency_stats = LatencyStats(self.context)
        return stats

    def process_watermark(self, watermark: Watermark) -> None:
        """Fires timers and windows that the watermark makes due, then emits the watermark."""
        self.emit_to_all(watermark)

    def emit_to_all(self, element: Element) -> None:
        """Emits the element to the main output and all side outputs."""
        if isinstance(element, Watermark):
            self.current_output_watermark = element.timestamp
        elif isinstance(element, WatermarkStatus):
            self.is_output_idle = element.is_idle
        self.output.emit_element(element)
        for output in self.side_outputs.values():
            output.emit_element(element)

    def end_input(self, input_index: int) -> None:
        """Handles the end of one input. Other inputs may still have records."""
        return

    def finish(self) -> None:
        """Emits all records still held back, after the end of all inputs. Not called after a failure."""
        return

    def close(self) -> None:
        """Releases all resources. Called exactly once, also after a failure in `open`."""
        return

    def handle_operator_event(self, event: Any) -> None:
        """Handles an event from this operator's coordinator."""
        raise UnsupportedOperationError(f"operator {self.context.name} takes no operator events, got {event!r}")

    @property
    def reported_bytes(self) -> int:
        """The size of the operator's data in memory, as far as it is known. Thread: any."""
        return 0

    def release_memory(self) -> None:
        """Writes to files what can be there, because the process is short of memory. Called between two batches."""
        return

    @property
    def num_fired_timers(self) -> int:
        """The number of timers of the user's functions and of windows that have fired. Any thread."""
        return 0

    @property
    def is_writable(self) -> bool:
        """False if the operator is full, so that the task must not pass it more batches now."""
        return True

    @property
    def max_batch_rows(self) -> int | None:
        """The maximum number of records per batch, for operators that keep the records; None if there is no limit."""
        return None

    @property
    def is_drained(self) -> bool:
        """False while results of processed records are still to come by mail. The task calls `finish` after them."""
        return True

    @property
    def has_finished(self) -> bool:
        """False if work is still running after `finish`. The mailbox is woken when it is done."""
        return True

    def suspend(self) -> None:
        """Called when a savepoint that stops the job, without drain, is complete. No record follows."""
        return

    @property
    def is_suspended(self) -> bool:
        """False while work that `suspend` began is running. The mailbox is woken when it is done."""
        return True


class UserFunctionOperator(StreamOperator):
    """An operator that runs a user function. Opens it with a RuntimeContext and closes it once."""

    def __init__(
        self, context: OperatorContext, output: Output, side_outputs: dict[str, Output], function: Any
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.function = function

    def create_runtime_context(self) -> StreamingRuntimeContext:
        from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext

        return StreamingRuntimeContext(self.context)

    def checkpointed_functions(self) -> list[Any]:
        """Returns the user objects of this operator that may take part in checkpoints."""
        return [self.function]

    def keyed_state_store(self) -> Any:
        """Returns the object that functions get keyed state from, or None if the operator is not keyed."""
        return None

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        initialize_functions(self, self.checkpointed_functions(), self.keyed_state_store())

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        snapshot_functions(self, self.checkpointed_functions(), checkpoint_id)
        return super().snapshot_state(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        functions = self.checkpointed_functions()
        call_functions(functions, "notify_checkpoint_complete", checkpoint_id, self.context)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        functions = self.checkpointed_functions()
        call_functions(functions, "notify_checkpoint_aborted", checkpoint_id, self.context)

    def open(self) -> None:
        open_function(self.function, self.create_runtime_context(), self.context, self.context.name)

    def close(self) -> None:
        close_function(self.function, self.context, self.context.name)


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
    """Calls `method` of each function that has it. Functions need not inherit from an interface.

    Source: org.apache.flink.streaming.util.functions.StreamingFunctionUtils.

    Raises: FunctionError, which names the operator and the method.
    """
    for function in functions:
        call = getattr(function, method, None)
        if call is None:
            continue
        try:
            call(argument)
        except USER_ERRORS as error:
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


def initialize_functions(operator: StreamOperator, functions: list[Any], keyed_state_store: Any = None) -> None:
    argument = StateInitializationContext(operator, keyed_state_store)
    call_functions(functions, "initialize_state", argument, operator.context)


def snapshot_functions(operator: StreamOperator, functions: list[Any], checkpoint_id: int) -> None:
    argument = StateSnapshotContext(checkpoint_id, operator.checkpoint_timestamp_ms)
    call_functions(functions, "snapshot_state", argument, operator.context)


def open_function(function: Any, runtime_context: Any, context: OperatorContext, name: str) -> None:
    """Calls `function.open` if it exists. Raises: the error that `context.function_error` makes of a failure."""
    opener = getattr(function, "open", None)
    if opener is None:
        return
    try:
        opener(runtime_context)
    except USER_ERRORS as error:
        raise context.function_error(error, name) from error


def close_function(function: Any, context: OperatorContext, name: str) -> None:
    closer = getattr(function, "close", None)
    if closer is None:
        return
    try:
        closer()
    except USER_ERRORS as error:
        raise context.function_error(error, name) from error
