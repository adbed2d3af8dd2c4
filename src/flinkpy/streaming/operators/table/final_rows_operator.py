"""FinalRowsOperator: emits the rows of the table that a changelog describes, when the changelog has ended.

Batch mode has no updates. Operators of streaming mode send them also in batch mode; this operator follows them there.
Rows that a change removed are dropped from memory when the changes have doubled since the last time.

Differs: Flink's batch operators aggregate and join sorted or hashed inputs and have no changelog.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import InternalError
from flinkpy.graph.table_specs import FinalRowsSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.row_codes import row_codes
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.order_codes import order_codes
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema, is_addition

#: The number of changes from which on removed rows are looked for before the end.
_MIN_CHANGES = 1 << 20


class FinalRowsOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: FinalRowsSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(spec.output_type)
        self._batches: list[pa.RecordBatch] = []
        self._weights: list[np.ndarray] = []
        self._num_changes = 0
        self._num_kept = 0
        self._watermark: Watermark | None = None

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._weights.append(np.where(is_addition(batch.kinds, batch.num_rows), 1, -1).astype(np.int64))
        self._num_changes += batch.num_rows
        if self._num_changes > max(_MIN_CHANGES, 2 * self._num_kept):
            rows = self._rows()
            self._batches, self._weights = rows.to_batches(), [np.ones(rows.num_rows, dtype=np.int64)]
            self._num_changes = self._num_kept = rows.num_rows

    def process_watermark(self, watermark: Watermark) -> None:
        """Holds the watermark back: all rows are still to come."""
        self._watermark = watermark

    def finish(self) -> None:
        rows = self._rows()
        self._batches, self._weights = [], []
        if not rows.num_rows and self._spec.if_empty is not None:
            columns = [pa.array([value], field.type) for value, field in zip(self._spec.if_empty, self._schema)]
            rows = pa.Table.from_arrays(columns, schema=self._schema)
        if self._spec.order:
            keys = [rows.column(each.column).combine_chunks() for each in self._spec.order]
            rows = rows.take(pa.array(np.argsort(order_codes(keys, self._spec.order), kind="stable")))
        for each in rows.combine_chunks().to_batches():
            emit_columns(self.output, self._schema, each.columns, None)
        if self._watermark is not None:
            self.emit_to_all(self._watermark)

    def _rows(self) -> pa.Table:
        """Returns the rows that remain, in the order in which they came first."""
        table = pa.Table.from_batches(self._batches, schema=self._schema)
        weights = np.concatenate(self._weights) if self._weights else np.empty(0, dtype=np.int64)
        if not len(weights) or (weights > 0).all():
            return table
        groups = row_codes(table)
        totals = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(totals, groups, weights)
        if (totals < 0).any():
            raise InternalError(f"operator {self.context.name}: a change removes a row that is not in the table")
        first = np.full(len(totals), len(weights), dtype=np.int64)
        np.minimum.at(first, groups, np.arange(len(groups)))
        order = np.argsort(first)
        return table.take(pa.array(np.repeat(first[order], totals[order])))
