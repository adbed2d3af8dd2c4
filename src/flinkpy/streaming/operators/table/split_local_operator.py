"""SplitLocalGroupAggregateOperator: the first phase of the partial aggregation of distinct values by bucket.

Flink expands each row to one row per distinct column before this phase. Here the rows of a bundle are aggregated by the
keys of the whole aggregation, once, and what they have in common is emitted without a bucket. Only the distinct
values of each group are spread over their buckets, which are fewer than rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import SplitLocalGroupAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.group_table import GroupTable
from flinkpy.state.row_groups import RowGroups
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.aggregate_handler import DistinctPairs, DistinctView, key_columns, key_types
from flinkpy.streaming.operators.table.two_phase_operators import LocalGroupAggregateOperator


class SplitLocalGroupAggregateOperator(LocalGroupAggregateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: SplitLocalGroupAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_type, context, output, side_outputs)
        self._grouping = spec.grouping
        self._buckets = spec.buckets
        self._bucket_of = dict(spec.bucket_of)
        self._keys = tuple(each for each in spec.grouping if each not in spec.buckets)

    def _process(self, batch: Batch) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        table = GroupTable(TableLayout(tuple(key_types(self._schema, self._keys)), tuple(self._handler.columns)))
        slots = table.slots_of(key_columns(columns, self._keys))
        number, first_rows = table.number_rows(slots)
        groups = RowGroups(number, slots.take(first_rows), np.ones(len(first_rows), dtype=bool))
        parts = [self._without_buckets(table, groups, first_rows, columns)]
        parts += [self._of_view(place, groups, first_rows, columns) for place in range(len(self._handler.views))]
        arrays = [pa.concat_arrays(list(each)) for each in zip(*parts, strict=True)]
        names = [self._schema.names[position] for position in self._grouping]
        names += [f"${position}" for position in range(len(arrays) - len(names))]
        self.output.emit(Batch(pa.RecordBatch.from_arrays(arrays, names=names)))

    def _without_buckets(
        self, table: GroupTable, groups: RowGroups, first_rows: np.ndarray, columns: pa.RecordBatch
    ) -> list[pa.Array]:
        """Returns a row per group with the accumulators of aggregates that are not distinct; no rows without any."""
        accumulators = self._handler.accumulators(table, groups, columns, None)
        if not accumulators:
            first_rows = first_rows[:0]
        lists = [each for view in self._handler.views for each in _no_values(view, columns.schema, len(first_rows))]
        return [*self._key_columns(columns, first_rows, None), *accumulators, *lists]

    def _of_view(
        self, place: int, groups: RowGroups, first_rows: np.ndarray, columns: pa.RecordBatch
    ) -> list[pa.Array]:
        """Returns a row per group and bucket with the distinct values of a view."""
        view = self._handler.views[place]
        bucket = self._bucket_of[view.arguments[0]]
        pairs = DistinctPairs.of(view, groups.group, columns, None)
        row_of_pair = np.empty(len(pairs.group), dtype=np.int64)
        row_of_pair[pairs.pair_of_row[::-1]] = np.arange(columns.num_rows)[::-1]
        buckets = columns.column(bucket).take(pa.array(row_of_pair)).fill_null(-1).to_numpy().astype(np.int64)
        # HASH_CODE may be negative, so buckets are between -n and n; both fit below a group's number.
        _, chosen, number = np.unique((pairs.group << 32) + buckets, return_index=True, return_inverse=True)
        count = len(chosen)
        output = self._key_columns(columns, row_of_pair.take(chosen), bucket)
        empty = GroupTable(TableLayout((pa.int8(),), tuple(self._handler.columns)))
        slots = empty.slots_of([pa.array([0], pa.int8())])
        output += self._handler.empty_accumulators(empty, np.repeat(slots, count))
        for other, each in enumerate(self._handler.views):
            output += pairs.lists(number, count) if other == place else _no_values(each, columns.schema, count)
        return output

    def _key_columns(self, columns: pa.RecordBatch, rows: np.ndarray, bucket: int | None) -> list[pa.Array]:
        """Returns the grouping columns of these rows. Other buckets than `bucket` are NULL."""
        indices = pa.array(rows)
        of_buckets = set(self._buckets) - {bucket}
        return [
            pa.nulls(len(rows), columns.schema.field(each).type)
            if each in of_buckets
            else columns.column(each).take(indices)
            for each in self._grouping
        ]


def _no_values(view: DistinctView, schema: pa.Schema, count: int) -> list[pa.Array]:
    """Returns empty lists of the values of a view and of their counts."""
    offsets = pa.array(np.zeros(count + 1, dtype=np.int32))
    kinds = [schema.field(each).type for each in view.arguments] + [pa.int64()] * len(view.filters)
    return [pa.ListArray.from_arrays(offsets, pa.array([], kind)) for kind in kinds]
