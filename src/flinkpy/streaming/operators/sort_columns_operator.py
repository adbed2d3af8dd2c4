"""SortColumnsOperator: sorts the records of a subtask and emits them, or the first of them, at the end of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import SortColumnsSpec
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    OperatorSnapshot,
    OperatorStateDescriptor,
    StreamOperator,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_MAX_RESULT_ROWS = 65_536
#: With a limit, the operator keeps up to this many rows more than the limit before it drops the surplus.
_SPARE_ROWS = 131_072


#: The kept rows: each element is an Arrow batch.
_ROWS = OperatorStateDescriptor("rows")


class SortColumnsOperator(StreamOperator):
    """Keeps all records in memory, or a bounded number if there is a limit. Thread: task thread.

    Records with equal sort keys keep their order of arrival. The results have no timestamps.
    """

    def __init__(
        self,
        spec: SortColumnsSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        schema = arrow_schema(input_type)
        if schema is None:
            raise UnsupportedOperationError(
                f"operator {context.name} sorts columns, so its input needs a declared type"
            )
        self._input_type = input_type
        self._schema = schema
        self._keys = spec.keys
        self._limit = spec.limit
        self._rows: list[pa.RecordBatch] = []
        self._num_rows = 0
        self._has_emitted = False

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            for stored in self.operator_state.get_list_state(_ROWS).get():
                self._add(pa.ipc.open_stream(stored).read_next_batch())

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        if self._has_emitted:
            # The results have been emitted. They must not be emitted again after a recovery.
            return OperatorSnapshot()
        stored = []
        for rows in self._rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_batch(rows)
            stored.append(sink.getvalue().to_pybytes())
        self.operator_state.get_list_state(_ROWS).update(stored)
        return super().snapshot_state(checkpoint_id, options)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._add(inserted_columns(batch, self._input_type, self.context.name))

    def _add(self, columns: pa.RecordBatch) -> None:
        self._rows.append(columns)
        self._num_rows += columns.num_rows
        if self._limit is not None and self._num_rows >= self._limit + _SPARE_ROWS:
            self._rows = self._sorted().to_batches()
            self._num_rows = sum(rows.num_rows for rows in self._rows)

    def _sorted(self) -> pa.Table:
        table = pa.Table.from_batches(self._rows, self._schema)
        columns: dict[str, Any] = {}
        keys = []
        for position, (name, order) in enumerate(self._keys):
            column = table.column(name)
            if column.null_count:
                # False sorts before true, so nulls come first in ascending and last in descending order.
                columns[f"v{position}"] = column.is_valid()
                keys.append((f"v{position}", order))
            columns[f"k{position}"] = _sortable(column)
            keys.append((f"k{position}", order))
        # Arrow's sort is not stable with several keys.
        columns["arrival"] = pa.array(np.arange(table.num_rows))
        indices = pc.sort_indices(pa.table(columns), sort_keys=[*keys, ("arrival", "ascending")])
        return table.take(indices if self._limit is None else indices[: self._limit])

    def finish(self) -> None:
        if self._num_rows:
            for rows in self._sorted().combine_chunks().to_batches(max_chunksize=_MAX_RESULT_ROWS):
                self.output.emit(Batch(rows))
        self._rows, self._num_rows = [], 0
        self._has_emitted = True


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column that sorts NaN after every number, as Java does. Arrow sorts NaN with the nulls."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    bits = (np.where(numbers == 0, 0.0, numbers)).view(np.int64)
    ordered = np.where(bits < 0, ~bits ^ np.int64(-(1 << 63)), bits)
    is_nan = np.isnan(numbers)
    return pa.chunked_array([np.where(is_nan, np.iinfo(np.int64).max, ordered)])
