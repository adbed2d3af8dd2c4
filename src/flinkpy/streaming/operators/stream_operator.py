"""StreamOperator: the life cycle and inputs every operator has.

```
   created -> initialize_state -> open -> process_batch / process_element ... -> end_input -> finish -> close
                                                                 (failure, cancel) ------------> close
   between two batches, and after finish:  prepare_snapshot_pre_barrier -> snapshot_state
                                           notify_checkpoint_complete, notify_checkpoint_aborted
```

Source: org.apache.flink.streaming.api.operators.StreamOperator.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from flinkpy.streaming.operators.checkpointed_functions import (
    StateInitializationContext,
    StateSnapshotContext,
    call_functions,
)
from flinkpy.streaming.operators.failed_call import failed_call
from flinkpy.streaming.operators.output import Output

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.records.scalar_codecs import ValueMismatch
    from flinkpy.state.operator_state import OperatorStateBackend
    from flinkpy.state.snapshot import StateSnapshot
    from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
    from flinkpy.streaming.operators.latency import LatencyStats
    from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
    from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
    from flinkpy.streaming.tasks.environment import TaskEnvironment
    from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator may use of its task."""

    operator_id: str
    name: str
    environment: TaskEnvironment
    mailbox: TaskMailbox
    processing_time_service: ProcessingTimeService
    metrics: OperatorMetricGroup

    def function_error(self, error: BaseException, name: str | None = None) -> FlinkError:
        """`error` as it leaves the task: a typed error is passed on as it is, any other names the operator."""
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
        """The error of a result that does not fit the type that was declared for the operator's results."""
        value, record_text = safe_repr(mismatch.value), safe_repr(record)
        place = f"field {mismatch.path} of {record_text}, {value}" if mismatch.path else value
        reason = f" ({mismatch.reason})" if mismatch.reason else ""
        return TypeMismatchError(
            f"{self.environment.task_name}, operator {self.name}: {place} ({type(mismatch.value).__name__}) "
            f"is not a {mismatch.type_info!r}, the declared type of what its function gives{reason}",
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
    """True for errors about a key or a value of state, which are raised where the operator is not known."""
    is_about_key = isinstance(error, TypeMismatchError) and "key" in error.details
    return (is_about_key or isinstance(error, StateSerializationError)) and "operator" not in error.details


#: What the runtime stumbles over where a function gave something else than it should, and what to tell its author.
_HINTS = (
    ("object is not iterable", "a function that gives any number of records has to yield them or return an iterable"),
    ("unhashable type", "a key of a map has to be hashable, such as a tuple in place of a list or dict"),
    ("has no attribute 'is_fire'", "the methods of a Trigger have to return a TriggerResult"),
)


def _is_runtime(file: str) -> bool:
    return "/flinkpy/" in file.replace("\\", "/") or file.startswith("<flinkpy")


def _is_in_user_code(error: BaseException) -> bool:
    return any(not _is_runtime(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def _hint(error: BaseException) -> str:
    """For errors that come up in flinkpy itself because of what a function has returned."""
    if not isinstance(error, (TypeError, AttributeError)):
        return ""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not _is_runtime(frames[-1][0].f_code.co_filename):
        return ""
    text = text_of(error)
    return next((f" ({hint})" for symptom, hint in _HINTS if symptom in text), "")


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


#: Operator id -> what is restored of it; None where there is nothing.
RestoredStates = Callable[[str], "checkpoint_pb2.OperatorSubtaskState | None"]


class StreamOperator(ABC):
    """Thread: task thread.

    Attributes:
        output: the main output.
        side_outputs: by tag id; only tags that somebody consumes.
        checkpoint_timestamp_ms: when the checkpoint was triggered whose snapshot is being taken.
    """

    checkpoint_timestamp_ms = 0
    _operator_state: OperatorStateBackend | None = None
    _latency_stats: LatencyStats | None = None
    _restored: checkpoint_pb2.OperatorSubtaskState | None = None

    def __init__(self, context: OperatorContext, output: Output, side_outputs: dict[str, Output]) -> None:
        self.context = context
        self.output = output
        self.side_outputs = side_outputs
        #: Watermark of the input, after combining channels and inputs.
        self.current_watermark = -(1 << 63)

    # -- state ---------------------------------------------------------------------------------------------------

    def restore(self, states: RestoredStates) -> None:
        """`initialize_state` with what is restored, of this operator or of each one it runs in its stead."""
        self.initialize_state(states(self.context.operator_id))

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        """Make the state, from `restored` where that is given. Called once, before `open`.

        Raises: StateRestoreError, StateMigrationError, CorruptStateError, FunctionError (a user function raised).
        """
        self._restored = restored

    @property
    def operator_state(self) -> OperatorStateBackend:
        """State of this subtask; made when it is first asked for, with what was restored in it."""
        backend = self._operator_state
        if backend is None:
            from flinkpy.state.operator_state import OperatorStateBackend

            restored = () if self._restored is None else tuple(self._restored.operator)
            backend = OperatorStateBackend(restored, self.context.environment.state.files, self.context.name)
            self._operator_state = backend
        return backend

    @property
    def task_state(self) -> OperatorStateBackend:
        """For what the task itself keeps; used on the head of a chain only."""
        return self.operator_state

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """The last moment to emit something before the barrier does."""
        return

    def snapshots(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> dict[str, OperatorSnapshot]:
        """`snapshot_state` by operator id. Where it raises, everything it had frozen is released."""
        return {self.context.operator_id: self.snapshot_state(checkpoint_id, options)}

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        """Freeze the state as it is now. A subclass puts what it keeps elsewhere into `operator_state` first."""
        return OperatorSnapshot(operator=self.snapshot_operator_state(checkpoint_id, options))

    def snapshot_operator_state(
        self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions
    ) -> StateSnapshot[checkpoint_pb2.OperatorStateHandle] | None:
        """Restored state that nobody has asked for stays part of it."""
        if self._operator_state is None and (self._restored is None or not self._restored.operator):
            return None
        return self.operator_state.snapshot(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """It will be restored from if a failure comes now. An error fails the task."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        """(key selector, type of the key, type of the records); no selector where that input has no keys."""
        return None, None, None

    # -- data ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Before the first batch. Operators further down the chain are open already."""
        return

    @abstractmethod
    def process_batch(self, batch: Batch, input_index: int = 0) -> None: ...

    def after_batch(self, num_records: int) -> None:
        """A batch of the input has been processed. Only the head of a chain is told."""
        return

    def process_element(self, element: Element) -> None:
        """A control element, already combined over channels and inputs."""
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
        """Fire what the watermark makes due, then hand it on."""
        self.emit_to_all(watermark)

    def emit_to_all(self, element: Element) -> None:
        """To the main and all side outputs."""
        self.output.emit_element(element)
        for output in self.side_outputs.values():
            output.emit_element(element)

    def end_input(self, input_index: int) -> None:
        """That input is at its end; more may come from others."""
        return

    def finish(self) -> None:
        """All inputs are at their end: emit what is still held back. Not called after a failure."""
        return

    def close(self) -> None:
        """Release everything; called exactly once, also after a failure in `open`."""
        return

    def handle_operator_event(self, event: Any) -> None:
        """An event of this operator's coordinator."""
        raise UnsupportedOperationError(f"operator {self.context.name} takes no operator events, got {event!r}")

    @property
    def is_writable(self) -> bool:
        """False: the task must give this operator no more batches now (it is full)."""
        return True

    @property
    def max_batch_rows(self) -> int | None:
        """The most records it wants at once, as it keeps them; None: it does not matter."""
        return None

    @property
    def is_drained(self) -> bool:
        """False: results of records it was given are still to come, by mail; `finish` comes after them."""
        return True

    @property
    def has_finished(self) -> bool:
        """False after `finish`: something is still under way; the mailbox is woken when it is done."""
        return True


class UserFunctionOperator(StreamOperator):
    """An operator around a user function object: opens it with a RuntimeContext and closes it once."""

    def __init__(
        self, context: OperatorContext, output: Output, side_outputs: dict[str, Output], function: Any
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.function = function

    def create_runtime_context(self) -> StreamingRuntimeContext:
        from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext

        return StreamingRuntimeContext(self.context)

    def checkpointed_functions(self) -> list[Any]:
        """The user's objects in this operator that may take part in checkpoints."""
        return [self.function]

    def keyed_state_store(self) -> Any:
        """What functions get keyed state from; None without keys."""
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


def initialize_functions(operator: StreamOperator, functions: list[Any], keyed_state_store: Any = None) -> None:
    argument = StateInitializationContext(operator, keyed_state_store)
    call_functions(functions, "initialize_state", argument, operator.context)


def snapshot_functions(operator: StreamOperator, functions: list[Any], checkpoint_id: int) -> None:
    argument = StateSnapshotContext(checkpoint_id, operator.checkpoint_timestamp_ms)
    call_functions(functions, "snapshot_state", argument, operator.context)


def open_function(function: Any, runtime_context: Any, context: OperatorContext, name: str) -> None:
    """Call `function.open` where it has one; a failure names the operator."""
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
