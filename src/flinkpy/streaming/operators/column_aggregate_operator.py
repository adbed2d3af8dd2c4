"""ColumnAggregateOperator: keyed COUNT, SUM, MIN, MAX and MEAN over columns, without a Python object per row.

It emits the key columns, then one column per aggregate. In mode UPDATES it emits, after each batch, the new row of
every key of the batch (as Flink's mini-batch does). In mode FINAL it emits one row per key at the end of the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import ColumnAggregateSpec, FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema
from flinkpy.state.aggregate_table import AggregateTable
from flinkpy.state.backend import KeyContext
from flinkpy.streaming.operators.aggregate_inputs import AggregateInputs, require_key_of_columns
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, OperatorStateDescriptor

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: FINAL results are emitted in batches of this many rows.
_MAX_RESULT_ROWS = 65_536

_TABLE_NAME = "aggregates"


#: The schema of the input. A restored table may emit results before the first batch arrives.
_SCHEMA = OperatorStateDescriptor("input-schema")


class ColumnAggregateOperator(KeyedStateOperator):
    """Aggregates into an AggregateTable of the state backend. Thread: task thread."""

    def __init__(
        self,
        spec: ColumnAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        require_key_of_columns(spec.key_selector, context)
        if spec.emit not in ("UPDATES", "FINAL"):
            raise UnsupportedOperationError(
                f"operator {context.name}: emit must be UPDATES or FINAL, not {spec.emit!r}"
            )
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._is_final = spec.emit == "FINAL"
        self._has_emitted_final = False
        self._table: AggregateTable | None = None
        self._inputs: AggregateInputs | None = None
        #: For each slot, the last row of the batch that changed it.
        self._last_row = np.empty(0, dtype=np.int64)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    # -- state ---------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            for stored in self.operator_state.get_union_list_state(_SCHEMA).get():
                # Prefer the declared schema: the program may have another column order now.
                self._set_up(arrow_schema(self._input_type) or pa.ipc.read_schema(pa.py_buffer(stored)))
                break

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        if self._has_emitted_final:
            # The results have been emitted. They must not be emitted again after a recovery.
            return OperatorSnapshot()
        return super().snapshot_state(checkpoint_id, options)

    # -- data ----------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = inserted_columns(batch, self._input_type, self.context.name)
        table = self._table
        if table is None:
            table = self._set_up(columns.schema)
        inputs = self._inputs
        assert inputs is not None
        key_columns = inputs.key_columns(columns)
        slots = table.add(key_columns, inputs.value_columns(columns))
        if not self._is_final:
            self._emit_touched(batch, slots, key_columns, table.size)

    def _set_up(self, schema: pa.Schema) -> AggregateTable:
        """Creates the table when the schema is known: at the first batch or at a restore."""
        selector = self._spec.key_selector
        assert isinstance(selector, FieldKeySelector)
        inputs = AggregateInputs(schema, selector, self._spec.aggregates, self.context.name)
        self._table = self.backend.aggregate_table(_TABLE_NAME, inputs.key_types, inputs.aggregates)
        self.operator_state.get_union_list_state(_SCHEMA).update([schema.serialize().to_pybytes()])
        self._inputs = inputs
        return self._table

    def _emit_touched(self, batch: Batch, slots: np.ndarray, key_columns: list[pa.Array], size: int) -> None:
        """Emits the new row of each key in the batch, in the order of the keys' last records."""
        if len(self._last_row) < size:
            self._last_row = np.empty(max(size, 2 * len(self._last_row)), dtype=np.int64)
        rows = np.arange(len(slots))
        # The last write to a slot stays, so a row that reads its own number there is the last row of its key.
        self._last_row[slots] = rows
        last = rows[self._last_row.take(slots) == rows]
        indices = pa.array(last)
        timestamps = None if batch.timestamps is None else batch.timestamps[last]
        self._emit([column.take(indices) for column in key_columns], slots[last], timestamps)

    def _emit(self, key_columns: list[pa.Array], slots: np.ndarray, timestamps: np.ndarray | None) -> None:
        assert self._table is not None and self._inputs is not None
        columns = key_columns + self._table.results(slots)
        names = self._inputs.key_names + [aggregate.name for aggregate in self._spec.aggregates]
        self.output.emit(Batch(pa.RecordBatch.from_arrays(columns, names=names), timestamps))

    def finish(self) -> None:
        table = self._table
        if self._is_final and table is not None:
            key_columns = table.keys()
            for start in range(0, table.size, _MAX_RESULT_ROWS):
                end = min(start + _MAX_RESULT_ROWS, table.size)
                self._emit([column.slice(start, end - start) for column in key_columns], np.arange(start, end), None)
        self._has_emitted_final = self._is_final
