"""ColumnAggregateOperator: keyed COUNT, SUM, MIN, MAX and MEAN over columns, without a Python object per row.

Emits key columns and then one column per aggregate: after each batch, in UPDATES, the new row of every key the batch
touched (as Flink's mini-batch does); in FINAL, one row per key when the input ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.graph.operator_specs import ColumnAggregateSpec, FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.state.accumulators import Accumulator, create_accumulator
from flinkpy.state.key_slots import KeySlots
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

#: FINAL results are emitted in batches of this many rows.
_MAX_RESULT_ROWS = 65_536


class ColumnAggregateOperator(StreamOperator):
    """Thread: task thread. State is held in slots and columns (`flinkpy.state.key_slots`, `accumulators`)."""

    def __init__(
        self,
        spec: ColumnAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        if not isinstance(spec.key_selector, FieldKeySelector):
            raise UnsupportedOperationError(
                f"operator {context.name}: aggregating columns needs a key that is a column: a position or a name"
            )
        if spec.emit not in ("UPDATES", "FINAL"):
            raise UnsupportedOperationError(f"operator {context.name}: emit is UPDATES or FINAL, not {spec.emit!r}")
        self._spec = spec
        self._input_type = input_type
        self._is_final = spec.emit == "FINAL"
        self._keys: KeySlots | None = None
        self._key_positions: list[int] = []
        self._key_names: list[str] = []
        self._value_positions: list[int | None] = []
        self._accumulators: list[Accumulator] = []
        #: Row of the batch that last touched each slot.
        self._last_row = np.empty(0, dtype=np.int64)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kinds is not None and batch.kinds.any():
            raise UnsupportedOperationError(f"operator {self.context.name} takes no updates or deletes, only inserts")
        batch = as_columnar(batch, self._input_type)
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        keys = self._keys
        if keys is None:
            keys = self._set_up(columns.schema)
        key_columns = [columns.column(position) for position in self._key_positions]
        slots = keys.slots_of(key_columns)
        size = keys.size
        for accumulator, position in zip(self._accumulators, self._value_positions):
            accumulator.grow(size)
            accumulator.add(slots, None if position is None else columns.column(position))
        if not self._is_final:
            self._emit_touched(batch, slots, key_columns, size)

    def _set_up(self, schema: pa.Schema) -> KeySlots:
        """At the first batch: now the columns are known."""
        selector = self._spec.key_selector
        assert isinstance(selector, FieldKeySelector)
        self._key_positions = [self._position(schema, field) for field in selector.fields]
        self._key_names = [schema.names[position] for position in self._key_positions]
        for aggregate in self._spec.aggregates:
            position = None if aggregate.column is None else self._position(schema, aggregate.column)
            value_type = None if position is None else schema.types[position]
            self._value_positions.append(position)
            self._accumulators.append(create_accumulator(aggregate.function, value_type))
        self._keys = KeySlots([schema.types[position] for position in self._key_positions])
        return self._keys

    def _position(self, schema: pa.Schema, field: int | str) -> int:
        position = field if isinstance(field, int) else schema.get_field_index(field)
        if not 0 <= position < len(schema.names):
            raise TypeMismatchError(f"operator {self.context.name}: no column {field!r} among {schema.names}")
        return position

    def _emit_touched(self, batch: Batch, slots: np.ndarray, key_columns: list[pa.Array], size: int) -> None:
        """The new row of each key in the batch, in the order of the keys' last records."""
        if len(self._last_row) < size:
            self._last_row = np.empty(max(size, 2 * len(self._last_row)), dtype=np.int64)
        rows = np.arange(len(slots))
        # The last row written stays; so a row that finds itself there is the last of its key.
        self._last_row[slots] = rows
        last = rows[self._last_row.take(slots) == rows]
        indices = pa.array(last)
        timestamps = None if batch.timestamps is None else batch.timestamps[last]
        self._emit([column.take(indices) for column in key_columns], slots[last], timestamps)

    def _emit(self, key_columns: list[pa.Array], slots: np.ndarray, timestamps: np.ndarray | None) -> None:
        columns = key_columns + [accumulator.results(slots) for accumulator in self._accumulators]
        names = self._key_names + [aggregate.name for aggregate in self._spec.aggregates]
        self.output.emit(Batch(pa.RecordBatch.from_arrays(columns, names=names), timestamps))

    def finish(self) -> None:
        if not self._is_final or self._keys is None:
            return
        key_columns = self._keys.keys()
        for start in range(0, self._keys.size, _MAX_RESULT_ROWS):
            end = min(start + _MAX_RESULT_ROWS, self._keys.size)
            self._emit([column.slice(start, end - start) for column in key_columns], np.arange(start, end), None)
