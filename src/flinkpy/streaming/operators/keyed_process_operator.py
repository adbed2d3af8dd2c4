"""KeyedProcessOperator: a KeyedProcessFunction with state and timers.

Source: org.apache.flink.streaming.api.operators.KeyedProcessOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.key_getter import key_getter
from flinkpy.streaming.operators.keyed_timer_operator import KeyedTimerOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.process_operator import repeat_timestamps
from flinkpy.streaming.operators.stream_operator import OperatorContext

if TYPE_CHECKING:
    from flinkpy.graph.operator_specs import KeyedProcessSpec


class KeyedProcessOperator(KeyedTimerOperator):
    def __init__(
        self, spec: KeyedProcessSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(spec.function, (spec.key_selector,), spec.key_type, context, output, side)
        self.input_type = input_type
        self.get_key = key_getter(spec.key_selector)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[0], self.key_type, self.input_type

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        process = self.function.process_element
        try:
            out, timestamps = process_keyed(process, rows, batch.timestamps, self.get_key, self.process_context)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.emitter.emit(out, timestamps)


def process_keyed(
    process: Callable[..., Any],
    rows: list[Any],
    timestamps: np.ndarray | None,
    get_key: Callable[[Any], Any],
    context: Any,
) -> tuple[list[Any], np.ndarray | None]:
    """Call `process(value, context)` with `context.key` and `context.timestamp_ms` set; all results, and their
    timestamps, which are those of the records (int64, or None where those have none)."""
    if timestamps is not None:
        return _process_with_timestamps(process, rows, timestamps, get_key, context)
    out: list[Any] = []
    context.timestamp_ms = None
    if isgeneratorfunction(process):
        append = out.append
        for value in rows:
            context.key = get_key(value)
            for result in process(value, context):
                append(result)
        return out, None
    extend = out.extend
    for value in rows:
        context.key = get_key(value)
        results = process(value, context)
        if results is not None:
            extend(results)
    return out, None


def _process_with_timestamps(
    process: Callable[..., Any],
    rows: list[Any],
    timestamps: np.ndarray,
    get_key: Callable[[Any], Any],
    context: Any,
) -> tuple[list[Any], np.ndarray]:
    out: list[Any] = []
    extend = out.extend
    ends: list[int] = []
    for value, timestamp in zip(rows, timestamps.tolist()):
        context.timestamp_ms = timestamp
        context.key = get_key(value)
        results = process(value, context)
        if results is not None:
            extend(results)
        ends.append(len(out))
    return out, repeat_timestamps(timestamps, ends)
