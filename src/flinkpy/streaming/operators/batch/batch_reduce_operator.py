"""BatchReduceOperator: reduce, sum, min, max, ... in batch mode: one result per key, when the input is complete.

Source: org.apache.flink.streaming.api.operators.BatchGroupedReduceOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from flinkpy.graph.operator_specs import KeyedSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.streaming.operators.batch.batch_operator import BatchOperator
from flinkpy.streaming.operators.keyed_operator import KeyedOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.rolling_functions import RollingReduce
from flinkpy.streaming.operators.stream_operator import USER_ERRORS, OperatorContext

_MAX_RESULT_ROWS = 65_536
_TIMESTAMP = itemgetter(0)


class _Reduced(KeyedOperator):
    """The function, its key selector and the state that it may have of its own."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise NotImplementedError("the records go to the BatchReduceOperator")


class BatchReduceOperator(BatchOperator):
    """Records without timestamps are reduced as they come; others are kept, and reduced in the order of their time.

    Thread: task thread.
    """

    operator: _Reduced

    def __init__(
        self,
        spec: KeyedSpec,
        reduce: Callable[[Any, Any], Any],
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side, 1)
        self.operator = _Reduced(spec, input_type, context, output, side)
        self._input_type = input_type
        self._reduce = reduce
        self._reduced: dict[Any, Any] = {}
        self._by_time: dict[Any, list[tuple[int, Any]]] = {}

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_type)
        try:
            if batch.timestamps is None:
                self._add(rows)
            else:
                get_key, by_time = self.operator.get_key, self._by_time
                for value, timestamp in zip(rows, batch.timestamps.tolist()):
                    by_time.setdefault(get_key(value), []).append((timestamp, value))
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def on_end_of_inputs(self) -> None:
        try:
            for records in self._by_time.values():
                # Stable: records of the same time are reduced in the order they came.
                records.sort(key=_TIMESTAMP)
                self._add([value for _, value in records])
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        results = list(self._reduced.values())
        for start in range(0, len(results), _MAX_RESULT_ROWS):
            rows = results[start : start + _MAX_RESULT_ROWS]
            # As those of a timer at the end of time.
            self.output.emit(Batch(rows, np.full(len(rows), MAX_WATERMARK, dtype=np.int64)))

    def _add(self, rows: list[Any]) -> None:
        reduce, reduced = self._reduce, self._reduced
        get_key, key_context = self.operator.get_key, self.operator.key_context
        if isinstance(reduce, RollingReduce):
            reduce = reduce.for_batch(rows)
        for value in rows:
            key_context.key = key = get_key(value)
            reduced[key] = reduce(reduced[key], value) if key in reduced else value
