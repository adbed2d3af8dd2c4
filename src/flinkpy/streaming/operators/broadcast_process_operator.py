"""BroadcastProcessOperator and KeyedBroadcastProcessOperator: process a stream together with a broadcast stream.

Input 0 is the stream. Input 1 is the broadcast stream, which every subtask gets completely. Broadcast state is operator
state in mode BROADCAST: the broadcast side writes it, and the other side reads it. The function must make sure that it
is the same in every subtask.

Source: org.apache.flink.streaming.api.operators.co.{CoBroadcastWithNonKeyedOperator,CoBroadcastWithKeyedOperator}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK, Watermark
from flinkpy.streaming.operators.key_reader import KeyReader
from flinkpy.streaming.operators.keyed_process_operator import process_keyed
from flinkpy.streaming.operators.keyed_timer_operator import KeyedProcessContext, KeyedTimerOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.process_operator import process_rows
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    StreamOperator,
    UserFunctionOperator,
)

if TYPE_CHECKING:
    import numpy as np

    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


class ReadOnlyBroadcastState:
    """A read-only view of a broadcast state, for the side that is not broadcast."""

    __slots__ = ("_name", "contains", "get", "is_empty", "items", "keys", "values")

    def __init__(self, name: str, state: Any) -> None:
        self._name = name
        self.get = state.get
        self.contains = state.contains
        self.items = state.items
        self.keys = state.keys
        self.values = state.values
        self.is_empty = state.is_empty

    def _refuse(self, *_: Any) -> None:
        raise UnsupportedOperationError(
            f"broadcast state {self._name!r} is read-only here: change it in process_broadcast_element"
        )

    put = put_all = remove = clear = __setitem__ = __delitem__ = _refuse

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __contains__(self, key: Any) -> bool:
        return bool(self.contains(key))

    def __iter__(self) -> Any:
        return iter(self.keys())


class _BroadcastStates:
    """The broadcast states of one operator, by the names of their descriptors."""

    def __init__(self, operator: StreamOperator, descriptors: tuple[Any, ...]) -> None:
        self._name = operator.context.name
        self._writable = {d.get_name(): operator.operator_state.get_broadcast_state(d) for d in descriptors}
        self._read_only = {name: ReadOnlyBroadcastState(name, state) for name, state in self._writable.items()}

    def writable(self, descriptor: Any) -> Any:
        return self._of(self._writable, descriptor)

    def read_only(self, descriptor: Any) -> ReadOnlyBroadcastState:
        state: ReadOnlyBroadcastState = self._of(self._read_only, descriptor)
        return state

    def _of(self, states: dict[str, Any], descriptor: Any) -> Any:
        state = states.get(descriptor.get_name())
        if state is None:
            raise UnsupportedOperationError(
                f"operator {self._name}: there is no broadcast state {descriptor.get_name()!r}: the stream was "
                f"broadcast with {', '.join(sorted(states))}"
            )
        return state


class _SideContext:
    """The context that a function without keys gets. There is one object per side."""

    __slots__ = ("_clock", "get_broadcast_state", "timestamp_ms", "watermark")

    def __init__(self, clock: ProcessingTimeService, get_broadcast_state: Callable[[Any], Any]) -> None:
        self._clock = clock
        self.get_broadcast_state = get_broadcast_state
        self.timestamp_ms: int | None = None
        self.watermark = MIN_WATERMARK

    def timestamp(self) -> int | None:
        return self.timestamp_ms

    def current_processing_time(self) -> int:
        return self._clock.current_time_ms()

    def current_watermark(self) -> int:
        return self.watermark


class BroadcastProcessOperator(UserFunctionOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: BroadcastProcessSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side, spec.function)
        self._descriptors = spec.descriptors
        self._input_types = input_types
        self._emitter = RowEmitter(output, side)
        self._sides: tuple[_SideContext, _SideContext] | None = None

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        states = _BroadcastStates(self, self._descriptors)
        clock = self.context.processing_time_service
        self._sides = (_SideContext(clock, states.read_only), _SideContext(clock, states.writable))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        assert self._sides is not None
        function = self.function
        process = function.process_broadcast_element if input_index else function.process_element
        self._emitter.emit(
            *_process_side(self.context, process, batch, self._input_types[input_index], self._sides[input_index])
        )

    def process_watermark(self, watermark: Watermark) -> None:
        for side in self._sides or ():
            side.watermark = watermark.timestamp
        super().process_watermark(watermark)


class _KeyedSideContext(KeyedProcessContext):
    """The context that the keyed side and timers get."""

    __slots__ = ("get_broadcast_state",)

    get_broadcast_state: Callable[[Any], Any]

    def current_processing_time(self) -> int:
        return self.service.current_processing_time()

    def current_watermark(self) -> int:
        return self.service.current_watermark()


class KeyedBroadcastProcessOperator(KeyedTimerOperator):
    """Runs a KeyedBroadcastProcessFunction. The keyed side has keyed state and timers; the broadcast side has no key.

    Thread: task thread.
    """

    def __init__(
        self,
        spec: KeyedBroadcastProcessSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        self._keyed_side = _KeyedSideContext()
        super().__init__(spec.function, (spec.key_selector,), spec.key_type, context, output, side, self._keyed_side)
        self._descriptors = spec.descriptors
        self._input_types = input_types
        self._read_keys = KeyReader(spec.key_selector, spec.key_type)
        self._broadcast_side: _SideContext | None = None

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        if input_index:
            return super().key_of_input(input_index)
        return self.key_selectors[0], self.key_type, self._input_types[0]

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        states = _BroadcastStates(self, self._descriptors)
        self._keyed_side.get_broadcast_state = states.read_only
        self._broadcast_side = _SideContext(self.context.processing_time_service, states.writable)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if input_index:
            self._process_broadcast(batch)
            return
        rows = as_rows(batch, self._input_types[0])
        process = self.function.process_element
        try:
            keys = self._read_keys(rows)
            out, timestamps = process_keyed(process, rows, batch.timestamps, keys, self._keyed_side)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.emitter.emit(out, timestamps)

    def _process_broadcast(self, batch: Batch) -> None:
        side = self._broadcast_side
        assert side is not None
        keyed = self._keyed_side
        # Remove the key, so that keyed state raises instead of using the key of the last record.
        if hasattr(keyed, "key"):
            del keyed.key
        try:
            out, timestamps = _process_side(
                self.context, self.function.process_broadcast_element, batch, self._input_types[1], side, keyed
            )
        finally:
            keyed.key = None
        self.emitter.emit(out, timestamps)

    def process_watermark(self, watermark: Watermark) -> None:
        if self._broadcast_side is not None:
            self._broadcast_side.watermark = watermark.timestamp
        super().process_watermark(watermark)


def _process_side(
    context: OperatorContext,
    process: Callable[..., Any],
    batch: Batch,
    input_type: Any,
    side: _SideContext,
    keyless: Any = None,
) -> tuple[list[Any], np.ndarray | None]:
    """Processes the records of one side. `keyless` is the key context whose key has been removed, if any."""
    rows = as_rows(batch, input_type)
    try:
        return process_rows(process, rows, batch.timestamps, side)
    except USER_ERRORS as error:
        if isinstance(error, AttributeError) and keyless is not None and error.obj is keyless and error.name == "key":
            raise context.function_error(
                UnsupportedOperationError(
                    f"operator {context.name}: process_broadcast_element has no key, so it can neither read nor write "
                    "keyed state"
                )
            ) from error
        raise context.function_error(error) from error
