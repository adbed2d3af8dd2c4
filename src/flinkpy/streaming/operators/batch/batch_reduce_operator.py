"""BatchReduceOperator: reduce, sum, min, max, ... in batch mode. Emits one result per key at the end of the input.

Source: org.apache.flink.streaming.api.operators.BatchGroupedReduceOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.graph.operator_specs import KeyedSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.records.key_selection import picked_column
from flinkpy.records.lanes import rows_with_field
from flinkpy.streaming.operators.batch.batch_operator import BatchOperator
from flinkpy.streaming.operators.batch.sorted_input import SortedInput
from flinkpy.streaming.operators.keyed_operator import KeyedOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.rolling_functions import RollingReduce
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.sort.memory import sorted_inputs_bytes, spill_directory
from flinkpy.streaming.sort.row_sizes import size_of

_MAX_RESULT_ROWS = 65_536
#: The estimated size of an entry in the table of results, without the key and the result.
_BYTES_PER_KEY = 100
#: The number of results per batch that are measured to estimate the size of all results.
_SAMPLE = 8


class _Reduced(KeyedOperator):
    """Holds the function, its key selector and its keyed state. It never processes records."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise NotImplementedError("the BatchReduceOperator processes the records")


class BatchReduceOperator(BatchOperator):
    """Reduces a bounded stream. Thread: task thread.

    Records without timestamps are reduced immediately, while the results fit in memory. All other records are sorted by
    key and time, and reduced at the end. The result that a key already has counts as the first record of the key.
    """

    operator: _Reduced

    def __init__(
        self,
        spec: KeyedSpec,
        function: Callable[[Any, Any], Any],
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side, 1)
        self.operator = _Reduced(spec, input_type, context, output, side)
        self._input_type = input_type
        self._reduce = function
        self._key_position = picked_column(spec.key_selector.get_key, spec.key_type, input_type)
        self._reduced: dict[Any, Any] = {}
        self._has_outgrown_memory = False
        self._spills = spill_directory(context)
        self._memory_bytes = sorted_inputs_bytes(context)
        self._sorted = SortedInput(self._spills, self._memory_bytes)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows, keys = self._rows_and_keys(batch)
        try:
            keys = self.operator.read_keys(rows) if keys is None else keys
            if batch.timestamps is not None or self._has_outgrown_memory:
                self._sorted.add(keys, rows, batch, 0)
                return
            self._add(rows, keys)
            if self._reduced_bytes(rows) > self._memory_bytes:
                self._has_outgrown_memory = True
                self._sort_reduced()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def on_end_of_inputs(self) -> None:
        if self._sorted.is_empty:
            self._emit(list(self._reduced.values()))
            return
        self._sort_reduced()
        results: list[Any] = []
        key_context, read_keys = self.operator.key_context, self.operator.read_keys
        for begins_key, _, batch in self._sorted.records():
            rows = as_rows(batch, self._input_type)
            try:
                if begins_key:
                    if len(results) >= _MAX_RESULT_ROWS:
                        self._emit(results)
                        results = []
                    (key_context.key,) = read_keys(rows[:1])
                    results.append(reduce(self._reduce, rows))
                else:
                    results[-1] = reduce(self._reduce, rows, results[-1])
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error
        self._emit(results)

    @property
    def reported_bytes(self) -> int:
        return self._sorted.num_bytes

    def release_memory(self) -> None:
        self._sorted.spill()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._spills.close()

    def _emit(self, results: list[Any]) -> None:
        for start in range(0, len(results), _MAX_RESULT_ROWS):
            rows = results[start : start + _MAX_RESULT_ROWS]
            # The results have the maximum timestamp, like those of a timer at the end of event time.
            self.output.emit(Batch(rows, np.full(len(rows), MAX_WATERMARK, dtype=np.int64)))

    def _rows_and_keys(self, batch: Batch) -> tuple[list[Any], list[Any] | None]:
        """Returns the records, and their keys if these are a column of the batch."""
        if batch.is_columnar and self._key_position is not None:
            rows, keys = rows_with_field(batch, self._input_type, self._key_position)
            return rows, None if None in keys else keys
        return as_rows(batch, self._input_type), None

    def _add(self, rows: list[Any], keys: list[Any]) -> None:
        function, reduced = self._reduce, self._reduced
        key_context = self.operator.key_context
        if isinstance(function, RollingReduce):
            function = function.for_batch(rows)
        for key, value in zip(keys, rows):
            key_context.key = key
            reduced[key] = function(reduced[key], value) if key in reduced else value

    def _reduced_bytes(self, rows: list[Any]) -> int:
        """Estimates the size of all results in bytes, from the results of some of these records' keys."""
        reduced = self._reduced
        sample = self.operator.read_keys(rows[:: max(1, len(rows) // _SAMPLE)])
        sample_bytes = sum(size_of(key) + size_of(reduced[key]) for key in sample)
        return len(reduced) * (_BYTES_PER_KEY + sample_bytes // max(1, len(sample)))

    def _sort_reduced(self) -> None:
        """Moves the results to the sorted input. They have no timestamps, so they come before records that have."""
        reduced, self._reduced = self._reduced, {}
        keys, values = list(reduced), list(reduced.values())
        del reduced
        for start in range(0, len(keys), _MAX_RESULT_ROWS):
            rows = values[start : start + _MAX_RESULT_ROWS]
            self._sorted.add(keys[start : start + _MAX_RESULT_ROWS], rows, Batch(rows), 0)
