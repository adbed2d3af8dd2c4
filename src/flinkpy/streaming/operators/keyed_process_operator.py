"""KeyedProcessOperator: runs a KeyedProcessFunction, with state and timers.

Source: org.apache.flink.streaming.api.operators.KeyedProcessOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.key_reader import KeyReader
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
        self._read_keys = KeyReader(spec.key_selector, spec.key_type)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[0], self.key_type, self.input_type

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        process = self.function.process_element
        try:
            keys = self._read_keys(rows)
            out, timestamps = process_keyed(process, rows, batch.timestamps, keys, self.process_context)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.emitter.emit(out, timestamps)


def process_keyed(
    process: Callable[..., Any],
    rows: list[Any],
    timestamps: np.ndarray | None,
    keys: list[Any],
    context: Any,
) -> tuple[list[Any], np.ndarray | None]:
    """Calls `process(value, context)` with `context.key` and `context.timestamp_ms` set.

    Args:
        keys: the key of each row.

    Returns:
        All results, and their timestamps (int64, in milliseconds): each result has the timestamp of its input row.
        None if the rows have no timestamps.
    """
    if timestamps is not None:
        return _process_with_timestamps(process, rows, timestamps, keys, context)
    out: list[Any] = []
    context.timestamp_ms = None
    if isgeneratorfunction(process):
        append = out.append
        for context.key, value in zip(keys, rows):
            for result in process(value, context):
                append(result)
        return out, None
    extend = out.extend
    for context.key, value in zip(keys, rows):
        results = process(value, context)
        if results is not None:
            extend(results)
    return out, None


def _process_with_timestamps(
    process: Callable[..., Any],
    rows: list[Any],
    timestamps: np.ndarray,
    keys: list[Any],
    context: Any,
) -> tuple[list[Any], np.ndarray]:
    out: list[Any] = []
    extend = out.extend
    ends: list[int] = []
    for context.key, value, context.timestamp_ms in zip(keys, rows, timestamps.tolist()):
        results = process(value, context)
        if results is not None:
            extend(results)
        ends.append(len(out))
    return out, repeat_timestamps(timestamps, ends)
