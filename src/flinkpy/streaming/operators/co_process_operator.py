"""CoProcessOperator and KeyedCoProcessOperator: run functions of two connected streams.

Source: org.apache.flink.streaming.api.operators.co.{CoProcessOperator,KeyedCoProcessOperator,CoStreamMap,
CoStreamFlatMap}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import CoProcessSpec, KeyedCoProcessSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.key_reader import KeyReader
from flinkpy.streaming.operators.keyed_process_operator import process_keyed
from flinkpy.streaming.operators.keyed_timer_operator import KeyedTimerOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.process_operator import ProcessContext, process_rows
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import OperatorContext, UserFunctionOperator
from flinkpy.streaming.operators.timer_service import UnkeyedTimerService


class CoProcessOperator(UserFunctionOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: CoProcessSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side, spec.function)
        self._input_types = input_types
        self._process = process_methods(spec.function, spec.kind, context)
        self._timer_service = UnkeyedTimerService(context.processing_time_service)
        self._context = ProcessContext(self._timer_service)
        self._emitter = RowEmitter(output, side)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_types[input_index])
        try:
            out, timestamps = process_rows(self._process[input_index], rows, batch.timestamps, self._context)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self._emitter.emit(out, timestamps)

    def process_watermark(self, watermark: Watermark) -> None:
        self._timer_service.watermark = watermark.timestamp
        super().process_watermark(watermark)


class KeyedCoProcessOperator(KeyedTimerOperator):
    """Runs a function of two keyed streams, which share keys, state and timers. Thread: task thread."""

    def __init__(
        self,
        spec: KeyedCoProcessSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(spec.function, tuple(spec.key_selectors), spec.key_type, context, output, side)
        self._input_types = input_types
        self._key_readers = [KeyReader(selector, spec.key_type) for selector in spec.key_selectors]
        self._process = process_methods(spec.function, spec.kind, context)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[input_index], self.key_type, self._input_types[input_index]

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_types[input_index])
        try:
            out, timestamps = process_keyed(
                self._process[input_index],
                rows,
                batch.timestamps,
                self._key_readers[input_index](rows),
                self.process_context,
            )
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.emitter.emit(out, timestamps)


#: The method names for input 0 and input 1, by the `kind` of a spec.
METHODS = {
    "PROCESS": ("process_element1", "process_element2"),
    "MAP": ("map1", "map2"),
    "FLAT_MAP": ("flat_map1", "flat_map2"),
}

#: Takes (value, context), and returns an iterable of results or None.
Process = Callable[[Any, Any], Any]


def process_methods(function: Any, kind: str, context: OperatorContext) -> tuple[Process, Process]:
    """Returns the method for each input, in the form of a process function.

    Source: pyflink.datastream.data_stream.ConnectedStreams.{map,flat_map}. As there, a None result of `map` is dropped.
    """
    methods = METHODS.get(kind)
    if methods is None:
        raise UnsupportedOperationError(f"operator {context.name}: unknown kind {kind!r}")
    first, second = (getattr(function, method) for method in methods)
    if kind == "MAP":
        return _mapping(first), _mapping(second)
    if kind == "FLAT_MAP":
        return _flat_mapping(first), _flat_mapping(second)
    return first, second


def _mapping(call: Callable[[Any], Any]) -> Process:
    def process(value: Any, context: Any) -> Any:
        result = call(value)
        return None if result is None else (result,)

    return process


def _flat_mapping(call: Callable[[Any], Any]) -> Process:
    def process(value: Any, context: Any) -> Any:
        return call(value)

    return process
