"""CoProcessOperator and KeyedCoProcessOperator: run functions of two connected streams.

Source: org.apache.flink.streaming.api.operators.co.{CoProcessOperator,KeyedCoProcessOperator,CoStreamMap,
CoStreamFlatMap}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
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
from flinkpy.streaming.operators.two_inputs import process_methods

if TYPE_CHECKING:
    pass


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
